"""The calibration benchmark runs, and what it prints lies within its bounds."""

import csv
import math
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.calibration import fitting, intensity, jobs
from benchmarks.calibration.__main__ import JOBS


def test_ranges_of_all_kinds_of_jobs_hold_the_truth_eight_times_in_ten():
    rows = list(jobs.report(draws=10_000))
    assert len(rows) == 23
    assert jobs.outside(rows, JOBS[0] - 0.005, JOBS[1] + 0.005) == []


@pytest.fixture
def traces(tmp_path):
    """Two years of a grid that follows the sun: twice as clean by day as by night."""
    for year in (2023, 2024):
        start = datetime(year, 1, 1, tzinfo=UTC)
        with (tmp_path / f"US-CAL-CISO_{year}_hourly.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["datetime_utc", intensity.COLUMN])
            for hour in range(8760):
                day = 6 <= hour % 24 < 18
                moment = start + timedelta(hours=hour)
                writer.writerow([moment.isoformat(), 138.667 if day else 277.333])
    return intensity.read(tmp_path)


def test_a_fitted_range_has_the_ends_of_the_hours_and_the_mean_of_the_days(traces):
    """Published: 208 g. Hours are 2/3 and 4/3 of it, a day's mean is it; a year may drift by 1 %.

    Around what is usual for the hour nothing is left but the drift.
    """
    spreads, shapes = (list(csv.DictReader(lines)) for lines in fitting.tables(traces))
    hour, day = (row for row in spreads if row["zone"] != "other" and row["hours"] in ("1", "24"))
    drift = math.exp(fitting.DRIFT)
    expected = {"low": 2 / 3 / drift, "high": 4 / 3 * drift}
    assert {end: float(hour[end]) for end in expected} == pytest.approx(expected, abs=2e-3)
    around = [float(row[f"{name}{end}"]) for row, name in ((hour, "usual_"), (day, ""))
              for end in ("low", "high")]  # fmt: skip
    assert around == pytest.approx([1 / drift, drift] * 2, abs=2e-3)
    usual = [float(row["jun"]) for row in shapes]
    assert usual == pytest.approx(
        [2 / 3 if 6 <= hour < 18 else 4 / 3 for hour in range(24)], abs=1e-3
    )


def test_a_year_like_the_others_is_held_by_a_fit_without_it(traces):
    for _, shares in intensity.years_left_out(traces):
        assert set(shares.values()) == {1.0}


def test_no_traces_are_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no \\*_hourly.csv"):
        intensity.read(tmp_path)

"""The calibration benchmark runs, and what it prints lies within its bounds."""

import csv
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.calibration import intensity, jobs
from benchmarks.calibration.__main__ import JOBS


def test_ranges_of_all_kinds_of_jobs_hold_the_truth_eight_times_in_ten():
    rows = list(jobs.report(draws=10_000))
    assert len(rows) == 20
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
    """Published: 208 g. Hours are 2/3 and 4/3 of it, a day's mean is it."""
    low, high = intensity.fitted(traces, 1)
    assert (low, high) == pytest.approx((2 / 3, 4 / 3), rel=1e-3)
    assert intensity.fitted(traces, 24) == pytest.approx((1, 1), rel=1e-3)
    assert intensity.share_within(traces, 1, (0.66, 1.34)) == 1.0
    assert intensity.share_within(traces, 1, (0.9, 1.34)) == pytest.approx(0.5, abs=0.02)


def test_no_traces_are_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no \\*_hourly.csv"):
        intensity.read(tmp_path)

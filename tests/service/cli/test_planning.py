"""`gramwatt import intensity` and `gramwatt plan`, as commands."""

import json
import math
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.service.cli.command import gramwatt

pytestmark = pytest.mark.usefixtures("home")

NOW = "2026-07-10T18:00Z"
FLAGS = ("--zone", "ES", "--basis", "lifecycle", "--signal", "average")


@pytest.fixture
def history(tmp_path):
    """Half a year with 200 gCO2e/kWh at noon and 400 at night."""
    rows = ["start_utc,g_per_kwh"]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for hour in range(24 * 200):
        value = 400 - 200 * max(0.0, math.sin((hour % 24 - 6) / 12 * math.pi))
        rows.append(f"{start + timedelta(hours=hour):%Y-%m-%dT%H:%MZ},{value:.3f}")
    path = tmp_path / "es.csv"
    path.write_text("\n".join(rows))
    return path


def test_a_history_makes_a_plan(history):
    code, out, err = gramwatt("import", "intensity", str(history), *FLAGS)
    assert code == 0, err
    assert "ES: 4800 points of 60 minutes" in out
    assert "; 200 of 200 days are new" in out
    assert "; 0 of 200 days" in gramwatt("import", "intensity", str(history), *FLAGS)[1]

    asked = ("plan", "--hours", "2", "--zone", "ES", "--now", NOW)
    shown = gramwatt(*asked)[1].splitlines()
    assert shown[0] == "ES  2026-07-11 11:00 to 2026-07-11 13:00 UTC"
    assert shown[1].startswith("saves 49 % (")
    assert shown[1].endswith("reliable")
    assert max(map(len, shown)) <= 80
    spans = ("--deadline", "26h", "--earliest", "0m")  # a day of slack, as without
    assert gramwatt(*asked, *spans)[1].splitlines() == shown
    assert gramwatt(*asked, "--deadline", "150m")[1].startswith("ES  2026-07-10 18:")
    document = json.loads(gramwatt(*asked, "--json")[1])
    assert document["reliable"] is True
    assert set(document) == {
        "plan", "intensity_g_per_kwh", "now_intensity_g_per_kwh", "saving_ratio", "reliable",
        "method", "notices",
    }  # fmt: skip


def test_a_plan_to_start_at_once_saves_exactly_nothing(history):
    """400 h with a day of slack, longer than any replay of plans: start at once."""
    gramwatt("import", "intensity", str(history), *FLAGS)
    asked = ("plan", "--hours", "400", "--zone", "ES", "--now", "2026-07-10T10:00Z", "--json")
    document = json.loads(gramwatt(*asked)[1])
    assert document["plan"][0]["start"] == "2026-07-10T10:00:00Z"
    saving = document["saving_ratio"]
    assert [saving[end] for end in ("low", "value", "high")] == [0.0, 0.0, 0.0]
    assert document["reliable"] is False


def test_slurm_gets_its_own_local_time(history, monkeypatch):
    gramwatt("import", "intensity", str(history), *FLAGS)
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # 9 h ahead of UTC, all year
    time.tzset()
    try:
        asked = ("plan", "--hours", "2", "--zone", "ES", "--now", NOW, "--format", "slurm")
        assert gramwatt(*asked)[1] == "2026-07-11T20:00:00\n"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_file_with_a_gap_is_refused_by_its_line(history):
    lines = history.read_text().splitlines()
    del lines[100]
    history.write_text("\n".join(lines))
    code, _, err = gramwatt("import", "intensity", str(history), *FLAGS)
    assert code == 2
    assert "line 101: starts at" in err
    assert "nothing was imported" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", "--zone", "ES"), "hours"),
        (("plan", "--hours", "2"), "zone"),
        (("plan", "--hours", "2", "--zone", "XX"), "XX"),
        (("plan", "--hours", "2", "--zone", "ES", "--deadline", "later"), "deadline"),
        (("plan", "--hours", "2", "--zone", "ES", "--format", "pbs"), "slurm"),
        (("import", "intensity", "absent.csv", *FLAGS), "cannot read absent.csv"),
        (("import", "intensity", "x.csv", "--zone", "ES", "--basis", "all", "--signal", "average"),
         "--basis is 'all', not one of lifecycle, direct"),
    ],
)  # fmt: skip
def test_wrong_use_is_exit_2_with_one_line(arguments, said):
    code, _, err = gramwatt(*arguments)
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == 1


def test_seconds_until_the_plan_for_schedulers_without_a_begin():
    """Only the annual value is known, so there is nothing to wait for."""
    assert gramwatt("plan", "--hours", "2", "--zone", "DE", "--format", "seconds")[:2] == (0, "0\n")
    assert gramwatt("plan", "--hours", "2", "--zone", "DE", "--format", "cron")[0] == 2


def test_a_zones_hours_are_listed():
    span = ("--from", "2026-05-01T08:00Z", "--to", "2026-05-01T09:00Z")
    code, out, _ = gramwatt("intensity", "DE", *span)
    head, line = out.splitlines()
    assert (code, head) == (0, "DE, average, lifecycle, UTC")
    assert line.startswith("2026-05-01 08:00 to 2026-05-01 09:00  ")
    assert line.endswith("  annual")
    document = json.loads(gramwatt("intensity", "DE", *span, "--json")[1])
    assert set(document) == {
        "zone",
        "signal",
        "basis",
        "points",
        "forecast",
        "stored",
        "notices",
    }
    assert (document["stored"], document["notices"]) == ([], [])
    assert gramwatt("intensity", "DF", *span)[0] == 2
    assert (
        gramwatt("intensity", "DE", "--from", "2026-05-01T08:00Z", "--to", "2026-07-01T08:00Z")[0]
        == 2
    )


def test_direct_values_are_shown_and_said_to_be_unused(history):
    """The file of ES as direct values: stored, shown when asked for, and used by nothing."""
    direct = ("--zone", "ES", "--basis", "direct", "--signal", "average")
    code, out, err = gramwatt("import", "intensity", str(history), *direct, "--json")
    assert (code, json.loads(out)["used"]) == (0, False)
    assert "ES has average direct values, which no score or plan uses" in err
    span = ("--from", "2026-01-02T00:00Z", "--to", "2026-01-02T02:00Z")
    shown = gramwatt("intensity", "ES", *span)[1].splitlines()
    assert shown[0] == "ES, average, lifecycle, UTC"
    assert shown[-1].startswith("Notice: ES has average direct values")
    shown = gramwatt("intensity", "ES", *span, "--basis", "direct")[1].splitlines()
    assert shown[0] == "ES, average, direct, UTC"
    assert [line.endswith("hourly") for line in shown[1:3]] == [True, True]
    code, _, err = gramwatt("intensity", "ES", "--signal", "both")
    assert (code, err) == (2, "gramwatt: --signal is 'both', not one of average, marginal\n")

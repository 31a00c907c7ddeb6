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
    assert shown[0].startswith(
        "Wait until 11 Jul 11:00 UTC (13:00 in Madrid): about 49 % less than"
    )
    rows = [line.split() for line in shown if line.startswith("  ")]
    assert [row[0] for row in rows] == ["UTC", "now", "best", "worst"]
    assert rows[2][1:7] == ["11", "Jul", "11:00-13:00", "11", "Jul", "13:00-15:00"]
    assert max(map(len, shown)) <= 80
    spans = ("--deadline", "26h", "--earliest", "0m")  # a day of slack, as without
    assert gramwatt(*asked, *spans)[1].splitlines() == shown
    soon = gramwatt(*asked, "--deadline", "150m")[1]
    assert soon.startswith("Start now: no later start until 20:30 UTC (22:30 in Madrid) is")
    document = json.loads(gramwatt(*asked, "--json")[1])
    assert document["advice"] == "wait"
    assert set(document) == {
        "summary", "advice", "plan", "intensity_g_per_kwh", "now_intensity_g_per_kwh",
        "saving_ratio", "odds", "method", "places", "surer", "notices",
    }  # fmt: skip


def test_a_plan_is_for_the_place_that_is_set_or_for_all_that_are_named(monkeypatch):
    code, _, err = gramwatt("plan", "--hours", "4")
    assert (code, "--zone DE --zone FR" in err) == (2, True)
    monkeypatch.setenv("GRAMWATT_ZONE", "FR")
    places = json.loads(gramwatt("plan", "--hours", "4", "--json")[1])["places"]
    assert [place["zone"] for place in places] == ["FR"]
    named = ("--zone", "PL", "--zone", "SE")
    document = json.loads(gramwatt("plan", "--hours", "4", *named, "--json")[1])
    assert (document["advice"], document["plan"][0]["zone"]) == ("move", "SE")
    assert {place["zone"] for place in document["places"]} == {"PL", "SE"}


def test_a_plan_to_start_at_once_saves_exactly_nothing(history):
    """400 h with a day of slack, longer than any replay of plans: start at once."""
    gramwatt("import", "intensity", str(history), *FLAGS)
    asked = ("plan", "--hours", "400", "--zone", "ES", "--now", "2026-07-10T10:00Z", "--json")
    document = json.loads(gramwatt(*asked)[1])
    assert document["plan"][0]["start"] == "2026-07-10T10:00:00Z"
    saving = document["saving_ratio"]
    assert [saving[end] for end in ("low", "value", "high")] == [0.0, 0.0, 0.0]
    assert document["advice"] == "start-now"


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
    """Only the annual value is known: the job begins at the earliest, and a line says why."""
    code, out, err = gramwatt("plan", "--hours", "2", "--zone", "TW", "--format", "seconds")
    assert (code, out) == (0, "0\n")
    assert err.startswith("gramwatt: The hours of TW are not known")
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
        "timezone",
        "signal",
        "basis",
        "points",
        "forecast",
        "forecast_method",
        "stored",
        "notices",
    }
    assert (document["stored"], document["notices"]) == ([], [])
    assert gramwatt("intensity", "DF", *span)[0] == 2
    assert (
        gramwatt("intensity", "DE", "--from", "2026-05-01T08:00Z", "--to", "2026-07-01T08:00Z")[0]
        == 2
    )


def test_a_zones_coming_day_is_two_rows_of_hours():
    """Nothing is stored, so its usual hours are shown, in UTC and on the clocks of Berlin."""
    code, out, _ = gramwatt("intensity", "DE")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("DE: cleanest ")
    assert "today's weather is not known" in " ".join(lines[:3])
    hours = [cell for line in lines if line.startswith("UTC") for cell in line.split()[1:]]
    assert sorted(hours) == [f"{hour:02}:00" for hour in range(24)]
    values = [
        float(cell) for line in lines if line.startswith("g/kWh") for cell in line.split()[1:]
    ]
    assert max(values) > min(values) > 0
    assert max(map(len, lines)) <= 80


def test_a_coming_day_by_the_last_days_is_no_forecast(tmp_path):
    hours = range(24 * 30)
    first = datetime.now(UTC).replace(minute=0) - timedelta(hours=len(hours))
    rows = [f"{first + timedelta(hours=n):%Y-%m-%dT%H:%MZ},{200 + n % 24}" for n in hours]
    path = tmp_path / "es.csv"
    path.write_text("\n".join(["start_utc,g_per_kwh", *rows]))
    assert gramwatt("import", "intensity", str(path), *FLAGS)[0] == 0
    head = " ".join(gramwatt("intensity", "ES")[1].split("UTC  ")[0].split())
    assert "By the last days; a forecast needs four months" in head


def test_a_plan_over_several_places_shows_all_of_them():
    places = [flag for zone in ("PL", "FR", "TW") for flag in ("--in", zone)]
    out = gramwatt("plan", "--hours", "2", "--zone", "PL", *places)[1].splitlines()
    assert out[0].startswith("Run in FR")
    rows = [line.split()[0] for line in out if line.startswith("  ")]
    assert rows == ["zone", "FR", "TW", "PL"]
    assert max(map(len, out)) <= 80


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

"""What waiting saved, the best hour and other zones, over HTTP and in the rendered report."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.sci.base.notices import CODES
from gramwatt.service.intensity.csv_import import import_csv
from tests.journals import Writer, body

DAY = datetime(2026, 4, 1, tzinfo=UTC)
"""30 days of hours are known from here on."""
BEGAN = DAY + timedelta(days=29, hours=2)
KWH = 3.6e6
assert "intensity-annual" in CODES


def hours(**known):
    """720 values of 400 gCO2e/kWh, with others at some hours from `BEGAN` on."""
    values = [400.0] * 720
    first = (BEGAN - DAY) // timedelta(hours=1)
    for name, value in known.items():
        values[first + int(name.replace("before_", "-").removeprefix("at_"))] = value
    return values


def store(service, path, zone, values):
    rows = ["start_utc,g_per_kwh"]
    rows += [
        f"{DAY + timedelta(hours=hour):%Y-%m-%dT%H:%MZ},{value}"
        for hour, value in enumerate(values)
    ]
    path.write_text("\n".join(rows))
    import_csv(service, path, zone, "lifecycle", "average")


def post(client, job, zone, energies, *, tags=None, pause=None):
    """A job of one GPU with so many kWh in each hour, at a PUE of 1.2."""
    meter = Writer("w", "n1", job, t0=BEGAN)
    lines = [meter.job(zone=zone, pue=1.2, project="vision", tags=tags or {})]
    lines.append(meter.device("GPU-1", meter="nvml-counter"))
    for hour, kwh in enumerate(energies):
        lines.append(meter.interval(3600 * hour, 3600 * (hour + 1), kwh * KWH, "GPU-1"))
    if pause:
        since = meter.at(pause[0])
        lines.append(meter.count(1, "window", pause[1], phase="paused", since=since))
    lines.append(meter.end(3600 * len(energies)))
    sent = client.post(
        f"/v1/jobs/{job}/records", data=body(lines), content_type="application/x-ndjson"
    )
    assert sent.json["rejected"] == []


def hindsight(client, job):
    return client.get(f"/v1/jobs/{job}/suggestions").json["hindsight"]


def value(figure):
    return figure["value"]


def test_what_waiting_saved_and_the_best_window(client, light, tmp_path):
    known = {"before_2": 400, "before_1": 300, "at_0": 100, "at_1": 200, "at_2": 50, "at_3": 60}
    store(light, tmp_path / "fr.csv", "FR", hours(**known))
    deadline = f"{BEGAN + timedelta(hours=4):%Y-%m-%dT%H:%M:%SZ}"
    post(client, "job-1", "FR", [1, 1], tags={"waited_s": "7200", "deadline": deadline})
    waited = hindsight(client, "job-1")["waited"]
    assert waited["asked_at"] == "2026-04-30T00:00:00Z"
    assert (waited["waited_s"], waited["paused_s"]) == (7200, 0)
    # 1 kWh an hour at a PUE of 1.2: two hours before 1.2 x (400 + 300), then 1.2 x (100 + 200).
    assert value(waited["at_once_g"]) == pytest.approx(840, rel=1e-9)
    assert value(waited["actual_g"]) == pytest.approx(360, rel=1e-9)
    assert waited["saved_g"] == pytest.approx(480, rel=1e-9)
    ratio = waited["saved_ratio"]
    assert value(ratio) == pytest.approx(1 - 360 / 840, rel=1e-9)
    assert 0.4 < ratio["low"] < value(ratio) < ratio["high"] < 0.7
    # By the deadline: the last two hours, 1.2 x (50 + 60).
    assert waited["best_start"] == "2026-04-30T04:00:00Z"
    assert value(waited["best_g"]) == pytest.approx(132, rel=1e-9)
    report = client.get("/v1/jobs/job-1/report?full=1", headers={"Accept": "text/html"}).text
    assert "The job waited 2 h" in report
    assert "that saved 57 %" in report
    assert "Hindsight, from the intensity that came" in report


def test_a_pause_counts_with_what_it_used(client, light, tmp_path):
    store(light, tmp_path / "fr.csv", "FR", hours(at_0=100, at_1=500, at_2=200))
    post(client, "job-1", "FR", [1, 0.1, 1], pause=(3600, 7200))
    waited = hindsight(client, "job-1")["waited"]
    assert (waited["waited_s"], waited["paused_s"]) == (0, 3600)
    # With the pause 1.2 x (100 + 0.1 x 500 + 200); without it two hours, 1.2 x (100 + 500).
    assert value(waited["actual_g"]) == pytest.approx(420, rel=1e-6)
    assert value(waited["at_once_g"]) == pytest.approx(720, rel=1e-6)
    assert value(waited["saved_ratio"]) == pytest.approx(1 - 420 / 720, rel=1e-6)


def test_the_best_hour_of_28_days_and_the_projects_other_zones(client, light, tmp_path):
    before = {"before_100": 20, "before_99": 40, "at_0": 100, "at_1": 200}
    store(light, tmp_path / "fr.csv", "FR", hours(**before))
    store(light, tmp_path / "se.csv", "SE", hours(at_0=10, at_1=30))
    for job, zone in (("job-1", "FR"), ("job-2", "SE"), ("job-3", "PL")):
        post(client, job, zone, [1, 3])
    found = hindsight(client, "job-1")
    assert found["waited"] is None
    assert found["best"]["start"] == "2026-04-25T22:00:00Z"  # 100 hours before
    # 1 kWh, then 3: 1.2 x (20 + 3 x 40) for 1.2 x (100 + 3 x 200).
    assert value(found["best"]["operational_g"]) == pytest.approx(168, rel=1e-9)
    assert value(found["best"]["ratio"]) == pytest.approx(140 / 700, rel=1e-9)
    swedish, polish = found["zones"]
    assert (swedish["zone"], swedish["quality"]) == ("SE", "hourly")
    assert value(swedish["operational_g"]) == pytest.approx(1.2 * (10 + 3 * 30), rel=1e-9)
    annual = light.catalog.zone("PL").intensity.value
    assert (polish["zone"], polish["quality"]) == ("PL", "annual")
    assert value(polish["operational_g"]) == pytest.approx(1.2 * 4 * annual, rel=1e-9)


def test_the_error_of_the_runs_own_intensity_is_in_no_other_emissions(client, light, tmp_path):
    store(light, tmp_path / "fr.csv", "FR", hours(at_0=100, at_1=100))
    store(light, tmp_path / "se.csv", "SE", hours(at_0=20, at_1=20))
    post(client, "job-1", "FR", [1, 1], tags={"waited_s": "7200"})
    post(client, "job-2", "SE", [1, 1])
    job = client.get("/v1/jobs/job-1/report").json

    def width(figure):
        return math.log(figure["high"] / figure["value"])

    energy, intensity = width(job["energy_kwh"]), width(job["method"]["intensity_g_per_kwh"])
    # E and PUE = 1.2 (declared, exact) are the run's; one intensity, of the other zone or hour.
    once = math.hypot(energy, intensity)
    assert width(job["operational_g"]) == pytest.approx(once, rel=0.01)
    found = hindsight(client, "job-1")
    assert width(found["zones"][0]["operational_g"]) == pytest.approx(once, rel=0.01)
    assert width(found["waited"]["at_once_g"]) == pytest.approx(once, rel=0.01)
    assert width(found["best"]["operational_g"]) == pytest.approx(once, rel=0.01)
    # The ratio has both, each once; it is high where the run's own was low.
    own = job["method"]["intensity_g_per_kwh"]
    both = math.hypot(intensity, math.log(own["value"] / own["low"]))
    assert width(found["zones"][0]["ratio"]) == pytest.approx(both, rel=0.01)


def test_unknown_hours_are_not_known_and_no_saving(client):
    post(client, "job-1", "FR", [1, 1], tags={"waited_s": "7200", "deadline": "whenever"})
    found = hindsight(client, "job-1")
    assert (found["best"], found["zones"]) == (None, [])
    assert found["waited"]["waited_s"] == 7200
    assert [found["waited"][name] for name in ("at_once_g", "saved_g", "saved_ratio")] == [None] * 3
    report = client.get("/v1/jobs/job-1/report", headers={"Accept": "text/html"}).text
    assert "so what waiting saved is not known" in report

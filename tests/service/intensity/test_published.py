"""Forecasts of providers: stored, used for plans, and replaced by newer ones.

The grid is at 400 gCO2e/kWh and falls to 200 around noon, every day.
"""

import gc
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from gramwatt.sci.planning.hours import Hours
from gramwatt.service.intensity import plans
from gramwatt.service.intensity.points import SeriesName, keep
from gramwatt.service.store.intensity import IntensityDay
from tests.service.keyed import client_of, with_settings

HOUR = timedelta(hours=1)
NOW = datetime(2026, 6, 2, 18, tzinfo=UTC)
SUNNY = [400 - 200 * max(0.0, math.sin((hour - 6) / 12 * math.pi)) for hour in range(24)]
PROVIDER = "electricity-maps"


def measured(service, days, until=NOW):
    """Points until a moment, of an import."""
    start = until.replace(hour=0) - timedelta(days=days)
    values = [SUNNY[(start + HOUR * hour).hour] for hour in range((until - start) // HOUR)]
    keep(
        service, SeriesName("ES", "average", "lifecycle", "imported"), 3600, "hourly", start, values
    )


def publish(service, clock, values, *, moment=NOW, provider=PROVIDER, step_s=3600):
    """A forecast from a moment on, stored as of that moment."""
    present, clock.now = clock.now, moment
    series = SeriesName("ES", "average", "lifecycle", provider)
    keep(service, series, step_s, "forecast", moment, values)
    clock.now = present


@pytest.fixture
def live(light, clock):
    """A store whose clock shows 18:00."""
    clock.now = NOW
    return light


def plan(client, **more):
    answer = client.post("/v1/plans", json={"hours": 2, "zone": "ES", **more})
    assert answer.status_code == 200, answer.text
    return answer.json


def test_a_plan_goes_by_the_forecast_of_a_provider(client, live, clock):
    """At 02:00 and 03:00, 8 and 9 h from now, the provider expects 120 and 140, else 300."""
    measured(live, 200)
    assert plan(client)["plan"][0]["start"] == "2026-06-03T11:00:00Z"
    publish(live, clock, [300.0] * 8 + [120.0, 140.0] + [300.0] * 14)
    found = plan(client)
    assert found["plan"] == [
        {"zone": "ES", "start": "2026-06-03T02:00:00Z", "end": "2026-06-03T04:00:00Z"}
    ]
    assert found["method"] == "forecast"
    expected, at_once = found["intensity_g_per_kwh"], found["now_intensity_g_per_kwh"]
    assert (expected["value"], at_once["value"]) == (pytest.approx(130), pytest.approx(300))
    assert expected["source"] == "forecast of electricity-maps for ES, fetched 2026-06-02T18:00Z"
    assert expected["low"] < 130 < expected["high"]


def test_beyond_the_end_of_a_providers_forecast_ours_counts(client, live, clock):
    """The provider knows 10 h of 350; of the noon after them, ours is used, and says so."""
    measured(live, 200)
    publish(live, clock, [350.0] * 10)
    found = plan(client)
    assert found["plan"][0]["start"] == "2026-06-03T11:00:00Z"
    assert "ridge regression" in found["intensity_g_per_kwh"]["source"]
    assert found["now_intensity_g_per_kwh"]["source"].startswith("forecast of electricity-maps")
    assert "electricity-maps" in found["saving_ratio"]["source"]
    assert "ridge regression" in found["saving_ratio"]["source"]
    span = "from=2026-06-02T18:00Z&to=2026-06-03T18:00Z"
    rows = client.get(f"/v1/intensity/ES?{span}").json["forecast"]
    sources = [row["intensity_g_per_kwh"]["source"].split(" for ")[0] for row in rows]
    assert sources == ["forecast of electricity-maps"] * 10 + ["forecast"] * 14
    assert [row["intensity_g_per_kwh"]["value"] for row in rows[:10]] == [350.0] * 10


@pytest.mark.parametrize("late_h", [0, 2])
def test_without_a_history_the_forecast_of_a_provider_is_all(client, live, clock, late_h):
    """Five-minute steps over 12 h, with the range of the shipped hours: 22 %.

    One that begins late has its first value until then.
    """
    values = [300.0 - 200 * (36 <= step < 60) for step in range(144)][12 * late_h :]
    series = SeriesName("ES", "average", "lifecycle", PROVIDER)
    keep(live, series, 300, "forecast", NOW + HOUR * late_h, values)
    found = plan(client, deadline="2026-06-04T18:00Z")
    assert found["plan"] == [
        {"zone": "ES", "start": "2026-06-02T21:00:00Z", "end": "2026-06-02T23:00:00Z"}
    ]
    now, saving = found["now_intensity_g_per_kwh"], found["saving_ratio"]
    assert (now["low"], now["value"], now["high"]) == pytest.approx((234.0, 300.0, 366.0))
    assert saving["value"] == pytest.approx(2 / 3)
    assert found["advice"] == "wait"
    notice = next(row for row in found["notices"] if row["code"] == "plan-horizon")
    assert "the forecast ends at 2026-06-03T06:00:00Z" in notice["message"]


@pytest.mark.parametrize("late", [timedelta(minutes=1), timedelta(hours=5)])
def test_a_forecast_fetched_later_or_long_ago_is_not_used(client, live, clock, late):
    measured(live, 200)
    publish(live, clock, [300.0] * 8 + [120.0] * 2 + [300.0] * 62)
    before = f"{NOW - late:%Y-%m-%dT%H:%MZ}"
    assert plan(client, now=before)["plan"][0]["start"] == "2026-06-03T11:00:00Z"
    clock.now = NOW + timedelta(hours=25)
    measured(live, 202, until=clock.now)
    assert "ridge" in plan(client)["intensity_g_per_kwh"]["source"]


def test_a_newer_forecast_takes_the_place_of_the_earlier_one(client, live, clock):
    """Its hours count; those that it leaves out keep their values, in one row a day."""
    publish(live, clock, [300.0] * 6 + [120.0] * 24, moment=NOW - HOUR)
    publish(live, clock, [200.0] * 4)
    span = "from=2026-06-02T17:00Z&to=2026-06-03T01:00Z"
    points = client.get(f"/v1/intensity/ES?{span}").json["points"]
    values = [point["intensity_g_per_kwh"]["value"] for point in points]
    assert values == pytest.approx([300.0] + [200.0] * 4 + [300.0, 120.0, 120.0])
    with live.store.read() as session:
        days = session.scalars(sa.select(IntensityDay.day).order_by(IntensityDay.day)).all()
    assert days == [NOW.toordinal(), NOW.toordinal() + 1]


def test_direct_forecasts_are_never_planned_by(client, live):
    measured(live, 200)
    series = SeriesName("ES", "average", "direct", "uk")
    keep(live, series, 3600, "forecast", NOW, [300.0] * 8 + [1.0] * 2 + [300.0] * 14)
    assert plan(client)["plan"][0]["start"] == "2026-06-03T11:00:00Z"


def test_the_chain_of_a_zone_decides_between_providers(live, clock):
    measured(live, 200)
    publish(live, clock, [300.0] * 8 + [120.0] * 2 + [300.0] * 14)
    publish(live, clock, [300.0] * 4 + [120.0] * 2 + [300.0] * 18, provider="eia")
    for first, second, start in (
        ("eia", PROVIDER, "2026-06-02T22:00:00Z"),
        (PROVIDER, "eia", "2026-06-03T02:00:00Z"),
    ):
        intensity = replace(live.config.intensity, chains={"": (first, second)})
        chained = with_settings(live, intensity=intensity)
        client = client_of(chained)
        assert plan(client)["plan"][0]["start"] == start


def test_a_zone_is_read_once_for_all_callers_until_the_catalog_changes(
    client, live, monkeypatch, tmp_path
):
    measured(live, 60)
    read = []

    def counted(service, zones, now, **options):
        read.extend(zones)
        return reading(service, zones, now, **options)

    reading = plans._read
    monkeypatch.setattr(plans, "_read", counted)
    assert plan(client) == plan(client)
    assert read == ["ES"]
    file = tmp_path / "overlay.toml"
    with_overlay = with_settings(live, overlay=file)
    for g_per_kwh in (50, 500):
        file.write_text(f'[zones.ES]\nsource = "a study"\ng_per_kwh = {g_per_kwh}\nyear = 2026\n')
        data = plans.zone_data(with_overlay, "ES", NOW)
        assert data.annual.intensity.value == g_per_kwh


def test_what_is_kept_of_a_zone_is_not_its_history(client, live):
    measured(live, 60)
    assert plan(client)["method"] == "history-profile"
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, Hours)]

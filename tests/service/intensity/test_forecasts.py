"""Issued forecasts: used for plans, kept, and compared with what came.

The grid is at 400 gCO2e/kWh and falls to 200 around noon, every day.
"""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from gramwatt.service.app import create_app
from gramwatt.service.intensity import plans
from gramwatt.service.intensity.forecasts import thin
from gramwatt.service.intensity.points import OWN, SeriesName, keep
from gramwatt.service.store.intensity import IntensityDay
from gramwatt.service.tasks.table import TASKS

HOUR = timedelta(hours=1)
NOW = datetime(2026, 6, 2, 18, tzinfo=UTC)
LAST = 2
"""Forecasts are judged as of every fifth hour since 1970; the last is so many hours before NOW."""
SUNNY = [400 - 200 * max(0.0, math.sin((hour - 6) / 12 * math.pi)) for hour in range(24)]
PROVIDER = "electricity-maps"


def came(start, hours):
    return [SUNNY[(start + HOUR * hour).hour] for hour in range(hours)]


def measured(service, days, until=NOW, values=None):
    """Points until a moment, of an import."""
    start = until.replace(hour=0) - timedelta(days=days)
    count = (until - start) // HOUR
    series = SeriesName("ES", "average", "lifecycle", "imported")
    keep(service, series, 3600, "hourly", start, values or came(start, count))


def issue(service, clock, values, *, moment=NOW, provider=PROVIDER, step_s=3600):
    """A forecast from a moment on, stored as of that moment."""
    present, clock.now = clock.now, moment
    series = SeriesName("ES", "average", "lifecycle", provider)
    keep(service, series, step_s, "forecast", moment, values, moment)
    clock.now = present


def issue_weeks(service, clock, forecast, *, provider=PROVIDER):
    """A forecast of two days every 10 h, for five weeks until now."""
    for number in range(5 * 7 * 24 // 10):
        moment = NOW - (LAST + 10 * number) * HOUR
        issue(service, clock, forecast(came(moment, 48)), moment=moment, provider=provider)


@pytest.fixture
def live(light, clock):
    """A store whose clock shows 18:00."""
    clock.now = NOW
    return light


def plan(client, **more):
    answer = client.post("/v1/plans", json={"hours": 2, "zone": "ES", **more})
    assert answer.status_code == 200, answer.text
    return answer.json


def forecasts(client):
    answer = client.get("/v1/intensity/ES/forecasts")
    assert answer.status_code == 200, answer.text
    return answer.json


def test_a_plan_goes_by_the_forecast_of_a_provider(client, live, clock):
    """At 02:00 and 03:00, 8 and 9 h from now, the provider expects 120 and 140, else 300."""
    measured(live, 200)
    assert plan(client)["plan"][0]["start"] == "2026-06-03T11:00:00Z"
    issue(live, clock, [300.0] * 8 + [120.0, 140.0] + [300.0] * 14)
    found = plan(client)
    assert found["plan"] == [
        {"zone": "ES", "start": "2026-06-03T02:00:00Z", "end": "2026-06-03T04:00:00Z"}
    ]
    assert found["method"] == "forecast"
    expected, at_once = found["intensity_g_per_kwh"], found["now_intensity_g_per_kwh"]
    assert (expected["value"], at_once["value"]) == (pytest.approx(130), pytest.approx(300))
    assert expected["source"] == "forecast of electricity-maps for ES, issued 2026-06-02T18:00Z"
    assert expected["low"] < 130 < expected["high"]


def test_beyond_the_end_of_a_providers_forecast_ours_counts(client, live, clock):
    """The provider knows 10 h of 350; of the noon after them, ours is used, and says so."""
    measured(live, 200)
    issue(live, clock, [350.0] * 10)
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


def test_without_a_history_the_forecast_of_a_provider_is_all(client, live, clock):
    """Five-minute steps over 12 h: no promise, as nothing was replayed, and so no wait."""
    values = [300.0 - 100 * (36 <= step < 60) for step in range(144)]
    issue(live, clock, values, step_s=300)
    found = plan(client, deadline="2026-06-04T18:00Z")
    assert found["plan"] == [
        {"zone": "ES", "start": "2026-06-02T18:00:00Z", "end": "2026-06-02T20:00:00Z"}
    ]
    assert found["saving_ratio"]["value"] == 0
    assert found["reliable"] is False
    assert found["intensity_g_per_kwh"]["value"] == pytest.approx(300)
    notice = next(row for row in found["notices"] if row["code"] == "plan-horizon")
    assert "the forecast ends at 2026-06-03T06:00:00Z" in notice["message"]


@pytest.mark.parametrize("late", [timedelta(minutes=1), timedelta(hours=5)])
def test_a_forecast_issued_later_or_long_ago_is_not_used(client, live, clock, late):
    measured(live, 200)
    issue(live, clock, [300.0] * 8 + [120.0] * 2 + [300.0] * 62)
    before = f"{NOW - late:%Y-%m-%dT%H:%MZ}"
    assert plan(client, now=before)["plan"][0]["start"] == "2026-06-03T11:00:00Z"
    clock.now = NOW + timedelta(hours=25)
    measured(live, 202, until=clock.now)
    assert "ridge" in plan(client)["intensity_g_per_kwh"]["source"]


def test_of_two_forecasts_the_newest_issued_until_now_counts(client, live, clock):
    measured(live, 200)
    issue(live, clock, [300.0] * 8 + [120.0] * 2 + [300.0] * 14, moment=NOW - HOUR)
    issue(live, clock, [300.0] * 4 + [120.0] * 2 + [300.0] * 18)
    assert plan(client)["plan"][0]["start"] == "2026-06-02T22:00:00Z"
    earlier = plan(client, now=f"{NOW - HOUR / 2:%Y-%m-%dT%H:%MZ}")
    assert earlier["plan"][0]["start"] == "2026-06-03T01:00:00Z"


def test_forecasts_are_compared_with_what_came(client, live, clock):
    """Each value 10 % too high: error and bias 10 %, the order of the hours right, no regret."""
    measured(live, 60)
    issue_weeks(live, clock, lambda truth: [1.1 * value for value in truth])
    answer = forecasts(client)
    assert (answer["zone"], answer["used"]) == ("ES", PROVIDER)
    (row,) = answer["forecasts"]
    assert (row["provider"], row["signal"], row["basis"]) == (PROVIDER, "average", "lifecycle")
    assert row["issued"] == "2026-06-02T16:00:00Z"
    # The first is 2 + 10 x 83 h ago; those whose 24 h have not passed yet are not judged.
    assert row["moments"] == len([hours for hours in range(LAST, 833, 5) if hours >= 24])
    for name, value in (("error", 0.1), ("bias", 0.1), ("rank", 1.0), ("regret", 0.0)):
        assert row[name]["value"] == pytest.approx(value, abs=1e-9), name
        assert row[name]["unit"] == "share"
    assert row["coverage"]["value"] == pytest.approx(1.0)
    assert row["worse"] is False
    text = client.get("/intensity/ES").text
    assert "Forecasts of the next 24 h, against what came" in text
    assert "10.0 %" in text
    # The range of a plan is that of these errors: always 10 % too high.
    issue(live, clock, [330.0] * 24)
    span = "from=2026-06-02T18:00Z&to=2026-06-02T19:00Z"
    (point,) = client.get(f"/v1/intensity/ES?{span}").json["forecast"]
    figure = point["intensity_g_per_kwh"]
    assert figure["low"] == pytest.approx(300.0)
    assert (figure["value"], figure["high"]) == (330.0, 330.0)


def test_a_provider_whose_plans_proved_worse_is_not_used(client, live, clock):
    """Its noon is midnight: 4 h by it emit 400 where 4 h around noon have 210."""
    measured(live, 200)
    upside_down = lambda truth: [600 - value for value in truth]  # noqa: E731
    issue_weeks(live, clock, upside_down)
    issue(live, clock, upside_down(came(NOW, 48)))
    # Nothing to compare with yet: it is used.
    assert forecasts(client)["used"] == PROVIDER
    assert plan(client)["plan"][0]["start"] != "2026-06-03T11:00:00Z"
    issue_weeks(live, clock, list, provider=OWN)
    rows = {row["provider"]: row for row in forecasts(client)["forecasts"]}
    assert forecasts(client)["used"] == OWN
    assert (rows[PROVIDER]["worse"], rows[OWN]["worse"]) == (True, False)
    regrets = []
    for hours in range(LAST, 833, 5):
        day = [sum(came(NOW - HOUR * (hours - h), 4)) / 4 for h in range(21)]
        regrets.append(max(day) / min(day) - 1)  # its best four hours are the worst
    judged = regrets[5:]  # those of at least 24 h ago
    assert rows[PROVIDER]["regret"]["value"] == pytest.approx(sum(judged) / len(judged))
    assert rows[PROVIDER]["rank"]["value"] < -0.8
    assert rows[OWN]["regret"]["value"] == pytest.approx(0.0, abs=1e-12)
    assert plan(client)["plan"][0]["start"] == "2026-06-03T11:00:00Z"


def test_a_provider_as_good_as_ours_is_used_and_reliable_by_its_record(client, live, clock):
    measured(live, 200)
    issue_weeks(live, clock, list)
    issue_weeks(live, clock, list, provider=OWN)
    issue(live, clock, came(NOW, 48))
    assert forecasts(client)["used"] == PROVIDER
    found = plan(client)
    assert found["plan"][0]["start"] == "2026-06-03T11:00:00Z"
    assert found["reliable"] is True
    # Plans of five weeks, every 5 h, whose 26 h have passed; not those of our own 13 weeks.
    count = len([hours for hours in range(LAST, 833, 5) if hours >= 26])
    assert f"corrected by {count} plans of its past" in found["saving_ratio"]["source"]


def test_our_own_forecast_is_stored_once_an_hour_and_used_for_no_score(client, live, clock):
    measured(live, 200)
    run = TASKS["issue-forecasts"].action
    assert run(live) == 1
    assert run(live) == 0
    span = "from=2026-06-02T18:00Z&to=2026-06-03T18:00Z"
    answer = client.get(f"/v1/intensity/ES?{span}").json
    (row,) = forecasts(client)["forecasts"]
    assert (row["provider"], row["issued"]) == (OWN, "2026-06-02T18:00:00Z")
    assert (row["moments"], row["error"], row["coverage"]) == (0, None, None)
    assert {point["quality"] for point in answer["points"]} == {"annual"}
    # A day later it is compared: the hours that were stored, not those that would be foreseen now.
    stored = [row["intensity_g_per_kwh"]["value"] for row in answer["forecast"]]
    clock.now = NOW + timedelta(hours=27)
    measured(live, 201, until=clock.now)
    (row,) = forecasts(client)["forecasts"]
    assert row["moments"] == 1  # as of 21:00
    truth = came(NOW + 3 * HOUR, 21)
    parts = [abs(value - right) / right for value, right in zip(stored[3:], truth, strict=True)]
    assert row["error"]["value"] == pytest.approx(sum(parts) / len(parts), abs=0.002)
    assert run(live) == 1


def test_old_forecasts_are_joined_and_scores_keep_their_values(client, live, clock):
    """Hourly ones of two days, ten days ago: one of every six hours is left of each day."""
    start = NOW.replace(hour=0) - timedelta(days=10)
    for hour in range(24):
        moment = start + HOUR * hour
        issue(live, clock, [100.0 + hour] * 24, moment=moment)
    span = f"from={start:%Y-%m-%dT%H:%MZ}&to={start + 47 * HOUR:%Y-%m-%dT%H:%MZ}"
    before = client.get(f"/v1/intensity/ES?{span}").json["points"]
    assert [point["intensity_g_per_kwh"]["value"] for point in before[:24]] == [
        pytest.approx(100.0 + hour) for hour in range(24)
    ]
    # Day one has 24 rows and day two 23 of them, as the first ends at midnight.
    assert thin(live, NOW) == (24 - 4) + (23 - 4)
    assert client.get(f"/v1/intensity/ES?{span}").json["points"] == before
    assert thin(live, NOW) == 0
    assert thin(live, NOW + timedelta(weeks=14)) == 3 + 3
    assert client.get(f"/v1/intensity/ES?{span}").json["points"] == before
    with live.store.read() as session:
        left = session.execute(sa.select(IntensityDay.issued_us)).all()
    assert len(left) == 2


def test_direct_forecasts_are_judged_and_never_planned_by(client, live, clock):
    measured(live, 200)
    series = SeriesName("ES", "average", "direct", "uk")
    keep(live, series, 3600, "forecast", NOW, [300.0] * 8 + [1.0] * 2 + [300.0] * 14, NOW)
    assert plan(client)["plan"][0]["start"] == "2026-06-03T11:00:00Z"
    (row,) = forecasts(client)["forecasts"]
    assert (row["provider"], row["basis"], row["moments"]) == ("uk", "direct", 0)


def test_an_unknown_zone_has_no_forecasts(client):
    answer = client.get("/v1/intensity/DF/forecasts")
    assert (answer.status_code, answer.json["code"]) == (404, "unknown-name")


def test_the_chain_of_a_zone_decides_between_providers(live, clock):
    measured(live, 200)
    issue(live, clock, [300.0] * 8 + [120.0] * 2 + [300.0] * 14, provider="electricity-maps")
    issue(live, clock, [300.0] * 4 + [120.0] * 2 + [300.0] * 18, provider="carbon-aware-sdk")
    for first, second, start in (
        ("carbon-aware-sdk", PROVIDER, "2026-06-02T22:00:00Z"),
        (PROVIDER, "carbon-aware-sdk", "2026-06-03T02:00:00Z"),
    ):
        intensity = replace(live.config.intensity, chains={"": (first, second)})
        chained = replace(live, config=replace(live.config, intensity=intensity))
        client = create_app(service=chained).test_client()
        assert plan(client)["plan"][0]["start"] == start


def test_a_zone_is_read_once_for_all_callers_until_the_catalog_changes(
    client, live, monkeypatch, tmp_path
):
    measured(live, 60)
    read = []

    def counted(service, zones, now):
        read.extend(zones)
        return reading(service, zones, now)

    reading = plans._read
    monkeypatch.setattr(plans, "_read", counted)
    assert plan(client) == plan(client)
    assert read == ["ES"]
    file = tmp_path / "overlay.toml"
    with_overlay = replace(live, config=replace(live.config, overlay=file))
    for g_per_kwh in (50, 500):
        file.write_text(f'[zones.ES]\nsource = "a study"\ng_per_kwh = {g_per_kwh}\nyear = 2026\n')
        data = plans.zone_data(with_overlay, "ES", NOW)
        assert data.annual.intensity.value == g_per_kwh


def test_a_zone_that_the_overlay_no_longer_has_keeps_no_other_from_its_forecast(live):
    measured(live, 60)
    gone = SeriesName("LAB", "average", "lifecycle", "imported")
    keep(live, gone, 3600, "hourly", NOW - 30 * HOUR, came(NOW - 30 * HOUR, 24))
    assert TASKS["issue-forecasts"].action(live) == 1

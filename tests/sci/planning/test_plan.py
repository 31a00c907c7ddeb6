"""Plans: what they know, what they save, and when they promise nothing."""

import gc
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from msgspec.structs import replace

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.formatting import plain
from gramwatt.sci.grid.zones import Zones
from gramwatt.sci.planning.forecast import Forecaster
from gramwatt.sci.planning.hours import Hours, hour_of
from gramwatt.sci.planning.outlook import Published, ZoneData, expected_hours
from gramwatt.sci.planning.plan import make_plan
from gramwatt.sci.planning.plan_request import parse_plan_request
from gramwatt.sci.planning.usual import chance_below, odds_text, usual_day, usual_saving

NOW = datetime(2026, 5, 1, 18, tzinfo=UTC)
DAYS = 300


def solar_hours(days=DAYS, until=NOW, depth=0.5, noise=0.05):
    """A grid whose sun halves intensity around noon, with weather that lasts about a day."""
    after = hour_of(until)
    hours = np.arange(after - days * 24, after)
    random = np.random.default_rng(7)
    weather = np.zeros(len(hours))
    for index in range(1, len(hours)):
        weather[index] = 0.95 * weather[index - 1] + random.normal(0, noise * 0.3)
    sun = depth * np.clip(np.sin((hours % 24 - 6) / 12 * np.pi), 0, None)
    return Hours(int(hours[0]), 400 * (1 - sun) * np.exp(weather))


def plan(histories, published=None, usual=False, **request):
    """Plan with what is known of each zone; `published` is a forecast of the first."""
    parsed = parse_plan_request({"hours": 4, "zone": "ES", **request})
    now = parsed.now or NOW
    known = {
        zone: ZoneData(
            Zones().zone(zone),
            expected_hours(zone, history, "test values", now, published),
            usual_day(zone) if usual else None,
        )
        for zone, history in histories.items()
    }
    return make_plan(parsed, known, now)


def start_of(answer):
    return datetime.fromisoformat(answer.plan[0].start)


def test_an_evening_job_waits_for_the_sun():
    answer = plan({"ES": solar_hours()})
    assert answer.method == "forecast"
    assert answer.advice == "wait"
    # The sun is over 06:00 to 18:00: the best four hours are 10:00 to 14:00 of the next day.
    assert abs(start_of(answer) - datetime(2026, 5, 2, 10, tzinfo=UTC)) <= timedelta(hours=1)
    saving = answer.saving_ratio
    # At 18:00 the sun is gone: 400; around noon the mean is 400 x (1 - 0.5 x 0.955).
    assert saving.low <= 0.48 <= saving.high
    assert 0.40 < saving.value < 0.52
    assert answer.now_intensity_g_per_kwh.value == pytest.approx(400, rel=0.25)


def test_nothing_after_now_is_used():
    history = solar_hours(until=NOW + timedelta(days=3))
    changed = history.values.copy()
    changed[-72:] = 1e4
    later = replace(history, values=changed)
    assert plan({"ES": history}) == plan({"ES": later})


def test_on_a_flat_grid_now_is_as_good():
    random = np.random.default_rng(3)
    first = hour_of(NOW) - DAYS * 24
    flat = Hours(first, 400 * np.exp(random.normal(0, 0.02, DAYS * 24)))
    answer = plan({"ES": flat})
    assert answer.advice == "start-now"
    assert answer.summary.startswith("Start now: no later start until ")
    assert answer.notices == []


@pytest.mark.parametrize("given", [False, True])
def test_hours_without_emissions_make_a_plan(given):
    """At 18:00 of every day the grid has 0 g/kWh for four hours, and 200 g/kWh else."""
    after = hour_of(NOW)
    hours = np.arange(after - DAYS * 24, after)
    history = Hours(int(hours[0]), np.where((hours % 24 >= 18) & (hours % 24 < 22), 0.0, 200.0))
    foreseen = Published(Hours(after, np.zeros(48)), "their forecast") if given else None
    answer = plan({"ES": history}, foreseen)
    assert start_of(answer) == NOW
    assert answer.advice == "start-now"
    assert answer.saving_ratio.value == 0.0
    now = answer.now_intensity_g_per_kwh
    assert now.value == pytest.approx(0.1, rel=0.2)
    assert now.source.startswith("their forecast" if given else "forecast for ES")
    evening = plan({"ES": history}, now="2026-04-30T12:00Z", hours=2)
    assert start_of(evening) == datetime(2026, 4, 30, 18, tzinfo=UTC)
    assert evening.saving_ratio.value == pytest.approx(1.0, abs=0.01)


def test_a_saving_waits_where_it_is_more_likely_than_not():
    """Nights save surely. Late in the morning the best hours are near: what is left to save is less
    likely, and too close to call for a start at ten.
    """
    zones = {"ES": solar_hours(depth=0.3, noise=0.12)}
    night, morning = (plan(zones, now=f"2026-05-02T{hour}:00Z") for hour in ("04", "10"))
    assert night.advice == "wait"
    assert night.odds > 0.9
    assert night.saving_ratio.low > 0.05
    assert morning.advice == "start-now"
    assert start_of(morning) == datetime(2026, 5, 2, 10, tzinfo=UTC)
    assert morning.saving_ratio.value == morning.saving_ratio.low == 0.0
    assert morning.intensity_g_per_kwh == morning.now_intensity_g_per_kwh
    assert morning.summary.startswith("Start now: ")


def test_a_zone_is_fitted_once_a_week(monkeypatch):
    """Neither slack, length nor the hour of the question is a reason to fit again."""
    fitted = []
    fit = Forecaster.fit
    monkeypatch.setattr(Forecaster, "fit", lambda past: fitted.append(past.after) or fit(past))
    history = solar_hours(days=290, noise=0.31, depth=0.3)
    for now, hours in (("2026-05-01T10:00Z", 4), ("2026-05-01T15:00Z", 8)):
        plan({"ES": history}, now=now, deadline="2026-05-05T08:00Z", hours=hours)
    assert len(fitted) == 1


def test_a_saving_that_is_small_for_certain_is_not_called_an_error_of_the_forecast():
    """Without weather, 08:00 to 12:00 is 0.4 % above the best hours of such a day."""
    answer = plan({"ES": solar_hours(depth=0.02, noise=0)}, now="2026-05-02T08:00Z")
    assert start_of(answer) == datetime(2026, 5, 2, 8, tzinfo=UTC)
    assert answer.advice == "start-now"
    assert "is expected to save more than 1 %" in answer.summary


def test_without_history_or_usual_hours_no_order_is_given():
    answer = plan({"ES": None})
    assert (answer.method, answer.advice, answer.plan) == ("annual", "unknown", [])
    assert (answer.saving_ratio, answer.odds) == (None, None)
    assert answer.summary.startswith(
        "The hours of ES are not known: no start is known to be better."
    )
    assert "start now" not in answer.summary.lower()
    assert {n.code for n in answer.notices} == {"intensity-annual"}
    assert answer.intensity_g_per_kwh == answer.now_intensity_g_per_kwh


NOVEMBER = "2026-11-28T00:33Z"


def test_usual_hours_say_when_california_is_cleanest():
    """Of the shipped shape by hand: 18 to 22 UTC in November is 0.82 of the mean, 00:33 to 04:33 is
    1.28 of it, so waiting saves 36 %.
    """
    answer = plan({"US-CAL-CISO": None}, usual=True, zone="US-CAL-CISO", now=NOVEMBER)
    assert (answer.method, answer.advice) == ("usual-hours", "wait")
    assert start_of(answer) == datetime(2026, 11, 28, 18, tzinfo=UTC)
    saving = answer.saving_ratio
    assert saving.value == pytest.approx(1 - 0.82 / 1.28, abs=0.01)
    assert saving.low < 0.25 < 0.45 < saving.high
    assert answer.odds > 0.9
    assert plain(answer.summary).startswith(
        "Wait until 18:00 UTC (10:00 in Los Angeles): about 36 % less than starting now ("
    )
    assert "Usual for November; today's weather is not known." in answer.summary
    [place] = answer.places
    values = [span.intensity_g_per_kwh.value for span in (place.best, place.now, place.worst)]
    assert values == sorted(values)
    assert place.timezone == "America/Los_Angeles"


def test_usual_hours_without_a_history_are_those_of_every_reader():
    now = datetime(2026, 11, 28, 0, 33, tzinfo=UTC)
    answer = plan({"US-CAL-CISO": None}, usual=True, zone="US-CAL-CISO", now=NOVEMBER)
    waiting = usual_saving("US-CAL-CISO", 4, 24, now)
    assert waiting.start == start_of(answer)
    for end in ("low", "value", "high"):
        assert getattr(waiting.saving, end) == pytest.approx(getattr(answer.saving_ratio, end))
    assert waiting.odds == pytest.approx(answer.odds)
    assert usual_saving("TW", 4, 24, now) is None
    at_best = usual_saving("US-CAL-CISO", 4, 24, waiting.start)
    assert (at_best.saving.value, at_best.start, at_best.odds) == (0.0, waiting.start, 0.5)


def test_a_zone_whose_days_do_not_repeat_has_no_order():
    """In Finland nothing of the usual day came true in years that it was not made of."""
    answer = plan({"FI": None}, usual=True, zone="FI", now=NOVEMBER)
    assert (answer.method, answer.advice) == ("usual-hours", "start-now")


def test_a_history_counts_before_usual_hours():
    assert plan({"ES": solar_hours()}, usual=True).method == "forecast"
    assert plan({"ES": None}, usual=True).method == "usual-hours"


def test_longer_waits_and_shorter_jobs_are_less_certain():
    day = usual_day("DE")
    widths = [day.ends(wait, 4)[1] for wait in (1, 5, 12, 48)]
    assert widths == sorted(widths)
    assert day.ends(12, 1)[1] > day.ends(12, 12)[1] > day.ends(12, 24)[1]


@pytest.mark.parametrize(
    ("ratio", "high", "odds"),
    # A normal distribution holds eight in ten within 1.2816 standard deviations.
    [(0.8, 1.25, 0.9), (1.0, 1.25, 0.5), (1.25, 1.25, 0.1), (0.8, 1.0, 1.0), (1.0, 1.0, 0.5)],
)
def test_odds_are_those_of_the_range(ratio, high, odds):
    assert chance_below(math.log(ratio), math.log(high)) == pytest.approx(odds, abs=1e-9)


def test_odds_in_words():
    words = [odds_text(odds) for odds in (0.95, 0.85, 0.7, 0.5)]
    assert words == [
        "sure (at least 9 in 10)", "likely (4 in 5)", "more likely than not", "too close to call",
    ]  # fmt: skip


def test_all_places_are_shown_least_first():
    zones = {"PL": None, "FR": None, "AT": None}
    answer = plan(zones, usual=True, zone="PL", zones=["PL", "FR", "AT"])
    assert answer.advice == "move"
    assert answer.summary.startswith("Run in FR")
    assert [place.zone for place in answer.places] == ["FR", "AT", "PL"]
    assert [place.method for place in answer.places] == ["usual-hours", "annual", "usual-hours"]


def test_between_zones_the_cleaner_wins_where_ranges_say_so():
    zones = {"PL": None, "FR": None}
    answer = plan(zones, zone="PL", zones=["PL", "FR"])
    assert answer.plan[0].zone == "FR"
    assert answer.advice == "move"
    catalog = Zones()
    france, poland = (catalog.zone(name).intensity.value for name in ("FR", "PL"))
    assert answer.saving_ratio.value == pytest.approx(1 - france / poland)


def test_zones_that_do_not_differ_reliably_leave_the_job_where_it_is():
    zones = {"DE": None, "NL": None}
    answer = plan(zones, zone="DE", zones=["DE", "NL"])
    assert (answer.advice, answer.plan) == ("unknown", [])
    assert [place.zone for place in answer.places] == ["NL", "DE"]


def test_a_job_of_two_days_starts_now_where_the_forecast_has_not_earned_waiting():
    """Two days of weather ahead are chance: whichever window looks best, it starts at once."""
    answer = plan({"ES": solar_hours(depth=0.0, noise=0.3)}, hours=48,
                  deadline="2026-05-06T18:00Z")  # fmt: skip
    assert answer.advice == "start-now"
    assert start_of(answer) == NOW
    assert answer.saving_ratio.high == 0.0


def test_the_range_of_a_saving_is_that_of_both_intensities():
    """One side of each in the root of squares, 1.3 times as wide, as the best hours were chosen."""
    answer = plan({"ES": solar_hours()})
    planned, at_once = answer.intensity_g_per_kwh, answer.now_intensity_g_per_kwh
    ratio = planned.value / at_once.value
    saving = answer.saving_ratio
    assert saving.value == pytest.approx(1 - ratio)
    up = math.hypot(math.log(planned.high / planned.value), math.log(at_once.value / at_once.low))
    assert saving.low == pytest.approx(1 - ratio * math.exp(1.3 * up), rel=0.02)
    down = math.hypot(math.log(planned.value / planned.low), math.log(at_once.high / at_once.value))
    assert saving.high == pytest.approx(1 - ratio * math.exp(-1.3 * down), rel=0.02)


def test_forecasts_keep_no_history_alive():
    for number in range(5):
        plan({"ES": solar_hours(days=30 + number)})
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, Hours)]


def test_what_waiting_costs_is_counted():
    zones = {"ES": solar_hours()}
    free, dear = plan(zones, power_w=1000), plan(zones, power_w=1000, idle_power_w=900)
    assert free.advice == "wait"
    # Sixteen hours at 900 W to save half of four hours at 1000 W is no plan.
    assert start_of(dear) < start_of(free)


def test_a_history_that_ended_long_ago_is_not_used():
    old = solar_hours(until=NOW - timedelta(days=3))
    assert plan({"ES": old}).method == "annual"


def test_a_short_history_gives_the_shape_of_the_day():
    answer = plan({"ES": solar_hours(days=20)})
    assert answer.method == "history-profile"
    assert "mean by hour of the day" in answer.intensity_g_per_kwh.source
    long = plan({"ES": solar_hours()}).saving_ratio
    assert answer.saving_ratio.low < long.low < long.high


def test_a_deadline_beyond_the_forecast_is_named():
    answer = plan({"ES": solar_hours()}, deadline="2026-05-20T00:00Z")
    assert "plan-horizon" in [notice.code for notice in answer.notices]
    assert start_of(answer) < NOW + timedelta(days=7)


def test_the_hours_of_a_job_after_the_forecast_count_with_its_mean():
    """300 h of work, a forecast of 168: the mean of all hours is that of the known ones."""
    flat = Hours(hour_of(NOW) - 24 * 30, np.full(24 * 30, 250.0))
    answer = plan({"ES": flat}, hours=300, deadline="2026-05-20T00:00Z")
    assert answer.intensity_g_per_kwh.value == pytest.approx(250.0)
    notice = next(row for row in answer.notices if row.code == "plan-horizon")
    assert notice.message.endswith("later hours count with its mean")


def test_a_start_after_the_forecast_is_expected_to_have_its_mean():
    flat = Hours(hour_of(NOW) - 24 * 30, np.full(24 * 30, 250.0))
    answer = plan({"ES": flat}, earliest="2026-05-20T00:00Z")
    assert start_of(answer) == datetime(2026, 5, 20, tzinfo=UTC)
    assert answer.now_intensity_g_per_kwh.value == pytest.approx(250.0)


def test_interruptible_work_is_put_into_several_days():
    answer = plan({"ES": solar_hours()}, hours=12, interruptible=True,
                  deadline="2026-05-04T18:00Z")  # fmt: skip
    slots = [
        (datetime.fromisoformat(slot.start), datetime.fromisoformat(slot.end))
        for slot in answer.plan
    ]
    assert len(slots) >= 2
    assert sum((end - start for start, end in slots), timedelta()) == timedelta(hours=12)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"hours": None}, "missing-field"),
        ({"zone": None}, "missing-field"),
        ({"deadline": "2026-05-01T19:00Z"}, "plan-impossible"),
        ({"deadline": "tomorrow"}, "bad-field"),
        ({"deadline": "2026-05-01T19:00"}, "bad-field"),
        ({"restart_kwh": 1, "power_w": 100}, "bad-field"),
        ({"idle_power_w": 100}, "missing-field"),
        ({"power_profile_w": [0, 0]}, "bad-field"),
        ({"colour": "green"}, "unknown-field"),
    ],
)
def test_what_makes_no_plan_is_refused(change, code):
    with pytest.raises(ScoreError) as refused:
        plan({"ES": None}, **change)
    assert refused.value.code == code


@pytest.mark.long
def test_intervals_hold_eight_in_ten():
    history = solar_hours(days=500)
    cut = 300 * 24
    forecaster = Forecaster.fit(history.until(history.first + cut))
    inside = []
    for issue in range(cut, len(history.values) - 96, 17):
        found = forecaster.predict(history.until(history.first + issue), 96)
        truth = history.values[issue : issue + 96]
        inside.append(((found.low <= truth) & (truth <= found.high)).mean())
    assert 0.72 <= np.mean(inside) <= 0.88


def test_ranges_are_as_wide_as_they_had_to_be_of_late():
    """Weather more than twice as strong of late: the ranges of the year would be too narrow."""
    calm, rough = solar_hours(days=400, noise=0.05), solar_hours(days=400, noise=0.12)
    cut = 340 * 24
    values = np.concatenate([calm.values[:cut], rough.values[cut:]])
    history = Hours(calm.first, values)
    forecaster = Forecaster.fit(history.until(history.first + cut))
    inside, narrow = [], []
    for issue in range(cut + 40 * 24, len(values) - 96, 11):
        found = forecaster.predict(history.until(history.first + issue), 96)
        truth = values[issue : issue + 96]
        inside.append(((found.low <= truth) & (truth <= found.high)).mean())
        low, high = (found.mean * np.exp(forecaster.errors[end, :96]) for end in (0, 1))
        narrow.append(((low <= truth) & (truth <= high)).mean())
    assert np.mean(narrow) < 0.65
    assert 0.7 <= np.mean(inside) <= 0.9


def test_gaps_are_filled_by_the_day_before():
    values = np.arange(72.0) + 100
    values[30] = np.nan
    filled = Hours(0, np.concatenate([[np.nan], values])).filled()
    assert filled.first == 1
    assert filled.values[30] == values[6]

"""Days of a time zone, also where clocks are changed at midnight."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.sci.figures.days import by_day, day_of, midnight, month_span, shares

ZONES = ("UTC", "Europe/Berlin", "Africa/Cairo", "America/Goose_Bay", "Asia/Kathmandu")


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "day", "start"),
    [
        ("Europe/Berlin", "2026-01-01", "2025-12-31T23:00"),
        ("Europe/Berlin", "2026-07-01", "2026-06-30T22:00"),
        # Cairo's clocks go from 24:00 to 01:00, so the day starts at 01:00 = 22:00 UTC.
        ("Africa/Cairo", "2026-04-24", "2026-04-23T22:00"),
        # Goose Bay's went from 00:01 back to 23:01; the day starts with the second midnight.
        ("America/Goose_Bay", "2010-11-07", "2010-11-07T04:00"),
    ],
)
def test_a_day_starts_when_it_does_there(zone, day, start):
    assert midnight(date.fromisoformat(day), ZoneInfo(zone)) == at(start)


def test_a_day_of_summer_time_has_23_or_25_hours():
    berlin = ZoneInfo("Europe/Berlin")
    lengths = {}
    for left, right in by_day(at("2026-03-27T23:00"), at("2026-03-30T22:00"), berlin):
        lengths[day_of(left, berlin).isoformat()] = (right - left) / timedelta(hours=1)
    assert lengths == {"2026-03-28": 24, "2026-03-29": 23, "2026-03-30": 24}
    ((_, left), *_, (right, _)) = by_day(at("2026-10-24T00:00"), at("2026-10-26T12:00"), berlin)
    assert (right - left) / timedelta(hours=1) == 25


def test_a_month_is_that_of_the_zone():
    start, end = month_span("2026-12", ZoneInfo("Asia/Kathmandu"))  # UTC+05:45
    assert (start, end) == (at("2026-11-30T18:15"), at("2026-12-31T18:15"))


moments = st.integers(0, 21 * 365 * 86_400).map(lambda s: at("2009-01-01") + timedelta(seconds=s))


@given(moments, st.timedeltas(timedelta(0), timedelta(days=40)), st.sampled_from(ZONES))
def test_parts_lie_in_one_day_each_and_add_up(start, length, name):
    zone = ZoneInfo(name)
    parts = list(by_day(start, start + length, zone))
    edges = [start, *(right for _, right in parts)]
    assert [left for left, _ in parts] == edges[:-1]
    assert edges[-1] == start + length
    days = [day_of(left, zone) for left, _ in parts]
    assert days == sorted(days)
    found = shares((start, start + length), zone=zone)
    assert sum(found.values()) == pytest.approx(1 if length else 0)

"""Days of a time zone: where spans of time are cut, so that days and months add up to the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo

DAY = timedelta(days=1)


def midnight(day: date, zone: tzinfo = UTC) -> datetime:
    """Return the start of a day in the zone, in UTC.

    Where clocks are changed at midnight the day starts with the change: a time that is skipped, or
    the second of two, is the later of what the two offsets make of it (PEP 495).
    """
    start = datetime.combine(day, time(), zone)
    return max(start.astimezone(UTC), start.replace(fold=1).astimezone(UTC))


def day_of(moment: datetime, zone: tzinfo = UTC) -> date:
    """Return the day of a moment in the zone."""
    return moment.astimezone(zone).date()


def by_day(
    start: datetime, end: datetime, zone: tzinfo = UTC
) -> Iterator[tuple[datetime, datetime]]:
    """Return the parts of [start, end), one in each day that it meets; none for an empty span."""
    while start < end:
        upto = min(end, midnight(day_of(start, zone) + DAY, zone))
        yield start, upto
        start = upto


def shares(*spans: tuple[datetime, datetime], zone: tzinfo = UTC) -> dict[date, float]:
    """Return the fraction of the spans' length in each day; none where they have no length."""
    whole = sum(((end - start) for start, end in spans), timedelta())
    seconds: dict[date, float] = defaultdict(float)
    for left, right in (part for span in spans for part in by_day(*span, zone)):
        seconds[day_of(left, zone)] += (right - left) / whole
    return seconds


def month_span(month: str, zone: tzinfo = UTC) -> tuple[datetime, datetime]:
    """Return start and end of a month, YYYY-MM, in the zone."""
    year, number = int(month[:4]), int(month[5:7])
    following = date(year + 1, 1, 1) if number == 12 else date(year, number + 1, 1)
    return midnight(date(year, number, 1), zone), midnight(following, zone)

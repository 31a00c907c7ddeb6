"""UTC days: where spans of time are cut, so that days and months add up to the whole."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

DAY = timedelta(days=1)


def midnight(day: date) -> datetime:
    """The start of a UTC day."""
    return datetime.combine(day, time(), UTC)


def by_day(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The parts of [start, end), one in each UTC day that it meets; none for an empty span."""
    while start < end:
        upto = min(end, midnight(start.date()) + DAY)
        yield start, upto
        start = upto


def shares(start: datetime, end: datetime) -> dict[date, float]:
    """The fraction of [start, end) in each UTC day; a moment lies wholly in its own."""
    if end <= start:
        return {start.date(): 1.0}
    return {left.date(): (right - left) / (end - start) for left, right in by_day(start, end)}

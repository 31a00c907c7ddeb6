"""UTC days: where spans of time are cut, so that days and months add up to the whole."""

from __future__ import annotations

from collections import defaultdict
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


def shares(*spans: tuple[datetime, datetime]) -> dict[date, float]:
    """The fraction of the spans' length in each UTC day; none where they have no length."""
    whole = sum(((end - start) for start, end in spans), timedelta())
    found: dict[date, float] = defaultdict(float)
    for left, right in (part for span in spans for part in by_day(*span)):
        found[left.date()] += (right - left) / whole
    return found

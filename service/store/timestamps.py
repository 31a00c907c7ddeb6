"""Times as the store keeps them: whole microseconds since 1970-01-01 UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gramwatt.sci.records.records import format_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_us(when: datetime) -> int:
    """UTC time -> [us since 1970]; raises ValueError for a time without a zone."""
    if when.tzinfo is None:
        raise ValueError(f"a time without a zone has no meaning: {when}")
    return (when - _EPOCH) // _MICROSECOND


def span_us(span: timedelta) -> int:
    """Length of a span of time [us]."""
    return span // _MICROSECOND


def from_us(time_us: int) -> datetime:
    """Time [us since 1970] -> UTC time; exact, unlike a conversion through float seconds."""
    return _EPOCH + timedelta(microseconds=time_us)


def text_from_us(time_us: int) -> str:
    """Time [us since 1970] -> RFC 3339 text with Z, as records and answers write it."""
    return format_time(from_us(time_us))

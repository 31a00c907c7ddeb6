"""How far intensity over some hours lies from a zone's annual value.

`odbl/intensity_spread.csv` has, by zone and length of time, the range that held eight in ten means
of hourly traces, as multiples of the annual value that the catalog publishes. Where it is known
when the hours were, `odbl/intensity_hours.csv` has what is usual for the hour of the day and the
month, and the range around that. `python -m benchmarks.calibration` fits and checks both. A zone
without a trace has the range that held in zones left out of its fit (`other`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated

from msgspec import Struct

from gramwatt.sci.figures.csv_data import Cell, Row, Source, between, column, rows
from gramwatt.sci.figures.units import S_PER_HOUR

OTHER = "other"
LONG_HOURS = 720.0
"""What moves the mean of a month moves that of every job in it; the rest is its hours' own."""
WITHOUT_DATA = (0.65, 1.35)
"""Where the file was removed: hourly accounting differs from annual accounting by up to 30 to 35 %
(Miller, Novan and Jenn 2022)."""
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
"""Columns of `odbl/intensity_hours.csv`."""
_HOUR = timedelta(hours=1)
_DAY_H = 24.0
Ends = tuple[float, float]
"""Low and high, as multiples."""


Low = Annotated[float, between(0.1, 1)]
High = Annotated[float, between(1, 5)]
Multiple = Annotated[float, between(0.1, 5)]


class SpreadRow(Row, frozen=True, kw_only=True):
    """Range of means of so many hours, as multiples of the published annual value, and around what
    is usual for them. ODbL 1.0.
    """

    files = ("odbl/intensity_spread.csv",)
    key = ("zone", "hours")

    zone: Annotated[Cell, column("Zone key; `other` is for zones without a trace")]
    hours: Annotated[float, between(1, 8760, "h"), column("Length of time")]
    low: Annotated[Low, column("Low end, at any time")]
    high: Annotated[High, column("High end, at any time")]
    usual_low: Annotated[
        Low | None, column("Low end as a multiple of what is usual for the hours")
    ] = None
    usual_high: Annotated[
        High | None, column("High end as a multiple of what is usual for the hours")
    ] = None
    source: Source


class HoursRow(Row, frozen=True, kw_only=True):
    """Usual intensity of an hour of the day (UTC) by month, as multiples of the year's mean, and
    the range of one such hour around it. ODbL 1.0.
    """

    files = ("odbl/intensity_hours.csv",)
    key = ("zone", "hour")

    zone: Annotated[Cell, column("Zone key, or ISO 3166-1 alpha-3 of a country")]
    hour: Annotated[int, between(0, 23), column("Hour of the day, UTC")]
    jan: Annotated[Multiple, column("In January")]
    feb: Annotated[Multiple, column("In February")]
    mar: Annotated[Multiple, column("In March")]
    apr: Annotated[Multiple, column("In April")]
    may: Annotated[Multiple, column("In May")]
    jun: Annotated[Multiple, column("In June")]
    jul: Annotated[Multiple, column("In July")]
    aug: Annotated[Multiple, column("In August")]
    sep: Annotated[Multiple, column("In September")]
    oct: Annotated[Multiple, column("In October")]
    nov: Annotated[Multiple, column("In November")]
    dec: Annotated[Multiple, column("In December")]
    low: Annotated[Low | None, column("Low end as a multiple of what is usual")] = None
    high: Annotated[High | None, column("High end as a multiple of what is usual")] = None
    source: Source


class ShiftRow(Row, frozen=True, kw_only=True):
    """How much of the usual difference between two spans of a day comes true, and its range: of 4 h
    and 9 h or more apart. Fitted to years that the shape was not made of. ODbL 1.0.
    """

    files = ("odbl/intensity_shift.csv",)
    key = ("zone",)

    zone: Annotated[Cell, column("Zone key")]
    weight: Annotated[
        float, between(0, 1), column("Of the usual difference of logarithms, what comes true")
    ]
    low: Annotated[Multiple, column("Low end of the ratio of two spans, over what is usual")]
    high: Annotated[Multiple, column("High end of it")]
    years: Annotated[int, between(1, 50), column("Years of the trace")]
    source: Source


class _Shape(Struct, frozen=True):
    """What is usual in a zone: by hour of the day (UTC) and month, and the ranges around it."""

    usual: Sequence[Sequence[float]]
    around: Sequence[Ends]


def spread_over(zone: str | None, hours: float) -> Ends:
    """Return the range over so many hours at any time, as multiples of the annual value.

    Between the lengths of the table it is interpolated over their logarithms; longer than a year is
    a year.
    """
    return _interpolated(zone, hours, 0)


def spread_around(zone: str, hours: float, start: datetime) -> Ends:
    """Return the range around what is usual for hours that begin at `start`, as multiples of it.

    Below a day it is that of the hours of the day, narrower near a whole day. Requires a zone of
    which `usual_over` knows the hours.
    """
    if hours >= _DAY_H:
        return _interpolated(zone, hours, 1)
    around, day = _shapes()[zone].around, _interpolated(zone, _DAY_H, 1)
    share = (math.log(max(hours, 1.0)) / math.log(_DAY_H)) ** 3
    weights = [(hour.hour, part) for hour, part in _hours(start, hours)]
    rows = []
    for end in (0, 1):
        of_hours = sum(around[hour][end] * part for hour, part in weights)
        mean = sum(ends[end] for ends in around) / len(around)
        narrower = math.log(day[end]) / math.log(mean) if mean != 1 else 1.0
        rows.append(of_hours ** (1 + share * (narrower - 1)))
    return rows[0], rows[1]


def usual_over(zone: str | None, hours: float, start: datetime) -> float | None:
    """Return the usual mean of hours that begin at `start`, as a multiple of the annual value.

    None for a zone whose hours are not known.
    """
    shape = _shapes().get(zone or OTHER)
    if shape is None:
        return None
    return sum(shape.usual[h.hour][h.month - 1] * part for h, part in _hours(start, hours))


def _hours(start: datetime, hours: float) -> list[tuple[datetime, float]]:
    """Return the hours of UTC that a span of at most a year meets, and the part of it in each."""
    start = start.astimezone(UTC)
    end = start + timedelta(hours=min(max(hours, 1 / S_PER_HOUR), 8760.0))
    first = start.replace(minute=0, second=0, microsecond=0)
    count = math.ceil((end - first) / _HOUR)
    whole = end - start
    parts = [1.0] * count
    parts[0] -= (start - first) / _HOUR
    parts[-1] -= (first + count * _HOUR - end) / _HOUR
    return [(first + n * _HOUR, part * (_HOUR / whole)) for n, part in enumerate(parts)]


def _interpolated(zone: str | None, hours: float, column: int) -> Ends:
    rows = _table().get(zone or OTHER) or _table().get(OTHER)
    if not rows:
        return WITHOUT_DATA
    before = rows[0]
    for after in rows:
        if hours <= after[0]:
            break
        before = after
    if before[0] >= after[0]:
        return after[1][column]
    share = math.log(max(hours, before[0]) / before[0]) / math.log(after[0] / before[0])
    pairs = zip(before[1][column], after[1][column], strict=True)
    low, high = (one + share * (other - one) for one, other in pairs)
    return low, high


@cache
def _table() -> Mapping[str, Sequence[tuple[float, tuple[Ends, Ends]]]]:
    """Return, by zone and in order of hours, the ranges at any time and around what is usual."""
    ranges: dict[str, list[tuple[float, tuple[Ends, Ends]]]] = {}
    for row in rows(SpreadRow):
        around = row.usual_low or row.low, row.usual_high or row.high
        ranges.setdefault(row.zone, []).append((row.hours, ((row.low, row.high), around)))
    return {zone: sorted(lines) for zone, lines in ranges.items()}


@cache
def _shapes() -> Mapping[str, _Shape]:
    """Return what is usual by hour and month, by zone whose range around it is known.

    Other zones have traces that are too old for their level; plans take the shape of their days.
    """
    usual: dict[str, list[list[float]]] = {}
    around: dict[str, list[Ends]] = {}
    for row in sorted(rows(HoursRow), key=lambda row: row.hour):
        if row.low is None or row.high is None:
            continue
        usual.setdefault(row.zone, []).append([getattr(row, month) for month in MONTHS])
        around.setdefault(row.zone, []).append((row.low, row.high))
    return {zone: _Shape(usual[zone], around[zone]) for zone in usual}


@cache
def traced_zones() -> frozenset[str]:
    """Return the zones whose hours are known."""
    return frozenset(_shapes())

"""Points of intensity in the store: a row holds one UTC day of one series, in equal steps.

Rows are only ever added, but a day of a forecast has one row, with the newest values. Of two rows
that know the same time, what was generated counts before what is estimated, foreseen or typical,
then the provider that comes first in the zone's chain, then the better quality, then what was
fetched later.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Literal, NamedTuple, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.document import Quality
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.sci.grid.zones import Scope
from gramwatt.service.container import Service
from gramwatt.service.providers.base import SCORED
from gramwatt.service.store.columns import upsert
from gramwatt.service.store.intensity import IntensityArrival, IntensityDay, IntensitySeries

DAY_S = 86_400
IMPORTED = "imported"
"""The provider of what people import."""
QUALITIES: Sequence[Quality] = ("profile", "forecast", "estimated", "hourly", "measured")
"""Of stored points, worst first."""
FINAL: Collection[Quality] = ("hourly", "measured")
"""Qualities that no later one is better than."""
PAST: Collection[Quality] = tuple(quality for quality in QUALITIES if quality != "forecast")
"""Qualities of what has been."""


class SeriesName(NamedTuple):
    """What the points of a series have in common."""

    zone: str
    signal: Signal
    basis: Basis
    provider: str
    scope: Scope | Literal[""] = ""
    licence: str = ""


@dataclass(frozen=True, slots=True)
class DayOfPoints:
    """Intensity [gCO2e/kWh] of one UTC day in equal steps; an unknown step is NaN."""

    series: SeriesName
    day: date
    step_s: int
    quality: Quality
    values: array[float]

    @property
    def start(self) -> datetime:
        """When the day begins."""
        return datetime(self.day.year, self.day.month, self.day.day, tzinfo=UTC)


def keep(
    service: Service,
    series: SeriesName,
    step_s: int,
    quality: Quality,
    start: datetime,
    values: Sequence[float],
) -> int:
    """Store points from `start` on; returns how many days are new or differ from those kept.

    `start` is a whole number of steps after midnight, and a day a whole number of steps long. A
    forecast takes the place of the earlier one, whose values stay where it has none. Scores of that
    time become due in `rescore_due`.
    """
    days = list(_days(series, step_s, quality, start, values))
    with service.store.write() as session:
        key = _series_key(session, series)
        stored = {
            day: values
            for day, values in session.execute(
                sa.select(IntensityDay.day, IntensityDay.points)
                .where(IntensityDay.series == key, IntensityDay.step_s == step_s)
                .where(IntensityDay.quality == quality)
                .where(IntensityDay.day.between(*_ends(days)))
                .order_by(IntensityDay.fetched_us)
            )
        }
        if quality == "forecast":
            days = [_over(day, stored.get(day.day.toordinal())) for day in days]
        rows = [
            {
                "series": key,
                "day": day.day.toordinal(),
                "step_s": step_s,
                "quality": quality,
                "fetched_us": service.now_us(),
                "points": day.values.tobytes(),
            }
            for day in days
            if stored.get(day.day.toordinal()) != day.values.tobytes()
        ]
        if quality == "forecast":
            session.execute(
                sa.delete(IntensityDay)
                .where(IntensityDay.series == key, IntensityDay.step_s == step_s)
                .where(IntensityDay.quality == quality)
                .where(IntensityDay.day.in_([row["day"] for row in rows]))
            )
        upsert(session, IntensityDay, rows)
        if rows and (series.signal, series.basis) == SCORED and quality != "forecast":
            first, last = _ends(days)
            arrival = IntensityArrival(zone=series.zone, first_day=first, last_day=last)
            session.add(arrival)
    return len(rows)


def days_of(
    service: Service, zone: str, signal: Signal, basis: Basis, start: datetime, end: datetime
) -> list[DayOfPoints]:
    """Days of a zone that overlap [start, end), from the least to the most trusted."""
    return days_of_zones(service, [zone], signal, basis, start, end)[zone]


def days_of_zones(
    service: Service,
    zones: Collection[str],
    signal: Signal,
    basis: Basis,
    start: datetime,
    end: datetime,
    qualities: Collection[Quality] = QUALITIES,
) -> dict[str, list[DayOfPoints]]:
    """As `days_of` for each of several zones, in one question to the store."""
    statement = (
        sa.select(IntensitySeries, IntensityDay)
        .join(IntensityDay, IntensityDay.series == IntensitySeries.id)
        .where(IntensitySeries.zone.in_(zones))
        .where(IntensitySeries.signal == signal, IntensitySeries.basis == basis)
        .where(IntensityDay.day.between(*_day_numbers(start, end)))
        .where(IntensityDay.quality.in_(sorted(qualities)))
        .order_by(IntensityDay.fetched_us)
    )
    by_zone: dict[str, list[DayOfPoints]] = {zone: [] for zone in zones}
    with service.store.read() as session:
        for series, day in session.execute(statement):
            name = SeriesName(*(getattr(series, field) for field in SeriesName._fields))
            by_zone[name.zone].append(_day(name, day))
    for zone, days in by_zone.items():
        chain = service.config.intensity.chain(zone)
        days.sort(key=lambda day: _trust(day, chain))
    return by_zone


def series_of(service: Service, zone: str, start: datetime, end: datetime) -> list[SeriesName]:
    """Return the series that have a day of a zone that overlaps [start, end), in order of their
    names.
    """
    statement = (
        sa.select(*(getattr(IntensitySeries, name) for name in SeriesName._fields))
        .join(IntensityDay, IntensityDay.series == IntensitySeries.id)
        .where(IntensitySeries.zone == zone)
        .where(IntensityDay.day.between(*_day_numbers(start, end)))
        .distinct()
    )
    with service.store.read() as session:
        return sorted(SeriesName(*row) for row in session.execute(statement))


def _day_numbers(start: datetime, end: datetime) -> tuple[int, int]:
    """Return the first and last UTC day of [start, end)."""
    last = end.astimezone(UTC) - timedelta(microseconds=1)
    return start.astimezone(UTC).date().toordinal(), last.date().toordinal()


def _trust(day: DayOfPoints, chain: Sequence[str]) -> tuple[bool, int, int, int]:
    """Return the rank between days of one time, least trusted first; see the top of this file."""
    quality, provider = QUALITIES.index(day.quality), day.series.provider
    place = chain.index(provider) if provider in chain else len(chain)
    final = day.quality in FINAL
    return final, 0 if final else quality, -place, quality


def _days(
    series: SeriesName, step_s: int, quality: Quality, start: datetime, values: Sequence[float]
) -> Iterator[DayOfPoints]:
    slots = DAY_S // step_s
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    before = round((start - midnight).total_seconds()) // step_s
    padded = [float("nan")] * before + list(values)
    padded += [float("nan")] * (-len(padded) % slots)
    for number in range(len(padded) // slots):
        part = array("d", padded[number * slots : (number + 1) * slots])
        yield DayOfPoints(series, (midnight + timedelta(days=number)).date(), step_s, quality, part)


def _over(day: DayOfPoints, before: bytes | None) -> DayOfPoints:
    """Return a day whose unknown steps have the values of the day before it in the store."""
    if before is None:
        return day
    values = array("d")
    values.frombytes(before)
    joined = (old if math.isnan(new) else new for new, old in zip(day.values, values, strict=True))
    return replace(day, values=array("d", joined))


def _ends(days: Sequence[DayOfPoints]) -> tuple[int, int]:
    numbers = [day.day.toordinal() for day in days]
    return min(numbers, default=0), max(numbers, default=0)


def _series_key(session: Session, series: SeriesName) -> int:
    """Return the row of a series, which is added or takes over the scope and licence of now."""
    upsert(session, IntensitySeries, [series._asdict()])
    zone, signal, basis, provider, scope, licence = series
    key = {"zone": zone, "signal": signal, "basis": basis, "provider": provider}
    row = session.scalars(sa.select(IntensitySeries).filter_by(**key)).one()
    row.scope, row.licence = scope, licence
    return row.id


def _day(series: SeriesName, row: IntensityDay) -> DayOfPoints:
    values, quality = array("d"), cast(Quality, row.quality)
    values.frombytes(row.points)
    return DayOfPoints(series, date.fromordinal(row.day), row.step_s, quality, values)

"""Points of intensity in the store: a row holds one UTC day of one series, in equal steps.

Rows are only ever added. Of two that know the same time the better quality counts, then the one
that was fetched later.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.grid.intensity import Basis, Quality, Signal
from gramwatt.service.container import Service
from gramwatt.service.store.database import upsert
from gramwatt.service.store.models import IntensityDay, IntensitySeries

DAY_S = 86_400
QUALITIES: Sequence[Quality] = ("profile", "forecast", "estimated", "hourly", "measured")
"""Of stored points, worst first."""


class SeriesName(NamedTuple):
    """What the points of a series have in common."""

    zone: str
    signal: Signal
    basis: Basis
    provider: str


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

    `start` is a whole number of steps after midnight, and a day a whole number of steps long.
    """
    days = list(_days(series, step_s, quality, start, values))
    with service.store.write() as session:
        key = _series_key(session, series)
        kept = {
            day: values
            for day, values in session.execute(
                sa.select(IntensityDay.day, IntensityDay.points)
                .where(IntensityDay.series == key, IntensityDay.step_s == step_s)
                .where(IntensityDay.quality == quality)
                .order_by(IntensityDay.fetched_us)
            )
        }
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
            if kept.get(day.day.toordinal()) != day.values.tobytes()
        ]
        upsert(session, IntensityDay, rows)
    return len(rows)


def days_of(
    service: Service, zone: str, signal: Signal, basis: Basis, start: datetime, end: datetime
) -> list[DayOfPoints]:
    """Days of a zone that overlap [start, end), from the least to the most trusted."""
    first = start.astimezone(UTC).date().toordinal()
    last = (end.astimezone(UTC) - timedelta(microseconds=1)).date().toordinal()
    wanted = (
        sa.select(IntensitySeries, IntensityDay)
        .join(IntensityDay, IntensityDay.series == IntensitySeries.id)
        .where(
            IntensitySeries.zone == zone,
            IntensitySeries.signal == signal,
            IntensitySeries.basis == basis,
            IntensityDay.day.between(first, last),
        )
        .order_by(IntensityDay.fetched_us)
    )
    with service.store.read() as session:
        found = [_day(*row) for row in session.execute(wanted)]
    return sorted(found, key=lambda day: QUALITIES.index(day.quality))


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


def _series_key(session: Session, series: SeriesName) -> int:
    columns = series._asdict()
    wanted = sa.select(IntensitySeries.id).filter_by(**columns)
    found = session.scalar(wanted)
    if found is None:
        row = IntensitySeries(**columns)
        session.add(row)
        session.flush()
        found = row.id
    return found


def _name(row: IntensitySeries) -> SeriesName:
    return SeriesName(row.zone, row.signal, row.basis, row.provider)  # type: ignore[arg-type]


def _day(series: IntensitySeries, row: IntensityDay) -> DayOfPoints:
    values = array("d")
    values.frombytes(row.points)
    day = date.fromordinal(row.day)
    return DayOfPoints(_name(series), day, row.step_s, row.quality, values)  # type: ignore[arg-type]

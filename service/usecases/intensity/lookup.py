"""Intensity for the engine: stored points, and annual values where there are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np

from gramwatt.sci.base.quantity import Kind, Quantity
from gramwatt.sci.grid.intensity import Basis, IntensityPoint, Quality, Signal
from gramwatt.sci.grid.spread import DERIVED_SPREAD, EXPECTED_SPREADS, HOURLY_SPREAD
from gramwatt.sci.grid.zones import UNIT, AnnualIntensity
from gramwatt.service.container import Service
from gramwatt.service.usecases.intensity.points import (
    DAY_S,
    FINAL,
    DayOfPoints,
    SeriesName,
    days_of,
)

FINEST = timedelta(minutes=5)
"""Every step is a whole number of these."""
_Value = tuple[datetime, datetime, float, Quality, SeriesName]


class StoredIntensity:
    """The lookup of a service: the stored points of one signal and basis.

    What they do not cover has the annual value, of the same signal and basis, and its quality.
    """

    def __init__(
        self, service: Service, signal: Signal = "average", basis: Basis = "lifecycle"
    ) -> None:
        self._service, self._signal, self._basis = service, signal, basis
        self._annual = AnnualIntensity(service.catalog)

    def points(self, zone: str | None, start: datetime, end: datetime) -> Sequence[IntensityPoint]:
        """Points that cover [start, end), those at its ends cut; raises LookupFailed."""
        if zone is None or start >= end:
            return self._annual.points(zone, start, end)
        key = self._service.catalog.zone(zone).zone
        days = days_of(self._service, key, self._signal, self._basis, start, end)
        found: list[IntensityPoint] = []
        at = start
        for left, right, value, quality, series in _values(days, start, end):
            if at < left:
                found += self._annual.points(zone, at, left)
            figure = _figure(value, quality, series)
            found.append(
                IntensityPoint(key, left, right, figure, quality, series.signal, series.basis)
            )
            at = right
        return found if at >= end and found else [*found, *self._annual.points(zone, at, end)]


def _figure(value: float, quality: Quality, series: SeriesName) -> Quantity:
    """The figure of a point; those of a series have one source, and so share their error.

    What a file says is declared by who imported it, what a provider published a catalog's figure.
    """
    derived = series.scope == "production" and series.basis == "lifecycle"
    kind: Kind = "derived" if derived else "catalog" if series.licence else "declared"
    if quality not in FINAL:
        kind = "estimated"
    parts = [series.zone, series.signal, series.basis]
    parts += [quality] if quality in EXPECTED_SPREADS else []
    parts += [f"{series.scope}-based"] if series.scope else []
    parts += ["from generation by fuel, imports left out"] if derived else []
    licence = f" ({series.licence})" if series.licence else ""
    source = f"{series.provider} values of {', '.join(parts)}{licence}"
    known = DERIVED_SPREAD if derived else HOURLY_SPREAD
    spread = max(known, EXPECTED_SPREADS.get(quality, known))
    return Quantity.around(value, spread, UNIT, kind, source)


def _values(days: Sequence[DayOfPoints], start: datetime, end: datetime) -> Iterator[_Value]:
    """The most trusted known value of each time in [start, end), in order."""
    if not days:
        return
    origin = min(day.start for day in days)
    count = (max(day.start for day in days) - origin) // FINEST + DAY_S // FINEST.seconds
    # Which step of which day each five minutes take their value from; later days are trusted more.
    taken = np.full((count, 2), -1)
    for number, day in enumerate(days):
        width = day.step_s // FINEST.seconds
        known = np.flatnonzero(np.isfinite(np.asarray(day.values)))
        first = (day.start - origin) // FINEST
        places = first + (known[:, None] * width + np.arange(width)).ravel()
        taken[places, 0], taken[places, 1] = number, np.repeat(known, width)
    edges = np.flatnonzero(np.any(np.diff(taken, axis=0) != 0, axis=1)) + 1
    for left, right in pairwise([0, *edges.tolist(), count]):
        number, step = taken[left]
        begins, ends = max(start, origin + left * FINEST), min(end, origin + right * FINEST)
        if number >= 0 and begins < ends:
            day = days[number]
            yield begins, ends, day.values[step], day.quality, day.series

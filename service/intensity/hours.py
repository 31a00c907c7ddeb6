"""The known hours of a zone, as forecasts are fitted to them and judged by them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import numpy as np

from gramwatt.sci.grid.intensity import Basis, Quality, Signal
from gramwatt.sci.planning.hours import DAY_H, Floats, Hours, hour_of
from gramwatt.service.container import Service
from gramwatt.service.intensity.points import PAST, DayOfPoints, days_of_zones

HISTORY = timedelta(days=800)
"""What forecasts are fitted to: two winters and two summers."""


def hours_of(
    service: Service,
    zone: str,
    until: datetime,
    signal: Signal = "average",
    basis: Basis = "lifecycle",
    qualities: Collection[Quality] = PAST,
) -> Hours | None:
    """Return the known hours of a zone that ended by `until`; None without any."""
    return hours_of_zones(service, [zone], until, signal, basis, qualities)[zone]


def hours_of_zones(
    service: Service,
    zones: Collection[str],
    until: datetime,
    signal: Signal = "average",
    basis: Basis = "lifecycle",
    qualities: Collection[Quality] = PAST,
) -> dict[str, Hours | None]:
    """As `hours_of` for each of several zones."""
    found = days_of_zones(service, zones, signal, basis, until - HISTORY, until, qualities)
    return {zone: _hours(days, until) for zone, days in found.items()}


def _hours(days: Sequence[DayOfPoints], until: datetime) -> Hours | None:
    if not days:
        return None
    first = min(day.day for day in days).toordinal()
    count = max(day.day for day in days).toordinal() - first + 1
    values = np.full(count * DAY_H, np.nan)
    for day in days:
        at = (day.day.toordinal() - first) * DAY_H
        hours = by_hour(np.asarray(day.values))
        known = np.isfinite(hours)
        values[at : at + DAY_H][known] = hours[known]
    start = hour_of(min(day.start for day in days))
    return Hours(start, values).until(hour_of(until))


def by_hour(values: Floats) -> Floats:
    """Means by hour of a day's steps; one that is not known for more than half of it is NaN."""
    steps = values.reshape(DAY_H, -1)
    known = np.isfinite(steps)
    enough = known.mean(1) > 0.5
    sums = np.where(known, steps, 0.0).sum(1)
    found: Floats = np.where(enough, sums / np.maximum(known.sum(1), 1), np.nan)
    return found

"""When and where to run, from the stored history of each zone."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.sci.planning.hours import DAY_H, Floats, Hours, hour_of
from gramwatt.sci.planning.outlook import ZoneData
from gramwatt.sci.planning.plan import PlanDoc, plan_and_regret
from gramwatt.sci.planning.request import PlanRequest
from gramwatt.service.container import Service
from gramwatt.service.usecases.intensity.points import PAST, DayOfPoints, days_of

HISTORY = timedelta(days=800)
"""What forecasts are fitted to: two winters and two summers."""


def plan(service: Service, request: PlanRequest) -> PlanDoc:
    """Answer a request; raises LookupFailed for an unknown zone, ScoreError for an impossible one.

    Only average lifecycle intensity is used, so that zones can be compared.
    """
    return plan_with_regret(service, request)[0]


def plan_with_regret(service: Service, request: PlanRequest) -> tuple[PlanDoc, Quantity | None]:
    """As `plan`, and what such plans of the past emitted beyond the best hours, as a share."""
    now = request.now or service.now()
    names = dict.fromkeys(filter(None, (request.zone, *request.zones)))
    return plan_and_regret(request, {name: zone_data(service, name, now) for name in names}, now)


def zone_data(service: Service, zone: str, now: datetime) -> ZoneData:
    """What is known of a zone at `now`; raises LookupFailed for an unknown one."""
    annual = service.catalog.zone(zone)
    history = hours_of(service, annual.zone, now)
    return ZoneData(annual, history, source="imported values")


def hours_of(
    service: Service,
    zone: str,
    until: datetime,
    signal: Signal = "average",
    basis: Basis = "lifecycle",
) -> Hours | None:
    """The known hours of a zone that ended by `until`; None without any."""
    days = days_of(service, zone, signal, basis, until - HISTORY, until, PAST)
    if not days:
        return None
    first = min(day.day for day in days).toordinal()
    count = max(day.day for day in days).toordinal() - first + 1
    values = np.full(count * DAY_H, np.nan)
    for day in days:
        at = (day.day.toordinal() - first) * DAY_H
        hours = _by_hour(day)
        known = np.isfinite(hours)
        values[at : at + DAY_H][known] = hours[known]
    start = hour_of(min(day.start for day in days))
    return Hours(start, values).until(hour_of(until))


def _by_hour(day: DayOfPoints) -> Floats:
    """Means by hour; one that is not known for more than half of it is NaN."""
    steps = np.asarray(day.values).reshape(DAY_H, -1)
    known = np.isfinite(steps)
    enough = known.mean(1) > 0.5
    sums = np.where(known, steps, 0.0).sum(1)
    found: Floats = np.where(enough, sums / np.maximum(known.sum(1), 1), np.nan)
    return found

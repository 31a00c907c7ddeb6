"""When and where to run, from the stored history and forecasts of each zone.

What is read of a zone is kept in memory for the hour, until something new of it is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.planning.hours import hour_of
from gramwatt.sci.planning.outlook import ZoneData
from gramwatt.sci.planning.plan import PlanDoc, plan_and_regret
from gramwatt.sci.planning.plan_request import PlanRequest
from gramwatt.service.container import Service
from gramwatt.service.intensity.forecasts import issued_days, usable_forecast
from gramwatt.service.intensity.hours import hours_of_zones
from gramwatt.service.providers.base import SCORED
from gramwatt.service.store.intensity import IntensityDay, IntensitySeries
from gramwatt.service.store.timestamps import to_us

_State = tuple[int, int]
"""How many days of a zone are stored, and when the newest was [us]."""
_Key = tuple[_State, int | datetime, str, tuple[str, ...]]
_KEPT: WeakKeyDictionary[Engine, dict[str, tuple[_Key, ZoneData]]] = WeakKeyDictionary()
"""By database and zone: its state, the hour, catalog and providers, and what was read then.

Each caller has a store of their own; what is known of zones is the same for all.
"""


def plan(service: Service, request: PlanRequest) -> PlanDoc:
    """Answer a request; raises LookupFailed for an unknown zone, ScoreError for an impossible one.

    Only average lifecycle intensity is used, so that zones can be compared.
    """
    return plan_with_regret(service, request)[0]


def plan_with_regret(service: Service, request: PlanRequest) -> tuple[PlanDoc, Quantity | None]:
    """As `plan`, and what such plans of the past emitted beyond the best hours, as a share."""
    now = request.now or service.now()
    names = dict.fromkeys(filter(None, (request.zone, *request.zones)))
    return plan_and_regret(request, zones_data(service, names, now), now)


def zone_data(service: Service, zone: str, now: datetime) -> ZoneData:
    """Return what is known of a zone at `now`; raises LookupFailed for an unknown one."""
    return zones_data(service, [zone], now)[zone]


def zones_data(service: Service, names: Collection[str], now: datetime) -> dict[str, ZoneData]:
    """Return what is known of zones at `now`, by name; raises LookupFailed for an unknown one."""
    zones = {name: service.catalog.zone(name).zone for name in names}
    states = _states(service, set(zones.values()))
    kept, catalog = _KEPT.setdefault(service.store.engine, {}), service.catalog.version
    # What is stored of a time after now is left out of the answer, to the second.
    chain = service.config.intensity.chain
    keys = {
        zone: (state, now if state[1] > to_us(now) else hour_of(now), catalog, chain(zone))
        for zone, state in states.items()
    }
    found = {
        zone: kept[zone][1] for zone, key in keys.items() if zone in kept and kept[zone][0] == key
    }
    new = _read(service, states.keys() - found.keys(), now)
    kept.update({zone: (keys[zone], data) for zone, data in new.items()})
    found |= new
    return {name: found[zone] for name, zone in zones.items()}


def _states(service: Service, zones: Collection[str]) -> dict[str, _State]:
    """Return what changes whenever something of a zone is stored; read from an index alone."""
    newest = sa.func.max(IntensityDay.fetched_us)
    wanted = (
        sa.select(IntensitySeries.zone, sa.func.count(), newest)
        .join(IntensityDay, IntensityDay.series == IntensitySeries.id)
        .where(IntensitySeries.zone.in_(zones))
        .where(IntensitySeries.signal == SCORED[0], IntensitySeries.basis == SCORED[1])
        .group_by(IntensitySeries.zone)
    )
    with service.store.read() as session:
        rows = session.execute(wanted).all()
    known = {zone: (count, newest_us) for zone, count, newest_us in rows}
    return {zone: known.get(zone, (0, 0)) for zone in zones}


def _read(service: Service, zones: Collection[str], now: datetime) -> Mapping[str, ZoneData]:
    histories = hours_of_zones(service, zones, now)
    issued = issued_days(service, zones, *SCORED, now)
    return {
        zone: ZoneData(
            service.catalog.zone(zone),
            histories[zone],
            "stored values",
            usable_forecast(service, zone, now, issued[zone]),
        )
        for zone in zones
    }

"""When and where to run, from the stored history and forecasts of each zone.

What is expected of a zone is kept in memory for the hour, until something new of it is stored; its
history is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

import numpy as np
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.engine import Engine

from gramwatt.sci.figures.document import (
    IntensityDoc,
    IntensityPointDoc,
    IntensitySeriesDoc,
    Quality,
)
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.grid.intensity import Basis, IntensityPoint, Signal
from gramwatt.sci.grid.local_time import timezone_of
from gramwatt.sci.grid.zones import zone_taken
from gramwatt.sci.planning.forecast import HORIZON_H
from gramwatt.sci.planning.hours import DAY_H, Floats, Hours, hour_of, moment_of
from gramwatt.sci.planning.outlook import Outlook, Published, ZoneData, expected_hours
from gramwatt.sci.planning.plan import PlanDoc, make_plan
from gramwatt.sci.planning.plan_request import PlanRequest
from gramwatt.sci.planning.usual import usual_day
from gramwatt.service.container import Service
from gramwatt.service.intensity.lookup import StoredIntensity
from gramwatt.service.intensity.points import (
    PAST,
    DayOfPoints,
    SeriesName,
    days_of_zones,
    series_of,
)
from gramwatt.service.providers.base import SCORED
from gramwatt.service.store.columns import from_us, to_us
from gramwatt.service.store.intensity import IntensityDay, IntensitySeries

HISTORY = timedelta(days=800)
"""What forecasts are fitted to: two winters and two summers."""
FRESH = timedelta(days=1)
"""An older forecast of a provider is not used."""
_State = tuple[int, int]
"""How many days of a zone are stored, and when the newest was [us]."""
_Key = tuple[_State, int | datetime, str, tuple[str, ...]]
_KEPT: WeakKeyDictionary[Engine, dict[str, tuple[_Key, ZoneData]]] = WeakKeyDictionary()
"""By database and zone of the catalog: its state, the hour, catalog and providers, and what was
expected then.

Each caller has a store of their own; what is known of zones is the same for all.
"""


def plan(service: Service, request: PlanRequest) -> PlanDoc:
    """Answer a request; raises LookupFailed for an unknown zone, ScoreError for an impossible one.

    Only average lifecycle intensity is used, so that zones can be compared.
    """
    now, zone_of = request.now or service.now(), service.catalog.zone
    home = zone_of(request.zone).zone if request.zone else None
    zones = tuple(dict.fromkeys(zone_of(name).zone for name in request.zones))
    names = dict.fromkeys(filter(None, (home, *zones)))
    answered = replace(request, zone=home, zones=zones)
    return make_plan(answered, zones_data(service, names, now), now)


def zone_data(service: Service, zone: str, now: datetime) -> ZoneData:
    """Return what is known of a zone at `now`; raises LookupFailed for an unknown one."""
    return zones_data(service, [zone], now)[zone]


def zones_data(service: Service, names: Collection[str], now: datetime) -> dict[str, ZoneData]:
    """Return what is known of zones at `now`, by name; raises LookupFailed for an unknown one."""
    zones = {name: service.catalog.zone(name).zone for name in names}
    states = _states(service, set(zones.values()))
    cache, catalog = _KEPT.setdefault(service.store.engine, {}), service.catalog.version
    # What is stored of a time after now is left out of the answer, to the second.
    chain = service.config.intensity.chain
    keys = {
        zone: (state, now if state[1] > to_us(now) else hour_of(now), catalog, chain(zone))
        for zone, state in states.items()
    }
    cached = {
        zone: cache[zone][1]
        for zone, key in keys.items()
        if zone in cache and cache[zone][0] == key
    }
    new = _read(
        service, states.keys() - cached.keys(), now, is_stored=any(map(any, states.values()))
    )
    cache.update({zone: (keys[zone], data) for zone, data in new.items()})
    cached |= new
    return {name: cached[zone] for name, zone in zones.items()}


def _states(service: Service, zones: Collection[str]) -> dict[str, _State]:
    """Return what changes whenever something of a zone is stored; read from an index alone."""
    newest = sa.func.max(IntensityDay.fetched_us)
    statement = (
        sa.select(IntensitySeries.zone, sa.func.count(), newest)
        .join(IntensityDay, IntensityDay.series == IntensitySeries.id)
        .where(IntensitySeries.zone.in_(zones))
        .where(IntensitySeries.signal == SCORED[0], IntensitySeries.basis == SCORED[1])
        .group_by(IntensitySeries.zone)
    )
    with service.store.read() as session:
        rows = session.execute(statement).all()
    states = {zone: (count, newest_us) for zone, count, newest_us in rows}
    return {zone: states.get(zone, (0, 0)) for zone in zones}


def _read(
    service: Service, zones: Collection[str], now: datetime, *, is_stored: bool
) -> Mapping[str, ZoneData]:
    """Return what is known of zones; nothing is looked for where nothing of them is stored."""
    past: Mapping[str, Sequence[DayOfPoints]] = {}
    published: Mapping[str, Published] = {}
    if is_stored:
        past = days_of_zones(service, zones, "average", "lifecycle", now - HISTORY, now, PAST)
        published = _published(service, zones, now)
    return {
        zone: ZoneData(
            service.catalog.zone(zone),
            expected_hours(
                zone, _hours(past.get(zone, ()), now), "stored values", now, published.get(zone)
            ),
            usual_day(zone),
        )
        for zone in zones
    }


def _hours(days: Sequence[DayOfPoints], until: datetime) -> Hours | None:
    """Return the hours of a zone that ended by a moment; None without any."""
    if not days:
        return None
    first = min(day.day for day in days).toordinal()
    count = max(day.day for day in days).toordinal() - first + 1
    values = np.full(count * DAY_H, np.nan)
    for day in days:
        at = (day.day.toordinal() - first) * DAY_H
        hours = _by_hour(np.asarray(day.values))
        finite = np.isfinite(hours)
        values[at : at + DAY_H][finite] = hours[finite]
    start = hour_of(min(day.start for day in days))
    return Hours(start, values).until(hour_of(until))


def _by_hour(values: Floats) -> Floats:
    """Means by hour of a day's steps; one that is not known for more than half of it is NaN."""
    steps = values.reshape(DAY_H, -1)
    finite = np.isfinite(steps)
    enough = finite.mean(1) > 0.5
    sums = np.where(finite, steps, 0.0).sum(1)
    means: Floats = np.where(enough, sums / np.maximum(finite.sum(1), 1), np.nan)
    return means


def _published(service: Service, zones: Collection[str], now: datetime) -> Mapping[str, Published]:
    """Return the newest forecast until `now` of the first provider in each zone's chain that has a
    fresh one.
    """
    today = now.astimezone(UTC).date().toordinal()
    statement = (
        sa.select(
            IntensitySeries.zone,
            IntensitySeries.provider,
            IntensityDay.day,
            IntensityDay.fetched_us,
            IntensityDay.points,
        )
        .join(IntensityDay, IntensityDay.series == IntensitySeries.id)
        .where(
            IntensitySeries.zone.in_(zones),
            IntensitySeries.signal == SCORED[0],
            IntensitySeries.basis == SCORED[1],
            IntensityDay.quality == "forecast",
            IntensityDay.day.between(today, today + HORIZON_H // DAY_H),
            IntensityDay.fetched_us.between(to_us(now - FRESH), to_us(now)),
        )
        .order_by(IntensityDay.fetched_us)
    )
    with service.store.read() as session:
        rows = session.execute(statement).all()
    values: dict[tuple[str, str], Floats] = {}
    fetched_us: dict[tuple[str, str], int] = {}
    for zone, provider, day, at_us, points in rows:
        of_days = values.setdefault((zone, provider), np.full(HORIZON_H + DAY_H, np.nan))
        hours = _by_hour(np.frombuffer(points))
        place = slice((day - today) * DAY_H, (day - today + 1) * DAY_H)
        of_days[place] = np.where(np.isfinite(hours), hours, of_days[place])
        fetched_us[zone, provider] = at_us
    published: dict[str, Published] = {}
    for zone in zones:
        chain = service.config.intensity.chain(zone)
        ranks = {name: number for number, name in enumerate(chain)}
        providers = [provider for of, provider in values if of == zone]
        if providers:
            provider = min(providers, key=lambda name: (ranks.get(name, len(chain)), name))
            at = from_us(fetched_us[zone, provider])
            source = f"forecast of {provider} for {zone}, fetched {at:%Y-%m-%dT%H:%MZ}"
            first = hour_of(now) - hour_of(now) % DAY_H
            published[zone] = Published(Hours(first, values[zone, provider]), source)
    return published


LONGEST = timedelta(days=31)
STEP_H = 1.0
"""The hours that the range of one expected step is of."""
_QUALITY: dict[str, Quality] = {
    "forecast": "forecast",
    "history-profile": "profile",
    "usual-hours": "profile",
}


def intensity_over(
    service: Service,
    zone: str,
    start: datetime,
    end: datetime,
    signal: Signal = "average",
    basis: Basis = "lifecycle",
) -> IntensityDoc:
    """Return what scores use over [start, end), and what plans expect; or what is stored of another
    signal or basis. Raises LookupFailed.
    """
    row, lookup = service.catalog.zone(zone), StoredIntensity(service, signal, basis)
    key = row.zone
    now, expected, method = max(start, service.now()), [], None
    if (signal, basis) == SCORED:
        points: Sequence[IntensityPoint] = lookup.points(zone, start, end)
        if now < end:
            outlook = zone_data(service, zone, service.now()).outlook(now, end, STEP_H)
            if outlook.method != "annual":
                method = outlook.method
                expected = list(map(_doc, _steps(outlook, now, end)))
    else:
        points = list(lookup.stored(zone, start, end))
    stored = series_of(service, key, start, end)
    timezone = timezone_of(key)
    return IntensityDoc(
        zone=key,
        timezone=timezone.key if timezone else None,
        signal=points[0].signal if points else signal,
        basis=points[0].basis if points else basis,
        points=list(map(_doc, points)),
        forecast=expected,
        forecast_method=method,
        stored=[
            IntensitySeriesDoc(
                signal=row.signal,
                basis=row.basis,
                provider=row.provider,
                used=(row.signal, row.basis) == SCORED,
            )
            for row in stored
        ],
        notices=[*zone_taken(zone, row), *_notices(key, points, stored)],
    )


def unused_text(zone: str, kinds: str) -> str:
    """Says that values of some kinds are stored for a zone, and not used."""
    return (
        f"{zone} has {kinds} values, which no score or plan uses: those need average lifecycle "
        "values, and nothing converts one into the other."
    )


def _notices(
    zone: str, points: Sequence[IntensityPoint], stored: Sequence[SeriesName]
) -> list[Notice]:
    """Says so where the points are used by nothing, or the year's stand in beside such values."""
    kinds = dict.fromkeys(f"{row.signal} {row.basis}" for row in stored if row[1:3] != SCORED)
    annual = any(point.quality == "annual" for point in points)
    unused = any((point.signal, point.basis) != SCORED for point in points)
    if not kinds or not (annual or unused):
        return []
    text = unused_text(zone, " and ".join(kinds))
    text += " The annual value stands in." if annual else ""
    return [Notice("intensity-unused", text, "intensity_g_per_kwh")]


def _steps(outlook: Outlook, start: datetime, end: datetime) -> Iterator[IntensityPoint]:
    """Yield the steps of an outlook within [start, end)."""
    for index, value in enumerate(outlook.grid.values):
        begin = max(start, moment_of(float(outlook.grid.edges[index])))
        until = min(end, moment_of(float(outlook.grid.edges[index + 1])))
        if begin < until:
            ends = float(outlook.grid.edges[index]), float(outlook.grid.edges[index + 1])
            figure = outlook.figure(
                float(value), float(outlook.low[index]), float(outlook.high[index]), *ends
            )
            quality = _QUALITY[outlook.at(ends[0]).method]
            yield IntensityPoint(outlook.zone, begin, until, figure, quality)


def _doc(point: IntensityPoint) -> IntensityPointDoc:
    return IntensityPointDoc(
        start=f"{point.start:%Y-%m-%dT%H:%M:%SZ}",
        end=f"{point.end:%Y-%m-%dT%H:%M:%SZ}",
        quality=point.quality,
        intensity_g_per_kwh=point.intensity.bare(),
    )

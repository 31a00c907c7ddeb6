"""Issued forecasts: stored as they were made, and read as of a moment.

Providers' forecasts are stored by `refresh`, ours by the task `issue_forecasts`, so that both are
judged by what was said at the time. Scores never use ours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from gramwatt.sci.base.errors import LookupFailed
from gramwatt.sci.planning.forecast import HORIZON_H
from gramwatt.sci.planning.hours import DAY_H, Floats, hour_of, moment_of
from gramwatt.sci.planning.issued import FRESH_H, ForecastArchive, Issued, is_worse
from gramwatt.sci.planning.outlook import ZoneData, outlook
from gramwatt.sci.planning.replay import EVERY_H, WEEKS
from gramwatt.service.container import Service
from gramwatt.service.intensity.hours import by_hour, hours_of
from gramwatt.service.intensity.points import FINAL, OWN, PAST, SeriesName, keep
from gramwatt.service.providers.base import SCORED
from gramwatt.service.store.intensity import IntensityDay, IntensitySeries
from gramwatt.service.store.timestamps import from_us, to_us

RECORD = timedelta(weeks=WEEKS)
"""How far back issued forecasts are compared with what came."""
WHOLE = timedelta(days=7)
"""Forecasts are kept whole so long; then one of every six hours, and after `RECORD` one a day."""
HOUR_S = 3600
THINNED_MOST = 300
"""Days that one run joins, so that it does not hold up other writers."""
_BLOCK_US = 6 * 3_600_000_000


class IssuedDay(NamedTuple):
    """A day of a forecast: when it was issued [us], and its values in equal steps."""

    known_us: int
    day: int
    step_s: int
    values: Floats


def usable_forecast(
    service: Service, zone: str, now: datetime, by_provider: dict[str, list[IssuedDay]]
) -> Issued | None:
    """Return the forecast that plans use: of the first provider of the zone's chain that has a
    fresh one.

    `by_provider` is what was issued until `now`. Providers whose plans proved worse than ours are
    left out.
    """
    ours = forecast_archive(by_provider.get(OWN, []), now)
    chain = service.config.intensity.chain(zone)
    for provider in sorted(
        by_provider.keys() - {OWN}, key=lambda name: (_place(name, chain), name)
    ):
        days = by_provider[provider]
        if days[-1].known_us < to_us(now - timedelta(hours=FRESH_H)):
            continue
        past = forecast_archive(days, now)
        truth = hours_of(service, zone, now, qualities=FINAL) if len(ours.moments) else None
        if truth is None or not is_worse(past, ours, truth):
            return _issued(provider, zone, days, past, now)
    return None


def _place(name: str, chain: Sequence[str]) -> int:
    return chain.index(name) if name in chain else len(chain)


def issued_days(
    service: Service, zones: Collection[str], signal: str, basis: str, now: datetime
) -> dict[str, dict[str, list[IssuedDay]]]:
    """Return the forecasts until `now`, by zone and provider, in the order of their issue."""
    known = sa.func.coalesce(IntensityDay.issued_us, IntensityDay.fetched_us)
    first = (now - RECORD).astimezone(UTC).date().toordinal()
    last = (now + timedelta(hours=HORIZON_H)).astimezone(UTC).date().toordinal()
    wanted = (
        sa.select(
            IntensitySeries.zone,
            IntensitySeries.provider,
            known,
            IntensityDay.day,
            IntensityDay.step_s,
            IntensityDay.points,
        )
        .join(IntensityDay, IntensityDay.series == IntensitySeries.id)
        .where(
            IntensitySeries.zone.in_(zones),
            IntensitySeries.signal == signal,
            IntensitySeries.basis == basis,
            IntensityDay.quality == "forecast",
            IntensityDay.day.between(first, last),
            known <= to_us(now),
        )
        .order_by(known, IntensityDay.fetched_us)
    )
    with service.store.read() as session:
        rows = session.execute(wanted).all()
    found: dict[str, dict[str, list[IssuedDay]]] = {zone: {} for zone in zones}
    for zone, provider, known_us, day, step_s, points in rows:
        days = found[zone].setdefault(provider, [])
        days.append(IssuedDay(known_us, day, step_s, np.frombuffer(points)))
    return found


def forecast_archive(days: Sequence[IssuedDay], now: datetime) -> ForecastArchive:
    """Return what was known of the coming hours at past moments, each 5 h after the other."""
    last = hour_of(now)
    moments = np.arange(EVERY_H * -(-hour_of(now - RECORD) // EVERY_H), last, EVERY_H)
    values = np.full((len(moments), HORIZON_H), np.nan)
    if not days:
        return ForecastArchive(moments[:0], values[:0])
    origin = hour_of(_midnight(min(day.day for day in days)))
    origin = min(origin, int(moments[0]))
    origin -= origin % DAY_H
    after = max(last, max(hour_of(_midnight(day.day)) for day in days)) + DAY_H + HORIZON_H
    newest = np.full(after - origin, np.nan)
    at, issued = 0, -FRESH_H
    for row, moment in enumerate(moments):
        until_us = to_us(moment_of(int(moment)))
        while at < len(days) and days[at].known_us <= until_us:
            hours = by_hour(days[at].values)
            place = hour_of(_midnight(days[at].day)) - origin
            known = np.flatnonzero(np.isfinite(hours))
            newest[place + known] = hours[known]
            issued = hour_of(from_us(days[at].known_us))
            at += 1
        if moment - issued <= FRESH_H:
            values[row] = newest[moment - origin : moment - origin + HORIZON_H]
    found = np.isfinite(values).any(1)
    return ForecastArchive(moments[found], values[found])


def _issued(
    provider: str, zone: str, days: Sequence[IssuedDay], past: ForecastArchive, now: datetime
) -> Issued:
    """Return the newest values of a provider from this hour on, in the steps of its newest
    forecast.
    """
    step_s, issued = days[-1].step_s, from_us(days[-1].known_us)
    first = hour_of(now)
    values = np.full(HORIZON_H * HOUR_S // step_s, np.nan)
    for day in days:
        if day.step_s != step_s:
            continue
        place = (hour_of(_midnight(day.day)) - first) * HOUR_S // step_s
        known = np.flatnonzero(np.isfinite(day.values))
        known = known[(known + place >= 0) & (known + place < len(values))]
        values[place + known] = day.values[known]
    source = f"forecast of {provider} for {zone}, issued {issued:%Y-%m-%dT%H:%MZ}"
    return Issued(provider, source, first, step_s / HOUR_S, values, past)


def issue_forecasts(service: Service) -> int:
    """Store our own forecast of every zone whose intensity is known of late; returns how many.

    At most one an hour is stored of each zone; old forecasts of all providers are thinned out.
    """
    now, made = service.now(), 0
    newest_us, catalog = _newest_of_ours(service), service.catalog
    for zone in _current_zones(service, now):
        if zone in newest_us and hour_of(from_us(newest_us[zone])) >= hour_of(now):
            continue
        try:
            annual = catalog.zone(zone)
        except LookupFailed:  # the overlay no longer has it
            continue
        data = ZoneData(annual, hours_of(service, zone, now))
        found = outlook(data, now, now + timedelta(hours=1), 1.0)
        if found.method == "annual":
            continue
        begins = hour_of(now)
        values = found.grid.values[begins - int(found.grid.edges[0]) :]
        series = SeriesName(zone, "average", "lifecycle", OWN)
        keep(service, series, HOUR_S, "forecast", moment_of(begins), values.tolist(), now)
        made += 1
    thin(service, now)
    return made


def _newest_of_ours(service: Service) -> dict[str, int]:
    """Return when our newest forecast of each zone was issued [us]."""
    wanted = (
        sa.select(IntensitySeries.zone, sa.func.max(IntensityDay.issued_us))
        .join(IntensityDay, IntensityDay.series == IntensitySeries.id)
        .where(IntensitySeries.provider == OWN, IntensityDay.issued_us.is_not(None))
        .group_by(IntensitySeries.zone)
    )
    with service.store.read() as session:
        found = session.execute(wanted)
        return {zone: issued_us for zone, issued_us in found if issued_us is not None}


def _current_zones(service: Service, now: datetime) -> list[str]:
    """Zones of which something that was is stored from yesterday or today."""
    yesterday = now.astimezone(UTC).date().toordinal() - 1
    wanted = (
        sa.select(IntensitySeries.zone)
        .join(IntensityDay, IntensityDay.series == IntensitySeries.id)
        .where(IntensitySeries.signal == SCORED[0], IntensitySeries.basis == SCORED[1])
        .where(IntensityDay.day >= yesterday, IntensityDay.quality.in_(PAST))
        .distinct()
        .order_by(IntensitySeries.zone)
    )
    with service.store.read() as session:
        return list(session.scalars(wanted))


def thin(service: Service, now: datetime) -> int:
    """Join old forecasts of the same day into one row each; returns how many rows are deleted.

    The newest known value of each step stays, so scores keep what they use.
    """
    known = sa.func.coalesce(IntensityDay.issued_us, IntensityDay.fetched_us)
    old = to_us(now - WHOLE)
    block = sa.case((known < to_us(now - RECORD - WHOLE), 0), else_=known // _BLOCK_US)
    place = IntensityDay.series, IntensityDay.day, IntensityDay.step_s
    several = (
        sa.select(*place, block)
        .where(IntensityDay.quality == "forecast", known < old)
        .group_by(*place, block)
        .having(sa.func.count() > 1)
        .limit(THINNED_MOST)
    )
    deleted = 0
    with service.store.write() as session:
        for series, day, step_s, number in session.execute(several).all():
            rows = session.scalars(
                sa.select(IntensityDay)
                .where(IntensityDay.series == series, IntensityDay.day == day)
                .where(IntensityDay.step_s == step_s, IntensityDay.quality == "forecast")
                .where(known < old, block == number)
                .order_by(known, IntensityDay.fetched_us)
            ).all()
            joined = np.frombuffer(rows[0].points).copy()
            for row in rows[1:]:
                values = np.frombuffer(row.points)
                joined = np.where(np.isfinite(values), values, joined)
                session.delete(row)
            deleted += len(rows) - 1
            rows[0].points = joined.tobytes()
            rows[0].issued_us = rows[-1].issued_us or rows[-1].fetched_us
    return deleted


def _midnight(ordinal: int) -> datetime:
    day = date.fromordinal(ordinal)
    return datetime(day.year, day.month, day.day, tzinfo=UTC)

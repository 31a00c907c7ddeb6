"""The task that asks providers: only about zones of recent jobs, and zones kept up to date.

Without a provider it does nothing. What cannot be asked now is asked by a later run.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import groupby

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.days import DAY, midnight
from gramwatt.sci.figures.errors import LookupFailed
from gramwatt.service.container import Service
from gramwatt.service.intensity.lookup import STAGES, StoredIntensity, last_stage
from gramwatt.service.intensity.points import FINAL, SeriesName, keep
from gramwatt.service.providers.base import SCORED, Kind, ProviderError, RestingError, Values
from gramwatt.service.providers.chain import providers_of
from gramwatt.service.providers.http import Provider
from gramwatt.service.store.columns import from_us, span_us, to_us
from gramwatt.service.store.intensity import IntensityQuestion
from gramwatt.service.store.job_labels import ZONE
from gramwatt.service.store.models import Job, JobLabel

REFRESH_S = 120.0
"""How long one run asks at most [s]; the next goes on."""
EVERY = timedelta(hours=1)
"""How often the present is asked for: of running jobs, and of zones kept up to date."""

_HOUR_US = 3_600_000_000
Due = dict[date, datetime]
"""Days about which to ask, and since when that is due."""

_log = logging.getLogger("gramwatt.service")


def refresh_intensity(service: Service, budget_s: float = REFRESH_S) -> int:
    """Ask for what is due and store it; returns how many days of points are new."""
    settings = service.config.intensity
    if not any(settings.chains.values()):
        return 0
    ends, new = time.monotonic() + budget_s, 0
    for zone, due in sorted(_due(service).items()):
        providers = providers_of(settings, zone)
        if not providers:
            continue
        for first, last in _spans(_unanswered(service, zone, due)):
            if time.monotonic() >= ends:
                return new
            new += _ask(service, zone, providers, first, last)
    return new


def _due(service: Service) -> Mapping[str, Due]:
    """Return the days to ask about, by zone."""
    now, by_zone = service.now(), defaultdict[str, Due](dict)
    for text in service.config.intensity.zones:
        _add(by_zone, service, text, (now - DAY, now), None)
    for text, start, end, runs in _recent(service, now):
        _add(by_zone, service, text, (start, end), None if runs else last_stage(end, now))
    return by_zone


def _add(
    by_zone: Mapping[str, Due],
    service: Service,
    text: str,
    span: tuple[datetime, datetime],
    since: datetime | None,
) -> None:
    """Add the days of a span, due since then; None: each since its own end, today every hour."""
    now = service.now()
    present = now - timedelta(seconds=now.timestamp() % EVERY.total_seconds())
    try:
        due = by_zone[service.catalog.zone(text).zone]
    except LookupFailed as error:
        _log.warning("intensity of %r is not asked for: %s", text, error.message)
        return
    for number in range(span[0].toordinal(), span[1].toordinal() + 1):
        day = date.fromordinal(number)
        of_day = since or last_stage(midnight(day) + DAY, now) or present
        due[day] = max(of_day, due.get(day, of_day))


def _recent(service: Service, now: datetime) -> Iterator[tuple[str, datetime, datetime, bool]]:
    """Zone, start and end of the jobs that run, ended lately or are due; alike ones together.

    The last is true for those that run.
    """
    oldest_us = to_us(now) - span_us(STAGES[-1] + EVERY)
    runs = Job.state == sa.literal_column("'running'")
    hours = Job.started_us // _HOUR_US, sa.func.coalesce(Job.ended_us, 0) // _HOUR_US
    statement = (
        sa.select(JobLabel.label, runs, sa.func.min(Job.started_us), sa.func.max(Job.ended_us))
        .join(JobLabel, JobLabel.job == Job.id)
        .where(JobLabel.label.like(f"{ZONE}:%"), Job.intervals_deleted_us.is_(None))
        .where(sa.or_(runs, Job.ended_us > oldest_us, Job.rescore_us.is_not(None)))
        .group_by(JobLabel.label, runs, *hours)
    )
    with service.store.read() as session:
        rows = session.execute(statement).all()
    for label, running, start_us, end_us in rows:
        end = now if running or end_us is None else from_us(end_us)
        yield label.partition(":")[2], from_us(start_us), end, bool(running)


def _unanswered(service: Service, zone: str, due: Due) -> list[date]:
    """Return the days that were not answered since they are due, and may be known better."""
    statement = sa.select(IntensityQuestion.day, IntensityQuestion.asked_us).where(
        IntensityQuestion.zone == zone
    )
    with service.store.read() as session:
        asked_us_of = {day: asked_us for day, asked_us in session.execute(statement)}
    open_ = [
        day for day, since in due.items() if asked_us_of.get(day.toordinal(), -1) < to_us(since)
    ]
    starts = ((day, midnight(day)) for day in open_)
    return sorted(day for day, start in starts if not _is_known(service, zone, start, start + DAY))


def _is_known(service: Service, zone: str, start: datetime, end: datetime) -> bool:
    track = StoredIntensity(service).points(zone, start, end)
    return all(run.known.quality in FINAL for run in track.runs)


def _spans(days: Sequence[date]) -> Iterator[tuple[date, date]]:
    """First and last of the days that follow each other."""
    for _, group in groupby(enumerate(days), key=lambda pair: pair[1].toordinal() - pair[0]):
        run = [day for _, day in group]
        yield run[0], run[-1]


def _ask(
    service: Service, zone: str, providers: Sequence[Provider], first: date, last: date
) -> int:
    """Ask the chain about some days; returns how many are new.

    For what scores use, the next provider is asked where one does not answer, or leaves hours out
    that have been. The other series are those of the providers that publish nothing else.
    """
    now, new = service.now(), 0
    start, end = midnight(first), min(midnight(last) + DAY, now)
    answered, due = set[bool](), set[bool]()
    for provider in providers:
        for kind in provider.kinds(zone):
            scored = (kind.signal, kind.basis) == SCORED
            if scored and True in answered and _is_known(service, zone, start, end):
                continue
            due.add(scored)
            try:
                new += _store_history(service, zone, provider, kind, (start, end))
                answered.add(scored)
            except ProviderError as error:
                level = logging.DEBUG if isinstance(error, RestingError) else logging.WARNING
                _log.log(level, "no intensity of %s from %s: %s", zone, provider.name, error)
            else:
                if last >= now.date():
                    new += _store_forecast(service, zone, provider, kind)
    if due <= answered:
        _remember(service, zone, first, last)
    return new


def _store_history(
    service: Service, zone: str, provider: Provider, kind: Kind, span: tuple[datetime, datetime]
) -> int:
    start, end = span
    values = []
    while start < end:
        until = min(end, start + provider.longest)
        values.append(provider.history(zone, kind, start, until))
        start = until
    return _store(service, zone, provider, kind, values)


def _store_forecast(service: Service, zone: str, provider: Provider, kind: Kind) -> int:
    try:
        values = provider.forecast(zone, kind, service.now())
    except ProviderError as error:  # many plans have none, and a score needs none
        _log.info("no forecast of %s from %s: %s", zone, provider.name, error)
        return 0
    return _store(service, zone, provider, kind, [values] if values else [])


def _store(
    service: Service, zone: str, provider: Provider, kind: Kind, answers: Iterable[Values]
) -> int:
    series = SeriesName(zone, kind.signal, kind.basis, provider.name, kind.scope, provider.licence)
    return sum(
        keep(service, series, values.step_s, quality, values.start, of_quality)
        for values in answers
        for quality, of_quality in values.by_quality.items()
    )


def _remember(service: Service, zone: str, first: date, last: date) -> None:
    now_us = service.now_us()

    def store(session: Session) -> None:
        for day in range(first.toordinal(), last.toordinal() + 1):
            session.merge(IntensityQuestion(zone=zone, day=day, asked_us=now_us))

    service.store.transact(store)

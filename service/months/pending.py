"""Jobs of a month that no sum of it holds: running, unscored, excluded or deleted."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.quantity import Quantity, bare
from gramwatt.sci.month.documents import DeletedRow, ExcludedDoc
from gramwatt.sci.month.month import Pending, excluded_row
from gramwatt.sci.score.version import ENGINE_VERSION
from gramwatt.service.container import Service
from gramwatt.service.store.columns import read_head, text_from_us
from gramwatt.service.store.models import Deletion, Job, is_pending
from gramwatt.service.store.months import FactorBackfill, JobMonth

DAY_US = 86_400_000_000
KEYS_AT_ONCE = 500


def pending_keys(session: Session) -> dict[int, int]:
    """Return the start [us since 1970] of each job that runs or has lines without a score, by key.

    The index of these jobs alone answers. The rest is asked by key: PostgreSQL takes most jobs
    for pending and would read all, SQLite would go through those of a project or a month.
    """
    rows = session.execute(sa.select(Job.id, Job.started_us).where(is_pending()))
    return {key: started_us for key, started_us in rows}


def _portions(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the keys, as many at once as a statement takes on any database."""
    for first in range(0, len(keys), KEYS_AT_ONCE):
        yield keys[first : first + KEYS_AT_ONCE]


def pending_jobs(
    service: Service, session: Session, month: str, project: str | None, pending: Mapping[int, int]
) -> tuple[list[Pending], list[Pending], list[ExcludedDoc]]:
    """Running and unscored jobs of the month, with the energy that has arrived; and the excluded.

    A running job is in every month from its start until now, an unscored one where it has energy
    or began. Intervals across an edge are divided by time. An ended job that was scored before its
    newest lines is in the sums, and waits to be scored again (`rescoring`).
    """
    now_us, (start_us, end_us) = service.now_us(), service.month_span_us(month)
    jobs: list[Job] = []
    joules: dict[int, dict[str, float]] = {}
    for keys in _portions([key for key, began_us in pending.items() if began_us < end_us]):
        statement = sa.select(Job).where(Job.id.in_(keys))
        if project is not None:
            statement = statement.where(Job.project == project)
        jobs += session.scalars(statement)
        joules |= _joules(session, statement.with_only_columns(Job.id), start_us, end_us)
    running: list[Pending] = []
    unscored: list[Pending] = []
    excluded: list[ExcludedDoc] = []
    for job in jobs:
        head, runs = read_head(job.head), job.state == "running"
        if job.revision and not runs:
            continue
        row = Pending(job.job_id, head.name, job.project, joules.get(job.id, {}))
        if not (start_us <= now_us if runs else row.joules or job.started_us >= start_us):
            continue
        if head.excluded is not None:
            excluded.append(excluded_row(head))
        else:
            (running if runs else unscored).append(row)
    return running, unscored, excluded


def _joules(
    session: Session, jobs: sa.Select[Any], start_us: int, end_us: int
) -> dict[int, dict[str, float]]:
    """Energy of jobs over [start, end) [J], by the job's key and kind."""
    from gramwatt.service.store.journal import Device, Interval  # loaded where a job waits

    left = sa.case((Interval.start_us > start_us, Interval.start_us), else_=start_us)
    right = sa.case((Interval.end_us < end_us, Interval.end_us), else_=end_us)
    share = Interval.energy_j * (right - left) / (Interval.end_us - Interval.start_us)
    statement = (
        sa.select(Device.job, Interval.kind, sa.func.sum(share))
        .join(Interval, Interval.device == Device.id)
        # An interval is a day long at most, so the key finds those of the month.
        .where(Interval.start_us.between(start_us - DAY_US, end_us - 1))
        .where(Device.job.in_(jobs), Interval.end_us > start_us)
        .group_by(Device.job, Interval.kind)
    )
    joules_of: dict[int, dict[str, float]] = {}
    for job, kind, joules in session.execute(statement):
        joules_of.setdefault(job, {})[kind] = joules
    return joules_of


def energy_so_far(service: Service, job_ids: Collection[str]) -> dict[str, Quantity | None]:
    """Return the energy of these jobs that has arrived [kWh], by id; None where nothing was read.

    It is there before a running job is scored for the first time.
    """
    named = Job.job_id.in_(sorted(job_ids))
    with service.store.read() as session:
        jobs = list(session.scalars(sa.select(Job).where(named)))
        start_us = min((job.started_us for job in jobs), default=0)
        ids = sa.select(Job.id).where(named)
        joules = _joules(session, ids, start_us - DAY_US, service.now_us() + DAY_US)
    return {
        job.job_id: bare(Pending(job.job_id, "", "", joules.get(job.id, {})).energy_kwh)
        for job in jobs
    }


def deleted_jobs(
    service: Service, session: Session, month: str, project: str | None
) -> list[DeletedRow]:
    """Return the deleted jobs that started in the month, in order of their deletion."""
    start_us, end_us = service.month_span_us(month)
    statement = sa.select(Deletion).where(Deletion.started_us.between(start_us, end_us - 1))
    if project is not None:
        statement = statement.where(Deletion.project == project)
    rows = session.scalars(statement.order_by(Deletion.deleted_us, Deletion.job_id))
    return [_deleted(row, month) for row in rows]


def _deleted(row: Deletion, month: str) -> DeletedRow:
    grams = json.loads(row.grams).get(month)
    figure = None
    if grams:
        value, low, high = grams
        figure = Quantity(value, low, high, "gCO2e", "derived", "the newest score of the job")
    return DeletedRow(
        job_id=row.job_id,
        project=row.project,
        total_g=bare(figure),
        deleted_at=text_from_us(row.deleted_us),
        deleted_by=row.deleted_by,
        reason=row.reason,
    )


NEWEST_BACKFILL = sa.select(FactorBackfill).where(FactorBackfill.id == 1)
"""How far scores follow the factors; no row before the first periodic work."""


def factors_of(service: Service) -> str:
    """Return what scores are made of beside a job's own lines and intensity over time."""
    life = service.config.lifetime_years
    parts = (ENGINE_VERSION, service.catalog.version, service.config.zone, life)
    return " ".join(map(str, parts))


def to_rescore() -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions on jobs that can be scored again: ended, scored, with intervals."""
    return Job.state != "running", Job.revision > 0, Job.intervals_deleted_us.is_(None)


def jobs_to_rescore(
    service: Service, session: Session, months: Collection[str], project: str | None
) -> int:
    """Return how many jobs of these months wait to be scored again.

    With lines that arrived since, with the engine, catalog and settings of now, or with intensity
    that has arrived since. The months before count with one whose report shows them.
    """
    backfill = session.scalars(NEWEST_BACKFILL).one_or_none()
    waiting = [sa.select(Job.id).where(is_pending(), Job.state != "running", Job.revision > 0)]
    if backfill is not None:  # else nobody will score them
        due = Job.rescore_us.is_not(None), Job.rescore_us <= service.now_us()
        waiting.append(sa.select(Job.id).where(*due, *to_rescore()))
        today = factors_of(service)
        if backfill.done != today:
            last = backfill.job if backfill.until == today else 0
            waiting.append(sa.select(Job.id).where(Job.id > last, *to_rescore()))
    statement = sa.select(sa.func.count(sa.distinct(JobMonth.job))).where(
        JobMonth.month.in_(sorted(months)), sa.or_(*(JobMonth.job.in_(jobs) for jobs in waiting))
    )
    if project is not None:
        statement = statement.where(JobMonth.project == project)
    return session.scalar(statement) or 0

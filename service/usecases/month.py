"""Monthly reports: sums of the jobs' parts, stored while they hold; those of ended months kept."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt import __version__
from gramwatt.sci.advice.jobs import JOBS_EXAMINED, for_month
from gramwatt.sci.analysis.month import (
    Pending,
    excluded_row,
    months_of,
    pending_doc,
    previous_month,
)
from gramwatt.sci.base.document import ExcludedDoc, JobDoc, MonthDoc
from gramwatt.service.container import Service
from gramwatt.service.rollups.filling import fill_parts, is_missing
from gramwatt.service.rollups.keeping import ALL, read_rows, versions
from gramwatt.service.rollups.part import EXCLUDED, REFUSED
from gramwatt.service.store.database import upsert
from gramwatt.service.store.documents import read_head, read_job, to_text
from gramwatt.service.store.models import (
    Deletion,
    Device,
    Interval,
    Job,
    JobMonth,
    MonthlyReport,
    MonthSum,
    Score,
    is_pending,
)
from gramwatt.service.store.timestamps import from_us
from gramwatt.service.usecases.access.projects import one_project
from gramwatt.service.usecases.errors import NoDataError, StillSummingError
from gramwatt.service.usecases.suggest import calibration_rows, device_rows

MONTH = r"(19|20|21)\d\d-(0[1-9]|1[0-2])"
"""A month as it is written, YYYY-MM."""
DAY_US = 86_400_000_000
KEYS_AT_ONCE = 500


def month_report(
    service: Service, month: str, project: str | None = None, *, wait_s: float | None = None
) -> MonthDoc:
    """The report of a month; raises NoDataError. That of a complete month is kept as a new row.

    Jobs of an earlier release are added to the months first. Raises StillSummingError where that
    takes longer than `wait_s`; without it, this waits. A caller who is bound to projects has the
    report of one of them.
    """
    document: MonthDoc = json.loads(month_text(service, month, project, wait_s=wait_s))
    return document


def month_text(
    service: Service, month: str, project: str | None = None, *, wait_s: float | None = None
) -> str:
    """The same as compact JSON: stored sums are passed on as they are, without reading them."""
    project = one_project(service, project, month)
    service = service.for_every_project()
    _fill(service, wait_s)
    now_us = service.now_us()
    with service.store.read() as session:
        pending = _pending_keys(session)
        running, unscored, excluded = _pending(service, session, month, project, pending)
        deleted = _deleted(service, session, month, project)
        unscored += _refused(session, month, project)
        # A month that its jobs have left goes on answering once it was reported.
        reported = _newest(session, month, project)
        if reported is None and not (running or unscored or excluded):
            _require_parts(session, month, project)
        sums, new = _sums(service, session, month, project, list(pending))
    if new:
        _store_sums(service, new)
    fields = msgspec.json.decode(sums, type=dict[str, msgspec.Raw])
    left_out = [*msgspec.json.decode(fields["excluded"]), *excluded]
    complete = now_us >= service.month_span_us(month)[1] and not running and not unscored
    today = {
        "month": month,
        "project": project,
        "complete": complete,
        "jobs_running": pending_doc(running),
        "jobs_unscored": pending_doc(unscored),
        "excluded": left_out,
        "deleted": deleted,
    }
    fields |= {name: msgspec.Raw(to_text(value).encode()) for name, value in today.items()}
    text = msgspec.json.encode({name: fields[name] for name in MonthDoc.__annotations__}).decode()
    if complete and text != reported:
        _keep(service, month, project, text)
    return text


def _require_parts(session: Session, month: str, project: str | None) -> None:
    """Raise NoDataError for a month that no scored or excluded job has a part of."""
    if not versions(session, (month,), project):
        raise NoDataError(f"no job {f'of project {project!r} ' if project else ''}in {month}")


def _fill(service: Service, wait_s: float | None) -> None:
    with service.store.read() as session:
        if not is_missing(session):
            return
    ends = math.inf if wait_s is None else time.monotonic() + wait_s
    fill_parts(service, lambda: time.monotonic() < ends)
    with service.store.read() as session:
        if is_missing(session):
            raise StillSummingError(
                "the jobs of an earlier release are still being added to the months; "
                "ask again in a minute"
            )


def _sums(
    service: Service, session: Session, month: str, project: str | None, pending: Sequence[int]
) -> tuple[str, dict[str, str] | None]:
    """The sums of the month: those that are stored while they hold, else new ones to store."""
    months = (month, previous_month(month))
    left_out = _left_out(session, months, pending)
    known = versions(session, months, project)
    made_of = json.dumps([known, left_out, __version__, service.catalog.version], sort_keys=True)
    stored = session.get(MonthSum, (month, project or ALL))
    if stored is not None and stored.made_of == made_of:
        return stored.doc, None
    sums = to_text(_summed(service, session, months, project, left_out))
    if month not in known:
        return sums, None
    row = {"month": month, "project": project or ALL, "made_of": made_of, "doc": sums}
    return sums, row


def _store_sums(service: Service, row: dict[str, str]) -> None:
    wanted = (MonthSum.month == row["month"], MonthSum.project == row["project"])
    with service.store.write() as session:
        upsert(session, MonthSum, [row])
        session.execute(sa.update(MonthSum).where(*wanted).values(row))


def _pending_keys(session: Session) -> dict[int, int]:
    """The start [us since 1970] of each job that runs or has lines without a score, by key.

    The index of these jobs alone answers. The rest is asked by key: PostgreSQL takes most jobs
    for pending and would read all, SQLite would go through those of a project or a month.
    """
    wanted = sa.select(Job.id, Job.started_us).where(is_pending())
    return {key: started_us for key, started_us in session.execute(wanted)}


def _portions(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    """The keys, as many at once as a statement takes on any database."""
    for first in range(0, len(keys), KEYS_AT_ONCE):
        yield keys[first : first + KEYS_AT_ONCE]


def _left_out(
    session: Session, months: Sequence[str], pending: Sequence[int]
) -> dict[str, list[int]]:
    """Keys of the jobs with a part in each month whose newest lines no score has yet."""
    found: dict[str, list[int]] = {}
    for keys in _portions(sorted(pending)):
        wanted = (
            sa.select(JobMonth.month, JobMonth.job)
            .where(JobMonth.month.in_(months), JobMonth.job.in_(keys))
            .order_by(JobMonth.job)
        )
        for month, job in session.execute(wanted):
            found.setdefault(month, []).append(job)
    return found


def _summed(
    service: Service,
    session: Session,
    months: tuple[str, str],
    project: str | None,
    left_out: Mapping[str, list[int]],
) -> dict[str, Any]:
    """The fields of a month's document that are made of its scored jobs."""
    from gramwatt.service.rollups.month import MonthSums

    month, before = (
        MonthSums(one, read_rows(session, one, project, left_out.get(one, ()))) for one in months
    )
    documents = _documents(session, {*month.top(), *month.largest(JOBS_EXAMINED), *month.last()})
    examined = [documents[key] for key in month.largest(JOBS_EXAMINED) if key in documents]
    top = [months_of(documents[key]).get(months[0]) for key in month.top() if key in documents]
    return {
        **month.fields(before),
        "top_jobs": [part.head() for part in top if part is not None],
        "suggestions": for_month(
            examined, service.catalog, calibration_rows(service), device_rows(service)
        ),
        "method": next((documents[k]["method"] for k in month.last() if k in documents), None),
        "excluded": _excluded(session, months[0], project),
    }


def _documents(session: Session, keys: Collection[int]) -> dict[int, JobDoc]:
    """The newest documents of these jobs, without what changes over time."""
    wanted = (
        sa.select(Score.job, Score.doc)
        .join(Job, sa.and_(Job.id == Score.job, Job.revision == Score.revision))
        .where(Job.id.in_(keys))
    )
    return {key: read_job(text) for key, text in session.execute(wanted)}


def _marked(session: Session, month: str, project: str | None, use: str) -> Sequence[Job]:
    """The jobs whose part of the month is marked so, in order of their start."""
    wanted = (
        sa.select(Job)
        .join(JobMonth, JobMonth.job == Job.id)
        .where(JobMonth.month == month, JobMonth.use == use, ~is_pending())
        .order_by(Job.started_us, Job.job_id)
    )
    if project is not None:
        wanted = wanted.where(JobMonth.project == project)
    return session.scalars(wanted).all()


def _excluded(session: Session, month: str, project: str | None) -> list[ExcludedDoc]:
    jobs = _marked(session, month, project, EXCLUDED)
    return [excluded_row(read_head(job.head)) for job in jobs]


def _refused(session: Session, month: str, project: str | None) -> list[Pending]:
    """Jobs whose figures no sum can hold: named, without energy, until they are excluded."""
    jobs = _marked(session, month, project, REFUSED)
    return [Pending(job.job_id, read_head(job.head)["name"], job.project, {}) for job in jobs]


def _keep(service: Service, month: str, project: str | None, text: str) -> None:
    """Keep the report of a complete month, which is another than the one kept last."""
    row = {"month": month, "project": project or ALL, "made_us": service.now_us(), "doc": text}
    with service.store.write() as session:
        upsert(session, MonthlyReport, [row])


def months_with_data(service: Service) -> list[str]:
    """Every month (YYYY-MM) with a part of a job, newest first; of an unscored one its first."""
    now = service.month_now()
    with service.store.read() as session:
        found = set(_months(session))
        began = session.execute(sa.select(Job.started_us, Job.state).where(is_pending())).all()
    for started_us, state in began:
        first = service.month_of(from_us(started_us))
        month = now if state == "running" else first
        while month >= first:
            found.add(month)
            month = previous_month(month)
    return sorted(found, reverse=True)


def _months(session: Session) -> Iterator[str]:
    """Every month with a part of a scored job; each costs one search of the index."""
    month = session.scalar(sa.select(sa.func.min(JobMonth.month)))
    while month is not None:
        yield month
        month = session.scalar(sa.select(sa.func.min(JobMonth.month)).where(JobMonth.month > month))


def make_missing_reports(service: Service) -> None:
    """Make the reports of complete months that have data and no report yet."""
    fill_parts(service)
    now_us = service.now_us()
    ended = [m for m in months_with_data(service) if service.month_span_us(m)[1] <= now_us]
    with service.store.read() as session:
        made = set(
            session.scalars(sa.select(MonthlyReport.month).where(MonthlyReport.project == ALL))
        )
        missing = [m for m in ended if m not in made]
        pending = _pending_keys(session)
        complete = [m for m in missing if not any(_pending(service, session, m, None, pending)[:2])]
    for month in complete:
        month_text(service, month)


def sum_present_month(service: Service) -> None:
    """Bring the stored sums of the present month up to date, of each project and of all."""
    month = service.month_now()
    wanted = sa.select(JobMonth.project).where(JobMonth.month == month).distinct()
    with service.store.read() as session:
        projects = list(session.scalars(wanted))
    for project in (*projects, None) if projects else ():
        month_text(service, month, project)


def _pending(
    service: Service,
    session: Session,
    month: str,
    project: str | None,
    pending: Mapping[int, int],
) -> tuple[list[Pending], list[Pending], list[ExcludedDoc]]:
    """Running and unscored jobs of the month, with the energy that has arrived; and the excluded.

    A running job is in every month from its start until now, an unscored one where it has energy
    or began. Intervals across an edge are divided by time.
    """
    now_us, (start_us, end_us) = service.now_us(), service.month_span_us(month)
    jobs: list[Job] = []
    joules: dict[int, dict[str, float]] = {}
    for keys in _portions([key for key, began_us in pending.items() if began_us < end_us]):
        wanted = sa.select(Job).where(Job.id.in_(keys))
        if project is not None:
            wanted = wanted.where(Job.project == project)
        jobs += session.scalars(wanted)
        joules |= _joules(session, wanted.with_only_columns(Job.id), start_us, end_us)
    running: list[Pending] = []
    unscored: list[Pending] = []
    excluded: list[ExcludedDoc] = []
    for job in jobs:
        head, runs = read_head(job.head), job.state == "running"
        found = Pending(job.job_id, head["name"], job.project, joules.get(job.id, {}))
        if not (start_us <= now_us if runs else found.joules or job.started_us >= start_us):
            continue
        if head["excluded"] is not None:
            excluded.append(excluded_row(head))
        else:
            (running if runs else unscored).append(found)
    return running, unscored, excluded


def _joules(
    session: Session, jobs: sa.Select[tuple[int]], start_us: int, end_us: int
) -> dict[int, dict[str, float]]:
    """Energy of jobs over [start, end) [J], by the job's key and kind."""
    left = sa.case((Interval.start_us > start_us, Interval.start_us), else_=start_us)
    right = sa.case((Interval.end_us < end_us, Interval.end_us), else_=end_us)
    share = Interval.energy_j * (right - left) / (Interval.end_us - Interval.start_us)
    wanted = (
        sa.select(Device.job, Interval.kind, sa.func.sum(share))
        .join(Interval, Interval.device == Device.id)
        # An interval is a day long at most, so the key finds those of the month.
        .where(Interval.start_us.between(start_us - DAY_US, end_us - 1))
        .where(Device.job.in_(jobs), Interval.end_us > start_us)
        .group_by(Device.job, Interval.kind)
    )
    found: dict[int, dict[str, float]] = {}
    for job, kind, joules in session.execute(wanted):
        found.setdefault(job, {})[kind] = joules
    return found


def _deleted(service: Service, session: Session, month: str, project: str | None) -> int:
    """How many jobs that started in the month were deleted."""
    start_us, end_us = service.month_span_us(month)
    started = Deletion.started_us.between(start_us, end_us - 1)
    wanted = sa.select(sa.func.count()).select_from(Deletion).where(started)
    if project is not None:
        wanted = wanted.where(Deletion.project == project)
    return session.scalar(wanted) or 0


def _newest(session: Session, month: str, project: str | None) -> str | None:
    """The report of the month that was kept last."""
    wanted = (
        sa.select(MonthlyReport.doc)
        .where(MonthlyReport.month == month, MonthlyReport.project == (project or ALL))
        .order_by(MonthlyReport.made_us.desc())
        .limit(1)
    )
    return session.scalar(wanted)

"""Monthly reports: made from score revisions, kept, and made again when a score changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.advice.jobs import for_month
from gramwatt.sci.analysis.month import Pending, excluded_row, month_document, previous_month
from gramwatt.sci.base.document import ExcludedDoc, JobDoc, MonthDoc
from gramwatt.service.container import Service
from gramwatt.service.store.database import upsert
from gramwatt.service.store.documents import read_head, read_job, read_month, to_text
from gramwatt.service.store.models import (
    Day,
    Deletion,
    Device,
    Interval,
    Job,
    MonthlyReport,
    Score,
)
from gramwatt.service.store.timestamps import from_us, to_us
from gramwatt.service.usecases.errors import NoDataError
from gramwatt.service.usecases.suggest import calibration_rows, device_rows

MONTH = r"(19|20|21)\d\d-(0[1-9]|1[0-2])"
"""A month as it is written, YYYY-MM, UTC."""
ALL = ""
"""How the store writes "every project"."""
DAY_US = 86_400_000_000


def month_report(service: Service, month: str, project: str | None = None) -> MonthDoc:
    """The report of a month; raises NoDataError. That of a complete month is kept as a new row."""
    now_us = service.now_us()
    before = previous_month(month)
    with service.store.read() as session:
        running, unscored, excluded = _pending(session, month, project, now_us)
        deleted, deleted_us = _deleted(session, month, project)
        kept = None if running or unscored else _newest(session, month, project)
        changed_us = max(_changed_us(session, month, before), deleted_us)
        if kept and kept.made_us >= max(changed_us, _end_us(month)):
            document = read_month(kept.doc)
            if document is not None:
                return document
        jobs = _jobs_of(session, month, project)
        if not (jobs or running or unscored or excluded):
            raise NoDataError(f"no job {f'of project {project!r} ' if project else ''}in {month}")
        previous = _jobs_of(session, before, project)
    document = month_document(
        month,
        jobs,
        previous,
        project=project,
        ended=now_us >= _end_us(month),
        running=running,
        unscored=unscored,
        excluded=excluded,
        deleted=deleted,
        advise=lambda jobs: for_month(
            jobs, service.catalog, calibration_rows(service), device_rows(service)
        ),
    )
    if document["complete"]:
        row = {
            "month": month,
            "project": project or ALL,
            "made_us": now_us,
            "doc": to_text(document),
        }
        with service.store.write() as session:
            upsert(session, MonthlyReport, [row])
    return document


def months_with_data(service: Service) -> list[str]:
    """Every month (YYYY-MM) with a part of a job, newest first; of an unscored one its first."""
    column, now = sa.func.substr(Day.day, 1, 7), f"{service.now():%Y-%m}"
    with service.store.read() as session:
        found = set(session.scalars(sa.select(column).distinct()))
        began = session.execute(sa.select(Job.started_us, Job.state).where(_is_pending())).all()
    for started_us, state in began:
        first = f"{from_us(started_us):%Y-%m}"
        month = now if state == "running" else first
        while month >= first:
            found.add(month)
            month = previous_month(month)
    return sorted(found, reverse=True)


def make_missing_reports(service: Service) -> None:
    """Make the reports of complete months that have data and no report yet."""
    now_us = service.now_us()
    ended = [m for m in months_with_data(service) if _end_us(m) <= now_us]
    with service.store.read() as session:
        made = set(
            session.scalars(sa.select(MonthlyReport.month).where(MonthlyReport.project == ALL))
        )
        missing = [m for m in ended if m not in made]
        complete = [m for m in missing if not any(_pending(session, m, None, now_us)[:2])]
    for month in complete:
        month_report(service, month)


def _jobs_of(session: Session, month: str, project: str | None) -> list[JobDoc]:
    """Newest revisions of the jobs active in the month, but of those whose lines are newer."""
    wanted = _revisions(Score.doc, month)
    if project is not None:
        wanted = wanted.where(Job.project == project)
    return [read_job(doc) for doc in session.scalars(wanted.where(~_is_pending()))]


def _changed_us(session: Session, *months: str) -> int:
    """When the newest of the revisions in the months was made [us]."""
    made = (session.scalar(_revisions(sa.func.max(Score.made_us), month)) for month in months)
    return max(made_us or 0 for made_us in made)


def _revisions(column: Any, month: str) -> sa.Select[Any]:
    """A column of the newest revisions of the jobs active in the month."""
    span = (Job.started_us >= _start_us(month), Job.started_us < _end_us(month))
    active = sa.select(Day.job).where(Day.day.between(f"{month}-01", f"{month}-31"))
    return (
        sa.select(column)
        .join(Job, sa.and_(Job.id == Score.job, Job.revision == Score.revision))
        .where(sa.or_(Job.id.in_(active), sa.and_(*span)))
    )


def _is_pending() -> sa.ColumnElement[bool]:
    """Whether a job runs, or has lines that its newest score lacks."""
    return sa.or_(Job.state == "running", Job.scored_version != Job.version)


def _pending(
    session: Session, month: str, project: str | None, now_us: int
) -> tuple[list[Pending], list[Pending], list[ExcludedDoc]]:
    """Running and unscored jobs of the month, with the energy that has arrived; and the excluded.

    A running job is in every month from its start until now, an unscored one where it has energy
    or began. Intervals across an edge are divided by time.
    """
    start_us, end_us = _start_us(month), _end_us(month)
    wanted = sa.select(Job).where(_is_pending(), Job.started_us < end_us)
    if project is not None:
        wanted = wanted.where(Job.project == project)
    jobs = session.scalars(wanted).all()
    joules = _joules(session, wanted.with_only_columns(Job.id), start_us, end_us)
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


def _deleted(session: Session, month: str, project: str | None) -> tuple[int, int]:
    """How many jobs that started in the month were deleted, and when any job last was [us]."""
    started = Deletion.started_us.between(_start_us(month), _end_us(month) - 1)
    wanted = sa.select(sa.func.count()).select_from(Deletion).where(started)
    if project is not None:
        wanted = wanted.where(Deletion.project == project)
    latest = session.scalar(sa.select(sa.func.max(Deletion.deleted_us)))
    return session.scalar(wanted) or 0, latest or 0


def _newest(session: Session, month: str, project: str | None) -> MonthlyReport | None:
    wanted = (
        sa.select(MonthlyReport)
        .where(MonthlyReport.month == month, MonthlyReport.project == (project or ALL))
        .order_by(MonthlyReport.made_us.desc())
        .limit(1)
    )
    return session.scalars(wanted).one_or_none()


def _start_us(month: str) -> int:
    return to_us(datetime(int(month[:4]), int(month[5:7]), 1, tzinfo=UTC))


def _end_us(month: str) -> int:
    """End of the month [us since 1970], exclusive."""
    year, number = int(month[:4]), int(month[5:7])
    following = (year + 1, 1) if number == 12 else (year, number + 1)
    return to_us(datetime(*following, 1, tzinfo=UTC))

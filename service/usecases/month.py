"""Monthly reports: made from score revisions, kept, and made again when a score changed."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.advice.jobs import for_month
from gramwatt.sci.analysis.month import month_document, previous_month
from gramwatt.sci.base.document import JobDoc, MonthDoc
from gramwatt.service.container import Service
from gramwatt.service.store.database import upsert
from gramwatt.service.store.documents import read_job, read_month, to_text
from gramwatt.service.store.models import Day, Job, MonthlyReport, Score
from gramwatt.service.store.timestamps import to_us
from gramwatt.service.usecases.errors import NoDataError
from gramwatt.service.usecases.suggest import calibration_rows

MONTH = r"(19|20|21)\d\d-(0[1-9]|1[0-2])"
"""A month as it is written, YYYY-MM, UTC."""
ALL = ""
"""How the store writes "every project"."""


def month_report(service: Service, month: str, project: str | None = None) -> MonthDoc:
    """The report of a month; raises NoDataError. That of an ended month is kept as a new row."""
    now_us = service.now_us()
    complete = now_us >= _end_us(month)
    with service.store.read() as session:
        jobs, changed_us = _jobs_of(session, month)
        if not any(project in (None, job["project"]) for job in jobs):
            raise NoDataError(
                f"no scored job {f'of project {project!r} ' if project else ''}in {month}"
            )
        previous, previously_us = _jobs_of(session, previous_month(month))
        kept = _newest(session, month, project)
        if kept and kept.made_us >= max(changed_us, previously_us, _end_us(month)):
            document = read_month(kept.doc)
            if document is not None:
                return document
    document = month_document(
        month,
        jobs,
        previous,
        project=project,
        complete=complete,
        advise=lambda jobs: for_month(jobs, service.catalog, calibration_rows(service)),
    )
    if complete:
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
    """Every month (YYYY-MM) in which a scored job used energy, newest first."""
    month = sa.func.substr(Day.day, 1, 7)
    with service.store.read() as session:
        return list(session.scalars(sa.select(month).distinct().order_by(month.desc())))


def make_missing_reports(service: Service) -> None:
    """Make the reports of ended months that have data and no report yet."""
    ended = [m for m in months_with_data(service) if _end_us(m) <= service.now_us()]
    with service.store.read() as session:
        made = set(
            session.scalars(sa.select(MonthlyReport.month).where(MonthlyReport.project == ALL))
        )
    for month in ended:
        if month not in made:
            month_report(service, month)


def _jobs_of(session: Session, month: str) -> tuple[list[JobDoc], int]:
    """Newest revisions of the jobs active in the month, and when the last was made [us]."""
    span = (Job.started_us >= _start_us(month), Job.started_us < _end_us(month))
    active = sa.select(Day.job).where(Day.day.between(f"{month}-01", f"{month}-31"))
    rows = session.execute(
        sa.select(Score.doc, Score.made_us)
        .join(Job, sa.and_(Job.id == Score.job, Job.revision == Score.revision))
        .where(sa.or_(Job.id.in_(active), sa.and_(*span)))
    ).all()
    documents = [read_job(doc) for doc, _ in rows]
    return documents, max((made_us for _, made_us in rows), default=0)


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

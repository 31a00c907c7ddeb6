"""Reports of complete months as they were kept: numbered revisions that never change.

A revision has its document and the table of the jobs in its sums, so what changed between two is a
join of their tables (`sci/month/revised.py`). The next is made where a job came, went or was
scored again; reading makes none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from gramwatt.sci.month.documents import MonthDoc, RevisedDoc
from gramwatt.sci.month.revised import CAUSES, Cause, JobRow, MonthDifference, by_cause, job_changes
from gramwatt.service.access.projects import one_project
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import Service
from gramwatt.service.months.rows import changes_of
from gramwatt.service.store.columns import read_month, text_from_us, to_text, upsert
from gramwatt.service.store.models import Deletion, Job, Score
from gramwatt.service.store.months import ALL, OF_JOB, JobMonth, MonthlyReport, MonthlyReportJob

MADE_FOR: dict[str, Cause] = {
    "ended": "late-records",
    "late-records": "late-records",
    "corrected": "corrected",
    "intensity": "intensity",
    "factors": "method",
}
"""What changed a job, by why its score was made; of one that a person asked for it is not known."""
_Key = tuple[str, str]
"""Id and project of a job."""
_Scores = dict[_Key, list[tuple[int, str, str, str]]]
"""Revision, reason, engine and catalog of each score of a job, the oldest first."""


class JobTable(Struct):
    """The jobs of a month's report, in order of their ids; `revision` is null for the month as it
    is.
    """

    month: str
    project: str | None
    revision: int | None
    jobs: list[JobRow]


def newest(session: Session, month: str, project: str | None) -> MonthlyReport | None:
    """Return the revision of the month's report that was kept last; None for none."""
    statement = sa.select(MonthlyReport).where(*_of(month, project))
    return session.scalar(statement.order_by(MonthlyReport.revision.desc()).limit(1))


def kept(session: Session, month: str, project: str | None, revision: int) -> MonthlyReport:
    """Return a revision of the month's report; raises NoDataError."""
    statement = sa.select(MonthlyReport).where(*_of(month, project))
    row = session.scalar(statement.where(MonthlyReport.revision == revision))
    if row is None:
        of = f" of project {project!r}" if project else ""
        raise NoDataError(f"no report of {month}{of} was kept as revision {revision}")
    return row


def _of(month: str, project: str | None) -> tuple[sa.ColumnElement[bool], ...]:
    return MonthlyReport.month == month, MonthlyReport.project == (project or ALL)


def latest_revision(service: Service, month: str, project: str | None) -> int:
    """Return the number of the newest kept revision; 0 for none."""
    with service.for_every_project().store.read() as session:
        report = newest(session, month, project)
    return report.revision if report else 0


def kept_reports(service: Service, project: str | None) -> dict[str, list[str]]:
    """Return when the reports of each month were kept (RFC 3339), newest first."""
    statement = sa.select(MonthlyReport.month, MonthlyReport.made_us)
    statement = statement.where(MonthlyReport.project == (project or ALL))
    months: dict[str, list[str]] = defaultdict(list)
    with service.store.read() as session:
        for month, made_us in session.execute(statement.order_by(MonthlyReport.revision.desc())):
            months[month].append(text_from_us(made_us))
    return months


# Tables of jobs


def job_rows(session: Session, month: str, project: str | None) -> list[JobRow]:
    """Return the jobs in the sums of a month as they are now, in order of their ids.

    Why a score changed is said as far as the newest revision has it.
    """
    names = ("job_id", "project", "revision", "energy_kwh", "operational_g", "embodied_g")
    columns = (getattr(JobMonth, name) for name in names)
    statement = sa.select(*columns).where(*_summed(month, project))
    ordered = statement.order_by(JobMonth.job_id, JobMonth.project)
    rows = [JobRow(*row) for row in session.execute(ordered)]
    report = newest(session, month, project)
    if report is None:
        return rows
    return _with_causes(session, month, project, kept_jobs(session, report), rows)


def kept_jobs(session: Session, report: MonthlyReport) -> list[JobRow]:
    """Return the jobs in the sums of a kept report, in order of their ids."""
    columns = [column for column in MonthlyReportJob.__table__.c if column.name != "report"]
    statement = sa.select(*columns).where(MonthlyReportJob.report == report.id)
    ordered = statement.order_by(MonthlyReportJob.job_id, MonthlyReportJob.project)
    return [JobRow(**row) for row in session.execute(ordered).mappings()]


def job_table(
    service: Service, month: str, project: str | None = None, revision: int | None = None
) -> JobTable:
    """Return the jobs in the sums of a kept report, or of the month as it is.

    Raises NoDataError for a report that was not kept.
    """
    project = one_project(service, project, month)
    with service.for_every_project().store.read() as session:
        jobs = _jobs(session, month, project, revision)
        _name(session, month, jobs)
    return JobTable(month=month, project=project, revision=revision, jobs=jobs)


def _name(session: Session, month: str, rows: Sequence[JobRow]) -> None:
    """Add to the rows what their jobs are called, of what kind they are, and when they began."""
    of_month = sa.select(JobMonth.job).where(JobMonth.month == month)
    columns = Job.job_id, Job.name, Job.kind, Job.started_us
    statement = sa.select(*columns).where(Job.id.in_(of_month))
    about = {
        job_id: (name, kind, text_from_us(started_us))
        for job_id, name, kind, started_us in session.execute(statement)
    }
    for row in rows:
        if row.job_id in about:
            row.name, row.kind, row.started_at = about[row.job_id]


def compare(
    service: Service, month: str, project: str | None, revision: int | None, against: int
) -> MonthDifference:
    """Return what a revision, or the month as it is, differs by from another revision.

    Raises NoDataError for a report that was not kept.
    """
    project = one_project(service, project, month)
    with service.for_every_project().store.read() as session:
        before, after = (_jobs(session, month, project, of) for of in (against, revision))
        jobs = job_changes(before, after, _deleted(session, before))
    return MonthDifference(month, project, revision, against, by_cause(jobs), jobs)


def _jobs(session: Session, month: str, project: str | None, revision: int | None) -> list[JobRow]:
    if revision is None:
        return job_rows(session, month, project)
    return kept_jobs(session, kept(session, month, project, revision))


def _summed(month: str, project: str | None) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of the rows that are in the sums of a month."""
    conditions = [JobMonth.month == month, JobMonth.excluded.is_(None)]
    return conditions if project is None else [*conditions, JobMonth.project == project]


def _deleted(session: Session, rows: Iterable[JobRow]) -> set[_Key]:
    """Return which of these jobs were deleted."""
    ids = {(row.job_id, row.project) for row in rows}
    return ids & {
        (job, of) for job, of in session.execute(sa.select(Deletion.job_id, Deletion.project))
    }


def _with_causes(
    session: Session, month: str, project: str | None, before: Iterable[JobRow], rows: list[JobRow]
) -> list[JobRow]:
    """Return rows of jobs with why the score of each changed since a kept table had it."""
    old = {(row.job_id, row.project): row for row in before}
    again: list[JobRow] = []
    for row in rows:
        was = old.get((row.job_id, row.project))
        if was is None or was.revision != row.revision:
            again.append(row)
        else:
            row.cause, row.detail = was.cause, was.detail
    if not again:
        return rows
    scores: _Scores = defaultdict(list)
    columns = (Job.job_id, Job.project, Score.revision, Score.reason)
    statement = sa.select(*columns, Score.engine_version, Score.catalog_version)
    statement = statement.join(Job, Job.id == Score.job).join(JobMonth, JobMonth.job == Job.id)
    ordered = statement.where(*_summed(month, project)).order_by(Score.revision)
    for job_id, of, revision, reason, engine, catalog in session.execute(ordered):
        scores[job_id, of].append((revision, reason, engine, catalog))
    zones = _zones(session, month)
    for row in again:
        key = row.job_id, row.project
        was = old.get(key)
        if was is None:  # one that is not new to the store was moved here, or counts again
            moved = bool(scores[key]) and scores[key][-1][1] == "corrected"
            row.cause = "corrected" if moved else "late-records"
            continue
        made_for = {MADE_FOR.get(s[1], "not-known") for s in scores[key] if s[0] > was.revision}
        row.cause = min(made_for, key=CAUSES.index, default="not-known")
        if row.cause == "intensity":
            row.detail = f"{', '.join(sorted(zones[key]))} {month[:4]}"
        elif row.cause == "method":
            row.detail = _method_text([s for s in scores[key] if s[0] >= was.revision])
    return rows


def _zones(session: Session, month: str) -> dict[_Key, set[str]]:
    """Return the zones of the grid of each job of a month."""
    factors = OF_JOB["month_factors"].c
    statement = sa.select(factors.job_id, factors.project, factors.zone).distinct()
    zones: dict[_Key, set[str]] = defaultdict(set)
    for job_id, project, zone in session.execute(statement.where(factors.month == month)):
        zones[job_id, project].add(zone)
    return zones


def _method_text(scores: Sequence[tuple[int, str, str, str]]) -> str | None:
    """Return what the last of these scores was made with other than the first."""
    (_, _, engine, catalog), (_, _, new_engine, new_catalog) = scores[0], scores[-1]
    if new_engine != engine:
        return f"method {new_engine}"
    return f"catalog {new_catalog}" if new_catalog != catalog else None


# Keeping


def keep(
    service: Service, document: MonthDoc, report: MonthlyReport | None, changes: int
) -> str | None:
    """Keep the document of a complete month as the revision after `report`, the newest; its text.

    Where no job differs, and none has become final as the last, `report` still holds and is what is
    returned. None where the month has
    changed since its rows had seen so many `changes`, or where another process keeps one: then
    nothing is kept.
    """
    month, project = document.month, document.project
    now_us = service.now_us()
    try:
        with service.store.write() as session:
            if changes_of(session, month, project) != changes:
                return None
            rows = job_rows(session, month, project)
            number, revised = 1, None
            if report is not None:
                before, old = kept_jobs(session, report), read_month(report.doc)
                jobs = job_changes(before, rows, _deleted(session, before))
                is_final_now = bool(old.provisional.jobs) and not document.provisional.jobs
                if not (jobs or is_final_now):
                    held = sa.update(MonthlyReport).where(MonthlyReport.id == report.id)
                    session.execute(held.values(changes=changes))
                    return report.doc
                number, totals = report.revision + 1, old.totals
                revised = RevisedDoc(report.revision, totals.jobs, totals.total_g, by_cause(jobs))
            issued_at = text_from_us(now_us)
            text = to_text(replace(document, revision=number, issued_at=issued_at, revised=revised))
            row = MonthlyReport(
                month=month,
                project=project or ALL,
                revision=number,
                made_us=now_us,
                changes=changes,
                doc=text,
            )
            session.add(row)
            session.flush()
            upsert(session, MonthlyReportJob, [{"report": row.id, **asdict(job)} for job in rows])
    except IntegrityError:
        return None
    return text

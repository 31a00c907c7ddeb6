"""Reports of complete months as they were kept: each that differs from the last is a revision.

A revision has its document, the reasons for it, and a table of the jobs in its sums. So what
changed between two is a join of their tables.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import InstrumentedAttribute, Session

from gramwatt.sci.analysis.documents import MonthDoc, RevisedDoc
from gramwatt.sci.analysis.month import previous_month
from gramwatt.service.access.projects import one_project
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import Service
from gramwatt.service.store.documents import read_month, to_text
from gramwatt.service.store.models import Deletion, Job, MonthlyReport, MonthlyReportJob, Score
from gramwatt.service.store.months import ALL, JobMonth, MonthSum
from gramwatt.service.store.timestamps import text_from_us
from gramwatt.service.store.upserts import upsert

T = TypeVar("T")

ROUNDING = 1e-12
"""Relative difference of figures that were added in another order."""


MEMO = "market_based"
NOT_COMPARED = frozenset(("revision", "issued_at", "revised", MEMO))
"""Fields of a report that say what became of it, not of its month, and the memo of settings."""


Reason = Literal["late-records", "corrected", "deleted", "intensity", "method", "not-known"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Why a revision differs from the one before, in the order in which a report names them."""
MADE_FOR: dict[str, Reason] = {
    "ended": "late-records",
    "late-records": "late-records",
    "corrected": "corrected",
    "intensity": "intensity",
    "factors": "method",
}
"""The reason by why a score was made; a score that a person asked for is not known."""


class Kept(NamedTuple):
    """The newest revision of a report, and the state of the month that it is known to hold for."""

    id: int
    revision: int
    doc: str
    made_of: str


def newest(session: Session, month: str, project: str | None) -> Kept | None:
    """Return the revision of the month's report that was kept last; None for none."""
    columns = (MonthlyReport.id, MonthlyReport.revision, MonthlyReport.doc, MonthlyReport.made_of)
    wanted = sa.select(*columns).where(*_of(month, project))
    row = session.execute(wanted.order_by(MonthlyReport.revision.desc()).limit(1)).first()
    return Kept(*row) if row else None


class JobRow(Struct):
    """A job in the sums of a month: by which of its scores, and its part of the month.

    E in kWh, O and M in gCO2e; null where a term is not known.
    """

    job_id: str
    project: str
    revision: int
    energy_kwh: float | None
    operational_g: float | None
    embodied_g: float | None


class JobTable(Struct):
    """The jobs of a month's report, in order of their ids; `revision` is null for the month as it
    is.
    """

    month: str
    project: str | None
    revision: int | None
    jobs: list[JobRow]


def job_table(
    service: Service, month: str, project: str | None = None, revision: int | None = None
) -> JobTable:
    """Return the jobs in the sums of a kept report, or of the month as it is.

    Raises NoDataError for a report that was not kept.
    """
    project = one_project(service, project, month)
    service = service.for_every_project()
    with service.store.read() as session:
        if revision is None:
            jobs = job_rows(session, month, project)
        else:
            jobs = kept_jobs(session, month, project, revision)
    return JobTable(month=month, project=project, revision=revision, jobs=jobs)


def job_rows(session: Session, month: str, project: str | None) -> list[JobRow]:
    """Return the jobs in the sums of a month as they are now, in order of their ids."""
    columns = (getattr(JobMonth, name) for name in JobRow.__struct_fields__)
    wanted = sa.select(*columns).where(*_summed(month, project))
    ordered = wanted.order_by(JobMonth.job_id, JobMonth.project)
    return [JobRow(*row) for row in session.execute(ordered)]


def kept_jobs(session: Session, month: str, project: str | None, revision: int) -> list[JobRow]:
    """Return the jobs in the sums of a kept report; raises NoDataError."""
    report = _kept(session, MonthlyReport.id, month, project, revision)
    columns = (getattr(MonthlyReportJob, name) for name in JobRow.__struct_fields__)
    wanted = sa.select(*columns).where(MonthlyReportJob.report == report)
    ordered = wanted.order_by(MonthlyReportJob.job_id, MonthlyReportJob.project)
    return [JobRow(*row) for row in session.execute(ordered)]


def reasons(session: Session, kept: Kept, month: str, project: str | None) -> list[Reason]:
    """Return why the month differs from a kept report, by the scores of its jobs.

    Empty where no job changed: then other months, budgets, suggestions or settings did.
    """
    own = MonthlyReportJob.report == kept.id
    same_job = sa.and_(
        MonthlyReportJob.job_id == Job.job_id, MonthlyReportJob.project == Job.project
    )
    again = (
        sa.select(Score.reason)
        .join(Job, Job.id == Score.job)
        .join(MonthlyReportJob, same_job)
        .where(own, Score.revision > MonthlyReportJob.revision)
    )
    found = {MADE_FOR.get(reason, "not-known") for reason in session.scalars(again.distinct())}
    new = (
        sa.select(Score.reason)
        .join(Job, sa.and_(Job.id == Score.job, Job.revision == Score.revision))
        .join(JobMonth, JobMonth.job == Job.id)
        .outerjoin(MonthlyReportJob, sa.and_(same_job, own))
        .where(*_summed(month, project), MonthlyReportJob.job_id.is_(None))
    )
    # A job that is not new to the store was moved here, or counts again.
    for reason in session.scalars(new.distinct()):
        found.add("corrected" if MADE_FOR.get(reason) == "corrected" else "late-records")
    of_deleted = sa.and_(
        Deletion.job_id == MonthlyReportJob.job_id, Deletion.project == MonthlyReportJob.project
    )
    gone = (
        sa.select(Deletion.job_id.is_(None))
        .select_from(MonthlyReportJob)
        .outerjoin(Job, same_job)
        .outerjoin(Deletion, of_deleted)
        .where(own, Job.id.is_(None))
    )
    found |= {"corrected" if moved else "deleted" for moved in session.scalars(gone.distinct())}
    return [reason for reason in REASONS if reason in found]


def _summed(month: str, project: str | None) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of the parts that are in the sums of a month."""
    found = [JobMonth.month == month, JobMonth.excluded.is_(None)]
    return found if project is None else [*found, JobMonth.project == project]


def keep(
    service: Service,
    month: str,
    project: str | None,
    revision: int,
    text: str,
    made_of: str,
    jobs: Sequence[JobRow],
) -> bool:
    """Keep a report and its jobs under a number; return False where another process has used it."""
    row = MonthlyReport(
        month=month,
        project=project or ALL,
        revision=revision,
        made_us=service.now_us(),
        made_of=made_of,
        doc=text,
    )
    try:
        with service.store.write() as session:
            session.add(row)
            session.flush()
            upsert(session, MonthlyReportJob, [{"report": row.id, **asdict(job)} for job in jobs])
    except IntegrityError:
        return False
    return True


def made_of(session: Session, month: str, project: str | None) -> str:
    """Return a text that changes with the rows of a month and of the one before."""
    both = sorted((month, previous_month(month)))
    wanted = sa.select(MonthSum.month, MonthSum.changes).where(
        MonthSum.month.in_(both), MonthSum.project == (project or ALL)
    )
    changes = {of: number for of, number in session.execute(wanted)}
    return " ".join(f"{changes.get(of, 0)}" for of in both)


def against(service: Service, document: MonthDoc, newest: Kept | None) -> tuple[str, bool]:
    """Return a month's report as compact JSON, and whether no kept revision says the same."""
    text = to_text(document)
    if not document.complete or newest is None:
        return text, True
    before = read_month(newest.doc)
    if says_the_same(newest.doc, text):
        # Another factor of the memo is no other report.
        if before.market_based == document.market_based:
            return newest.doc, False
        return to_text(replace(before, market_based=document.market_based)), False
    with service.store.read() as session:
        why = reasons(session, newest, document.month, document.project)
    totals = before.totals
    revised = RevisedDoc(
        revision=newest.revision, jobs=totals.jobs, total_g=totals.total_g, reasons=list(why)
    )
    return to_text(replace(document, revised=revised)), True


def still_holds(service: Service, kept: Kept, made_of: str) -> None:
    """Note that a kept report says what the month's present state does too."""
    if kept.made_of == made_of:
        return
    change = sa.update(MonthlyReport).where(MonthlyReport.id == kept.id).values(made_of=made_of)
    service.store.note(lambda session: session.execute(change))


def says_the_same(kept: str, text: str) -> bool:
    """Return True where a report has the figures of the kept one, but for rounding.

    That fewer jobs are provisional is no other report, unless none is any more: they become final
    one after another. Fields that only one of them has are of another release.
    """
    before, now = json.loads(kept), json.loads(text)
    both = (before.keys() & now.keys()) - NOT_COMPARED
    if "provisional" in both and _is_provisional(before) == _is_provisional(now):
        both.discard("provisional")
    return all(_same(before[name], now[name]) for name in both)


def _is_provisional(document: Any) -> bool:
    return bool(document["provisional"]["jobs"])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=ROUNDING)
    return bool(one == other)


def latest_revision(service: Service, month: str, project: str | None) -> int:
    """Return the number of the newest kept revision; 0 for none."""
    with service.for_every_project().store.read() as session:
        found = newest(session, month, project)
    return found.revision if found else 0


def kept(service: Service, month: str, project: str | None, revision: int) -> str:
    """Return the report that was kept as this revision; raises NoDataError."""
    with service.store.read() as session:
        return _kept(session, MonthlyReport.doc, month, project, revision)


def _kept(
    session: Session,
    column: InstrumentedAttribute[T],
    month: str,
    project: str | None,
    revision: int,
) -> T:
    wanted = sa.select(column).where(*_of(month, project), MonthlyReport.revision == revision)
    found = session.scalar(wanted)
    if found is None:
        of = f" of project {project!r}" if project else ""
        raise NoDataError(f"no report of {month}{of} was kept as revision {revision}")
    return found


def kept_reports(service: Service, project: str | None) -> dict[str, list[str]]:
    """Return when the reports of each month were kept (RFC 3339), newest first."""
    wanted = (
        sa.select(MonthlyReport.month, MonthlyReport.made_us)
        .where(MonthlyReport.project == (project or ALL))
        .order_by(MonthlyReport.revision.desc())
    )
    found: dict[str, list[str]] = {}
    with service.store.read() as session:
        for month, made_us in session.execute(wanted):
            found.setdefault(month, []).append(text_from_us(made_us))
    return found


def _of(month: str, project: str | None) -> tuple[sa.ColumnElement[bool], ...]:
    return MonthlyReport.month == month, MonthlyReport.project == (project or ALL)

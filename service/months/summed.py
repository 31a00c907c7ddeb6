"""The fields of a month's document that are made of its scored jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.advice.jobs import JOBS_EXAMINED, for_month, grouped
from gramwatt.sci.analysis.month import months_of
from gramwatt.sci.analysis.month_rows import (
    NamedJob,
)
from gramwatt.sci.base.document import JobDoc
from gramwatt.service.advice.suggest import rows_of_own_jobs
from gramwatt.service.container import Service
from gramwatt.service.months.factor_sources import with_publishers
from gramwatt.service.months.sums.keeping import read_rows
from gramwatt.service.months.sums.part import SUMMED, PartRow, days_of, part_until
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import Job, JobMonth, Score

if TYPE_CHECKING:  # numpy is loaded where sums are made
    from gramwatt.service.months.sums.month import MonthSums
    from gramwatt.service.months.sums.previous import PreviousMonth

_NEWEST = sa.select(Score.job, Score.doc).join(
    Job, sa.and_(Job.id == Score.job, Job.revision == Score.revision)
)
_WHOLE = _NEWEST.add_columns(Score.series)


def summed(
    service: Service,
    session: Session,
    month: str,
    project: str | None,
    before: PreviousMonth,
    left_out: Collection[int],
    so_far: PreviousMonth | None = None,
    days: int | None = None,
    advised: bool = True,
) -> tuple[dict[str, Any], PreviousMonth]:
    """Return the fields of a month's document that are made of its scored jobs, but of those left
    out.

    Of a month in progress, its first `days` are compared: `so_far` is what they are. Also what the
    month after is compared with, as this one is with `before`. What is made of documents, not of
    sums, is there if `advised`.
    """
    sums = _read(session, month, project, left_out)
    fields = sums.fields(before, so_far, days, service.config.reports.market_factors)
    made = _advised(service, session, month, sums, fields) if advised else {"advice": []}
    return {**fields, **made}, sums.as_previous()


def _advised(
    service: Service, session: Session, month: str, sums: MonthSums, fields: dict[str, Any]
) -> dict[str, Any]:
    """Return the fields that documents are read for: suggestions, the largest jobs, publishers."""
    largest = sums.largest(JOBS_EXAMINED)
    documents = _documents(session, {*sums.top(), *largest})
    examined = [documents[key] for key in largest if key in documents]
    top = [months_of(documents[key]).get(month) for key in sums.top() if key in documents]
    savings = for_month(examined, service.catalog, rows_of_own_jobs(service))
    shares = {job.job_id: _share_in(job, month) for job in examined}
    counts = {(row.hardware, row.work): row.jobs for row in fields["work"]}
    waste = sums.avoidable()
    named = [row.named for row in waste]
    _name(session, [*(limit.jobs for limit in fields["grade_limits"]), *named])
    idle = {(row.hardware, row.work, row.action) for row in waste}
    advice = [
        row
        for row in grouped(savings, shares, counts)
        if (row.hardware, row.work, row.action) not in idle
    ]
    return {
        "factors": with_publishers(service, session, month, fields["factors"]),
        "top_jobs": [part.head() for part in top if part is not None],
        "suggestions": savings,
        "advice": sorted([*advice, *waste], key=lambda row: -row.saved_g["value"]),
        "examined_jobs": len(examined),
    }


def _name(session: Session, lists: Iterable[Sequence[NamedJob]]) -> None:
    """Put in the names of jobs."""
    rows = [row for jobs in lists for row in jobs]
    wanted = sa.select(Job.job_id, Job.name).where(Job.job_id.in_({row.job_id for row in rows}))
    names = {job_id: name for job_id, name in session.execute(wanted)}
    for row in rows:
        row.name = names.get(row.job_id) or row.job_id


def parts_of_months(service: Service, months: Collection[str], project: str | None) -> int:
    """Return how many parts of jobs the sums of these months are made of."""
    wanted = sa.select(sa.func.count()).where(JobMonth.month.in_(months), JobMonth.use == SUMMED)
    if project is not None:
        wanted = wanted.where(JobMonth.project == project)
    with service.store.read() as session:
        return session.scalar(wanted) or 0


def compared_with(
    session: Session,
    month: str,
    project: str | None,
    left_out: Collection[int],
    days: int | None = None,
) -> PreviousMonth:
    """Return what is compared of a month: all of it, or its first days."""
    return _read(session, month, project, left_out, days).as_previous()


def _read(
    session: Session,
    month: str,
    project: str | None,
    left_out: Collection[int],
    days: int | None = None,
) -> MonthSums:
    from gramwatt.service.months.sums.month import MonthSums

    portions = read_rows(session, month, project, left_out)
    if days is not None:
        portions = _first_days(session, month, portions, days)
    return MonthSums(month, portions)


def _first_days(
    session: Session, month: str, portions: Iterator[Sequence[PartRow]], days: int
) -> Iterator[Sequence[PartRow]]:
    """Yield the parts with their first days only; those that go beyond are made again."""
    among = (2 << days) - 2
    for portion in portions:
        kept, cut = [], {}
        for row in portion:
            of_row = days_of(row[4])
            if of_row & among == of_row:
                kept.append(row)
            elif of_row & among:
                cut[row[0]] = row
        found = session.execute(_WHOLE.where(Job.id.in_(sorted(cut)))) if cut else ()
        for key, *texts in found:
            part = part_until(read_job(*texts), month, days)
            kept.append(PartRow(*cut[key][:3], part.texts, part.numbers))
        yield kept


def _share_in(job: JobDoc, month: str) -> float:
    """Return the share of a job's carbon that lies in the month."""
    part, whole = months_of(job).get(month), job.total_g
    of_month = part.sums.total_g if part else None
    if of_month is None or whole is None or whole["value"] <= 0:
        return 1.0
    return of_month.value / whole["value"]


def _documents(session: Session, keys: Collection[int]) -> dict[int, JobDoc]:
    """Return the newest documents of these jobs, without what changes over time."""
    found = session.execute(_NEWEST.where(Job.id.in_(sorted(keys))))
    return {key: read_job(text) for key, text in found}

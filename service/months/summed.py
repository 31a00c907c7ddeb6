"""The fields of a month's document that are made of its scored jobs."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.advice.jobs import JOBS_EXAMINED, for_month, grouped
from gramwatt.sci.analysis.month import months_of
from gramwatt.sci.base.document import JobDoc
from gramwatt.service.advice.suggest import calibration_rows, device_rows
from gramwatt.service.container import Service
from gramwatt.service.months.sums.keeping import read_rows
from gramwatt.service.months.sums.part import SUMMED
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import Job, JobMonth, Score

if TYPE_CHECKING:  # numpy is loaded where sums are made
    from gramwatt.service.months.sums.earlier import Earlier
    from gramwatt.service.months.sums.month import MonthSums

_NEWEST = (
    sa.select(Score.job, Score.doc)
    .join(Job, sa.and_(Job.id == Score.job, Job.revision == Score.revision))
    .where(Job.id.in_(sa.bindparam("keys", expanding=True)))
)


def summed(
    service: Service,
    session: Session,
    month: str,
    project: str | None,
    before: Earlier,
    left_out: Collection[int],
) -> tuple[dict[str, Any], Earlier]:
    """Return the fields of a month's document that are made of its scored jobs, but of those left
    out.

    Also what the month after is compared with, as this one is with `before`.
    """
    sums = _read(session, month, project, left_out)
    largest = sums.largest(JOBS_EXAMINED)
    documents = _documents(session, {*sums.top(), *largest, *sums.last()})
    examined = [documents[key] for key in largest if key in documents]
    top = [months_of(documents[key]).get(month) for key in sums.top() if key in documents]
    savings = for_month(examined, service.catalog, calibration_rows(service), device_rows(service))
    fields = sums.fields(before)
    shares = {job["job_id"]: _share_in(job, month) for job in examined}
    counts = {(row["hardware"], row["work"]): row["jobs"] for row in fields["work"]}
    whole = {
        **fields,
        "top_jobs": [part.head() for part in top if part is not None],
        "suggestions": savings,
        "advice": grouped(savings, shares, counts),
        "examined_jobs": len(examined),
        "method": next((documents[k]["method"] for k in sums.last() if k in documents), None),
    }
    return whole, sums.earlier()


def parts_of_months(service: Service, months: Collection[str], project: str | None) -> int:
    """Return how many parts of jobs the sums of these months are made of."""
    wanted = sa.select(sa.func.count()).where(JobMonth.month.in_(months), JobMonth.use == SUMMED)
    if project is not None:
        wanted = wanted.where(JobMonth.project == project)
    with service.store.read() as session:
        return session.scalar(wanted) or 0


def compared_with(
    session: Session, month: str, project: str | None, left_out: Collection[int]
) -> Earlier:
    """Return what the month after this one is compared with."""
    return _read(session, month, project, left_out).earlier()


def _read(
    session: Session, month: str, project: str | None, left_out: Collection[int]
) -> MonthSums:
    from gramwatt.service.months.sums.month import MonthSums

    return MonthSums(month, read_rows(session, month, project, left_out))


def _share_in(job: JobDoc, month: str) -> float:
    """Return the share of a job's carbon that lies in the month."""
    part, whole = months_of(job).get(month), job["total_g"]
    of_month = part.sums.total_g if part else None
    if of_month is None or whole is None or whole["value"] <= 0:
        return 1.0
    return of_month.value / whole["value"]


def _documents(session: Session, keys: Collection[int]) -> dict[int, JobDoc]:
    """Return the newest documents of these jobs, without what changes over time."""
    found = session.execute(_NEWEST, {"keys": sorted(keys)})
    return {key: read_job(text) for key, text in found}

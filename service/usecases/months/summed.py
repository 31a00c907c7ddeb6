"""The fields of a month's document that are made of its scored jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.advice.jobs import JOBS_EXAMINED, for_month, grouped
from gramwatt.sci.analysis.month import months_of
from gramwatt.sci.base.document import JobDoc
from gramwatt.service.container import Service
from gramwatt.service.rollups.keeping import read_rows
from gramwatt.service.rollups.part import SUMMED
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import Job, JobMonth, Score
from gramwatt.service.usecases.advice.suggest import calibration_rows, device_rows


def summed(
    service: Service,
    session: Session,
    months: tuple[str, str],
    project: str | None,
    left_out: Mapping[str, list[int]],
) -> dict[str, Any]:
    """The fields of a month's document that are made of its scored jobs."""
    from gramwatt.service.rollups.month import MonthSums

    def read(one: str) -> MonthSums:
        return MonthSums(one, read_rows(session, one, project, left_out.get(one, ())))

    # The parts of the month before are let go before those of the month are read.
    before = read(months[1]).earlier()
    month = read(months[0])
    largest = month.largest(JOBS_EXAMINED)
    documents = _documents(session, {*month.top(), *largest, *month.last()})
    examined = [documents[key] for key in largest if key in documents]
    top = [months_of(documents[key]).get(months[0]) for key in month.top() if key in documents]
    savings = for_month(examined, service.catalog, calibration_rows(service), device_rows(service))
    fields = month.fields(before)
    shares = {job["job_id"]: _share_in(job, months[0]) for job in examined}
    counts = {(row["hardware"], row["work"]): row["jobs"] for row in fields["work"]}
    return {
        **fields,
        "top_jobs": [part.head() for part in top if part is not None],
        "suggestions": savings,
        "advice": grouped(savings, shares, counts),
        "examined_jobs": len(examined),
        "method": next((documents[k]["method"] for k in month.last() if k in documents), None),
    }


def parts_of_months(service: Service, months: Collection[str], project: str | None) -> int:
    """How many parts of jobs the sums of these months are made of."""
    wanted = sa.select(sa.func.count()).where(JobMonth.month.in_(months), JobMonth.use == SUMMED)
    if project is not None:
        wanted = wanted.where(JobMonth.project == project)
    with service.store.read() as session:
        return session.scalar(wanted) or 0


def trend_fields(
    session: Session, month: str, project: str | None, left_out: Mapping[str, list[int]]
) -> dict[str, Any]:
    """What the trend of later reports shows of a month, without advice."""
    from gramwatt.service.rollups.month import MonthSums

    return MonthSums(month, read_rows(session, month, project, left_out.get(month, ()))).brief()


def _share_in(job: JobDoc, month: str) -> float:
    """The share of a job's carbon that lies in the month."""
    part, whole = months_of(job).get(month), job["total_g"]
    of_month = part.sums.total_g if part else None
    if of_month is None or whole is None or whole["value"] <= 0:
        return 1.0
    return of_month.value / whole["value"]


def _documents(session: Session, keys: Collection[int]) -> dict[int, JobDoc]:
    """The newest documents of these jobs, without what changes over time."""
    wanted = (
        sa.select(Score.job, Score.doc)
        .join(Job, sa.and_(Job.id == Score.job, Job.revision == Score.revision))
        .where(Job.id.in_(keys))
    )
    return {key: read_job(text) for key, text in session.execute(wanted)}

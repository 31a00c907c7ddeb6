"""Delete a job: every row of it goes, and a record of when and by whom stays."""

from __future__ import annotations

import math

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.document import JobDoc
from gramwatt.service.access import audit
from gramwatt.service.common.answers import DeletedJob
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import Expected, locked_job, own_job, require_expected
from gramwatt.service.jobs.precedence import outdated
from gramwatt.service.months.rows import erase_rows
from gramwatt.service.store.columns import read_job, text_from_us, to_text
from gramwatt.service.store.models import Deletion, Job, Score
from gramwatt.service.store.people import alias_of


def delete_job(
    service: Service,
    job_id: str,
    *,
    by: str,
    reason: str | None = None,
    expected: Expected = None,
) -> DeletedJob:
    """Delete a job for good; its lines are refused from then on.

    What its newest score added to months stays on record, with who deleted it and why.

    Raises UnknownJobError, ServiceError `changed`, or DeletedJobError for one that is deleted
    already.
    """
    service, key = own_job(service, job_id)

    def delete(session: Session) -> int:
        job = locked_job(session, key, job_id)
        require_expected(job, expected)
        record = remove_job(session, service, job, by=alias_of(session, by), reason=reason)
        why = f": {reason}" if reason else ""
        audit.record(session, service, "job-deleted", f"{job.job_id}{why}", by)
        return record.deleted_us

    deleted_us = service.store.transact(delete, large=True)
    return DeletedJob(
        job_id=job_id,
        deleted_at=text_from_us(deleted_us),
        deleted_by=by,
        reason=reason,
    )


def remove_job(
    session: Session, service: Service, job: Job, *, by: str, reason: str | None = None
) -> Deletion:
    """Delete the rows of a job, locked; return the record that stays, with what it had added."""
    record = Deletion(
        job_id=job.job_id,
        project=job.project,
        started_us=job.started_us,
        deleted_us=service.now_us(),
        deleted_by=by,
        reason=reason,
        grams=_grams(session, job),
    )
    session.add(record)
    outdated(session, job)  # what was taken out of lesser jobs for it counts there now
    erase_rows(session, job.id)
    session.execute(sa.delete(Job).where(Job.id == job.id))
    return record


def _grams(session: Session, job: Job) -> str:
    """Return, as JSON, what the newest score of a job added to each month [gCO2e]."""
    statement = sa.select(Score.doc).where(Score.job == job.id, Score.revision == job.revision)
    text = session.scalar(statement)
    if text is None:
        return "{}"
    document = read_job(text)
    months = sorted({day.day[:7] for day in document.days})
    return to_text({month: _grams_in(document, month) for month in months})


def _grams_in(job: JobDoc, month: str) -> tuple[float, float, float]:
    """Return what a job adds to the sums of a month (YYYY-MM) [gCO2e]: value, low and high."""
    if job.excluded is not None:
        return 0.0, 0.0, 0.0
    days = [day for day in job.days if day.day.startswith(month)]
    terms = [figure for day in days for figure in (day.operational_g, day.embodied_g)]
    grams = [figure for figure in terms if figure is not None]
    ends = ((figure.value, figure.low, figure.high) for figure in grams)
    value, low, high = map(math.fsum, zip(*ends, strict=True)) if grams else (0.0, 0.0, 0.0)
    whole = job.total_g
    if whole is not None and len(days) == len(job.days):
        low, high = whole.low, whole.high
    return value, min(low, value), max(high, value)

"""What sums of a month lack that jobs' documents and the store say: suggestions and publishers."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.advice.jobs import JOBS_EXAMINED, examined, for_month, grouped
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.month.documents import MonthAdvice, MonthSums
from gramwatt.sci.month.month import months_of
from gramwatt.service.advice.suggest import rows_of_own_jobs
from gramwatt.service.container import Service
from gramwatt.service.months.factor_sources import with_publishers
from gramwatt.service.months.rows import from_session
from gramwatt.service.months.statements import LARGEST, month_scope, selecting
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import Job, Score


def advised(service: Service, session: Session, sums: MonthSums) -> MonthAdvice:
    """Return suggestions for a month's largest jobs, and its factors with their publishers."""
    jobs = _largest(session, sums)
    savings = for_month(jobs, service.catalog, rows_of_own_jobs(service))
    fractions = {job.job_id: _fraction_in(job, sums.month) for job in jobs}
    counts = {(row.hardware, row.work): row.jobs for row in sums.work}
    idle = {(row.hardware, row.work, row.action) for row in sums.waste}
    return MonthAdvice(
        advice=[
            row
            for row in grouped(savings, fractions, counts)
            if (row.hardware, row.work, row.action) not in idle
        ],
        suggestions=savings,
        examined_jobs=len(jobs),
        factors=with_publishers(service, session, sums.month, sums.factors),
    )


def _largest(session: Session, sums: MonthSums) -> list[JobDoc]:
    """Return the newest documents of the jobs to examine, without what changes over time."""
    select = selecting(from_session(session), *month_scope(sums.month, sums.project))
    rows = [*select(LARGEST, most=JOBS_EXAMINED)]
    names = [(grams, job_id, f"{hardware} on {work}") for _, job_id, grams, hardware, work in rows]
    chosen = [tuple(rows[place][:2]) for place in examined(names, JOBS_EXAMINED)]
    newest = sa.and_(Score.job == Job.id, Score.revision == Job.revision)
    documents = sa.select(Job.project, Job.job_id, Score.doc).join(Score, newest)
    found = session.execute(documents.where(Job.job_id.in_({job_id for _, job_id in chosen})))
    texts = {(project, job_id): text for project, job_id, text in found}
    return [read_job(texts[key]) for key in chosen if key in texts]


def _fraction_in(job: JobDoc, month: str) -> float:
    """Return the fraction of a job's carbon that lies in the month."""
    part, whole = months_of(job).get(month), job.total_g
    of_month = part.sums.total_g if part else None
    if of_month is None or whole is None or whole.value <= 0:
        return 1.0
    return of_month.value / whole.value

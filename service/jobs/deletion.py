"""Delete a job: every row of it goes, and a record of when and by whom stays."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.access import audit
from gramwatt.service.common.answers import DeletedJob
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import Expected, find_job, own_job, require_expected
from gramwatt.service.months.sums.keeping import forget_parts
from gramwatt.service.store.codecarbon import RUN_PREFIX, CodecarbonRun
from gramwatt.service.store.models import Deletion, Job
from gramwatt.service.store.timestamps import text_from_us


def delete_job(service: Service, job_id: str, *, by: str, expected: Expected = None) -> DeletedJob:
    """Delete a job for good; its lines are refused from then on.

    Raises UnknownJobError, ChangedError, or DeletedJobError for one that is deleted already.
    """
    service = own_job(service, job_id)

    def delete(session: Session) -> int:
        job = find_job(session, job_id, lock=True)
        require_expected(job, expected)
        record = Deletion(
            job_id=job.job_id,
            project=job.project,
            started_us=job.started_us,
            deleted_us=service.now_us(),
            deleted_by=by,
        )
        session.add(record)
        forget_parts(session, job.id)
        audit.record(session, service, "job-deleted", job.job_id, by)
        session.execute(sa.delete(Job).where(Job.id == job.id))
        run = CodecarbonRun.id == job.job_id.removeprefix(RUN_PREFIX)
        session.execute(sa.delete(CodecarbonRun).where(run))
        return record.deleted_us

    deleted_us = service.store.transact(delete, large=True)
    return {
        "job_id": job_id,
        "deleted_at": text_from_us(deleted_us),
        "deleted_by": by,
    }

"""Close jobs that fell silent: no line for a while and no end, so they count as lost."""

from __future__ import annotations

import sqlalchemy as sa

from gramwatt.service.container import Service
from gramwatt.service.store.models import Job
from gramwatt.service.usecases.journal import refresh_head
from gramwatt.service.usecases.score_job import score_when_closed


def close_silent(service: Service) -> list[str]:
    """Ids of the jobs closed and scored now. One that speaks again is opened by its next line."""
    limit_us = service.now_us() - int(service.config.silent_after.total_seconds() * 1e6)
    silent = (Job.state == "running", Job.heard_us <= limit_us)
    with service.store.read() as session:
        keys = list(session.scalars(sa.select(Job.id).where(*silent)))
    closed = []
    for key in keys:
        with service.store.write() as session:
            wanted = sa.select(Job).where(Job.id == key, *silent).with_for_update()
            job = session.scalars(wanted).one_or_none()
            if job is None:
                continue
            job.silent_us = service.now_us()
            job.version += 1
            refresh_head(session, job)
            closed.append(job.job_id)
        score_when_closed(service, key, "silence")
    return closed


def score_pending(service: Service) -> int:
    """Score what ended but is not scored, after a crash in between; how many were."""
    pending = sa.select(Job.id).where(Job.state != "running", Job.scored_version != Job.version)
    with service.store.read() as session:
        keys = list(session.scalars(pending))
    return sum(score_when_closed(service, key) for key in keys)

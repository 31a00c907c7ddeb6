"""What the scheduler does to jobs: close silent ones, score what is left over, refresh figures.

Each function is safe to repeat, also from several processes at once.
"""

from __future__ import annotations

import logging

import sqlalchemy as sa

from gramwatt.sci.base.errors import GramwattError
from gramwatt.service.container import Service
from gramwatt.service.store.models import Job
from gramwatt.service.usecases.journal import refresh_head
from gramwatt.service.usecases.listening import silent_limit_us
from gramwatt.service.usecases.score_job import score_provisionally, score_when_closed

_log = logging.getLogger("gramwatt.service")


def close_silent(service: Service) -> list[str]:
    """Close and score the jobs without a line for `silent_after` of a server's time; their ids.

    They count as lost until a later line opens them again.
    """
    with service.store.read() as session:
        limit_us = silent_limit_us(service, session)
        if limit_us is None:
            return []
        silent = (Job.state == "running", Job.heard_us <= limit_us)
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


def score_pending(service: Service) -> None:
    """Score the jobs that ended and are not scored, as after a crash in between."""
    pending = sa.select(Job.id).where(Job.state != "running", Job.scored_version != Job.version)
    with service.store.read() as session:
        keys = list(session.scalars(pending))
    for key in keys:
        score_when_closed(service, key)


def refresh_running(service: Service) -> None:
    """Bring the provisional scores of running jobs up to date, so that lists show figures."""
    with service.store.read() as session:
        keys = list(session.scalars(sa.select(Job.id).where(Job.state == "running")))
    for key in keys:
        try:
            score_provisionally(service, key)
        except GramwattError as error:
            _log.info("a running job cannot be scored yet: %s", error.message)

"""What the scheduler does to jobs: close silent ones, score what is left over, refresh figures.

Each function is safe to repeat, also from several processes at once.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from functools import partial

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.errors import GramwattError
from gramwatt.service.container import Service
from gramwatt.service.jobs.journal import refresh_head
from gramwatt.service.jobs.scoring import score_provisionally, score_when_closed
from gramwatt.service.store.models import Job, Provisional, is_pending
from gramwatt.service.store.timestamps import span_us
from gramwatt.service.tasks.listening import silent_limit_us

REFRESH_S = 60.0
"""How long one run of `refresh_running` scores at most [s], a fifth of its period."""

CLOCK_TOLERANCE = timedelta(minutes=1)
"""How far the clocks of servers of one store may differ."""
FRACTION = 50
"""The part of a job's time, 1 in so many, that its provisional score in lists may lack."""

_UNSCORED = (
    sa.select(Job.id).where(is_pending(), Job.state != "running").order_by(Job.started_us, Job.id)
)
_log = logging.getLogger("gramwatt.service")


def close_silent(service: Service) -> list[str]:
    """Close and score the jobs without a line for `silent_after` of a server's time; their ids.

    They count as lost until a later line opens them again. A job heard later than now was heard
    while the clock was ahead: its silence counts from now.
    """
    now_us = service.now_us()
    ahead = Job.state == "running", Job.heard_us > now_us + span_us(CLOCK_TOLERANCE)
    with service.store.read() as session:
        heard_ahead = session.scalar(sa.select(sa.exists().where(*ahead)))
    if heard_ahead:
        heard_now = sa.update(Job).where(*ahead).values(heard_us=now_us)
        service.store.transact(lambda session: session.execute(heard_now))
    with service.store.read() as session:
        limit_us = silent_limit_us(service, session)
        if limit_us is None:
            return []
        keys = list(session.scalars(sa.select(Job.id).where(*_is_silent(limit_us))))
    closed = []
    for key in keys:
        job_id = service.store.transact(partial(_close, service, key, limit_us))
        if job_id is not None:
            closed.append(job_id)
            score_when_closed(service, key, "silence")
    return closed


def _close(service: Service, key: int, limit_us: int, session: Session) -> str | None:
    """Close the job as silent and return its id; None when it has been heard again."""
    wanted = sa.select(Job).where(Job.id == key, *_is_silent(limit_us)).with_for_update()
    job = session.scalars(wanted).one_or_none()
    if job is None:
        return None
    job.silent_us = service.now_us()
    job.version += 1
    refresh_head(session, job)
    return job.job_id


def _is_silent(limit_us: int) -> tuple[sa.ColumnElement[bool], ...]:
    return Job.state == "running", Job.heard_us <= limit_us


def score_pending(service: Service) -> None:
    """Score the jobs that ended and are not scored, as after a crash in between; oldest first."""
    with service.store.read() as session:
        keys = list(session.scalars(_UNSCORED))
    for key in keys:
        score_when_closed(service, key)


def refresh_running(service: Service, budget_s: float = REFRESH_S) -> int:
    """Bring provisional scores of running jobs with new lines up to date, so that lists show them.

    A score grows old with its job: it may lack the last fiftieth of the time since the job began.
    So a job is read whole ever more seldom the more it has, and costs the same each hour. The
    oldest score first, until `budget_s` is over: what is left comes first the next time. How many
    were scored.
    """
    ends, done = time.monotonic() + budget_s, 0
    for key in _outdated(service):
        if time.monotonic() >= ends:
            break
        try:
            score_provisionally(service, key)
        except GramwattError as error:
            _log.info("a running job cannot be scored yet: %s", error.message)
        done += 1
    return done


def _outdated(service: Service) -> list[int]:
    """Running jobs whose provisional score lacks lines and is old, the oldest score first."""
    now_us = service.now_us()
    is_old = (now_us - Provisional.made_us) * FRACTION >= now_us - Job.started_us
    wanted = (
        sa.select(Job.id)
        .outerjoin(Provisional, Provisional.job == Job.id)
        .where(Job.state == "running")
        .where(
            sa.or_(Provisional.job.is_(None), sa.and_(Provisional.version != Job.version, is_old))
        )
        .order_by(sa.func.coalesce(Provisional.made_us, 0), Job.id)
    )
    with service.store.read() as session:
        return list(session.scalars(wanted))

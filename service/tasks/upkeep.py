"""What the scheduler does to jobs: close silent ones, score what is left over, refresh figures.

Each function is safe to repeat, also from several processes at once.
"""

from __future__ import annotations

import logging
import re
import time
from datetime import timedelta
from functools import partial

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.errors import GramwattError
from gramwatt.service.access import audit
from gramwatt.service.container import Service
from gramwatt.service.jobs.journal import refresh_head
from gramwatt.service.jobs.scoring import score_provisionally, score_when_closed
from gramwatt.service.store import transfer
from gramwatt.service.store.access import AuditEntry, audit_unlocked
from gramwatt.service.store.columns import span_us, text_from_us
from gramwatt.service.store.journal import Count, Device, Interval, Writer
from gramwatt.service.store.models import Job, Provisional, is_pending
from gramwatt.service.tasks.leader import silent_limit_us

RETENTION_S = 60.0
"""How long one run deletes at most [s]; the next goes on."""


def delete_old_audit(service: Service) -> int:
    """Delete entries of the audit log that are older than they are kept; return how many.

    The deletion leaves an entry of its own, in the same transaction.
    """
    keep = service.config.keep_audit
    if keep is None:
        return 0
    before_us = service.now_us() - span_us(keep)
    return service.store.transact(partial(_delete_audit, service, before_us), large=True)


def _delete_audit(service: Service, before_us: int, session: Session) -> int:
    old = AuditEntry.at_us < before_us
    number = session.scalar(sa.select(sa.func.count(AuditEntry.id)).where(old)) or 0
    if number:
        subject = f"{number} entries before {text_from_us(before_us)}"
        audit.record(session, service, "audit-deleted", subject, "retention")
        with audit_unlocked(session.connection()):
            session.execute(sa.delete(AuditEntry).where(old))
    return number


def delete_old(service: Service) -> None:
    """Delete intervals and entries of the audit log that are older than they are kept."""
    delete_old_intervals(service)
    delete_old_audit(service)


def delete_old_intervals(service: Service, budget_s: float = RETENTION_S) -> int:
    """Delete intervals and counts of jobs that ended longer ago than they are kept; how many jobs.

    A project with a number of its own in the setting keeps them for that time. Only of jobs whose
    newest lines are scored. Scores, parts of months, and what the job declared stay, and so does
    which lines have arrived.
    """
    keep, ends, done = service.config.keep_intervals, time.monotonic() + budget_s, 0
    for project, days in keep.items():
        of_project = Job.project == project if project else Job.project.not_in(list(keep))
        old = (of_project, *_is_old(service.now_us() - span_us(days)))
        with service.store.read() as session:
            keys = list(session.scalars(sa.select(Job.id).where(*old)))
        for key in keys:
            if time.monotonic() >= ends:
                return done
            done += service.store.transact(partial(_delete, service, key, old), large=True)
    return done


def _delete(
    service: Service, key: int, old: tuple[sa.ColumnElement[bool], ...], session: Session
) -> int:
    """Delete those of one job, unless lines have arrived meanwhile; 1 if it did, else 0."""
    statement = sa.select(Job).where(Job.id == key, *old).with_for_update()
    job = session.scalars(statement).one_or_none()
    if job is None:
        return 0
    devices = sa.select(Device.id).where(Device.job == key)
    writers = sa.select(Writer.id).where(Writer.job == key)
    session.execute(sa.delete(Interval).where(Interval.device.in_(devices)))
    session.execute(sa.delete(Count).where(Count.writer.in_(writers)))
    job.intervals_deleted_us = service.now_us()
    return 1


def _is_old(before_us: int) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        Job.ended_us < before_us,
        Job.heard_us < before_us,
        Job.intervals_deleted_us.is_(None),
        Job.state != "running",
        Job.revision > 0,
        Job.scored_version == Job.version,
    )


NAME = re.compile(r"gramwatt-\d{8}T\d{6}Z\.db")
"""Files that this task made, and may delete; no other file of the folder is touched."""


def back_up(service: Service) -> None:
    """Write a backup into `backup_dir`, if one is set, and delete all but the newest `backup_keep`.

    Raises OSError or TransferError, also for PostgreSQL; then no older backup is deleted.
    """
    folder = service.config.backup_dir
    if folder is None:
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"gramwatt-{service.now():%Y%m%dT%H%M%SZ}.db"
    transfer.backup(service.store, path)
    audit.log(service, "backup", str(path))
    backups = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))
    for path in backups[: -service.config.backup_keep]:
        path.unlink()


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
    statement = sa.select(Job).where(Job.id == key, *_is_silent(limit_us)).with_for_update()
    job = session.scalars(statement).one_or_none()
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
    statement = (
        sa.select(Job.id)
        .outerjoin(Provisional, Provisional.job == Job.id)
        .where(Job.state == "running")
        .where(
            sa.or_(Provisional.job.is_(None), sa.and_(Provisional.version != Job.version, is_old))
        )
        .order_by(sa.func.coalesce(Provisional.made_us, 0), Job.id)
    )
    with service.store.read() as session:
        return list(session.scalars(statement))

"""What is kept, and for how long: intervals of scored jobs and the audit log are deleted as the
settings say; one backup a day is written, of which the newest are kept.
"""

from __future__ import annotations

import re
import time
from functools import partial

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.access import audit
from gramwatt.service.container import Service
from gramwatt.service.store import transfer
from gramwatt.service.store.access import AuditEntry, audit_unlocked
from gramwatt.service.store.models import Count, Device, Interval, Job, Writer
from gramwatt.service.store.timestamps import span_us, text_from_us

RETENTION_S = 60.0
"""How long one run deletes at most [s]; the next goes on."""


def delete_old_audit(service: Service) -> int:
    """Delete entries of the audit log that are older than they are kept; return how many.

    The deletion leaves an entry of its own, in the same transaction.
    """
    kept = service.config.keep_audit
    if kept is None:
        return 0
    before_us = service.now_us() - span_us(kept)
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
    kept, ends, done = service.config.keep_intervals, time.monotonic() + budget_s, 0
    for project, days in kept.items():
        mine = Job.project == project if project else Job.project.not_in(list(kept))
        old = (mine, *_is_old(service.now_us() - span_us(days)))
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
    wanted = sa.select(Job).where(Job.id == key, *old).with_for_update()
    job = session.scalars(wanted).one_or_none()
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
    made = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))
    for path in made[: -service.config.backup_keep]:
        path.unlink()

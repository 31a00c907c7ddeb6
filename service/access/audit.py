"""The audit log: who did what to what, when and from where. Rows are only ever added."""

from __future__ import annotations

from contextlib import suppress
from typing import TypedDict

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from gramwatt.service.common.cursors import decode_cursor, encode_cursor
from gramwatt.service.container import Service
from gramwatt.service.store.access import AuditEntry
from gramwatt.service.store.timestamps import text_from_us


class AuditRow(TypedDict):
    """One act: `actor` is a key or a user, `address` where from, `subject` what it was done to."""

    at: str
    actor: str
    address: str
    action: str
    subject: str


class AuditAnswer(TypedDict):
    """A page of the audit log, newest first; `next_cursor` is null at the end."""

    entries: list[AuditRow]
    next_cursor: str | None


def record(
    session: Session, service: Service, action: str, subject: str, by: str | None = None
) -> None:
    """Add an act of the service's caller, or of `by`, to the log, with the act itself."""
    caller = service.caller
    entry = AuditEntry(
        at_us=service.now_us(),
        actor=(by or caller.name)[:512],
        address=caller.address[:64],
        action=action,
        subject=subject.replace("\x00", "")[:1024],
    )
    session.add(entry)


def log(service: Service, action: str, subject: str) -> None:
    """Add an act of the service's caller to the log; errors of an absent database are ignored."""
    with suppress(SQLAlchemyError), service.for_every_project().store.write() as session:
        record(session, service, action, subject)


def audit_page(service: Service, limit: int, cursor: str | None) -> AuditAnswer:
    """Return the log, newest first; raises CursorError."""
    wanted = sa.select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit + 1)
    if cursor:
        wanted = wanted.where(AuditEntry.id < decode_cursor(cursor, int)[0])
    with service.store.read() as session:
        rows = session.scalars(wanted).all()
    shown = rows[:limit]
    return {
        "entries": [
            {
                "at": text_from_us(entry.at_us),
                "actor": entry.actor,
                "address": entry.address,
                "action": entry.action,
                "subject": entry.subject,
            }
            for entry in shown
        ],
        "next_cursor": encode_cursor(shown[-1].id) if len(rows) > limit else None,
    }

"""The audit log: who did what to what, when and from where. Rows are only ever added.

Who may write to the database can change them: a copy that somebody else keeps (`entries_after`)
shows that.
"""

from __future__ import annotations

from contextlib import suppress

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from gramwatt.service.common.requests import decode_cursor, encode_cursor
from gramwatt.service.container import Service
from gramwatt.service.store.access import AuditEntry
from gramwatt.service.store.columns import text_from_us

_LOCK = 0x6772616D
"""The number of PostgreSQL's advisory lock under which rows are added, one after the other, so that
who reads the log on by its numbers misses none."""
BATCH = 500


class AuditRow(Struct):
    """One act: `actor` is a key or a user, `address` where from, `subject` what it was done to.

    `credential` is the visible part of the key, or the session's id; empty for a command. `number`
    counts up.
    """

    number: int
    at: str
    actor: str
    credential: str
    address: str
    action: str
    subject: str


class AuditAnswer(Struct):
    """A page of the audit log, newest first; `next_cursor` is null at the end."""

    entries: list[AuditRow]
    next_cursor: str | None


def record(
    session: Session, service: Service, action: str, subject: str, by: str | None = None
) -> None:
    """Add an act of the service's caller, or of `by`, to the log, with the act itself.

    Others that add entries wait until the transaction ends.
    """
    caller = service.caller
    if session.connection().dialect.name == "postgresql":
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    entry = AuditEntry(
        at_us=service.now_us(),
        actor=(by or caller.name)[:512],
        credential=caller.credential if by in (None, caller.name) else "",
        address=caller.address[:64],
        action=action,
        subject=subject.replace("\x00", "")[:1024],
    )
    session.add(entry)
    session.flush()


def log(service: Service, action: str, subject: str) -> None:
    """Add an act of the service's caller to the log; errors of an absent database are ignored."""
    with suppress(SQLAlchemyError), service.for_every_project().store.write() as session:
        record(session, service, action, subject)


def audit_page(service: Service, limit: int, cursor: str | None) -> AuditAnswer:
    """Return the log, newest first; raises CursorError."""
    statement = sa.select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit + 1)
    if cursor:
        statement = statement.where(AuditEntry.id < decode_cursor(cursor, int)[0])
    with service.store.read() as session:
        rows = session.scalars(statement).all()
    shown = rows[:limit]
    return AuditAnswer(
        entries=[_row(entry) for entry in shown],
        next_cursor=encode_cursor(shown[-1].id) if len(rows) > limit else None,
    )


def entries_after(service: Service, number: int) -> list[AuditRow]:
    """Return the next entries after a number, oldest first, at most BATCH."""
    statement = sa.select(AuditEntry).where(AuditEntry.id > number).order_by(AuditEntry.id)
    with service.store.read() as session:
        return [_row(entry) for entry in session.scalars(statement.limit(BATCH))]


def _row(entry: AuditEntry) -> AuditRow:
    return AuditRow(
        number=entry.id,
        at=text_from_us(entry.at_us),
        actor=entry.actor,
        credential=entry.credential,
        address=entry.address,
        action=entry.action,
        subject=entry.subject,
    )

"""The audit log: who did what to what, when and from where. Rows are only ever added.

Each row has a hash of its content and of the hash before it, so that a change, or a row that is
missing between others, shows. Who may write to the database could make the whole chain anew: it is
the copy that somebody else keeps (`entries_after`) which shows that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypedDict

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from gramwatt.service.common.cursors import decode_cursor, encode_cursor
from gramwatt.service.container import Service
from gramwatt.service.store.access import AuditEntry
from gramwatt.service.store.timestamps import text_from_us

_LOCK = 0x6772616D
"""The number of PostgreSQL's advisory lock under which rows are added, one after the other."""
BATCH = 500


class AuditRow(TypedDict):
    """One act: `actor` is a key or a user, `address` where from, `subject` what it was done to.

    `number` counts up, and `hash` is made of this row and the one before.
    """

    number: int
    at: str
    actor: str
    address: str
    action: str
    subject: str
    hash: str


class AuditAnswer(TypedDict):
    """A page of the audit log, newest first; `next_cursor` is null at the end."""

    entries: list[AuditRow]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """How many entries hold, the number and hash of the newest, and what does not hold."""

    entries: int
    number: int
    hash: str
    problem: str | None


def record(
    session: Session,
    service: Service,
    action: str,
    subject: str,
    by: str | None = None,
    *,
    cut_hash: str | None = None,
) -> None:
    """Add an act of the service's caller, or of `by`, to the log, with the act itself.

    Who deletes or changes old entries gives the hash of the last of them as `cut_hash`: the chain
    is checked from there on. Others that add entries wait until the transaction ends.
    """
    caller = service.caller
    if session.connection().dialect.name == "postgresql":
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    entry = AuditEntry(
        at_us=service.now_us(),
        actor=(by or caller.name)[:512],
        address=caller.address[:64],
        action=action,
        subject=subject.replace("\x00", "")[:1024],
        cut_hash=cut_hash,
    )
    entry.hash = _hash_after(newest_hash(session), entry)
    session.add(entry)
    session.flush()


def newest_hash(session: Session) -> str:
    """Return the hash of the newest entry; empty before the first."""
    newest = sa.select(AuditEntry.hash).order_by(AuditEntry.id.desc()).limit(1)
    return session.scalar(newest) or ""


def _hash_after(before: str, entry: AuditEntry) -> str:
    content = (entry.at_us, entry.actor, entry.address, entry.action, entry.subject, entry.cut_hash)
    return hashlib.sha256(json.dumps([before, *content]).encode()).hexdigest()


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
        "entries": [_row(entry) for entry in shown],
        "next_cursor": encode_cursor(shown[-1].id) if len(rows) > limit else None,
    }


def entries_after(service: Service, number: int) -> list[AuditRow]:
    """Return the next entries after a number, oldest first, at most BATCH."""
    wanted = sa.select(AuditEntry).where(AuditEntry.id > number).order_by(AuditEntry.id)
    with service.store.read() as session:
        return [_row(entry) for entry in session.scalars(wanted.limit(BATCH))]


def check_chain(service: Service, kept: Mapping[int, str] | None = None) -> ChainCheck:
    """Check every hash of the log, and that it has each entry that was kept elsewhere, as hashes
    by number.

    Entries up to the last cut are not checked: the log itself says that they were changed.
    """
    missing = dict(kept or {})
    number = checked = 0
    wanted = sa.select(AuditEntry).order_by(AuditEntry.id).execution_options(yield_per=BATCH)
    with service.store.read() as session:
        oldest = session.scalar(sa.select(sa.func.min(AuditEntry.id))) or 0
        cut_number, before = _last_cut(session)
        with session.execute(wanted) as result:
            for entry in result.scalars():
                number = entry.id
                if missing.pop(number, entry.hash) != entry.hash:
                    problem = f"entry {number} is not as it was kept"
                    return ChainCheck(checked, number, before, problem)
                if number <= cut_number:
                    continue
                if entry.hash != _hash_after(before, entry):
                    problem = f"entry {number} was changed, or one before it is missing"
                    return ChainCheck(checked, number, before, problem)
                checked, before = checked + 1, entry.hash
    lost = [one for one in missing if one > oldest]
    return ChainCheck(
        checked, number, before, f"entry {min(lost)} was kept and is missing" if lost else None
    )


def _last_cut(session: Session) -> tuple[int, str]:
    """Return number and hash of the entry from which on the chain holds; 0 if it was deleted."""
    cuts = sa.select(AuditEntry.cut_hash).where(AuditEntry.cut_hash.is_not(None))
    newest_there = sa.select(AuditEntry.id, AuditEntry.hash).where(AuditEntry.hash.in_(cuts))
    found = session.execute(newest_there.order_by(AuditEntry.id.desc()).limit(1)).one_or_none()
    if found is not None:
        return found.id, found.hash
    return 0, session.scalar(cuts.order_by(AuditEntry.id.desc()).limit(1)) or ""


def _row(entry: AuditEntry) -> AuditRow:
    return {
        "number": entry.id,
        "at": text_from_us(entry.at_us),
        "actor": entry.actor,
        "address": entry.address,
        "action": entry.action,
        "subject": entry.subject,
        "hash": entry.hash,
    }

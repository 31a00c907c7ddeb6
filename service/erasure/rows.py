"""What erasures of projects and people share: rows, documents and the log are gone through once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Session

from gramwatt.service.access import audit
from gramwatt.service.access.erased import require_not_erased as require_not_erased
from gramwatt.service.container import Service
from gramwatt.service.erasure.redaction import (
    redacted,
)
from gramwatt.service.store.access import (
    AuditEntry,
    audit_unlocked,
)
from gramwatt.service.store.budgets import Alert, OutboxMessage
from gramwatt.service.store.models import (
    Correction,
    Deletion,
    Job,
    MonthlyReport,
    Provisional,
    Score,
    Statement,
    Writer,
)

DOCUMENTS: tuple[InstrumentedAttribute[Any], ...] = (
    *(MonthlyReport.doc, Alert.doc, OutboxMessage.doc, Deletion.scores),
)
"""Documents that may name people and projects, beside those of a job."""


def change_job(session: Session, job: Job, change: Callable[[Any], Any]) -> bool:
    """Change what a job's lines, corrections and scores say; return whether they said it."""
    job.head, before = redacted(job.head, change) if job.head else "", job.head
    changed = job.head != before
    writers = sa.select(Writer.id).where(Writer.job == job.id)
    for column, condition in (
        (Statement.line, Statement.writer.in_(writers)),
        (Score.doc, Score.job == job.id),
        (Provisional.doc, Provisional.job == job.id),
    ):
        for row in session.scalars(sa.select(column.class_).where(condition)):
            text = getattr(row, column.key)
            setattr(row, column.key, redacted(text, change))
            changed |= getattr(row, column.key) != text
    for row in session.scalars(sa.select(Correction).where(Correction.job == job.id)):
        about = {"field": row.field, "value": json.loads(row.value), "old": json.loads(row.old)}
        said = change(about)
        row.value, row.old = json.dumps(said["value"]), json.dumps(said["old"])
    session.flush()
    return changed


def change_documents(session: Session, name: str, change: Callable[[Any], Any]) -> None:
    """Change the documents that are no job's and may hold the name."""
    for column in DOCUMENTS:
        for row in session.scalars(sa.select(column.class_).where(has(column, name))):
            setattr(row, column.key, redacted(getattr(row, column.key), change))
    session.flush()


def has(column: Any, name: str) -> sa.ColumnElement[bool]:
    """Return the condition that a text may hold the name, as it is or as JSON escapes it."""
    forms = {name, json.dumps(name)[1:-1], json.dumps(name, ensure_ascii=False)[1:-1]}
    return sa.or_(*(column.contains(form, autoescape=True) for form in sorted(forms)))


def change_audit(
    session: Session,
    service: Service,
    without: Callable[[AuditEntry], tuple[str, str]],
    act: tuple[str, str, str],
) -> None:
    """Change entries of the audit log and record the act."""
    changed: list[dict[str, Any]] = []
    wanted = sa.select(AuditEntry).order_by(AuditEntry.id).execution_options(yield_per=500)
    for entry in session.scalars(wanted):
        actor, subject = without(entry)
        if (actor, subject) != (entry.actor, entry.subject):
            changed.append({"id": entry.id, "actor": actor, "subject": subject})
    if changed:
        with audit_unlocked(session.connection()):
            session.execute(sa.update(AuditEntry), changed)
    action, subject, by = act
    audit.record(session, service, action, subject, by)

"""Put an alias in the place of a person's name in every row."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Session

from gramwatt.service.access.erased import require_not_erased as require_not_erased
from gramwatt.service.container import Service
from gramwatt.service.erasure.redaction import (
    USER_TAG,
    WithoutPerson,
)
from gramwatt.service.erasure.rows import change_audit, change_documents, change_job, has
from gramwatt.service.months.sums.part import pack_texts, unpack_texts
from gramwatt.service.store.access import (
    ApiKey,
    AuditEntry,
    BrowserSession,
    Erasure,
    Project,
)
from gramwatt.service.store.budgets import Budget, OutboxMessage
from gramwatt.service.store.intensity import IntensityFile
from gramwatt.service.store.job_labels import TAG, label_text
from gramwatt.service.store.models import (
    Correction,
    Deletion,
    Job,
    JobLabel,
    JobMonth,
    KeptAnswer,
    MonthSum,
    WaitingLine,
)

PERSON_COLUMNS: tuple[InstrumentedAttribute[Any], ...] = (
    *(ApiKey.created_by, ApiKey.name, Project.declared_by, Erasure.erased_by),
    *(Budget.set_by, Correction.made_by, Deletion.deleted_by, IntensityFile.imported_by),
    *(WaitingLine.caller, KeptAnswer.caller),
)
"""Columns that name who did something, beside those of the audit log and of sessions."""
REASONS: tuple[InstrumentedAttribute[Any], ...] = (*(Correction.reason, Deletion.reason),)


def people(session: Session) -> set[str]:
    """Return every name of a person or key, and every tag `user`."""
    columns = (*PERSON_COLUMNS, AuditEntry.actor, BrowserSession.name, Budget.email)
    found = {name for one in columns for name in session.scalars(sa.select(one).distinct())}
    start = label_text(TAG, "user:")
    labels = sa.select(JobLabel.label).where(JobLabel.label.startswith(start, autoescape=True))
    found |= {label.removeprefix(start) for label in session.scalars(labels.distinct())}
    return found - {None}


def replace_name(session: Session, service: Service, name: str, alias: str, by: str) -> int:
    """Put the alias in the place of the name; how many jobs had it."""
    change = WithoutPerson(name, alias)
    label = label_text(TAG, f"user:{name}")
    corrected = sa.select(Correction.job).where(
        sa.or_(Correction.made_by == name, Correction.field == USER_TAG)
    )
    own = sa.select(JobLabel.job).where(JobLabel.label == label)
    jobs = session.scalars(sa.select(Job).where(sa.or_(Job.id.in_(own), Job.id.in_(corrected))))
    number = 0
    for job in jobs.all():
        number += change_job(session, job, change)
        session.execute(
            sa.update(JobLabel)
            .where(JobLabel.job == job.id, JobLabel.label == label)
            .values(label=label_text(TAG, f"user:{alias}"))
        )
        _change_owner(session, job.id, name, alias)
    for column in PERSON_COLUMNS:
        session.execute(sa.update(column.class_).where(column == name).values({column.key: alias}))
    session.execute(sa.update(Budget).where(Budget.email == name).values(email=None))
    for model, condition in (
        (BrowserSession, BrowserSession.name == name),
        (OutboxMessage, OutboxMessage.target == name),
        (KeptAnswer, has(KeptAnswer.answer, name)),
        (MonthSum, sa.or_(has(MonthSum.doc, name), has(MonthSum.brief, name))),
    ):
        session.execute(sa.delete(model).where(condition))
    for column in REASONS:
        for text in session.scalars(sa.select(column).where(has(column, name)).distinct()).all():
            values = {column.key: change.in_text(text)}
            session.execute(sa.update(column.class_).where(column == text).values(values))
    change_documents(session, name, change)

    def without(entry: AuditEntry) -> tuple[str, str]:
        actor = alias if entry.actor == name else entry.actor
        return actor, change.in_text(entry.subject)

    by = alias if by == name else by
    change_audit(session, service, without, ("person-erased", f"{alias}, {number} jobs", by))
    return number


def _change_owner(session: Session, key: int, name: str, alias: str) -> None:
    """Change whose job it is in the parts that months are summed of."""
    for part in session.scalars(sa.select(JobMonth).where(JobMonth.job == key)):
        texts = unpack_texts(part.texts) if part.texts else {}
        if texts.get("owner") == name:
            part.texts = pack_texts({**texts, "owner": alias})

"""Erase a person's name, or a project with all that is its own.

Of a person one column is blanked (`store.people`), and who did something is the alias from then
on. A project's rows are deleted, and with its jobs what belongs to them. docs/access.md says what
neither reaches.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import InstrumentedAttribute, Session

from gramwatt.service.access import audit
from gramwatt.service.common.errors import ServiceError
from gramwatt.service.container import Service
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.precedence import outdated
from gramwatt.service.months.rows import empty_sums, erase_rows
from gramwatt.service.store.access import (
    ApiKey,
    AuditEntry,
    BrowserSession,
    Project,
    audit_unlocked,
)
from gramwatt.service.store.alerts import Alert, OutboxMessage
from gramwatt.service.store.columns import text_from_us
from gramwatt.service.store.job_labels import TAG, label_text
from gramwatt.service.store.models import Deletion, Job, JobLabel
from gramwatt.service.store.months import ALL, Budget, MonthlyReport, MonthlyReportJob, MonthSum
from gramwatt.service.store.people import USER, Person, alias_of, known_alias

ACTORS: tuple[InstrumentedAttribute[Any], ...] = (
    *(ApiKey.name, ApiKey.created_by, Project.declared_by, Budget.set_by),
    AuditEntry.actor,
)
"""Columns that are the name of who did something and that no document shows."""
SESSIONS = ("signed-in", "signed-out", "session-ended")
"""Acts of which the subject is a person's name; other subjects stay as they were written."""
OWN = (
    *(Budget, Alert, OutboxMessage, MonthlyReport, MonthlyReportJob),
    *(MonthSum, Project, Deletion),
)
"""Tables whose rows of a project go with it, beside jobs."""
_log = logging.getLogger("gramwatt.service")


class DeletedProject(Struct):
    """The record of a deleted project, and how many jobs went with it."""

    project: str
    deleted_at: str
    deleted_by: str
    jobs_deleted: int


class ErasedPerson(Struct):
    """The record of an erased person: the alias, how many jobs had the name, how many went."""

    alias: str
    erased_at: str
    erased_by: str
    jobs: int
    jobs_deleted: int


def erase_project(service: Service, project: str, *, by: str) -> DeletedProject:
    """Delete the jobs, reports, budgets, messages and own keys of a project; raises
    ServiceError `unknown-project`.
    """
    service = service.for_every_project()

    def erase(session: Session) -> int:
        jobs = session.scalars(sa.select(Job).where(Job.project == project)).all()
        for job in jobs:
            outdated(session, job)  # what was taken out of lesser jobs for it counts there now
            erase_rows(session, job.id)
        rows = len(jobs)
        for model in (Job, *OWN):
            column: Any = model.project
            gone = session.execute(sa.delete(model).where(column == project))
            rows += gone.rowcount  # type: ignore[attr-defined]
        if not rows:
            text = f"there is no project {project[:80]!r}"
            raise ServiceError(text, "unknown-project")
        empty_sums(session, MonthSum.project == ALL)  # also where a job was once of the project
        _leave(session, project)
        audit.record(session, service, "project-deleted", f"{len(jobs)} jobs", by)
        return len(jobs)

    deleted = service.store.transact(erase, large=True)
    _compact(service)
    at = text_from_us(service.now_us())
    return DeletedProject(project=project, deleted_at=at, deleted_by=by, jobs_deleted=deleted)


def _leave(session: Session, project: str) -> None:
    """Take a project out of keys, sessions and budgets of several; those of it alone go."""
    for model in (ApiKey, BrowserSession):
        for row in session.scalars(sa.select(model).where(sa.column("projects").is_not(None))):
            projects = json.loads(row.projects or "[]")  # type: ignore[attr-defined]
            if project in projects:
                projects.remove(project)
                row.projects = json.dumps(projects)  # type: ignore[attr-defined]
                if not projects:
                    session.delete(row)
    for budget in session.scalars(sa.select(Budget).where(Budget.covers.is_not(None))):
        covers = json.loads(budget.covers or "{}")
        if project in covers.get("projects", ()):
            covers["projects"].remove(project)
            budget.covers = json.dumps(covers)
            if not covers["projects"]:
                session.delete(budget)


def erase_person(service: Service, name: str, *, by: str, jobs: bool = False) -> ErasedPerson:
    """Blank a person's name, for which the alias stands from then on; raises ServiceError
    `unknown-person`.

    With `jobs`, those whose tag `user` is the name are deleted first.
    """
    service = service.for_every_project()
    deleted = _delete_jobs(service, name, by) if jobs else 0

    def erase(session: Session) -> tuple[str, int]:
        is_known = deleted or known_alias(session, name) is not None
        alias = alias_of(session, name)
        of_sessions = AuditEntry.subject == name, AuditEntry.action.in_(SESSIONS)
        changes = (
            *(sa.update(c.class_).where(c == name).values({c.key: alias}) for c in ACTORS),
            sa.update(AuditEntry).where(*of_sessions).values(subject=alias),
            sa.update(Budget).where(Budget.email == name).values(email=None),
            sa.delete(BrowserSession).where(BrowserSession.name == name),
            sa.delete(OutboxMessage).where(OutboxMessage.target == name),
        )
        with audit_unlocked(session.connection()):
            rows = [session.execute(change).rowcount for change in changes]  # type: ignore[attr-defined]
        if not (is_known or any(rows)):
            text = f"neither a tag `user` of a job nor a record of who did it is {name!r}"
            raise ServiceError(text, "unknown-person")
        session.execute(sa.update(Person).where(Person.alias == alias).values(name=None))
        own = JobLabel.label == label_text(TAG, f"{USER}:{alias}")
        number = session.scalar(sa.select(sa.func.count()).where(own)) or 0
        act = f"{alias}, {number} jobs"
        audit.record(session, service, "person-erased", act, alias if by == name else by)
        return alias, number

    alias, number = service.store.transact(erase, large=True)
    _compact(service)
    return ErasedPerson(
        alias=alias,
        erased_at=text_from_us(service.now_us()),
        erased_by=by,
        jobs=number,
        jobs_deleted=deleted,
    )


def _delete_jobs(service: Service, name: str, by: str) -> int:
    with service.store.read() as session:
        label = label_text(TAG, f"{USER}:{known_alias(session, name)}")
        own = sa.select(Job.job_id).join(JobLabel, JobLabel.job == Job.id)
        job_ids = session.scalars(own.where(JobLabel.label == label)).all()
    for job_id in job_ids:
        delete_job(service, job_id, by=by)
    return len(job_ids)


def _compact(service: Service) -> None:
    try:
        service.store.compact()
    except SQLAlchemyError as error:
        _log.warning("what was erased stays in free pages until the file is compacted: %s", error)

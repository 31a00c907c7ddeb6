"""Delete the rows of a project, and its name from what stays."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Session

from gramwatt.service.access.erased import DELETED_PROJECT
from gramwatt.service.access.erased import require_not_erased as require_not_erased
from gramwatt.service.container import Service
from gramwatt.service.erasure.redaction import (
    WithoutProject,
    redacted,
)
from gramwatt.service.erasure.rows import change_audit, change_documents, change_job, has
from gramwatt.service.jobs.deletion import remove_job
from gramwatt.service.store.access import (
    ApiKey,
    AuditEntry,
    BrowserSession,
    Project,
)
from gramwatt.service.store.budgets import Alert, Budget, OutboxMessage
from gramwatt.service.store.models import (
    Correction,
    Deletion,
    Job,
    KeptAnswer,
    MonthlyReport,
    MonthSum,
    WaitingLine,
)

PROJECT_COLUMNS: tuple[InstrumentedAttribute[Any], ...] = (
    *(Job.project, Job.declared_project, Project.project, Deletion.project),
    *(Budget.project, MonthlyReport.project),
)


OWN = (Budget, Alert, OutboxMessage, MonthlyReport, MonthSum, Project)
"""Tables whose rows of a project go with it, beside jobs."""


def projects(session: Session) -> set[str]:
    """Return every name of a project."""
    return {name for one in PROJECT_COLUMNS for name in session.scalars(sa.select(one).distinct())}


def delete_project_rows(session: Session, service: Service, project: str, by: str) -> int:
    """Delete the rows of a project; return how many jobs went."""
    if session.connection().dialect.name == "postgresql":  # no upload makes another one meanwhile
        session.connection().exec_driver_sql("LOCK TABLE jobs IN SHARE ROW EXCLUSIVE MODE")
    jobs = session.execute(sa.select(Job.id, Job.job_id).where(Job.project == project)).all()
    gone = session.scalars(sa.select(Deletion.job_id).where(Deletion.project == project)).all()
    ids = {*(job_id for _, job_id in jobs), *gone}
    aliases = {job_id: f"deleted-{secrets.token_hex(6)}" for job_id in sorted(ids)}
    change = WithoutProject(project, aliases, _own_models(session, project))
    for key, _ in jobs:
        remove_job(session, service, session.get_one(Job, key), by=by)
    _rename_moved(session, project)
    for row in session.scalars(sa.select(Deletion).where(Deletion.project == project)):
        row.job_id, row.project, row.reason = aliases[row.job_id], DELETED_PROJECT, None
        row.declared_project = DELETED_PROJECT
        row.scores = redacted(row.scores, change)
    session.flush()
    for own in OWN:
        session.execute(sa.delete(own).where(own.project == project))
    _delete_keys(session, project)
    for model, condition in (
        (WaitingLine, sa.or_(WaitingLine.job_id.in_(ids), has(WaitingLine.line, project))),
        (KeptAnswer, has(KeptAnswer.answer, project)),
        (MonthSum, sa.or_(has(MonthSum.doc, project), has(MonthSum.brief, project))),
    ):
        session.execute(sa.delete(model).where(condition))
    change_documents(session, project, change)
    named = re.compile(rf"(?<![\w.-]){re.escape(project)}(?![\w.-])")

    def without(entry: AuditEntry) -> tuple[str, str]:
        words = re.split(r"[\s:/?&=,;]+", entry.subject)
        text = unquote(entry.subject.replace("+", " "))
        is_named = named.search(text) or any(word in ids for word in words)
        return entry.actor, DELETED_PROJECT if is_named else entry.subject

    change_audit(session, service, without, ("project-deleted", f"{len(jobs)} jobs", by))
    return len(jobs)


def _own_models(session: Session, project: str) -> frozenset[str]:
    """Return the models that no other project has a job of."""
    wanted = sa.select(Job.model_id).where(Job.model_id.is_not(None)).distinct()
    own = set(session.scalars(wanted.where(Job.project == project)))
    own -= set(session.scalars(wanted.where(Job.project != project)))
    return frozenset(model for model in own if model is not None)


def _rename_moved(session: Session, project: str) -> None:
    """Take the project's name out of jobs that a correction moved to another one."""
    change = WithoutProject(project, only_name=True)
    moved = sa.select(Correction.job).where(
        Correction.field == "project", has(Correction.old, project)
    )
    there = sa.or_(Job.declared_project == project, Job.id.in_(moved))
    for job in session.scalars(sa.select(Job).where(there)).all():
        if job.declared_project == project:
            job.declared_project = job.project
        change_job(session, job, change)


def _delete_keys(session: Session, project: str) -> None:
    """Delete the keys, sessions and budgets of the project alone; those of several lose it."""
    for model in (ApiKey, BrowserSession):
        of_some = sa.select(model).where(sa.column("projects").is_not(None))
        for row in session.scalars(of_some):
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

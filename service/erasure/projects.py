"""Delete the rows of a project, and its name from what stays."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any, cast
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Session

from gramwatt.sci.base.document import JobDoc
from gramwatt.service.access.erased import DELETED_PROJECT
from gramwatt.service.access.erased import require_not_erased as require_not_erased
from gramwatt.service.container import Service
from gramwatt.service.erasure.redaction import (
    WithoutProject,
    redacted,
)
from gramwatt.service.erasure.rows import change_audit, change_documents, change_job, has
from gramwatt.service.jobs.deletion import remove_job
from gramwatt.service.months.sums.keeping import keep_parts
from gramwatt.service.months.sums.part import parts_of
from gramwatt.service.store.access import (
    ApiKey,
    AuditEntry,
    BrowserSession,
    Project,
)
from gramwatt.service.store.archives import ArchivedJob
from gramwatt.service.store.budgets import Alert, Budget, OutboxMessage
from gramwatt.service.store.documents import head_text, read_job, split_job
from gramwatt.service.store.job_labels import update_list_columns
from gramwatt.service.store.models import (
    Correction,
    Deletion,
    Device,
    Job,
    JobLabel,
    JobMonth,
    KeptAnswer,
    MonthlyReport,
    MonthSum,
    OpenJournal,
    Provisional,
    Score,
    WaitingLine,
    Writer,
)
from gramwatt.service.store.months import MonthClosing
from gramwatt.service.store.packs import IssuedPack

PROJECT_COLUMNS: tuple[InstrumentedAttribute[Any], ...] = (
    *(Job.project, Job.declared_project, Project.project, Deletion.project),
    *(Budget.project, MonthlyReport.project),
)


OWN = (Budget, Alert, OutboxMessage, MonthlyReport, MonthSum, Project, IssuedPack)
"""Tables whose rows of a project go with it, beside jobs."""


def projects(session: Session) -> set[str]:
    """Return every name of a project."""
    return {name for one in PROJECT_COLUMNS for name in session.scalars(sa.select(one).distinct())}


def delete_project_rows(
    session: Session, service: Service, project: str, by: str
) -> tuple[int, int]:
    """Delete the rows of a project; how many jobs went, and how many stay without their name."""
    if session.connection().dialect.name == "postgresql":  # no upload makes another one meanwhile
        session.connection().exec_driver_sql("LOCK TABLE jobs IN SHARE ROW EXCLUSIVE MODE")
    open_now = sa.select(MonthClosing.month).where(MonthClosing.reopened_us.is_(None))
    closed = set(session.scalars(open_now))
    jobs = session.execute(sa.select(Job.id, Job.job_id).where(Job.project == project)).all()
    gone = session.scalars(sa.select(Deletion.job_id).where(Deletion.project == project)).all()
    ids = {*(job_id for _, job_id in jobs), *gone}
    aliases = {job_id: f"deleted-{secrets.token_hex(6)}" for job_id in sorted(ids)}
    change = WithoutProject(project, aliases, _own_models(session, project))
    kept = 0
    for key, job_id in jobs:
        months = set(session.scalars(sa.select(JobMonth.month).where(JobMonth.job == key)))
        if months & closed:
            _keep_without_name(session, service, session.get_one(Job, key), aliases[job_id])
            kept += 1
        else:
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
        (IssuedPack, IssuedPack.name.in_(ids)),
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

    subject = f"{len(jobs) - kept} jobs, {kept} kept without name"
    change_audit(session, service, without, ("project-deleted", subject, by))
    return len(jobs) - kept, kept


def _own_models(session: Session, project: str) -> frozenset[str]:
    """Return the models that no other project has a job of."""
    wanted = sa.select(Job.model_id).where(Job.model_id.is_not(None)).distinct()
    own = set(session.scalars(wanted.where(Job.project == project)))
    own -= set(session.scalars(wanted.where(Job.project != project)))
    return frozenset(model for model in own if model is not None)


def _keep_without_name(session: Session, service: Service, job: Job, alias: str) -> None:
    """Keep of a job what its months need: its newest figures, without lines and without a name."""
    newest = sa.select(Score).where(Score.job == job.id, Score.revision == job.revision)
    score = session.scalars(newest).one()
    document = read_job(score.doc)
    named: Any = {
        **document,
        **{"job_id": alias, "name": alias, "project": DELETED_PROJECT, "model_id": None},
        "tags": {name: text for name, text in document["tags"].items() if name != "user"},
        "excluded": DELETED_PROJECT if document["excluded"] else None,
    }
    parts = parts_of(named)
    stays = cast(JobDoc, {**named, **_without_details(document)})
    for model in (Writer, Device, Correction, Provisional, OpenJournal, JobLabel, ArchivedJob):
        session.execute(sa.delete(model).where(model.job == job.id))
    session.execute(sa.delete(Score).where(Score.job == job.id, Score.id != score.id))
    score.doc, score.series = split_job(stays)
    job.job_id, job.project, job.declared_project = alias, DELETED_PROJECT, DELETED_PROJECT
    job.model_id, job.head = None, head_text(stays)
    job.notices, job.stored_b, job.rescore_us = 0, 0, None
    job.intervals_deleted_us = service.now_us()
    session.flush()
    update_list_columns(session, job, stays, stays)
    keep_parts(session, job, stays, parts, is_new=True)


def _without_details(document: JobDoc) -> dict[str, Any]:
    """Return the fields of a document that people wrote in or that name machines, emptied."""
    ai = {"unit_rationale": None, "unit_values": None, "tokeniser": None}
    devices = [{**device, "node": "", "device_id": ""} for device in document["devices"]]
    terms = [{**term, "node": "", "device_id": ""} for term in document["embodied_terms"]]
    method = document["method"]
    return {
        **{"tags": {}, "corrections": [], "notices": [], "windows": []},
        **{"devices": devices, "embodied_terms": terms},
        "method": {**method, "inputs": [], "sci_for_ai": {**method["sci_for_ai"], **ai}},
    }


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

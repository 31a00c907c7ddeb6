"""Delete a project, or a person's name, from everything that the store has.

A person becomes a random alias. Of the name a digest is kept, so that a restored backup, which
still has it, loses it again.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from gramwatt.collectors.common.files import whole_file
from gramwatt.service.access.erased import DELETED_PROJECT, PERSON, PROJECT, digest_of
from gramwatt.service.access.erased import require_not_erased as require_not_erased
from gramwatt.service.common.errors import UnknownPersonError, UnknownProjectError
from gramwatt.service.container import Service
from gramwatt.service.erasure.people import people, replace_name
from gramwatt.service.erasure.projects import PROJECT_COLUMNS, delete_project_rows, projects
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.store.access import (
    Erasure,
)
from gramwatt.service.store.job_labels import TAG, label_text
from gramwatt.service.store.models import (
    Job,
    JobLabel,
)
from gramwatt.service.store.timestamps import text_from_us

NOTE = "erasures.json"
"""The file beside backups that says what they may still name."""
_log = logging.getLogger("gramwatt.service")


class ErasureRow(TypedDict):
    """A project or person that was erased: the SHA-256 of the name, and what stands for it now."""

    kind: str
    name_sha256: str
    alias: str
    erased_at: str
    erased_by: str


class ErasuresAnswer(TypedDict):
    """What was erased, the newest last."""

    erasures: list[ErasureRow]


class DeletedProject(TypedDict):
    """The record of a deleted project, and how many jobs went."""

    project: str
    deleted_at: str
    deleted_by: str
    jobs_deleted: int


class ErasedPerson(TypedDict):
    """The record of an erased person: the alias, how many jobs had the name, how many went."""

    alias: str
    erased_at: str
    erased_by: str
    jobs: int
    jobs_deleted: int


def erase_project(service: Service, project: str, *, by: str) -> DeletedProject:
    """Delete a project for good; raises DeletedProjectError, UnknownProjectError."""
    service = service.for_every_project()

    def erase(session: Session) -> DeletedProject:
        require_not_erased(session, project)
        known = (sa.select(sa.literal(1)).where(one == project) for one in PROJECT_COLUMNS)
        if not any(session.scalar(found.limit(1)) for found in known):
            raise UnknownProjectError(project)
        row = _record(session, service, PROJECT, digest_of(project), DELETED_PROJECT, by)
        deleted = delete_project_rows(session, service, project, by)
        return {
            "project": project,
            "deleted_at": text_from_us(row.erased_us),
            "deleted_by": by,
            "jobs_deleted": deleted,
        }

    found = service.store.transact(erase, large=True)
    _finish(service)
    return found


def erase_person(service: Service, name: str, *, by: str, jobs: bool = False) -> ErasedPerson:
    """Put a random alias in the place of a person's name; with `jobs`, delete their jobs first.

    Theirs are the jobs whose tag `user` is the name. Raises UnknownPersonError.
    """
    service = service.for_every_project()
    deleted = _delete_jobs(service, name, by) if jobs else 0

    def erase(session: Session) -> ErasedPerson:
        digest = digest_of(name)
        row = session.get(Erasure, (PERSON, digest))
        if row is None:
            if not deleted and name not in people(session):
                raise UnknownPersonError(name)
            alias = f"person-{secrets.token_hex(6)}"
            row = _record(session, service, PERSON, digest, alias, by)
        number = replace_name(session, service, name, row.alias, by)
        return {
            "alias": row.alias,
            "erased_at": text_from_us(row.erased_us),
            "erased_by": row.erased_by,
            "jobs": number,
            "jobs_deleted": deleted,
        }

    found = service.store.transact(erase, large=True)
    _finish(service)
    return found


def erasures(service: Service) -> ErasuresAnswer:
    """Return what was erased, when and by whom."""
    with service.for_every_project().store.read() as session:
        rows = session.scalars(sa.select(Erasure).order_by(Erasure.erased_us)).all()
    return {"erasures": [_row(row) for row in rows]}


def write_note(service: Service) -> None:
    """Write the list of erasures beside the backups, which still have the names; raises OSError."""
    folder, found = service.config.backup_dir, erasures(service)
    if folder is not None and found["erasures"]:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with whole_file(folder / NOTE) as stream:
            stream.write(json.dumps(found, indent=1).encode())


def read_note(backup: Path) -> list[ErasureRow]:
    """Return the erasures noted beside a backup; none without a note."""
    path = backup.with_name(NOTE)
    return json.loads(path.read_text())["erasures"] if path.is_file() else []


def erase_again(service: Service, rows: Iterable[ErasureRow]) -> None:
    """Erase in a restored store what was erased after its backup was made."""
    service = service.for_every_project()

    def erase(session: Session) -> None:
        for row in rows:
            kind, digest = row["kind"], row["name_sha256"]
            if session.get(Erasure, (kind, digest)) is None:
                _record(session, service, kind, digest, row["alias"], row["erased_by"])
            names = projects(session) if kind == PROJECT else people(session)
            for name in (name for name in names if digest_of(name) == digest):
                if kind == PROJECT:
                    delete_project_rows(session, service, name, row["erased_by"])
                else:
                    replace_name(session, service, name, row["alias"], row["erased_by"])

    service.store.transact(erase, large=True)
    _finish(service)


def _row(row: Erasure) -> ErasureRow:
    return {
        "kind": row.kind,
        "name_sha256": row.digest,
        "alias": row.alias,
        "erased_at": text_from_us(row.erased_us),
        "erased_by": row.erased_by,
    }


def _record(
    session: Session, service: Service, kind: str, digest: str, alias: str, by: str
) -> Erasure:
    row = Erasure(kind=kind, digest=digest, alias=alias, erased_us=service.now_us(), erased_by=by)
    session.add(row)
    session.flush()
    return row


def _finish(service: Service) -> None:
    """Take the names out of the database's free pages, and write the note for the backups."""
    try:
        service.store.compact()
    except SQLAlchemyError as error:
        _log.warning("erased names stay in free pages of the file until it is compacted: %s", error)
    try:
        write_note(service)
    except OSError as error:
        _log.warning("cannot write the note of erasures beside the backups: %s", error)


def _delete_jobs(service: Service, name: str, by: str) -> int:
    with service.store.read() as session:
        keys = session.execute(
            sa.select(Job.job_id, Job.project)
            .join(JobLabel, JobLabel.job == Job.id)
            .where(JobLabel.label == label_text(TAG, f"user:{name}"))
        ).all()
    for job_id, project in keys:
        delete_job(service.of_project(project), job_id, by=by)
    return len(keys)

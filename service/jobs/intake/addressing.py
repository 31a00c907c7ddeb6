"""Which job the lines of an upload are of: an id is unique in its project, and lines name both.

A caller of one project has one job of an id. For others, what decides is the project that the
address or the lines name, then the nodes and writers that a job knows. Lines of a node that no job
knows wait for the node's `job` line.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.journal.merge import UNDECLARED, project_of
from gramwatt.sci.journal.records import AnyRecord, JobRecord, decode, encode
from gramwatt.service.access.projects import first_project, require_own, require_visible
from gramwatt.service.common.errors import (
    AmbiguousJobError,
    JobTakenError,
    UnknownJobError,
)
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import deleted_error
from gramwatt.service.store.models import Deletion, Job, WaitingLine, Writer
from gramwatt.service.store.timestamps import to_us
from gramwatt.service.store.upserts import upsert

_UNSAID = UNDECLARED["project"]
_COLUMNS = (
    *(Job.id, Job.project, Job.declared_project, Job.state, Job.silent_us),
    *(Job.intervals_deleted_us, (Job.head == "").label("is_fresh")),
)
JobRow = sa.Row[int, str, str, str, int | None, int | None, bool]
# Made once: to put a statement together takes as long as to run it.
_JOBS = (
    sa.select(*_COLUMNS)
    .where(Job.job_id == sa.bindparam("job_id"))
    .order_by(Job.id)
    .with_for_update()
)
_PROJECTS: sa.BindParameter[str] = sa.bindparam("projects", expanding=True)
_OWN_JOBS = _JOBS.where(sa.or_(Job.project.in_(_PROJECTS), Job.declared_project.in_(_PROJECTS)))
_MADE = _JOBS.where(Job.project == sa.bindparam("project"))


def locked_job(
    service: Service, session: Session, job_id: str, project: str | None, batch: list[AnyRecord]
) -> JobRow | None:
    """Return the row of the job that the lines are of, locked, made if missing.

    None where only a `job` line to come says which job that is. Raises AmbiguousJobError,
    DeletedJobError, JobTakenError, ForeignProjectError, or UnknownJobError for a job that was moved
    to where the caller does not see it.
    """
    heads = [record for record in batch if isinstance(record, JobRecord)]
    declared = project_of(heads)
    if project is not None:
        require_own(service, project)
        rows = [
            row
            for row in _rows(service, session, job_id)
            if project in (row.project, row.declared_project)
        ]
        rows = [row for row in rows if row.project == project] or rows
    else:
        rows = _of_batch(session, _rows(service, session, job_id), declared, batch)
    if len(rows) > 1:
        raise AmbiguousJobError(job_id, [row.project for row in rows])
    if rows:
        require_visible(service, job_id, rows[0].project)
        return rows[0]
    projects = service.caller.projects
    if project is None and not heads and (projects is None or len(projects) > 1):
        require_not_deleted(service, session, job_id, None)
        return None
    if project is None:
        project = first_project(service) if declared == _UNSAID else declared
    require_own(service, project)
    return _made(service, session, job_id, project, batch)


def _rows(service: Service, session: Session, job_id: str) -> list[JobRow]:
    """Return the jobs of this id that the caller sees, or sent before they were moved."""
    projects = service.caller.projects
    wanted = {"job_id": job_id}
    if projects is None:
        return list(session.connection().execute(_JOBS, wanted))
    return list(session.connection().execute(_OWN_JOBS, wanted | {"projects": sorted(projects)}))


def _of_batch(
    session: Session, rows: list[JobRow], declared: str, batch: Sequence[AnyRecord]
) -> list[JobRow]:
    """Return the jobs that the lines may be of: by project, where several by node and by writer.

    A job whose own lines name no project may be the one: a node or a `track` may say it later. So
    may one that runs on a node of the lines, where a `track` names another project than its
    command.
    """
    if declared != _UNSAID:
        nodes = {record.node for record in batch}
        rows = [row for row in rows if row.declared_project == declared] or [
            row
            for row in rows
            if row.declared_project == _UNSAID
            or (row.state == "running" and _knows(session, row, nodes))
        ]
    if len(rows) > 1:
        for column in (Writer.node, Writer.writer):
            names = {getattr(record, column.key) for record in batch}
            known = sa.select(Writer.job).where(
                Writer.job.in_([row.id for row in rows]), column.in_(names)
            )
            found = set(session.scalars(known))
            rows = [row for row in rows if row.id in found] or rows
    return rows


def _knows(session: Session, row: JobRow, nodes: Collection[str]) -> bool:
    return bool(known_nodes(session, row.id) & set(nodes))


def known_nodes(session: Session, job: int) -> set[str]:
    """Return the nodes of which a job has lines."""
    return set(session.scalars(sa.select(Writer.node).where(Writer.job == job)))


def _made(
    service: Service, session: Session, job_id: str, project: str, batch: list[AnyRecord]
) -> JobRow:
    """Return the row of a new job, or of one that another upload has made meanwhile, locked."""
    now_us = service.now_us()
    row = {
        "job_id": job_id,
        "project": project,
        "declared_project": project,
        "state": "running",
        "started_us": _first_us(batch, now_us),
        "heard_us": now_us,
        "version": 0,
        "scored_version": 0,
        "revision": 0,
        "head": "",
        "notices": 0,
    }
    upsert(session, Job, [row])
    wanted = {"job_id": job_id, "project": project}
    # A deletion of the job has either finished, or waits for this lock.
    made: JobRow = session.connection().execute(_MADE, wanted).one()
    if made.declared_project not in (project, _UNSAID):  # another one, moved here
        raise JobTakenError(job_id, project)
    require_not_deleted(service, session, job_id, project)
    return made


def require_not_deleted(
    service: Service, session: Session, job_id: str, project: str | None
) -> None:
    """Raise DeletedJobError where the job of these lines was deleted; of no project, any of it.

    Raises UnknownJobError for one that was deleted where the caller does not see it.
    """
    wanted = sa.select(Deletion).where(Deletion.job_id == job_id)
    if project is not None:
        wanted = wanted.where(
            sa.or_(Deletion.project == project, Deletion.declared_project == project)
        )
    projects = service.caller.projects
    for record in session.scalars(wanted):
        if projects is None or record.project in projects:
            raise deleted_error(session, record)
        if record.declared_project in projects:
            raise UnknownJobError(job_id, [])


def _first_us(batch: list[AnyRecord], otherwise_us: int) -> int:
    """Return a time in the batch [us since 1970]: the job may have begun then, if none says it."""
    for record in batch:
        for name in ("started_at", "at", "ended_at", "start"):
            if hasattr(record, name):
                return to_us(getattr(record, name))
    return otherwise_us


def split_waiting(
    service: Service,
    session: Session,
    job: JobRow | None,
    project: str | None,
    batch: list[AnyRecord],
) -> tuple[list[AnyRecord], list[AnyRecord]]:
    """Return the lines that can be stored, and those that wait for the `job` line of their node."""
    projects = service.caller.projects
    if job is not None and (project is not None or (projects is not None and len(projects) == 1)):
        return batch, []
    known = {record.node for record in batch if isinstance(record, JobRecord)}
    nodes = {record.node for record in batch}
    if job is not None and nodes - known:
        known |= known_nodes(session, job.id)
    if nodes <= known:
        return batch, []
    return (
        [record for record in batch if record.node in known],
        [record for record in batch if record.node not in known],
    )


def keep_waiting(service: Service, session: Session, job_id: str, lines: list[AnyRecord]) -> int:
    """Keep lines until their job is known; return how many are new."""
    mine = (WaitingLine.caller == service.caller.identity, WaitingLine.job_id == job_id)
    count = sa.select(sa.func.count()).select_from(WaitingLine).where(*mine)
    before = session.scalar(count) or 0
    who = {"caller": service.caller.identity, "job_id": job_id, "made_us": service.now_us()}
    rows = [
        {**who, "node": r.node, "writer": r.writer, "seq": r.seq, "line": encode(r)} for r in lines
    ]
    upsert(session, WaitingLine, rows)
    return (session.scalar(count) or 0) - before


def released(
    service: Service, session: Session, job_id: str, nodes: Collection[str]
) -> list[AnyRecord]:
    """Return the lines of these nodes that have waited, and keep them no longer."""
    mine = (
        WaitingLine.caller == service.caller.identity,
        WaitingLine.job_id == job_id,
        WaitingLine.node.in_(sorted(nodes)),
    )
    lines = session.scalars(
        sa.select(WaitingLine.line).where(*mine).order_by(WaitingLine.seq)
    ).all()
    if lines:
        session.execute(sa.delete(WaitingLine).where(*mine))
    return [decode(line) for line in lines]

"""Open a job for a sender without a meter: its first line, the records follow."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.journal.records import VERSION, JobRecord, decode, encode, format_time
from gramwatt.service.container import Service
from gramwatt.service.store.models import Job, Statement, Writer
from gramwatt.service.usecases.changes.corrections import check_place
from gramwatt.service.usecases.errors import CorrectionError, OpenedOtherwiseError, UnknownJobError
from gramwatt.service.usecases.intake.ingest import ingest
from gramwatt.service.usecases.jobs.documents import JobSummary, find_job

FIRST = 1
"""The number of the line that opens the job; the sender goes on with the next one."""


def open_job(
    service: Service, job_id: str, node: str, writer: str, declared: Mapping[str, Any]
) -> tuple[JobSummary, bool]:
    """The job, running, and whether this opened it; the same again changes nothing.

    `declared` holds fields of a job's record. Raises CorrectionError for a field without meaning,
    OpenedOtherwiseError for a job that declares something else, or DeletedJobError.
    """
    check_place(service.catalog, declared)
    identity = {"job_id": job_id, "node": node, "writer": writer, "seq": FIRST}
    now = {"started_at": format_time(service.now())}
    line = {"v": VERSION, "type": JobRecord.TYPE, **identity, "role": "command", **now, **declared}
    record = _checked(line)
    created = not _is_there(service, job_id)
    if created:
        ingest(service, job_id, [encode(record).encode()])
    with service.store.read() as session:
        job = find_job(session, job_id)
        first = _first_line(session, job, node, writer)
    if first is None:
        raise OpenedOtherwiseError(job_id, "opened by another writer")
    stored = decode(first)
    differing = [name for name in declared if getattr(stored, name) != getattr(record, name)]
    if differing:
        raise OpenedOtherwiseError(job_id, f"with another {differing[0]}")
    return JobSummary.from_row(job), created


def _checked(line: Mapping[str, Any]) -> JobRecord:
    try:
        record = decode(json.dumps(line))
    except RecordError as error:
        named = re.match(r"field '(\w+)'", error.message)
        # What else a job's record refuses is its only time.
        raise CorrectionError(named[1] if named else "started_at", error.message) from None
    assert isinstance(record, JobRecord)  # the type of the line
    return record


def _is_there(service: Service, job_id: str) -> bool:
    try:
        with service.store.read() as session:
            find_job(session, job_id)
    except UnknownJobError:
        return False
    return True


def _first_line(session: Session, job: Job, node: str, writer: str) -> str | None:
    wanted = (
        sa.select(Statement.line)
        .join(Writer, Writer.id == Statement.writer)
        .where(Writer.job == job.id, Writer.node == node, Writer.writer == writer)
        .where(Statement.seq == FIRST)
    )
    return session.scalar(wanted)

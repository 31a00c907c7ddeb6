"""Open a job for a sender without a meter: its first line, the records follow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from gramwatt.sci.figures.errors import RecordError
from gramwatt.sci.records.records import VERSION, JobRecord, decode, encode, format_time, readable
from gramwatt.service.common.errors import CorrectionError, ServiceError
from gramwatt.service.container import Service
from gramwatt.service.jobs.corrections import check_place
from gramwatt.service.jobs.documents import JobSummary, find_known_job, summaries
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.store.models import Job, Statement, Writer
from gramwatt.service.store.people import with_names

FIRST = 1
"""The number of the line that opens the job; the sender goes on with the next one."""


def open_job(
    service: Service,
    job_id: str,
    node: str,
    writer: str,
    declared: Mapping[str, Any],
) -> tuple[JobSummary, bool]:
    """Return the job, and whether this opened it; the same again changes nothing.

    `declared` holds fields of a job's record. Raises CorrectionError for a field without meaning,
    ServiceError `conflict` for a job that declares something else, UnknownJobError for an id of
    others, or DeletedJobError.
    """
    check_place(service.catalog, declared)
    identity = {"job_id": job_id, "node": node, "writer": writer, "seq": FIRST}
    now = {"started_at": format_time(service.now())}
    line = {"v": VERSION, "type": JobRecord.TYPE, **identity, "role": "command", **now, **declared}
    record = _checked(line)
    created = _opening_lines(service, job_id)[0] is None
    if created:
        ingest(service, job_id, [encode(record).encode()])
    job, lines = _opening_lines(service, job_id)
    assert job is not None  # the line made it; where it was deleted since, that is said
    stored = lines.get((node, writer, FIRST))
    if stored is None:
        raise _opened_otherwise(job_id, "opened by another writer")
    differing = [name for name in declared if getattr(stored, name) != getattr(record, name)]
    if differing:
        raise _opened_otherwise(job_id, f"with another {differing[0]}")
    with service.store.read() as session:
        return summaries(session, [job])[0], created


def _opened_otherwise(job_id: str, what: str) -> ServiceError:
    text = f"job {job_id!r} is there already, {what}; change it with PATCH"
    return ServiceError(text, "conflict")


def _checked(line: Mapping[str, Any]) -> JobRecord:
    try:
        record = decode(json.dumps(line))
    except RecordError as error:
        # What else a job's record refuses is its only time.
        raise CorrectionError(error.field or "started_at", error.message) from None
    assert isinstance(record, JobRecord)  # the type of the line
    return record


def _opening_lines(
    service: Service, job_id: str
) -> tuple[Job | None, dict[tuple[str, str, int], JobRecord]]:
    """Return the job and its lines that say what runs, by node, writer and number."""
    with service.store.read() as session:
        job = find_known_job(session, job_id)
        if job is None:
            return None, {}
        wanted = sa.select(Statement.line).join(Writer, Writer.id == Statement.writer)
        # Lines that contradict another of their number have negative ones.
        wanted = wanted.where(Writer.job == job.id, Statement.seq > 0)
        records = list(readable(with_names(session, line) for line in session.scalars(wanted)))
    return job, {(r.node, r.writer, r.seq): r for r in records if isinstance(r, JobRecord)}

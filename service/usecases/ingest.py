"""Store journal lines, idempotently: by (job, node, writer, seq), and intervals by identity."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.journal.bounds import LEAST_W, check_energy
from gramwatt.sci.journal.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    decode,
    encode,
)
from gramwatt.service.container import Service
from gramwatt.service.store.database import upsert
from gramwatt.service.store.models import Count, Device, Interval, Job, Statement, Writer
from gramwatt.service.store.timestamps import to_us
from gramwatt.service.usecases.answers import IngestAnswer, Rejected
from gramwatt.service.usecases.deleted import require_not_deleted
from gramwatt.service.usecases.jobs import find_job
from gramwatt.service.usecases.journal import device_classes, refresh_head
from gramwatt.service.usecases.score_job import score_when_closed
from gramwatt.service.usecases.sequences import Arrived

_WriterName = tuple[str, str]
_Classes = dict[str, str | None]


@dataclass(slots=True)
class _Batch:
    """Records of an upload that may be stored, and the lines that may not."""

    records: list[AnyRecord] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


def ingest(
    service: Service, job_id: str, lines: Iterable[bytes], *, score: bool = True
) -> IngestAnswer:
    """Store the lines that are new; a bad one is rejected alone. Scores the job when it has ended.

    Nothing is lost when scoring fails: the lines are committed before. Raises DeletedJobError for
    lines of a deleted job.
    """
    batch = _parse(service, job_id, lines)
    answer: IngestAnswer = {
        "accepted": 0,
        "duplicate": 0,
        "rejected": batch.rejected,
        "acknowledged": [],
    }
    if not batch.records:
        return answer
    with service.store.write() as session:
        job = _locked_job(session, job_id, batch.records[0], service.now_us())
        new = _store(session, job, batch.records, answer)
        if new:
            job.version += 1
            job.heard_us = service.now_us()
            resumed = job.silent_us is not None
            job.silent_us = None
            if resumed or any(isinstance(r, JobRecord | EndRecord) for r in new):
                refresh_head(session, job)
        key = job.id
    if score:
        score_when_closed(service, key)
    return answer


def _parse(service: Service, job_id: str, lines: Iterable[bytes]) -> _Batch:
    batch = _Batch()
    classes: _Classes = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = decode(line)
            if record.job_id != job_id:
                text = f"the line is of job {record.job_id!r}, the address of {job_id!r}"
                raise RecordError(text, code="wrong-job")
            _check_possible(service, record, classes)
        except RecordError as error:
            rejected: Rejected = {"line": number, "code": error.code, "message": error.message}
            batch.rejected.append(rejected)
        else:
            batch.records.append(record)
    return batch


def _check_possible(service: Service, record: AnyRecord, classes: _Classes) -> None:
    """Raise RecordError for more energy than the class of a device can draw.

    `classes` are those that the upload told so far; the stored ones are read when one is needed.
    """
    if isinstance(record, DeviceRecord):
        classes[record.device_id] = record.device_class
    if not isinstance(record, IntervalRecord):
        return
    length_s = (record.end - record.start).total_seconds()
    if record.energy_j <= LEAST_W * length_s:
        return
    if record.device_id not in classes:
        with service.store.read() as session:
            stored = device_classes(session, record.job_id)
        classes.update({record.device_id: None, **stored, **classes})
    check_energy(record.energy_j, length_s, classes[record.device_id])


def _locked_job(session: Session, job_id: str, first: AnyRecord, now_us: int) -> Job:
    """The job's row, created if missing, locked so that uploads of one job wait for each other."""
    row = {
        "job_id": job_id,
        "project": "default",
        "state": "running",
        "started_us": _time_us(first, now_us),
        "heard_us": now_us,
        "version": 0,
        "scored_version": 0,
        "revision": 0,
        "head": "",
        "notices": 0,
    }
    upsert(session, Job, [row])
    # Only now: a deletion of the job has either finished, or waits for this lock.
    job = find_job(session, job_id, lock=True)
    require_not_deleted(session, job_id)
    if not job.head:
        refresh_head(session, job)
    return job


def _time_us(record: AnyRecord, otherwise_us: int) -> int:
    for name in ("started_at", "start", "at", "ended_at"):
        if hasattr(record, name):
            return to_us(getattr(record, name))
    return otherwise_us


def _store(
    session: Session, job: Job, records: Sequence[AnyRecord], answer: IngestAnswer
) -> list[AnyRecord]:
    writers = _writers(session, job, {(r.node, r.writer) for r in records})
    arrived = {name: Arrived.from_row(row.contiguous, row.beyond) for name, row in writers.items()}
    new = [record for record in records if arrived[record.node, record.writer].add(record.seq)]
    for name, row in writers.items():
        row.contiguous, row.beyond = arrived[name].contiguous, arrived[name].to_text()
    session.flush()
    keys = {name: row.id for name, row in writers.items()}
    _store_statements(session, keys, new)
    _store_counts(session, keys, [r for r in new if isinstance(r, CountRecord) and not r.since])
    _store_intervals(session, job, [r for r in new if isinstance(r, IntervalRecord)])
    answer["accepted"] = len(new)
    answer["duplicate"] = len(records) - len(new)
    answer["acknowledged"] = [
        {"node": node, "writer": writer, "seq": arrived[node, writer].contiguous}
        for node, writer in sorted(arrived)
    ]
    return new


def _writers(session: Session, job: Job, names: set[_WriterName]) -> dict[_WriterName, Writer]:
    known = session.scalars(sa.select(Writer).where(Writer.job == job.id))
    rows = {(row.node, row.writer): row for row in known if (row.node, row.writer) in names}
    for node, writer in sorted(names - rows.keys()):
        rows[node, writer] = Writer(job=job.id, node=node, writer=writer, contiguous=0, beyond="[]")
        session.add(rows[node, writer])
    return rows


def _store_statements(
    session: Session, keys: dict[_WriterName, int], new: Sequence[AnyRecord]
) -> None:
    rows = [
        {
            "writer": keys[record.node, record.writer],
            "seq": record.seq,
            "line": encode(record),
        }
        for record in new
        if getattr(record, "since", None) or not isinstance(record, IntervalRecord | CountRecord)
    ]
    upsert(session, Statement, rows)


def _store_counts(
    session: Session, keys: dict[_WriterName, int], counts: Sequence[CountRecord]
) -> None:
    rows = [
        {
            "writer": keys[count.node, count.writer],
            "seq": count.seq,
            "at_us": to_us(count.at),
            "unit": count.unit,
            "amount": count.amount,
            "phase": count.phase,
        }
        for count in counts
    ]
    upsert(session, Count, rows)


def _store_intervals(session: Session, job: Job, intervals: Sequence[IntervalRecord]) -> None:
    names = {(interval.node, interval.device_id) for interval in intervals}
    known = session.scalars(sa.select(Device).where(Device.job == job.id))
    devices = {(row.node, row.device_id): row for row in known}
    for node, device_id in sorted(names - devices.keys()):
        devices[node, device_id] = Device(job=job.id, node=node, device_id=device_id)
        session.add(devices[node, device_id])
    session.flush()
    rows = [
        {
            "device": devices[interval.node, interval.device_id].id,
            "start_us": to_us(interval.start),
            "end_us": to_us(interval.end),
            "seq": interval.seq,
            "writer": interval.writer,
            "energy_j": interval.energy_j,
            "kind": interval.kind,
            "utilisation_mean": interval.utilisation_mean,
            "utilisation_max": interval.utilisation_max,
            "memory_peak_b": interval.memory_peak_b,
            "power_max_w": interval.power_max_w,
            "profile": json.dumps(interval.profile) if interval.profile else None,
        }
        for interval in intervals
    ]
    upsert(session, Interval, rows, newer=("end_us", "seq", "writer"))

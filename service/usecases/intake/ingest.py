"""Store journal lines, idempotently: by (job, node, writer, seq), and intervals by identity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.journal.bounds import LEAST_W, check_energy
from gramwatt.sci.journal.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    encode,
)
from gramwatt.service.container import Service
from gramwatt.service.store.database import upsert
from gramwatt.service.store.documents import to_text
from gramwatt.service.store.models import Count, Device, Interval, Job, Statement, Writer
from gramwatt.service.store.timestamps import to_us
from gramwatt.service.usecases.access.projects import first_project, require_own, require_visible
from gramwatt.service.usecases.answers import Acknowledged, IngestAnswer
from gramwatt.service.usecases.intake.lines import checked
from gramwatt.service.usecases.intake.sequences import Arrived
from gramwatt.service.usecases.intake.tally import Tally
from gramwatt.service.usecases.jobs.deleted import require_not_deleted
from gramwatt.service.usecases.jobs.documents import find_job, require_intervals
from gramwatt.service.usecases.jobs.journal import device_classes, refresh_head
from gramwatt.service.usecases.jobs.scoring import score_when_closed

_HEADS = (JobRecord.TYPE, EndRecord.TYPE)
"""Records that change what lists show of a job."""
_ARRIVED = (
    sa.update(Writer.__table__)  # type: ignore[arg-type]  # a plain table
    .where(Writer.__table__.c.id == sa.bindparam("key"))
    .values(contiguous=sa.bindparam("to"), beyond=sa.bindparam("spans"))
)
_WriterName = tuple[str, str]
_Row = sa.Row[int, str, str, int, str]
_Keys = dict[_WriterName, int]
_Classes = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class _Stored:
    """What became of a batch of records; `job` is the key of their job, which may have ended."""

    job: int
    ended: bool
    new: int
    acknowledged: list[Acknowledged]


def ingest(
    service: Service, job_id: str, lines: Iterable[bytes], *, score: bool = True
) -> IngestAnswer:
    """Store the lines that are new; a bad one is rejected alone. An ended job is scored.

    Lines are read and committed in batches, however many there are. So nothing that was stored is
    lost when the lines break off, or when scoring fails. Raises DeletedJobError for lines of a
    deleted job, IntervalsDeletedError for new ones of a job whose others were deleted,
    UnknownJobError for a job of another project than the caller's, and
    ForeignProjectError for lines that would put a job into one.
    """
    service = service.for_every_project()
    tally = Tally()
    key: int | None = None
    check = partial(_check_possible, service, {})
    for batch in checked(job_id, lines, check, tally):
        stored = service.store.transact(partial(_store_batch, service, job_id, batch))
        tally.add(stored.new, len(batch) - stored.new, stored.acknowledged)
        key = stored.job if stored.ended else None
    if score and key is not None:
        if service.score_later:
            service.score_later(key)
        else:
            score_when_closed(service, key)
    return tally.answer()


def _check_possible(service: Service, classes: _Classes, record: AnyRecord) -> None:
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


def _store_batch(
    service: Service, job_id: str, records: Sequence[AnyRecord], session: Session
) -> _Stored:
    """Store the records that are new, in the transaction of `session`."""
    job = _locked_job(service, session, job_id, records[0])
    new, keys, acknowledged = _arrivals(session, job, records)
    if new:
        require_intervals(job, "what comes later cannot be added")
        _store(session, job, keys, new)
        job.version += 1
        job.heard_us = service.now_us()
        resumed = job.silent_us is not None
        job.silent_us = None
        if resumed or any(r.TYPE in _HEADS for r in new):
            refresh_head(session, job)
    require_own(service, job.project)
    return _Stored(job.id, job.state != "running", len(new), acknowledged)


def _locked_job(service: Service, session: Session, job_id: str, first: AnyRecord) -> Job:
    """The job's row, created if missing, locked so that uploads of one job wait for each other."""
    known = session.scalars(sa.select(Job).where(Job.job_id == job_id).with_for_update())
    job = known.one_or_none()
    if job is None:
        job = _new_job(service, session, job_id, first)
    require_visible(service, job)
    if not job.head:
        refresh_head(session, job)
    return job


def _new_job(service: Service, session: Session, job_id: str, first: AnyRecord) -> Job:
    now_us = service.now_us()
    row = {
        "job_id": job_id,
        "project": first_project(service),
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
    require_not_deleted(session, job_id, service.caller.projects)
    return job


def _time_us(record: AnyRecord, otherwise_us: int) -> int:
    for name in ("started_at", "start", "at", "ended_at"):
        if hasattr(record, name):
            return to_us(getattr(record, name))
    return otherwise_us


def _arrivals(
    session: Session, job: Job, records: Sequence[AnyRecord]
) -> tuple[list[AnyRecord], _Keys, list[Acknowledged]]:
    """The records that are new, the keys of their writers, and how far each writer has arrived."""
    writers = _writers(session, job, {(r.node, r.writer) for r in records})
    arrived = {name: Arrived.from_row(row.contiguous, row.beyond) for name, row in writers.items()}
    new = [record for record in records if arrived[record.node, record.writer].add(record.seq)]
    if new:
        rows = [
            {"key": row.id, "to": arrived[name].contiguous, "spans": arrived[name].to_text()}
            for name, row in sorted(writers.items())
        ]
        session.connection().execute(_ARRIVED, rows)
    acknowledged: list[Acknowledged] = [
        {"node": node, "writer": writer, "seq": arrived[node, writer].contiguous}
        for node, writer in sorted(arrived)
    ]
    return new, {name: row.id for name, row in writers.items()}, acknowledged


def _store(session: Session, job: Job, keys: _Keys, new: Sequence[AnyRecord]) -> None:
    """Store new records of a job by type. What is summed from them is kept up to date after it."""
    intervals: list[IntervalRecord] = []
    counts: list[CountRecord] = []
    statements: list[AnyRecord] = []
    for record in new:
        if isinstance(record, IntervalRecord):
            intervals.append(record)
        elif isinstance(record, CountRecord) and not record.since:
            counts.append(record)
        else:
            statements.append(record)
    _store_statements(session, keys, statements)
    _store_counts(session, keys, counts)
    _store_intervals(session, job, intervals)


def _writers(session: Session, job: Job, names: set[_WriterName]) -> dict[_WriterName, _Row]:
    """Key, `contiguous` and `beyond` of the writers, by name; those that are missing are made."""
    columns = Writer.id, Writer.node, Writer.writer, Writer.contiguous, Writer.beyond
    of_nodes = Writer.job == job.id, Writer.node.in_({node for node, _ in names})
    known = session.execute(sa.select(*columns).where(*of_nodes))
    found = {name: row for row in known if (name := (row.node, row.writer)) in names}
    if missing := sorted(names - found.keys()):
        empty = {"job": job.id, "contiguous": 0, "beyond": "[]"}
        rows = [{**empty, "node": node, "writer": writer} for node, writer in missing]
        session.execute(sa.insert(Writer), rows)
        return _writers(session, job, names)
    return found


def _devices(session: Session, job: Job, names: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Keys of the devices by node and id; those that are missing are made."""
    columns = Device.id, Device.node, Device.device_id
    of_nodes = Device.job == job.id, Device.node.in_({node for node, _ in names})
    known = session.execute(sa.select(*columns).where(*of_nodes))
    found = {(node, device_id): key for key, node, device_id in known}
    if missing := sorted(names - found.keys()):
        rows = [{"job": job.id, "node": node, "device_id": one} for node, one in missing]
        session.execute(sa.insert(Device), rows)
        return _devices(session, job, names)
    return found


def _store_statements(session: Session, keys: _Keys, statements: Sequence[AnyRecord]) -> None:
    rows = [
        {
            "writer": keys[record.node, record.writer],
            "seq": record.seq,
            "line": encode(record),
        }
        for record in statements
    ]
    upsert(session, Statement, rows)


def _store_counts(session: Session, keys: _Keys, counts: Sequence[CountRecord]) -> None:
    rows = [
        {
            "writer": keys[count.node, count.writer],
            "seq": count.seq,
            "at_us": to_us(count.at),
            "unit": count.unit,
            "amount": count.amount,
            "phase": count.phase,
            "extra": to_text(count.extra) if count.extra else None,
        }
        for count in counts
    ]
    upsert(session, Count, rows)


def _store_intervals(session: Session, job: Job, intervals: Sequence[IntervalRecord]) -> None:
    if not intervals:
        return
    ids = _devices(session, job, {(one.node, one.device_id) for one in intervals})
    rows = [
        {
            "device": ids[interval.node, interval.device_id],
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
            "profile": msgspec.json.encode(interval.profile).decode() if interval.profile else None,
            "extra": to_text(interval.extra) if interval.extra else None,
        }
        for interval in intervals
    ]
    upsert(session, Interval, rows, newer=("end_us", "seq", "writer"))

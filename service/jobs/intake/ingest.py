"""Store journal lines, idempotently: by (job, node, writer, seq), and intervals by identity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.collectors.settings.identity import bound_id, chosen_part, is_bound_to, is_random
from gramwatt.sci.records.merge import UNDECLARED, project_of
from gramwatt.sci.records.records import (
    LEAST_W,
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    check_energy,
    encode,
)
from gramwatt.service.access.projects import require_own
from gramwatt.service.common.answers import Acknowledged, IngestAnswer
from gramwatt.service.common.errors import UnknownJobError
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import deleted_error, require_intervals
from gramwatt.service.jobs.intake.conflicts import set_aside
from gramwatt.service.jobs.intake.lines import Tally, batches
from gramwatt.service.jobs.intake.sequences import Arrived
from gramwatt.service.jobs.journal import device_classes, refresh_own_head
from gramwatt.service.jobs.scoring import score_when_closed
from gramwatt.service.store.documents import to_text
from gramwatt.service.store.models import (
    Count,
    Deletion,
    Device,
    Interval,
    Job,
    Statement,
    Writer,
)
from gramwatt.service.store.people import with_aliases
from gramwatt.service.store.timestamps import to_us
from gramwatt.service.store.upserts import upsert

_HEADS = (JobRecord.TYPE, EndRecord.TYPE)
"""Records that change what lists show of a job."""
# Made once: to put a statement together takes as long as to run it.
_JOB = (
    sa.select(Job.id, Job.project, Job.state, Job.silent_us, Job.intervals_deleted_us)
    .where(Job.job_id == sa.bindparam("job_id"))
    .with_for_update()
)
_ARRIVED = (
    sa.update(Writer.__table__)  # type: ignore[arg-type]  # a plain table
    .where(Writer.__table__.c.id == sa.bindparam("key"))
    .values(contiguous=sa.bindparam("to"), beyond=sa.bindparam("spans"))
)
_HEARD = (
    sa.update(Job.__table__)  # type: ignore[arg-type]  # a plain table
    .where(Job.id == sa.bindparam("key"))
    .values(
        version=Job.version + 1,
        heard_us=sa.bindparam("now_us"),
        silent_us=None,
    )
)
_WRITERS = sa.select(
    *(Writer.id, Writer.node, Writer.writer, Writer.contiguous, Writer.beyond)
).where(Writer.job == sa.bindparam("job"), Writer.node == sa.bindparam("node"))
_DEVICES = sa.select(Device.node, Device.device_id, Device.id).where(
    Device.job == sa.bindparam("job"), Device.node == sa.bindparam("node")
)
_NEW_WRITERS, _NEW_DEVICES = sa.insert(Writer), sa.insert(Device)
_WriterName = tuple[str, str]
_Row = sa.Row[int, str, str, int, str]
_JobRow = sa.Row[int, str, str, int | None, int | None]
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
    lost when the lines break off, or when scoring fails. A job begins with its `job` line: that is
    among the first BATCH_LINES. Raises UnknownJobError for lines before it, and for a job that the
    caller does not see; DeletedJobError for lines of a deleted job, IntervalsDeletedError for new
    ones of a job whose others were deleted, and ForeignProjectError for lines that would put a job
    into a project of others.
    """
    answer, key = ingest_unscored(service, job_id, lines, only_ended=True)
    if score and key is not None:
        if service.score_later:
            service.score_later(key)
        else:
            score_when_closed(service.for_every_project(), key)
    return answer


def ingest_unscored(
    service: Service,
    job_id: str,
    lines: Iterable[bytes],
    *,
    only_ended: bool = False,
) -> tuple[IngestAnswer, int | None]:
    """Store lines as `ingest` does without scoring; their account, and the key of their job.

    The key is None where no line was taken, with `only_ended` also while the job runs.
    """
    tally = Tally()
    key: int | None = None
    whole = service.for_every_project()
    for batch in batches(job_id, lines, partial(_check_possible, service, {}), tally):
        try:
            stored = whole.store.transact(partial(_store_batch, whole, job_id, batch))
        except UnknownJobError as error:  # the line that would make it may be among the refused
            raise UnknownJobError(job_id, error.close, tally.listed) from None
        tally.add(stored.new, len(batch) - stored.new, stored.acknowledged)
        key = None if only_ended and not stored.ended else stored.job
    return tally.answer(), key


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
    service: Service, job_id: str, batch: list[AnyRecord], session: Session
) -> _Stored:
    """Store the records that are new, in the transaction of `session`."""
    batch = with_aliases(session, batch)
    job = _locked_job(service, session, job_id, batch)
    new, again, keys, acknowledged = _arrivals(session, job.id, batch)
    state = job.state
    aside = 0
    if job.intervals_deleted_us is None:
        new, aside = set_aside(session, job.id, keys, new, again)
    if new or aside:
        if job.intervals_deleted_us is not None:
            require_intervals(session.get_one(Job, job.id), "what comes later cannot be added")
        _store(session, job.id, keys, new)
        heard = {"key": job.id, "now_us": service.now_us()}
        session.connection().execute(_HEARD, heard)
        resumed = job.silent_us is not None
        if resumed or aside or any(r.TYPE in _HEADS for r in new):
            whole = session.get_one(Job, job.id, populate_existing=True)
            refresh_own_head(service, session, whole)
            state = whole.state
    return _Stored(job.id, state != "running", len(new) + aside, acknowledged)


def _locked_job(
    service: Service, session: Session, job_id: str, batch: Sequence[AnyRecord]
) -> _JobRow:
    """Return the row of the job that the lines are of, locked; a `job` line makes it.

    A caller who may not see the job gets the answer of a job that is not there.
    """
    connection, name = session.connection(), {"job_id": job_id}
    row = connection.execute(_JOB, name).one_or_none()
    projects = service.caller.projects
    if row is not None and (projects is None or row.project in projects):
        return row
    heads = [record for record in batch if isinstance(record, JobRecord)]
    close = list[str]()
    if heads:
        project = project_of(heads)
        require_own(service, project)
        if not _may_open(job_id, {record.project for record in heads}, projects):
            close = [bound_id(chosen_part(job_id) or job_id, project)]
        elif row is None:
            upsert(session, Job, [_new_row(service, job_id, heads)])
            # Another upload may have made it meanwhile, or a deletion of it has finished.
            row = connection.execute(_JOB, name).one()
    _require_not_deleted(session, job_id, projects)
    if row is None or (projects is not None and row.project not in projects):
        raise UnknownJobError(job_id, close)
    return row


def _may_open(job_id: str, named: set[str], projects: frozenset[str] | None) -> bool:
    """Return whether jobs of these projects may have the id: it may be bound to another.

    Who sees some projects opens none that others might have: neither takes it from them nor learns
    whether they have it.
    """
    own = named if projects is None else named & projects
    if chosen_part(job_id):
        return any(is_bound_to(job_id, project) for project in own)
    return projects is None or is_random(job_id) or UNDECLARED["project"] in own


def _require_not_deleted(session: Session, job_id: str, projects: frozenset[str] | None) -> None:
    """Raise DeletedJobError for a deleted job, UnknownJobError where the caller did not see it."""
    deletion = session.get(Deletion, job_id)
    if deletion is not None:
        if projects is not None and deletion.project not in projects:
            raise UnknownJobError(job_id, [])
        raise deleted_error(session, deletion)


def _new_row(service: Service, job_id: str, heads: Sequence[JobRecord]) -> Mapping[str, Any]:
    """Return the row of a job that begins; its lines say the rest in the same transaction."""
    return {
        "job_id": job_id,
        "project": project_of(heads),
        "state": "running",
        "started_us": to_us(heads[0].started_at),
        "heard_us": service.now_us(),
        "version": 0,
        "scored_version": 0,
        "revision": 0,
        "head": "",
        "notices": 0,
    }


def _arrivals(
    session: Session, job: int, batch: list[AnyRecord]
) -> tuple[list[AnyRecord], list[AnyRecord], _Keys, list[Acknowledged]]:
    """Return what is new, what is not, the keys of the writers, and how far each has arrived."""
    writers = _writers(session, job, {(record.node, record.writer) for record in batch})
    arrived = {name: Arrived.from_row(row.contiguous, row.beyond) for name, row in writers.items()}
    ordered = sorted(batch, key=lambda record: record.seq)
    new: list[AnyRecord] = []
    again: list[AnyRecord] = []
    for record in ordered:
        fresh = arrived[record.node, record.writer].add(record.seq)
        (new if fresh else again).append(record)
    if new:
        rows = [
            {"key": row.id, "to": arrived[name].contiguous, "spans": arrived[name].to_text()}
            for name, row in sorted(writers.items())
        ]
        session.connection().execute(_ARRIVED, rows)
    acknowledged: list[Acknowledged] = [
        Acknowledged(node=node, writer=writer, seq=arrived[node, writer].contiguous)
        for node, writer in sorted(arrived)
    ]
    return new, again, {name: row.id for name, row in writers.items()}, acknowledged


def _store(session: Session, job: int, keys: _Keys, new: Sequence[AnyRecord]) -> None:
    """Store new records of a job by type. What is summed from them is kept up to date after it."""
    statements, counts, intervals = [], [], []
    ids = _devices(
        session, job, {(r.node, r.device_id) for r in new if isinstance(r, IntervalRecord)}
    )
    for record in new:
        if isinstance(record, IntervalRecord):
            intervals.append(_interval_row(ids[record.node, record.device_id], record))
            continue
        row = {"writer": keys[record.node, record.writer], "seq": record.seq}
        if isinstance(record, CountRecord) and not record.since:
            counts.append({**row, **_count_columns(record)})
        else:
            statements.append({**row, "line": encode(record)})
    upsert(session, Statement, statements)
    upsert(session, Count, counts)
    upsert(session, Interval, intervals, newer=("end_us", "seq", "writer"))


def _count_columns(count: CountRecord) -> dict[str, Any]:
    return {
        "at_us": to_us(count.at),
        "unit": count.unit,
        "amount": count.amount,
        "phase": count.phase,
        "counter": count.counter,
        "extra": to_text(count.extra) if count.extra else None,
    }


def _interval_row(device: int, record: IntervalRecord) -> dict[str, Any]:
    return {
        "device": device,
        "start_us": to_us(record.start),
        "end_us": to_us(record.end),
        "seq": record.seq,
        "writer": record.writer,
        "energy_j": record.energy_j,
        "kind": record.kind,
        "utilisation_mean": record.utilisation_mean,
        "utilisation_max": record.utilisation_max,
        "memory_peak_b": record.memory_peak_b,
        "power_max_w": record.power_max_w,
        "profile": to_text(record.profile) if record.profile else None,
        "extra": to_text(record.extra) if record.extra else None,
    }


def _writers(session: Session, job: int, names: set[_WriterName]) -> dict[_WriterName, _Row]:
    """Key, `contiguous` and `beyond` of the writers, by name; those that are missing are made."""
    connection = session.connection()
    found = {}
    for node in {node for node, _ in names}:
        for row in connection.execute(_WRITERS, {"job": job, "node": node}):
            if (name := (row.node, row.writer)) in names:
                found[name] = row
    if missing := sorted(names - found.keys()):
        empty = {"job": job, "contiguous": 0, "beyond": "[]"}
        rows = [{**empty, "node": node, "writer": writer} for node, writer in missing]
        connection.execute(_NEW_WRITERS, rows)
        return _writers(session, job, names)
    return found


def _devices(session: Session, job: int, names: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Keys of the devices by node and id; those that are missing are made."""
    connection = session.connection()
    found: dict[tuple[str, str], int] = {}
    for node in {node for node, _ in names}:
        known = connection.execute(_DEVICES, {"job": job, "node": node})
        found |= {(row.node, row.device_id): row.id for row in known}
    if missing := sorted(names - found.keys()):
        rows = [{"job": job, "node": node, "device_id": one} for node, one in missing]
        connection.execute(_NEW_DEVICES, rows)
        return _devices(session, job, names)
    return found

"""An upload of lines: which of them are new, which contradict others, and how they are stored."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.collectors.settings.files import whole_file
from gramwatt.collectors.settings.identity import bound_id, chosen_part, is_bound_to, is_random
from gramwatt.sci.figures.errors import RecordError
from gramwatt.sci.records.conflicts import contradicts
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
    decode,
    encode,
)
from gramwatt.service.access.projects import require_own
from gramwatt.service.common.answers import Acknowledged, IngestAnswer, Rejected
from gramwatt.service.common.errors import DeletedJobError, IntervalsDeletedError, UnknownJobError
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import deleted_error, require_intervals
from gramwatt.service.jobs.journal import (
    counts_of,
    device_classes,
    intervals_at,
    intervals_of,
    lines_numbered,
    lines_of,
    refresh_own_head,
)
from gramwatt.service.jobs.scoring import score_when_closed
from gramwatt.service.store.columns import to_text, to_us, upsert
from gramwatt.service.store.job_labels import TAG, label_text
from gramwatt.service.store.journal import Count, Device, Interval, Statement, Writer
from gramwatt.service.store.models import Deletion, Job, JobLabel
from gramwatt.service.store.people import USER, known_alias, with_aliases, with_names

MOST_SPANS = 256
"""Spans remembered above the first gap. A line older than what is remembered counts as new when it
is sent again, and then changes nothing, because rows are keyed by the same number."""


@dataclass(slots=True)
class Arrived:
    """Which numbers of a writer have arrived, in a few bytes however long the job: 1 to
    `contiguous`, and spans [first, last] above the first gap, in order.
    """

    contiguous: int = 0
    beyond: list[list[int]] = field(default_factory=list)

    @classmethod
    def from_row(cls, contiguous: int, beyond: str) -> Arrived:
        """Return what `to_text` and `contiguous` kept."""
        return cls(contiguous, json.loads(beyond))

    def to_text(self) -> str:
        """Return the spans as JSON."""
        return json.dumps(self.beyond, separators=(",", ":"))

    def add(self, seq: int) -> bool:
        """Add a number; False when it has arrived before."""
        if seq <= self.contiguous:
            return False
        if seq == self.contiguous + 1 and not self.beyond:
            self.contiguous = seq
            return True
        at = bisect_left(self.beyond, [seq + 1])
        if at and seq <= self.beyond[at - 1][1]:
            return False
        self.beyond.insert(at, [seq, seq])
        self._join(at)
        if self.beyond[0][0] == self.contiguous + 1:
            self.contiguous = self.beyond.pop(0)[1]
        if len(self.beyond) > MOST_SPANS:
            del self.beyond[0]
        return True

    def _join(self, at: int) -> None:
        for left in (at, at - 1):
            if 0 <= left < len(self.beyond) - 1:
                first, second = self.beyond[left : left + 2]
                if first[1] + 1 == second[0]:
                    self.beyond[left : left + 2] = [[first[0], second[1]]]


Keys = Mapping[tuple[str, str], int]
"""Keys of writers by node and name."""
_Start = tuple[str, str, datetime]
_Number = tuple[str, str, int]


def set_aside(
    session: Session, job: int, keys: Keys, new: Sequence[AnyRecord], again: Sequence[AnyRecord]
) -> tuple[list[AnyRecord], int]:
    """Store lines that contradict others of the job as statements, those of `again` negative.

    `again` are lines whose number had arrived before. Returns the new lines that contradict none,
    and how many of all are stored as statements for the first time.
    """
    intervals = [record for record in (*new, *again) if isinstance(record, IntervalRecord)]
    by_start = {_start(stored): stored for stored in intervals_at(session, job, intervals)}
    rest: list[AnyRecord] = []
    lines = []
    for record in new:
        if isinstance(record, IntervalRecord) and _clashes(record, by_start):
            writer = keys[record.node, record.writer]
            lines.append({"writer": writer, "seq": record.seq, "line": encode(record)})
        else:
            rest.append(record)
    seen: dict[_Number, list[AnyRecord]] = defaultdict(list)
    if doubtful := [record for record in again if _differs(record, by_start)]:
        for record in (*new, *lines_numbered(session, job, keys, doubtful)):
            seen[_number(record)].append(record)
    for record in doubtful:
        if record not in seen[_number(record)]:
            writer = keys[record.node, record.writer]
            lines.append({"writer": writer, "seq": -record.seq, "line": encode(record)})
            seen[_number(record)].append(record)
    upsert(session, Statement, lines)
    return rest, len(lines)


def _clashes(record: IntervalRecord, by_start: dict[_Start, IntervalRecord]) -> bool:
    """Return whether an interval contradicts the known one; else the later of both is known."""
    other = by_start.setdefault(_start(record), record)
    if contradicts(record, other):
        return True
    if (other.end, other.seq) < (record.end, record.seq):
        by_start[_start(record)] = record
    return False


def _differs(record: AnyRecord, by_start: Mapping[_Start, IntervalRecord]) -> bool:
    """Return whether no line of this number says what `record` does, nor one that grew from it."""
    if not isinstance(record, IntervalRecord):
        return True
    other = by_start.get(_start(record))
    return other is None or contradicts(record, other)


def _start(record: IntervalRecord) -> _Start:
    return record.node, record.device_id, record.start


def _number(record: AnyRecord) -> _Number:
    return record.node, record.writer, record.seq


BATCH_LINES = 5_000
"""Records of one transaction: they bound the memory of an upload and the wait of other writers."""
LISTED_MOST = 100
"""Refused lines that an answer lists; all are counted."""
REFUSED_MOST = 10_000
"""Refused lines after which an upload that has fewer good ones is not read on: it is no journal."""
MESSAGE_MOST = 300
"""Characters of a refusal's message."""

_UNREAD = RecordError("not read: too many lines before it were refused", code="too-many-refused")


@dataclass(slots=True)
class Tally:
    """What became of an upload's lines: counted in full, refusals listed up to a limit."""

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    listed: list[Rejected] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    arrived: dict[tuple[str, str], int] = field(default_factory=dict)

    def too_many_rejected(self, waiting: int) -> bool:
        """Return whether so many were refused that the rest is not worth reading.

        `waiting` good lines are not counted yet.
        """
        good = self.accepted + self.duplicate + waiting
        return self.rejected >= max(REFUSED_MOST, good)

    def refuse(self, line: int, error: RecordError, count: int = 1) -> None:
        """Count a refused line, or several, and list the first while there is room."""
        self.rejected += count
        self.codes[error.code] += count
        if len(self.listed) < LISTED_MOST:
            message = error.message[:MESSAGE_MOST]
            self.listed.append(Rejected(line=line, code=error.code, message=message))

    def add(self, accepted: int, duplicate: int, acknowledged: Iterable[Acknowledged]) -> None:
        """Count the lines of a stored batch; of each writer the latest acknowledgement stands."""
        self.accepted += accepted
        self.duplicate += duplicate
        self.arrived |= {(row.node, row.writer): row.seq for row in acknowledged}

    def answer(self) -> IngestAnswer:
        """Return the counts as an answer."""
        return IngestAnswer(
            accepted=self.accepted,
            duplicate=self.duplicate,
            rejected=self.listed,
            rejected_count=self.rejected,
            rejected_codes=dict(self.codes),
            acknowledged=[
                Acknowledged(node=node, writer=writer, seq=seq)
                for (node, writer), seq in sorted(self.arrived.items())
            ],
        )


def batches(
    job_id: str, lines: Iterable[bytes], check: Callable[[AnyRecord], None], tally: Tally
) -> Iterator[list[AnyRecord]]:
    """Return the records of the job in batches; what may not be stored is counted in `tally`.

    `check` raises RecordError for a record that this store refuses. The caller adds each batch to
    `tally` before it asks for the next.
    """
    batch: list[AnyRecord] = []
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        if not line or line.isspace():
            continue
        if tally.too_many_rejected(len(batch)):
            tally.refuse(number, _UNREAD, 1 + sum(1 for _, rest in numbered if rest.strip()))
            break
        try:
            record = decode(line)
            if record.job_id != job_id:
                text = f"the line is of job {record.job_id!r}, the address of {job_id!r}"
                raise RecordError(text, code="wrong-job")
            check(record)
        except RecordError as error:
            tally.refuse(number, error)
            continue
        batch.append(record)
        if len(batch) == BATCH_LINES:
            yield batch
            batch = []
    if batch:
        yield batch


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
    writers = {}
    for node in {node for node, _ in names}:
        for row in connection.execute(_WRITERS, {"job": job, "node": node}):
            if (name := (row.node, row.writer)) in names:
                writers[name] = row
    if missing := sorted(names - writers.keys()):
        empty = {"job": job, "contiguous": 0, "beyond": "[]"}
        rows = [{**empty, "node": node, "writer": writer} for node, writer in missing]
        connection.execute(_NEW_WRITERS, rows)
        return _writers(session, job, names)
    return writers


def _devices(session: Session, job: int, names: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Keys of the devices by node and id; those that are missing are made."""
    connection = session.connection()
    ids: dict[tuple[str, str], int] = {}
    for node in {node for node, _ in names}:
        rows_of_node = connection.execute(_DEVICES, {"job": job, "node": node})
        ids |= {(row.node, row.device_id): row.id for row in rows_of_node}
    if missing := sorted(names - ids.keys()):
        rows = [{"job": job, "node": node, "device_id": device_id} for node, device_id in missing]
        connection.execute(_NEW_DEVICES, rows)
        return _devices(session, job, names)
    return ids


SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Exported:
    """Ids of the jobs that were written, and of those whose intervals are deleted."""

    written: list[str]
    left_out: list[str]


def export_journals(service: Service, folder: Path, user: str | None = None) -> Exported:
    """Write the lines of every job to a file `ID.jsonl` of the folder; raises OSError.

    With `user` of those that have it as their tag `user`.

    Lines are those that meters wrote, of an interval the last one. What people declared afterwards
    is no part of a journal, and a job whose intervals were deleted has none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    exported = Exported([], [])
    with service.store.read() as session:
        statement = sa.select(Job.id).order_by(Job.id)
        if user is not None:
            label = JobLabel.label == label_text(TAG, f"{USER}:{known_alias(session, user)}")
            statement = statement.join(JobLabel, JobLabel.job == Job.id).where(label)
        keys = session.scalars(statement).all()
    for key in keys:
        with service.store.read() as session:
            job = session.get(Job, key)
            if job is None:  # deleted meanwhile
                continue
            name = job.job_id
            if job.intervals_deleted_us is not None:
                exported.left_out.append(name)
                continue
            with whole_file(folder / f"{name}{SUFFIX}") as stream:
                stream.writelines(f"{line}\n".encode() for line in _lines(session, job))
            exported.written.append(name)
    return exported


def import_journals(service: Service, folder: Path) -> Iterator[tuple[str, IngestAnswer | str]]:
    """Store the files of `export_journals`; return each job's answer, or why it was refused.

    Importing again changes nothing. Raises OSError.
    """
    service = replace(service, score_later=None)
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        job_id = path.name.removesuffix(SUFFIX)
        with path.open("rb") as stream:
            try:
                yield job_id, ingest(service, job_id, (line.rstrip(b"\n") for line in stream))
            except (DeletedJobError, IntervalsDeletedError) as error:
                yield job_id, str(error)


def _lines(session: Session, job: Job) -> Iterator[str]:
    yield from (with_names(session, line) for line in lines_of(session, job))
    yield from map(encode, counts_of(session, job))
    yield from map(encode, intervals_of(session, job))

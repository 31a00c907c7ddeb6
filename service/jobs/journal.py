"""A job's records read back from the store, and the head that lists show before a score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.document import JobHead
from gramwatt.sci.figures.errors import RecordError, ScoreError
from gramwatt.sci.figures.formatting import minute_text
from gramwatt.sci.records.corrections import Correction, corrected, exclusion
from gramwatt.sci.records.merge import MergedJob, merge
from gramwatt.sci.records.nodes import unended
from gramwatt.sci.records.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    check_energy,
    format_time,
    readable,
)
from gramwatt.service.access.projects import require_own
from gramwatt.service.access.sessions import CLOCKS_APART
from gramwatt.service.container import Service
from gramwatt.service.jobs.precedence import counted_elsewhere
from gramwatt.service.months.rows import forget_rows
from gramwatt.service.store import journal as tables
from gramwatt.service.store.columns import from_us, read_head, span_us, text_from_us, to_text, to_us
from gramwatt.service.store.job_labels import update_list_columns
from gramwatt.service.store.journal import Count, Device, Interval, OpenJournal, Statement, Writer
from gramwatt.service.store.models import Job

_COUNTS = (
    sa.select(Writer.node, Writer.writer, Count.seq, Count.at_us)
    .add_columns(Count.unit, Count.amount, Count.phase, Count.counter, Count.extra)
    .join(Writer, Writer.id == Count.writer)
)
_INTERVALS = (
    sa.select(Device.node, Device.device_id, Interval.writer, Interval.seq)
    .add_columns(Interval.start_us, Interval.end_us, Interval.energy_j, Interval.kind)
    .add_columns(Interval.utilisation_mean, Interval.utilisation_max)
    .add_columns(Interval.memory_peak_b, Interval.power_max_w, Interval.profile, Interval.extra)
    .join(Device, Device.id == Interval.device)
    .order_by(Interval.device, Interval.start_us)
)

_STATED = (JobRecord.TYPE, DeviceRecord.TYPE, EndRecord.TYPE)
SILENCE_WRITER = "server-silence"
"""Prefix of the writers under which the server closes a job that fell silent."""


def records_of(session: Session, job: Job, corrections: Sequence[Correction]) -> list[AnyRecord]:
    """Return every record of the job as `journal_of` gives it, corrected."""
    return corrected(journal_of(session, job), corrections)


def journal_of(session: Session, job: Job) -> list[AnyRecord]:
    """Return every record of the job as journaled, and the ends that the server adds after silence.

    What no device can do is left out, and a notice says so. Raises
    ScoreError where intervals were deleted: the rest would make another job.
    """
    if job.intervals_deleted_us is not None:
        text = f"the intervals of job {job.job_id} were deleted; its newest score stays"
        raise ScoreError(text, code="intervals-deleted")
    statements, refused = _journaled(session, job)
    if job.reporter is not None:
        statements = counted_elsewhere(session, job, statements)
    classes = _classes(statements)
    intervals = list(intervals_of(session, job))
    possible: list[AnyRecord] = [i for i in intervals if _is_possible(i, classes)]
    refused += len(intervals) - len(possible)
    ends = _silence_ends(session, job, statements)
    counts = list(counts_of(session, job))
    notices = [_refused_text(refused)] if refused else []
    last_us = max(map(_time_us, [*statements, *counts, *possible]), default=0)
    if last_us > job.heard_us + span_us(CLOCKS_APART):
        notices.append(_ahead_text(last_us, job.heard_us))
    return [*_with_notices(statements, notices), *counts, *possible, *ends]


def device_classes(session: Session, job_id: str) -> Mapping[str, str]:
    """Return the class of each device that stored lines of a job describe, by device id."""
    job = session.scalar(sa.select(Job).where(Job.job_id == job_id))
    return {} if job is None else _classes(_statements(session, job))


def _statements(session: Session, job: Job) -> list[AnyRecord]:
    """Return the job, device and end records, and windows, corrected."""
    return corrected(_journaled(session, job)[0], corrections_of(session, job))


def _journaled(session: Session, job: Job) -> tuple[list[AnyRecord], int]:
    """Return the job, device and end records, and windows; and how many lines are refused."""
    stored = lines_of(session, job)
    records = list(readable(stored))
    return records, len(stored) - len(records)


def lines_of(session: Session, job: Job) -> Sequence[str]:
    """Return the lines of the job, its devices, ends and windows as they were journaled."""
    lines = sa.select(Statement.line).join(Writer).where(Writer.job == job.id)
    return session.scalars(lines.order_by(Writer.id)).all()


def _classes(statements: Sequence[AnyRecord]) -> dict[str, str]:
    return {r.device_id: r.device_class for r in statements if isinstance(r, DeviceRecord)}


def _is_possible(interval: IntervalRecord, classes: Mapping[str, str]) -> bool:
    try:
        check_energy(interval.energy_j, interval.length_s, classes.get(interval.device_id))
    except RecordError:
        return False
    return True


def _refused_text(refused: int) -> str:
    lines = "1 stored line states" if refused == 1 else f"{refused} stored lines state"
    return f"records-refused: {lines} what no device can do or draw; left out of every figure."


def _ahead_text(last_us: int, heard_us: int) -> str:
    last, heard = (minute_text(text_from_us(time_us)) for time_us in (last_us, heard_us))
    return (
        f"clock-ahead: lines that came by {heard} UTC speak of {last} UTC; the sender's clock was "
        "ahead, or the server's is behind."
    )


def _time_us(record: AnyRecord) -> int:
    """Return the latest time that a record states [us]; 0 for none."""
    match record:
        case JobRecord():
            return to_us(record.started_at)
        case IntervalRecord():
            return to_us(record.end)
        case CountRecord():
            return to_us(record.at)
        case EndRecord():
            return to_us(record.ended_at)
        case _:
            return 0


def _with_notices(statements: Sequence[AnyRecord], notices: Sequence[str]) -> list[AnyRecord]:
    """Return the records, with what the server remarks among the notices of the job's own."""
    return [
        msgspec.structs.replace(r, notices=(*r.notices, *notices))
        if notices and isinstance(r, JobRecord)
        else r
        for r in statements
    ]


def corrections_of(session: Session, job: Job) -> list[Correction]:
    """Return what was declared after the job, oldest first."""
    declared = sa.select(tables.Correction).where(tables.Correction.job == job.id)
    return [
        Correction(
            row.field,
            json.loads(row.value),
            json.loads(row.old),
            row.made_by,
            from_us(row.made_us),
            row.reason,
        )
        for row in session.scalars(declared.order_by(tables.Correction.id))
    ]


def declared_head(session: Session, job: Job) -> JobRecord:
    """Return what the job declares, corrections included; raises ScoreError without a record."""
    return merge(_statements(session, job)).head


def open_records_of(session: Session, job: Job) -> list[AnyRecord]:
    """Return the intervals that meters on this machine have open; only a provisional score uses
    them.
    """
    statement = sa.select(OpenJournal.lines).where(OpenJournal.job == job.id)
    return list(readable("\n".join(session.scalars(statement)).split("\n")))


def refresh_own_head(service: Service, session: Session, job: Job) -> None:
    """Bring the row in line with the journal, for a caller.

    Raises ForeignProjectError where that puts the job into a project of others.
    """
    refresh_head(session, job)
    require_own(service, job.project)


def refresh_head(session: Session, job: Job) -> None:
    """Bring state, project, model and start of the row in line with the journal."""
    corrections = corrections_of(session, job)
    stated = [record for record in _journaled(session, job)[0] if record.TYPE in _STATED]
    statements = corrected(stated, corrections)
    try:
        merged = merge([*statements, *_silence_ends(session, job, statements)])
    except ScoreError:  # what it is was written by another release, which this one cannot read
        job.state = "running" if job.silent_us is None else "lost"
        return
    job.project = merged.head.project
    job.state = merged.state
    job.model_id = merged.head.model_id
    job.reporter = merged.head.reporter
    job.started_us = to_us(merged.started_at)
    if merged.state != "running":
        # Lists are in this order: a job of a clock that was ahead does not lead them until its day.
        job.started_us = min(job.started_us, job.heard_us + span_us(CLOCKS_APART))
    stored = read_head(job.head) if job.head else None
    shown = stored if stored and stored.energy_kwh else _unscored_head(merged)
    shown.state, shown.provisional = merged.state, merged.state == "running"
    shown.excluded = exclusion(corrections)
    job.head = to_text(shown)
    update_list_columns(session, job, shown)
    if job.state == "running" and job.revision:
        forget_rows(session, job.id)


def _last_moments_us(session: Session, job: Job) -> dict[str, int]:
    """Return the latest time in each node's journal [us]: an interval's end or a count."""
    of_intervals = (
        sa.select(Device.node, sa.func.max(Interval.end_us))
        .join(Interval, Interval.device == Device.id)
        .where(Device.job == job.id)
        .group_by(Device.node)
    )
    of_counts = (
        sa.select(Writer.node, sa.func.max(Count.at_us))
        .join(Count, Count.writer == Writer.id)
        .where(Writer.job == job.id)
        .group_by(Writer.node)
    )
    latest: dict[str, int] = {}
    for node, time_us in (*session.execute(of_intervals), *session.execute(of_counts)):
        latest[node] = max(time_us, latest.get(node, time_us))
    return latest


_NO_FIGURES: Mapping[str, Any] = {
    "duration_s": None,
    "revision": 0,
    "provisional": True,
    "energy_kwh": None,
    "operational_g": None,
    "embodied_g": None,
    "total_g": None,
    "sci": [],
    "conformance": "not-sci",
    "deviations": ["not scored yet"],
    "excluded": None,
}
"""The figures of a job without a score."""


def _unscored_head(merged: MergedJob) -> JobHead:
    """Return the head of a job without a score: every figure unknown."""
    record = merged.head
    return JobHead(
        **_NO_FIGURES,
        job_id=record.job_id,
        name=record.name or record.job_id,
        project=record.project,
        kind=record.kind,
        state=merged.state,
        exit_code=merged.exit_code,
        started_at=format_time(merged.started_at),
        ended_at=format_time(merged.ended_at) if merged.ended_at else None,
        zone=record.zone,
        region=record.region,
        tags=record.tags,
    )


def counts_of(session: Session, job: Job) -> Iterator[CountRecord]:
    """Return the counts of the job that are no windows."""
    return _counts(job.job_id, session.execute(_COUNTS.where(Writer.job == job.id)))


def lines_numbered(
    session: Session, job: int, keys: Mapping[tuple[str, str], int], like: Sequence[AnyRecord]
) -> Iterator[AnyRecord]:
    """Yield stored lines with the numbers and writers of others, except intervals.

    Lines that contradicted others are among them, also intervals. `job` is the key of the job,
    `keys` are those of the writers.
    """
    if not like:
        return
    writers = sorted({keys[record.node, record.writer] for record in like})
    numbers = sorted({record.seq for record in like})
    both = [*numbers, *(-number for number in numbers)]
    lines = sa.select(Statement.line)
    lines = lines.where(Statement.writer.in_(writers), Statement.seq.in_(both))
    yield from readable(session.scalars(lines))
    counts = _COUNTS.where(Writer.job == job, Count.writer.in_(writers), Count.seq.in_(numbers))
    yield from _counts(like[0].job_id, session.execute(counts))


def _counts(job_id: str, rows: Iterable[Any]) -> Iterator[CountRecord]:
    for node, writer, seq, at_us, unit, amount, phase, counter, extra in rows:
        yield CountRecord(
            job_id=job_id,
            node=node,
            writer=writer,
            seq=seq,
            at=from_us(at_us),
            unit=unit,
            amount=amount,
            phase=phase,
            counter=counter,
            extra=msgspec.json.decode(extra) if extra else {},
        )


def intervals_of(session: Session, job: Job) -> Iterator[IntervalRecord]:
    """Return the intervals of the job by device and time."""
    return _intervals(job.job_id, session.execute(_INTERVALS.where(Device.job == job.id)))


def intervals_at(
    session: Session, job: int, like: Sequence[IntervalRecord]
) -> Iterator[IntervalRecord]:
    """Yield stored intervals with the devices and starts of others; `job` is the job's key."""
    if not like:
        return
    devices = sorted({record.device_id for record in like})
    starts = sorted({to_us(record.start) for record in like})
    statement = _INTERVALS.where(
        Device.job == job, Device.device_id.in_(devices), Interval.start_us.in_(starts)
    )
    yield from _intervals(like[0].job_id, session.execute(statement))


def _intervals(job_id: str, rows: Iterable[Any]) -> Iterator[IntervalRecord]:
    for node, device_id, writer, seq, start_us, end_us, *read, profile, extra in rows:
        energy_j, kind, utilisation_mean, utilisation_max, memory_peak_b, power_max_w = read
        yield IntervalRecord(
            job_id=job_id,
            node=node,
            writer=writer,
            seq=seq,
            device_id=device_id,
            start=from_us(start_us),
            end=from_us(end_us),
            energy_j=energy_j,
            kind=kind,
            utilisation_mean=utilisation_mean,
            utilisation_max=utilisation_max,
            memory_peak_b=memory_peak_b,
            power_max_w=power_max_w,
            profile=msgspec.json.decode(profile) if profile else {},
            extra=msgspec.json.decode(extra) if extra else {},
        )


def _silence_ends(session: Session, job: Job, statements: Sequence[AnyRecord]) -> list[AnyRecord]:
    """Return a recovery that closes each open writer as lost at its node's last reading, after
    silence.

    Made when read, not stored: a job whose lines resume has lost nothing.
    """
    if job.silent_us is None:
        return []
    latest_us = _last_moments_us(session, job)
    jobs = [record for record in statements if isinstance(record, JobRecord)]
    seen_ends = [record for record in statements if isinstance(record, EndRecord)]
    ends: list[AnyRecord] = []
    for number, opened in enumerate(unended(jobs, seen_ends)):
        identity: dict[str, Any] = {
            "job_id": job.job_id,
            "node": opened.node,
            "writer": f"{SILENCE_WRITER}-{number}",
        }
        ended_us = max(latest_us.get(opened.node, 0), to_us(opened.started_at))
        recovery = JobRecord(
            **identity, seq=1, started_at=opened.started_at, role="recovery", resumes=opened.writer
        )
        end = EndRecord(**identity, seq=2, ended_at=from_us(ended_us), state="lost")
        ends += [recovery, end]
    return ends

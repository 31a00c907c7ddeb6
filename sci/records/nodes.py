"""The nodes of a job: when each was reserved, and how it ended.

A *run* on a node is a command under `gramwatt run`, or processes that use `track`, or several of
them side by side. Runs of one job that follow each other, such as the steps of a Slurm job, are
reserved each for its own time, and the last one decides how its node ended. A process that begins
to `track` while a command runs on its node is part of that command, whose end decides. A run lasts
at least as long as its node was read: time reserved is that of the energy that counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.records.records import EndRecord, JobRecord

Span = tuple[datetime, datetime]
SKEW = timedelta(seconds=10)
"""How far readings may reach beyond start and end by clocks that differ; beyond, they move them."""
NAMED_AT_MOST = 8
"""Nodes that a notice names; the rest it counts."""


class Node(Struct, frozen=True):
    """One node of a job: its reserved times in order, and how its last run ended.

    `end` and `ended_at` are None while it runs; `earlier` has the bad ends of runs before the last.
    """

    name: str
    reserved: tuple[Span, ...]
    end: EndRecord | None
    ended_at: datetime | None
    earlier: tuple[EndRecord, ...] = ()


class _Writer(Struct, frozen=True):
    """A writer that answers for itself: the earliest start of those it resumes, and its end."""

    record: JobRecord
    started_at: datetime
    end: EndRecord | None

    def covers(self, moment: datetime) -> bool:
        """Return whether it ran at `moment`."""
        return self.started_at <= moment and (self.end is None or moment <= self.end.ended_at)

    @property
    def is_reversed(self) -> bool:
        """Return whether it states an end before its start."""
        end = self.end
        return end is not None and end.state != "lost" and end.ended_at < self.started_at

    def ended_by(self, seen: datetime | None) -> _Writer:
        """Return the writer; one that ended before it began ends where its node was seen last."""
        if self.end is None or not self.is_reversed:
            return self
        ended_at = max(self.started_at, seen or self.started_at)
        return replace(self, end=msgspec.structs.replace(self.end, ended_at=ended_at))


class ReportedTime(Struct, frozen=True):
    """The time of the job on a node as its lines state it; `end` is None where nobody saw it.

    `reversed_ends` are the ends before their writer's start, and how long before [s].
    """

    start: datetime
    end: datetime | None
    reversed_ends: tuple[tuple[EndRecord, float], ...] = ()


def reported_times(jobs: Iterable[JobRecord], ends: Iterable[EndRecord]) -> dict[str, ReportedTime]:
    """Return from the first start to the last end of any writer on each node with a job record."""
    times = {}
    for name, (own, own_ends) in _by_node(jobs, ends).items():
        writers = _independent_writers(own, own_ends)
        wrong = tuple(
            (w.end, (w.started_at - w.end.ended_at).total_seconds())
            for w in writers
            if w.end and w.is_reversed
        )
        unseen = wrong or any(w.end is None or w.end.state == "lost" for w in writers)
        moments = [*(job.started_at for job in own), *(end.ended_at for end in own_ends)]
        times[name] = ReportedTime(min(moments), None if unseen else max(moments), wrong)
    return times


def nodes_of(
    jobs: Iterable[JobRecord],
    ends: Iterable[EndRecord],
    read: Mapping[str, Span],
    last_seen: Mapping[str, datetime],
) -> tuple[Node, ...]:
    """Return every node with a job record, by name.

    `read` has when its first reading began and its last one ended, `last_seen` the end of its last
    reading or count.
    """
    result = []
    for name, (own, own_ends) in sorted(_by_node(jobs, ends).items()):
        seen = last_seen.get(name)
        writers = [writer.ended_by(seen) for writer in _independent_writers(own, own_ends)]
        result.append(_node(name, writers, read.get(name), seen))
    return tuple(result)


def unended(jobs: Iterable[JobRecord], ends: Iterable[EndRecord]) -> list[JobRecord]:
    """Return the job records of writers whose end is not known, by node and writer."""
    nodes = [
        writer.record
        for own, own_ends in _by_node(jobs, ends).values()
        for writer in _independent_writers(own, own_ends)
        if writer.end is None
    ]
    return sorted(nodes, key=lambda job: (job.node, job.writer))


def deciding_end(ends: Iterable[EndRecord]) -> EndRecord:
    """Return the end that gives several writers or nodes their state and exit code.

    It is the first in time that failed or was killed, since the others mostly end because of it;
    without one the first that was lost, which nobody saw end; else the last with an exit code.
    """
    candidates = list(ends)
    bad = [end for end in candidates if end.state != "completed"]
    if bad:
        return min(bad, key=_bad_first)
    return max(candidates, key=lambda end: (end.exit_code is not None, _in_time(end)))


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the time that any of the spans covers, in order and without overlap."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        left = max(start, merged[-1][1]) if merged else start
        if left < end:
            merged.append((left, end))
    return tuple(merged)


def end_notices(nodes: Sequence[Node]) -> list[Notice]:
    """Return a notice on the nodes with a bad end, and one for each with a bad earlier run."""
    bad = sorted((n.end for n in nodes if n.end and n.end.state != "completed"), key=_bad_first)
    notices = []
    if bad and len(nodes) > 1:
        text = f"Node {bad[0].node} {_how(bad[0])}, which decides how the job ends."
        named = [f"{end.node} {_how(end)}" for end in bad[1:NAMED_AT_MOST]]
        named += [f"{len(bad) - NAMED_AT_MOST} more"] if len(bad) > NAMED_AT_MOST else []
        text += f" Besides: {', '.join(named)}." if named else ""
        notices.append(Notice("node-failed", text, "state"))
    for node in nodes:
        for end in node.earlier:
            text = f"On node {node.name} an earlier run {_how(end)}; the last one there decides."
            notices.append(Notice("node-failed", text, "state"))
    return notices


def _by_node(
    jobs: Iterable[JobRecord], ends: Iterable[EndRecord]
) -> dict[str, tuple[list[JobRecord], list[EndRecord]]]:
    grouped: dict[str, tuple[list[JobRecord], list[EndRecord]]] = defaultdict(lambda: ([], []))
    for job in jobs:
        grouped[job.node][0].append(job)
    for end in ends:
        if end.node in grouped:
            grouped[end.node][1].append(end)
    return grouped


def _independent_writers(jobs: Sequence[JobRecord], ends: Sequence[EndRecord]) -> list[_Writer]:
    """Return the writers of a node that no other answers for, with their ends.

    A meter that resumes a writer answers for it. A recovery only ends the writer it names, and not
    if that one has an end of its own: what a writer knows of its end is better.
    """
    first: dict[str, JobRecord] = {}
    in_order = sorted(jobs, key=lambda job: (job.started_at, job.writer, job.seq))
    for job in in_order:
        first.setdefault(job.writer, job)
    writers = first.keys()
    resumed = {j.writer: j.resumes for j in in_order if j.resumes in writers - {j.writer}}
    by_writer = {end.writer: end for end in sorted(ends, key=_in_time)}
    recovered = {
        old: by_writer[new]
        for new, old in sorted(resumed.items())
        if first[new].role == "recovery" and new in by_writer
    }
    heirs = {old for new, old in resumed.items() if first[new].role != "recovery"}
    answering = [
        name
        for name, job in first.items()
        if name not in heirs and not (job.role == "recovery" and name in resumed)
    ]
    return [
        _Writer(first[name], _began(name, first, resumed), by_writer.get(name, recovered.get(name)))
        for name in answering or first  # each resumes another, which no meter writes
    ]


def _began(
    writer: str, first: Mapping[str, JobRecord], resumed: Mapping[str, str | None]
) -> datetime:
    """Return the earliest start of a writer and those it resumes one after the other."""
    moments: dict[str, datetime] = {}
    name: str | None = writer
    while name is not None and name not in moments:
        moments[name] = first[name].started_at
        name = resumed.get(name)
    return min(moments.values())


def _node(
    name: str, writers: Sequence[_Writer], read: Span | None, last_seen: datetime | None
) -> Node:
    runs = _runs(writers)
    reserved = [_span(run, last_seen) if run is runs[-1] else _span(run, None) for run in runs]
    if read:
        if read[0] < reserved[0][0] - SKEW:
            reserved[0] = read[0], reserved[0][1]
        if read[1] > reserved[-1][1] + SKEW:
            reserved[-1] = reserved[-1][0], read[1]
    ends = [[writer.end for writer in run if writer.end] for run in runs]
    earlier = (deciding_end(of_run) for of_run in ends[:-1])
    open_ = any(writer.end is None for writer in runs[-1])
    return Node(
        name,
        tuple(reserved),
        end=None if open_ else deciding_end(ends[-1]),
        ended_at=None if open_ else reserved[-1][1],
        earlier=tuple(end for end in earlier if end.state != "completed"),
    )


def _runs(writers: Sequence[_Writer]) -> list[list[_Writer]]:
    """Return the writers that decide, in groups that overlap in time, one group after the other."""
    commands = [writer for writer in writers if writer.record.role == "command"]
    deciders = [
        writer
        for writer in writers
        if writer in commands or not any(c.covers(writer.started_at) for c in commands)
    ]
    runs: list[list[_Writer]] = []
    for writer in sorted(deciders, key=lambda w: (w.started_at, w.record.writer)):
        if runs and any(w.end is None or writer.started_at < w.end.ended_at for w in runs[-1]):
            runs[-1].append(writer)
        else:
            runs.append([writer])
    return runs


def _span(run: Sequence[_Writer], last_seen: datetime | None) -> Span:
    """Return first start and last end, or last reading where an end is not seen."""
    start = min(writer.started_at for writer in run)
    moments = [start, *(writer.end.ended_at for writer in run if writer.end)]
    if last_seen and any(w.end is None or w.end.state == "lost" for w in run):
        moments.append(last_seen)
    return start, max(moments)


def _how(end: EndRecord) -> str:
    if end.state == "failed":
        return f"failed with exit code {end.exit_code}" if end.exit_code is not None else "failed"
    if end.state == "killed":
        return f"was killed by signal {end.signal}" if end.signal is not None else "was killed"
    return "was lost"


def _in_time(end: EndRecord) -> tuple[object, ...]:
    return (end.ended_at, end.node, end.writer, end.seq)


def _bad_first(end: EndRecord) -> tuple[object, ...]:
    return (end.state == "lost", _in_time(end))

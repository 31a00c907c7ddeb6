"""Merges the records of many writers, ranks and nodes into one job that counts each device once.

`merge` is a function of the *set* of records: duplicates, order, and overlapping uploads do not
change its result. An interval is identified by (node, device, start); of several with one identity
the one with the greatest end, then the greatest sequence number, counts. A device is identified by
its UUID, or by node and id where the id only says what the device is on its host ("tpu-0").
Intervals of one device that overlap under different starts, as when two nodes are containers of one
host, are cut so that no instant counts twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from math import fsum
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.notices import CODES, Notice
from gramwatt.sci.records import elsewhere
from gramwatt.sci.records.conflicts import OPEN, deduplicate, impossible, set_back
from gramwatt.sci.records.nodes import (
    Node,
    Span,
    deciding_end,
    end_notices,
    nodes_of,
    reported_times,
    union,
)
from gramwatt.sci.records.records import (
    HOST_CLASSES,
    SERVICE,
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    is_unique,
)
from gramwatt.sci.records.times import joules_text, reversed_notices, within_time

UNDECLARED = {"project": "default", "kind": "training"}
"""What a record has where its user said nothing: a `track` in a command may have said it."""

DeviceKey = tuple[str, str]
"""Node and id of a device as in its record; no two devices of a job have the same."""


class MergedDevice(Struct, frozen=True):
    """One device, its non-overlapping intervals in time order, and the nodes that report it."""

    record: DeviceRecord
    intervals: tuple[IntervalRecord, ...]
    nodes: tuple[str, ...] = ()

    @property
    def key(self) -> DeviceKey:
        """Return what identifies the device in the job."""
        return self.record.node, self.record.device_id

    @property
    def identity(self) -> str:
        """Return what identifies the device among all jobs."""
        device_id = self.record.device_id
        return device_id if is_unique(device_id) else f"{self.record.node} {device_id}"


class NodePlace(Struct, frozen=True):
    """Where one node stands as its writers declare it; None where they do not.

    `others` are the (zone, region) pairs that other writers of the same role declare instead.
    """

    node: str
    zone: str | None
    region: str | None
    pue: float | None
    others: tuple[tuple[str, str], ...] = ()


class MergedJob(Struct, frozen=True, dict=True):
    """All that the records say of a job, each fact once.

    The `since` of each of `counts` is when its writer last counted the unit before, or began.
    `service` are the counts that are no part of R: how a server worked.
    """

    head: JobRecord
    units: tuple[str, ...]
    devices: tuple[MergedDevice, ...]
    counts: tuple[CountRecord, ...]
    windows: tuple[CountRecord, ...]
    service: tuple[CountRecord, ...]
    state: str
    exit_code: int | None
    started_at: datetime
    ended_at: datetime | None
    last_seen: datetime
    nodes: tuple[Node, ...]
    places: tuple[NodePlace, ...]
    meter_cpu_s: float | None
    meter_rss_b: float | None
    notices: tuple[Notice, ...]

    @property
    def duration_s(self) -> float:
        """Length so far [s]: start to end, or to the last reading while it is open."""
        return max(0.0, ((self.ended_at or self.last_seen) - self.started_at).total_seconds())

    def reserved(self, nodes: Sequence[str]) -> tuple[Span, ...]:
        """Return when any of `nodes` was reserved; the job's whole length for unknown ones."""
        nodes_here = [self._by_name[name] for name in nodes if name in self._by_name]
        spans = [span for node in nodes_here for span in node.reserved]
        return union(spans or [(self.started_at, self.ended_at or self.last_seen)])

    def reserved_s(self, nodes: Sequence[str]) -> float:
        """Return length of `reserved` [s]."""
        return sum((end - start).total_seconds() for start, end in self.reserved(nodes))

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}


def merge(records: Iterable[AnyRecord]) -> MergedJob:
    """Merge the records of a job; raises ScoreError without a job record or for several jobs."""
    unique, notices = deduplicate(records)
    unique = increments(unique)
    jobs = [r for r in unique if isinstance(r, JobRecord)]
    if not jobs:
        raise ScoreError("no job record: the journal does not say what ran", code="no-job-record")
    if len({record.job_id for record in unique}) > 1:
        raise ScoreError("records of several jobs cannot be merged", code="mixed-jobs")
    ends = [r for r in unique if isinstance(r, EndRecord)]
    times = reported_times(jobs, ends)
    unique, extent, outside = within_time(unique, times)
    notices += [*impossible(unique), *reversed_notices(times), *outside]
    counted, held = _without_integrated_hosts(unique)
    devices, again, repeated = _devices(counted, jobs)
    head = _head(jobs)
    if head.reporter:
        devices, left_out = _counted_here(devices)
        notices += [elsewhere.notice(head.reporter, left_out)] if left_out else []
    counts = [r for r in unique if isinstance(r, CountRecord)]
    counts.sort(key=lambda count: (count.at, count.node, count.writer, count.seq))
    counted_up = _with_spans([count for count in counts if count.since is None], jobs)
    seen = extent.last_seen
    nodes = _with_readings(nodes_of(jobs, ends, extent.read, seen), unique)
    decided = [node.end for node in nodes if node.end]
    end = deciding_end(decided) if len(decided) == len(nodes) else None
    started = min(node.reserved[0][0] for node in nodes)
    if again or held:
        text = f"{CODES['overlap-removed'][:-1]}: {joules_text(fsum(again + held))} left out."
        notices.append(Notice("overlap-removed", text, "energy_kwh"))
    if repeated:
        notices.append(set_back(fsum(repeated)))
    if any(job.resumes and job.role != "recovery" for job in jobs):
        notices.append(Notice("meter-replaced", CODES["meter-replaced"], "sci"))
    notices += [*end_notices(nodes), *_meter_notices([*jobs, *ends])]
    return MergedJob(
        head=head,
        units=tuple(dict.fromkeys(u for job in sorted(jobs, key=_job_key) for u in job.units)),
        devices=devices,
        counts=tuple(count for count in counted_up if not count.unit.startswith(SERVICE)),
        windows=tuple(count for count in counts if count.since is not None),
        service=tuple(count for count in counted_up if count.unit.startswith(SERVICE)),
        state=end.state if end else "running",
        exit_code=end.exit_code if end else None,
        started_at=started,
        ended_at=max(node.ended_at for node in nodes if node.ended_at) if end else None,
        last_seen=max([started, *seen.values()]),
        nodes=nodes,
        places=_places(jobs),
        meter_cpu_s=_sum_known(end.meter_cpu_s for end in ends),
        meter_rss_b=max((end.meter_rss_b for end in ends if end.meter_rss_b), default=None),
        notices=tuple(dict.fromkeys(notices)),
    )


def _with_readings(nodes: Iterable[Node], records: Sequence[AnyRecord]) -> tuple[Node, ...]:
    """Return the nodes; one with several runs is reserved also for readings between them."""
    several = {node.name for node in nodes if len(node.reserved) > 1}
    read: dict[str, list[Span]] = defaultdict(list)
    if several:
        for record in records:
            if isinstance(record, IntervalRecord) and record.node in several:
                read[record.node].append((record.start, record.end))
    return tuple(
        replace(node, reserved=union([*node.reserved, *read[node.name]]) or node.reserved)
        if node.name in read
        else node
        for node in nodes
    )


def _without_integrated_hosts(records: list[AnyRecord]) -> tuple[list[AnyRecord], list[float]]:
    """Return the records without host devices of a node while a module's counter holds them.

    A meter leaves them out itself, unless it learns of the module later, from another rank. Returns
    the records and the energy [J] of each interval left out: those from the module's first to its
    last one. Host devices of which no interval is left go too.
    """
    devices = [record for record in records if isinstance(record, DeviceRecord)]
    modules = {(device.node, device.device_id) for device in devices if device.includes_host}
    if not modules:
        return records, []
    intervals = [record for record in records if isinstance(record, IntervalRecord)]
    spans = _spans(i for i in intervals if (i.node, i.device_id) in modules)
    hosts = {device.device_id for device in devices if device.device_class in HOST_CLASSES}
    result: list[AnyRecord] = []
    held: list[float] = []
    for record in records:
        if (
            not (isinstance(record, IntervalRecord) and record.device_id in hosts)
            or record.node not in spans
            or record.end <= spans[record.node][0]
            or record.start >= spans[record.node][1]
        ):
            result.append(record)
        else:
            held.append(record.energy_j)
    measured = {record.device_id for record in result if isinstance(record, IntervalRecord)}
    gone = {d.device_id for d in devices if d.node in spans and d.device_id in hosts - measured}
    result = [r for r in result if not (isinstance(r, DeviceRecord) and r.device_id in gone)]
    return result, held


def _spans(intervals: Iterable[IntervalRecord]) -> dict[str, tuple[datetime, datetime]]:
    """Return the first start and the last end of the intervals of each node."""
    spans: dict[str, tuple[datetime, datetime]] = {}
    for interval in intervals:
        first, last = spans.get(interval.node, (interval.start, interval.end))
        spans[interval.node] = min(first, interval.start), max(last, interval.end)
    return spans


def _job_key(job: JobRecord) -> tuple[object, ...]:
    # The command knows what its user asked for; a recovery writer knows least.
    rank = {"command": 0, "track": 1, "recovery": 2}[job.role]
    return (rank, job.started_at, job.node, job.writer, job.seq)


def increments(records: Iterable[AnyRecord]) -> list[AnyRecord]:
    """Return the records with what each count of a counter has added to the one before it.

    Lines of one counter may be missing or come from several writers: the highest total counts.
    """
    others: list[AnyRecord] = []
    totals: list[CountRecord] = []
    for record in records:
        is_total = isinstance(record, CountRecord) and record.counter is not None
        (totals if is_total else others).append(record)  # type: ignore[arg-type]
    totals.sort(key=lambda count: (count.at, count.amount, count.writer, count.seq))
    before: dict[tuple[object, ...], float] = {}
    for count in totals:
        key = count.node, count.counter, count.unit, count.phase
        added = count.amount - before.get(key, 0.0)
        if added > 0:
            before[key] = count.amount
            others.append(msgspec.structs.replace(count, amount=added))
    return others


def _with_spans(
    counts: Sequence[CountRecord], jobs: Sequence[JobRecord]
) -> tuple[CountRecord, ...]:
    """Return the counts in order of time, each over the span since its counter's one before it."""
    began = {(job.node, job.writer): job.started_at for job in reversed(jobs)}
    last: dict[tuple[object, ...], tuple[datetime, datetime]] = {}
    result = []
    for count in counts:
        counted_by = count.node, count.counter or count.writer.removesuffix("-count")
        writer = count.writer.removesuffix(OPEN).removesuffix("-count")
        start = min(began.get((count.node, writer), count.at), count.at)
        since, at = last.get((counted_by, count.unit), (start, start))
        if count.at > at:
            since, at = at, count.at
        last[counted_by, count.unit] = since, at
        result.append(msgspec.structs.replace(count, since=since))
    return tuple(result)


def _head(jobs: Sequence[JobRecord]) -> JobRecord:
    """Return the first writer's record, with what it leaves open from the others in order."""
    first, *others = sorted(jobs, key=_job_key)
    last_first = (*reversed(others), first)
    tags = {key: value for job in last_first for key, value in job.tags.items()}
    versions = {key: value for job in last_first for key, value in job.versions.items()}
    names = ("zone", "region", "pue", "model_id", "framework", "precision")
    filled = {name: _first_known((first, *others), name) for name in names}
    for name, usual in UNDECLARED.items():
        stated = (value for job in (first, *others) if (value := getattr(job, name)) != usual)
        filled[name] = next(stated, usual)
    return msgspec.structs.replace(first, tags=tags, versions=versions, **filled)


def project_of(jobs: Iterable[JobRecord]) -> str:
    """Return the project that a job of these records has: the first one named, or the usual."""
    usual = UNDECLARED["project"]
    named = (job.project for job in sorted(jobs, key=_job_key) if job.project != usual)
    return next(named, usual)


def _first_known(jobs: Sequence[JobRecord], name: str) -> Any:
    return next((value for job in jobs if (value := getattr(job, name))), None)


def _places(jobs: Sequence[JobRecord]) -> tuple[NodePlace, ...]:
    """Return the place of each node whose writers declare one, preferred as in the head."""
    by_node: dict[str, list[JobRecord]] = defaultdict(list)
    for job in sorted(jobs, key=_job_key):
        by_node[job.node].append(job)
    places = []
    for node, own in sorted(by_node.items()):
        zone, region, pue = (_first_known(own, name) for name in ("zone", "region", "pue"))
        place = NodePlace(node, zone, region, pue)
        places.append(replace(place, others=_other_places(own, place)))
    return tuple(place for place in places if place.zone or place.region or place.pue)


def _other_places(own: Sequence[JobRecord], place: NodePlace) -> tuple[tuple[str, str], ...]:
    """Return places other than `place` that a node's writers declare, of the role that decides."""
    declaring = [job for job in own if job.zone or job.region]
    role = declaring[0].role if declaring else ""
    declared = {(job.zone or "", job.region or "") for job in declaring if job.role == role}
    return tuple(sorted(declared - {(place.zone or "", place.region or "")}))


def _devices(
    records: Sequence[AnyRecord], jobs: Sequence[JobRecord]
) -> tuple[tuple[MergedDevice, ...], list[float], list[float]]:
    """Return the devices, and energy [J] of times that another, or the same, writer had stated."""
    in_order = sorted(jobs, key=lambda job: job.started_at)
    opened = {(job.node, job.writer): job.started_at for job in in_order}
    described: dict[DeviceKey, DeviceRecord] = {}
    spans: dict[DeviceKey, list[IntervalRecord]] = defaultdict(list)
    nodes: dict[DeviceKey, set[str]] = defaultdict(set)
    for record in records:
        if not isinstance(record, IntervalRecord | DeviceRecord):
            continue
        key = (record.device_id, "" if is_unique(record.device_id) else record.node)
        nodes[key].add(record.node)
        if isinstance(record, IntervalRecord):
            spans[key].append(record)
        else:
            latest = described.get(key, record)
            described[key] = max(latest, record, key=lambda d: _device_key(d, opened))
    merged: list[MergedDevice] = []
    again: list[float] = []
    repeated: list[float] = []
    for key in sorted(nodes):
        intervals = _without_overlap(spans[key], again, repeated)
        device = described.get(key) or _undescribed(intervals[0])
        if device.released:
            continue
        merged.append(MergedDevice(device, intervals, tuple(sorted(nodes[key]))))
    return tuple(merged), again, repeated


def _counted_here(devices: Iterable[MergedDevice]) -> tuple[tuple[MergedDevice, ...], list[float]]:
    """Return the devices of a lesser reporter with what counts here, and what does not [J]."""
    result: list[MergedDevice] = []
    left_out: list[float] = []
    for device in devices:
        counted, removed_j = elsewhere.without(device.intervals, device.record.elsewhere)
        result.append(replace(device, intervals=counted))
        left_out += [removed_j] if device.record.elsewhere else []
    return tuple(result), left_out


def _device_key(
    device: DeviceRecord, opened: dict[tuple[str, str], datetime]
) -> tuple[object, ...]:
    writer_opened = opened.get((device.node, device.writer))
    stamp = writer_opened.timestamp() if writer_opened else 0.0
    return (stamp, device.seq, device.node, device.writer)


def _undescribed(interval: IntervalRecord) -> DeviceRecord:
    """Return a stand-in for a device whose own line never arrived, so that its energy counts."""
    return DeviceRecord(
        job_id=interval.job_id,
        node=interval.node,
        writer=interval.writer,
        seq=interval.seq,
        device_id=interval.device_id,
        device_class="accelerator",
        name="not described",
        meter="not described",
        kind=interval.kind,
    )


def _without_overlap(
    intervals: Sequence[IntervalRecord], again: list[float], repeated: list[float]
) -> tuple[IntervalRecord, ...]:
    """Return the intervals with each instant once; add what is cut off to the lists [J].

    `again` is for times that another writer had stated, `repeated` for those of the same one.
    """
    result: list[IntervalRecord] = []
    # Two that start together are of different nodes, so the node makes the order total.
    order = sorted(intervals, key=lambda i: (i.start, -i.end.timestamp(), i.node))
    for interval in order:
        covered = result[-1].end if result else interval.start
        if interval.start >= covered:
            result.append(interval)
            continue
        same = interval.writer == result[-1].writer and not interval.writer.endswith(OPEN)
        removed = repeated if same else again
        if interval.end <= covered:
            removed.append(interval.energy_j)
        else:
            rest = _after(interval, covered)
            removed.append(interval.energy_j - rest.energy_j)
            result.append(rest)
    return tuple(result)


def _after(interval: IntervalRecord, moment: datetime) -> IntervalRecord:
    """Return the part of an interval after `moment`, with energy in proportion to time."""
    fraction = (interval.end - moment) / (interval.end - interval.start)
    return msgspec.structs.replace(interval, start=moment, energy_j=interval.energy_j * fraction)


def _meter_notices(records: Sequence[JobRecord | EndRecord]) -> list[Notice]:
    """Return the notices that meters journaled as "code: message", else as text."""
    notices = []
    for text in sorted({text for record in records for text in record.notices}):
        code, _, message = text.partition(": ")
        has_code = code in CODES
        notices.append(Notice(code if has_code else "meter-remark", message if has_code else text))
    return notices


def _sum_known(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None

"""Jobs out of a span of a Prometheus: its boards' and pods' energy, five minutes an interval.

The span is whole five minutes, as intervals are, so that importing again, or a longer span, gives
the same lines, and changes nothing or adds to the jobs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import Struct

from gramwatt.collectors.settings.identity import hashed, safe_id
from gramwatt.sci.figures.notices import CODES
from gramwatt.sci.records.records import (
    AnyRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    encode,
)
from gramwatt.service.common.answers import Rejected
from gramwatt.service.container import Service
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.prometheus.client import Prometheus
from gramwatt.service.prometheus.mapping import JobMapping, Work
from gramwatt.service.prometheus.readings import (
    ENERGY,
    NODE_CPU,
    POD_CPU,
    POWER,
    Boards,
    Pods,
    Step,
    Track,
)

STEP_S = 300
DeviceKey = tuple[str, str]
"""Node and device."""


class ImportAnswer(Struct):
    """What became of the span: ids of new or longer jobs and of known ones, and refused lines."""

    imported: list[str]
    duplicate: int
    boards: int
    energy_j: float
    nobody_j: float
    rejected: list[Rejected]


class _Run(NamedTuple):
    """Energy [J] of a device over [start, end) [s] inside five minutes, all known in one way."""

    start_s: float
    end_s: float
    energy_j: float
    kind: str


@dataclass(slots=True)
class _Device:
    """A device of a job: its class and tracks, and what the job has of it."""

    device_class: str
    tracks: dict[int, Track] = field(default_factory=dict)
    """One of a board, one for each pod of a processor, by `id`."""
    share: float | None = None
    """The job's part where it is known; None for the mean of its steps."""
    runs: list[_Run] = field(default_factory=list)
    covered_s: float = 0.0
    reserved_s: float = 0.0
    cut_j: float = 0.0
    """Energy between readings among which the job began or left the device [J]."""
    gaps: int = 0
    gap_j: float = 0.0
    """Energy between readings with others missing in between [J]."""
    _steps: dict[tuple[float, float], Step] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)
    """Where in `runs` each five minutes are, of a processor."""

    @property
    def track(self) -> Track:
        """Return the first of its tracks, whose labels and period stand for all."""
        return next(iter(self.tracks.values()))

    def add(self, step: Step) -> None:
        """Add a step; those of several pods of the job over one span are summed."""
        span = step.start_s, step.end_s
        if known := self._steps.get(span):
            step = step._replace(energy_j=step.energy_j + known.energy_j, part=known.part)
        self._steps[span] = step

    def fold(self) -> None:
        """Make runs of the steps so far, cut at whole five minutes in proportion to time."""
        for (start_s, end_s), step in sorted(self._steps.items()):
            length_s = end_s - start_s
            self.covered_s += length_s
            self.cut_j += step.energy_j if step.cut else 0.0
            self.gaps += step.gap
            self.gap_j += step.energy_j if step.gap else 0.0
            self.reserved_s += step.part * length_s
            while start_s < end_s:
                until_s = min(end_s, (math.floor(start_s / STEP_S) + 1) * STEP_S)
                joules = step.energy_j * (until_s - start_s) / length_s
                self._append(_Run(start_s, until_s, joules, step.kind))
                start_s = until_s
        self._steps.clear()

    def mean_share(self) -> float:
        """Return the job's part of the device, mean over the time that it had it (0, 1]."""
        part = self.reserved_s / self.covered_s if self.covered_s > 0 else 1.0
        return min(1.0, max(1e-6, round(part if self.share is None else self.share, 9)))

    def _append(self, run: _Run) -> None:
        if self.device_class != "gpu":  # several pods at once, each with gaps of its own
            place = self._places.setdefault(_bucket(run.start_s), len(self.runs))
            if place < len(self.runs):
                start_s, end_s, energy_j, kind = self.runs[place]
                start_s, end_s = min(start_s, run.start_s), max(end_s, run.end_s)
                self.runs[place] = _Run(start_s, end_s, energy_j + run.energy_j, kind)
            else:
                self.runs.append(run)
            return
        last = self.runs[-1] if self.runs else None
        joined = last and last.end_s == run.start_s and last.kind == run.kind
        if last and joined and run.start_s % STEP_S:
            run = _Run(last.start_s, run.end_s, last.energy_j + run.energy_j, run.kind)
            self.runs.pop()
        self.runs.append(run)


@dataclass(slots=True)
class _Found:
    """One job and its devices."""

    work: Work
    devices: dict[DeviceKey, _Device] = field(default_factory=dict)


class _Jobs:
    """All jobs of the span."""

    def __init__(self) -> None:
        self.found: dict[str, _Found] = {}

    def add(self, key: DeviceKey, device_class: str, step: Step, track: Track) -> None:
        """Add a step to its job."""
        found = self.found.setdefault(step.work.job_id, _Found(step.work))
        device = found.devices.setdefault(key, _Device(device_class))
        device.tracks.setdefault(id(track), track)
        device.add(step)

    def fold(self) -> None:
        """Take in what a chunk has brought."""
        for found in self.found.values():
            for device in found.devices.values():
                device.fold()


def import_range(
    service: Service, server: Prometheus, span: tuple[int, int], mapping: JobMapping
) -> ImportAnswer:
    """Make jobs of the samples of a span [Unix s]; raises PrometheusError before any is stored."""
    from_s, to_s = span[0] // STEP_S * STEP_S, -(-span[1] // STEP_S) * STEP_S
    jobs, boards, pods = _Jobs(), Boards(mapping.work), Pods(mapping.work)
    for metric, steps in ((ENERGY, boards.energy), (POWER, boards.power)):
        for series in server.chunks(metric, from_s, to_s):
            for uuid, step in steps(series):
                track = boards.tracks[uuid]
                jobs.add((_node(track.labels["host"]), safe_id(uuid)), "gpu", step, track)
            jobs.fold()
    for series in server.chunks(POD_CPU, from_s, to_s):
        for (host, device_class), step, track in pods.energy(series):
            node = _node(host)
            jobs.add((node, f"{node}-{device_class}"), device_class, step, track)
        jobs.fold()
    if pods.tracks:
        _set_shares(jobs, server, (from_s, to_s))
    answer = ImportAnswer(
        imported=[],
        duplicate=0,
        boards=len(boards.tracks),
        energy_j=0.0,
        nobody_j=sum(track.nobody_j for track in boards.tracks.values()),
        rejected=[],
    )
    for found in jobs.found.values():
        _store(service, found, mapping.place, answer)
    return answer


def _set_shares(jobs: _Jobs, server: Prometheus, span: tuple[int, int]) -> None:
    """Set each job's part of its hosts: of the packages' energy while it ran."""
    whole: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    nobody = Work("", "", "", ())
    nodes = Pods(lambda labels: nobody)
    for series in server.chunks(NODE_CPU, *span):
        for (host, device_class), step, _ in nodes.energy(series):
            if device_class == "cpu":
                whole[_node(host)][_bucket(step.start_s)] += step.energy_j
    for found in jobs.found.values():
        for (node, _), device in found.devices.items():
            cpu = found.devices.get((node, f"{node}-cpu"))
            if device.device_class not in ("cpu", "ram") or cpu is None:
                continue
            all_j = sum(whole[node][bucket] for bucket in {_bucket(r.start_s) for r in cpu.runs})
            device.share = sum(run.energy_j for run in cpu.runs) / all_j if all_j > 0 else None


def _bucket(at_s: float) -> int:
    return math.floor(at_s / STEP_S)


def _store(service: Service, found: _Found, place: Mapping[str, Any], answer: ImportAnswer) -> None:
    nodes = sorted({node for node, _ in found.devices})
    for device in found.devices.values():
        device.runs.sort()
    records = [record for node in nodes for record in _records(found, node, place)]
    taken = ingest(service, found.work.job_id, [encode(record).encode() for record in records])
    answer.rejected += taken.rejected
    answer.energy_j += sum(r.energy_j for r in records if isinstance(r, IntervalRecord))
    if taken.accepted:
        answer.imported.append(found.work.job_id)
    else:
        answer.duplicate += 1


def _records(found: _Found, node: str, place: Mapping[str, Any]) -> list[AnyRecord]:
    """Return the journal of a job on one node."""
    mine = {name: device for (where, name), device in found.devices.items() if where == node}
    runs = [run for device in mine.values() for run in device.runs]
    content = repr((found.work, node, [(name, one.runs) for name, one in sorted(mine.items())]))
    writer = f"prom-{sha256(content.encode()).hexdigest()[:20]}"
    base: dict[str, Any] = {"job_id": found.work.job_id, "node": node, "writer": writer}
    drafts: list[tuple[type[AnyRecord], dict[str, Any]]] = [
        (
            JobRecord,
            {
                "started_at": _time(min(run.start_s for run in runs)),
                "project": found.work.project,
                "name": found.work.name,
                "kind": "other",
                "tags": dict(found.work.tags),
                "reporter": "prometheus",
                "notices": tuple(_notices(mine)),
                **place,
            },
        )
    ]
    for name, device in mine.items():
        drafts.append((DeviceRecord, _fields(name, device)))
        for start_s, end_s, joules, kind in device.runs:
            fields = {"start": _time(start_s), "end": _time(end_s), "kind": kind}
            fields |= {"device_id": name, "energy_j": round(joules, 6)}
            drafts.append((IntervalRecord, fields))
    ended_at = _time(max(run.end_s for run in runs))
    unseen = (f"end-unseen: {CODES['end-unseen']}",)
    drafts.append((EndRecord, {"ended_at": ended_at, "state": "completed", "notices": unseen}))
    return [kind(**base, seq=seq, **fields) for seq, (kind, fields) in enumerate(drafts, 1)]


def _fields(name: str, device: _Device) -> dict[str, Any]:
    """Return the fields of a device's record."""
    kinds = {run.kind for run in device.runs}
    kind = next((k for k in ("measured", "attributed", "integrated") if k in kinds), "estimated")
    names = {"gpu": "unknown GPU", "cpu": "unknown CPU", "ram": "memory"}
    return {
        "device_id": name,
        "device_class": device.device_class,
        "name": device.track.labels.get("modelName") or names[device.device_class],
        "meter": "dcgm-exporter" if device.device_class == "gpu" else "kepler",
        "kind": kind,
        "share": device.mean_share(),
        "update_period_s": device.track.usual_s or None,
    }


def _notices(devices: Mapping[str, _Device]) -> Iterator[str]:
    """Yield what the samples of each device lack."""
    for name, device in devices.items():
        if device.cut_j > 0:
            text = (
                f"{name}: {device.cut_j:.3g} J are half of what lies between two scrapes at which"
            )
            yield f"meter-gap: {text} the job came or went; it is 0 to {2 * device.cut_j:.3g} J."
        if device.gaps:
            every = f"which come every {device.track.usual_s:g} s"
            text = f"{name}: {device.gaps} gaps between scrapes, {every}"
            yield f"meter-gap: {text}, hold {device.gap_j:.3g} J; {_gap_range(device)}."
        if resets := sum(track.resets for track in device.tracks.values()):
            text = f"{name}: its counter was reset {resets} times; the energy there is not known"
            yield f"meter-counter-reset: {text}."


def _gap_range(device: _Device) -> str:
    """Return in words between which bounds the energy in a device's gaps lies."""
    if device.device_class != "gpu":
        return (
            f"the counter is the pod's own, but each hour may have 0 to {device.gap_j:.3g} J of it"
        )
    if any(run.kind == "integrated" for run in device.runs):
        return "the power there is that of both ends, and its range is not known"
    return f"it is 0 to {device.gap_j:.3g} J, as another job may have had the board"


def _node(host: str) -> str:
    return hashed("n-", host)


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(round(at_s, 3), UTC)

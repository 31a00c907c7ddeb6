"""Jobs out of a cluster's own Prometheus: dcgm-exporter's boards and Kepler's pods.

Samples are asked for, a mapping says whose they are, readings make energy of them, and
`import_range` makes jobs.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from msgspec import Struct

from gramwatt.collectors.settings.config import PUE_MAX, close_matches, plain_address
from gramwatt.collectors.settings.http import Unanswered, exchange, new_session
from gramwatt.collectors.settings.identity import bound_id, hashed, safe_id
from gramwatt.sci.figures.notices import CODES
from gramwatt.sci.figures.units import j_from_mj
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
from gramwatt.service.jobs.ingest import ingest

CHUNK_S = 3600
LIMIT_S = 60.0
"""How long one answer may take [s]; Prometheus gives a query two minutes by default."""


class PrometheusError(Exception):
    """The server cannot be asked or answers with an error; the message says what to do."""


class Series(NamedTuple):
    """One series: its labels and its samples, time [s] and value, in order."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]


class Prometheus:
    """A server by its address; credentials may stand in it, or a token beside it."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._shown = plain_address(self._url)
        self._session = new_session(token)

    def chunks(self, metric: str, from_s: int, to_s: int) -> Iterator[list[Series]]:
        """Yield the metric's series an hour at a time, from `from_s` up to `to_s` [Unix s].

        A range of an instant query has the samples themselves; a range query would repeat the last
        one at each step, which hides gaps. Raises PrometheusError.
        """
        for at_s in range(from_s, to_s, CHUNK_S):
            until_s = min(at_s + CHUNK_S, to_s)
            yield self._samples(f"{metric}[{until_s - at_s}s]", until_s)

    def _samples(self, query: str, at_s: int) -> list[Series]:
        try:
            answer = exchange(
                self._session,
                "POST",
                f"{self._url}/api/v1/query",
                LIMIT_S,
                silence_s=LIMIT_S,
                data={"query": query, "time": str(at_s)},
            )
            document: Any = answer.json()
        except Unanswered as error:
            where = "see that the address is right and reached from here"
            raise PrometheusError(f"{self._shown} {error}; {where}") from None
        except ValueError:
            raise PrometheusError(f"{self._shown} does not answer as Prometheus does") from None
        if not isinstance(document, dict) or document.get("status") != "success":
            reason = document.get("error") if isinstance(document, dict) else None
            text = reason or f"HTTP {answer.status}"
            raise PrometheusError(f"{self._shown} refuses {query!r}: {text}")
        try:
            return [
                Series(
                    dict(row["metric"]),
                    [(float(t), float(v)) for t, v in row["values"] if math.isfinite(float(v))],
                )
                for row in document["data"]["result"]
            ]
        except (KeyError, TypeError, ValueError):
            raise PrometheusError(f"{self._shown} does not answer as Prometheus does") from None


RENAMED = {"pod_name": "pod", "pod_namespace": "namespace", "pod_id": "pod_uid", "hpc_job": "slurm"}
"""Kepler's labels and dcgm-exporter's of batch jobs, by the names that a mapping uses."""
HOSTS = ("hostname", "Hostname", "node_name", "node", "instance")
"""Labels that may name the node, the first that is there."""
PLACE = ("zone", "region", "pue")
KEYS = ("match", "by", "project", "name")


class MappingError(ValueError):
    """A mapping that cannot be used; the message says where and why."""


class Work(NamedTuple):
    """A job that samples belong to: its id, and what is known of it."""

    job_id: str
    project: str
    name: str
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Samples whose labels match are jobs of a project, one for each value of the labels `by`."""

    match: Mapping[str, re.Pattern[str]]
    by: tuple[str, ...]
    project: str
    name: str

    def work(self, labels: Mapping[str, str]) -> Work | None:
        """Return the job of a sample; None where the rule does not hold for it."""
        if not all(pattern.fullmatch(labels.get(key, "")) for key, pattern in self.match.items()):
            return None
        values = [labels.get(key, "") for key in self.by]
        if not any(values):
            return None
        label_values = {key: labels.get(key, "") for key in _placeholders(self.project + self.name)}
        digest = sha256(repr(sorted(zip(self.by, values, strict=True))).encode()).hexdigest()[:16]
        tags = {key: value[:512] for key, value in zip(self.by, values, strict=True) if value}
        if "pod" in tags:  # as a tag it is the uid, by which one work of two sources is known
            tags["pod_name"] = tags.pop("pod")
        if uid := tags.pop("pod_uid", labels.get("pod_uid", "")):
            tags["pod"] = uid
        name = self.name.format_map(label_values) or " ".join(filter(None, values))
        project = self.project.format_map(label_values) or "default"
        job_id = bound_id(f"prom-{digest}", project)
        return Work(job_id, project, name[:512], tuple(sorted(tags.items())))


@dataclass(frozen=True, slots=True)
class JobMapping:
    """All rules in order, and where the nodes stand."""

    rules: tuple[Rule, ...]
    place: Mapping[str, Any]

    def work(self, labels: Mapping[str, str]) -> Work | None:
        """Return the job by the first rule that holds; None for samples of nobody."""
        works = (rule.work(labels) for rule in self.rules)
        return next((work for work in works if work), None)


def named(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels by the names that a mapping uses; a scrape's own names give way to those that
    the exporter wrote (`exported_pod`).
    """
    own = {key: value for key, value in labels.items() if not key.startswith("exported_")}
    exported = {k.removeprefix("exported_"): v for k, v in labels.items() if k not in own}
    own |= exported
    renamed = {RENAMED[key]: value for key, value in own.items() if key in RENAMED}
    host = next((own[key] for key in HOSTS if own.get(key)), "")
    return {**own, **renamed, "host": host.rpartition(":")[0] or host}


def read_mapping(path: Path) -> JobMapping:
    """Return the mapping of a TOML file; raises MappingError, or OSError where it is unreadable."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise MappingError(str(error)) from None
    for key in document:
        if key not in (*PLACE, "job"):
            raise MappingError(f"unknown key {key!r}{close_matches(key, (*PLACE, 'job'))}")
    pue = document.get("pue")
    if pue is not None and not (isinstance(pue, int | float) and 1 <= pue <= PUE_MAX):
        raise MappingError(f"pue is {pue!r}, not from 1 to {PUE_MAX:g}")
    rows = document.get("job")
    if not isinstance(rows, list) or not rows:
        raise MappingError("it has no [[job]]; write one rule at least, with `by` and `project`")
    rules = tuple(_rule(number, row) for number, row in enumerate(rows, 1))
    return JobMapping(rules, {key: document[key] for key in PLACE if key in document})


def _rule(number: int, row: Any) -> Rule:
    where = f"[[job]] number {number}"
    if not isinstance(row, dict):
        raise MappingError(f"{where} is not a table")
    for key in row:
        if key not in KEYS:
            raise MappingError(f"{where}: unknown key {key!r}{close_matches(key, KEYS)}")
    by, match = row.get("by"), row.get("match", {})
    if not (isinstance(by, list) and by and all(isinstance(key, str) for key in by)):
        raise MappingError(f'{where}: by lists the labels that tell jobs apart, as ["pod"]')
    texts = row.get("project", "default"), row.get("name", "")
    if not (isinstance(match, dict) and all(isinstance(text, str) for text in texts)):
        raise MappingError(f"{where}: match is a table, project and name are texts")
    try:
        patterns = {key: re.compile(text) for key, text in match.items()}
        _placeholders("".join(texts))
    except (re.error, TypeError, ValueError) as error:
        raise MappingError(f"{where}: {error}") from None
    return Rule(patterns, tuple(by), *texts)


def _placeholders(text: str) -> list[str]:
    """Return the labels that a text names in braces; raises ValueError for anything else there."""
    if set("{}") & set(re.sub(r"\{[A-Za-z_]\w*\}", "", text)):
        raise ValueError(f"{text!r} may name labels in braces only")
    return re.findall(r"\{(\w+)\}", text)


ENERGY, POWER = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE"
POD_CPU, NODE_CPU = "kepler_pod_cpu_joules_total", "kepler_node_cpu_joules_total"
ZONES = {"package": "cpu", "dram": "ram"}
"""Kepler's zones that are used, by device class: psys holds both, core is in package."""
GAP = 3.0
"""So many times the usual distance of samples is a gap."""
MOST_W = 10_000.0
"""More than any board or host draws [W]: such a step is a fault of the exporter's."""
SLICES = 7
"""Compute slices of a board with MIG."""
_PROFILE = re.compile(r"(?:\d+c\.)?(\d+)g\.")

Parts = tuple[tuple[Work, float], ...]


class Step(NamedTuple):
    """Energy [J] of a device for a job over [start, end) [Unix s]."""

    work: Work
    start_s: float
    end_s: float
    energy_j: float
    kind: str
    part: float = 1.0
    """The job's part (0, 1] of the device."""
    cut: bool = False
    """True where the device changed hands at an unknown moment: the job has from none of the
    energy between the two readings to twice this."""
    gap: bool = False
    """True where readings are missing in between."""


class Reading(NamedTuple):
    """A value of a device at a moment, who has it then, and its labels."""

    at_s: float
    value: float
    parts: Parts


@dataclass(slots=True)
class Track:
    """One device over all chunks: its last reading, and what was odd."""

    labels: Mapping[str, str]
    last: Reading | None = None
    usual_s: float = 0.0
    resets: int = 0
    nobody_j: float = 0.0
    """Energy that no rule gives to a job [J]."""

    def steps(
        self, readings: list[Reading], energy_j: Callable[[Reading, Reading], float], kind: str
    ) -> Iterator[Step]:
        """Yield the steps of these readings, in order of time, after those before."""
        if self.last is not None:
            readings = [
                self.last,
                *(reading for reading in readings if reading.at_s > self.last.at_s),
            ]
        if not readings:
            return
        self.last = readings[-1]
        distances = [b.at_s - a.at_s for a, b in pairwise(readings)]
        self.usual_s = median(distances) if distances else self.usual_s
        for before, after in pairwise(readings):
            joules = energy_j(before, after)
            # The driver was loaded anew, or a value is odd: what came in between is not known.
            if not 0 <= joules <= MOST_W * (after.at_s - before.at_s):
                self.resets += 1
                continue
            gap = after.at_s - before.at_s > GAP * self.usual_s
            self.nobody_j += joules
            for step in _divided(before, after, joules, kind, gap=gap):
                self.nobody_j -= step.energy_j
                yield step


def _divided(
    before: Reading, after: Reading, joules: float, kind: str, *, gap: bool
) -> Iterator[Step]:
    middle_s = (before.at_s + after.at_s) / 2
    if before.parts == after.parts:
        for work, part in before.parts:
            label = "attributed" if (part < 1 or gap) and kind == "measured" else kind
            label = "estimated" if gap and kind == "integrated" else label
            yield Step(work, before.at_s, after.at_s, joules * part, label, part, gap=gap)
        return
    for parts, start_s, end_s in (
        (before.parts, before.at_s, middle_s),
        (after.parts, middle_s, after.at_s),
    ):
        for work, part in parts:
            yield Step(work, start_s, end_s, joules * part / 2, "estimated", part, cut=True)


class Boards:
    """The boards of dcgm-exporter, one for each UUID however many rows it has."""

    def __init__(self, work: Callable[[Mapping[str, str]], Work | None]) -> None:
        self.tracks: dict[str, Track] = {}
        self.counted: set[str] = set()
        """Boards with an energy counter."""
        self._work = work

    def energy(self, series: list[Series]) -> Iterator[tuple[str, Step]]:
        """Yield steps of the energy counter [mJ] by board."""
        for uuid, readings in self._readings(series).items():
            self.counted.add(uuid)
            for step in self.tracks[uuid].steps(readings, _counted_j, "measured"):
                yield uuid, step

    def power(self, series: list[Series]) -> Iterator[tuple[str, Step]]:
        """Yield steps of power [W] by board, of those that have no counter."""
        for uuid, readings in self._readings(series).items():
            if uuid not in self.counted:
                for step in self.tracks[uuid].steps(readings, _integrated_j, "integrated"):
                    yield uuid, step

    def _readings(self, series: list[Series]) -> dict[str, list[Reading]]:
        """Return one reading for each board and moment; slices and tenants repeat the board's.

        A 0 is no reading: no board draws nothing, or has counted nothing.
        """
        rows: dict[str, dict[float, list[tuple[dict[str, str], float]]]]
        rows = defaultdict(lambda: defaultdict(list))
        for one_series in series:
            labels = named(one_series.labels)
            if not (uuid := labels.get("UUID")):
                continue
            self.tracks.setdefault(uuid, Track(labels))
            for at_s, value in one_series.samples:
                if value:
                    rows[uuid][at_s].append((labels, value))
        return {
            uuid: [
                Reading(at_s, moments[at_s][0][1], self._parts([row for row, _ in moments[at_s]]))
                for at_s in sorted(moments)
            ]
            for uuid, moments in rows.items()
        }

    def _parts(self, rows: list[dict[str, str]]) -> Parts:
        """Return who has which part of a board: slices by their profile, tenants equally."""
        slices = sorted({row["GPU_I_ID"] for row in rows if row.get("GPU_I_ID")})
        parts: dict[Work, float] = defaultdict(float)
        for number in slices or [""]:
            own = [row for row in rows if not slices or row.get("GPU_I_ID") == number]
            part = _slice_part(own[0], len(slices)) if slices else 1.0
            works = dict.fromkeys(map(self._work, own))
            if len(works) > 1 and not slices:  # a row without a pod stands beside the others'
                works.pop(None, None)
            for work in filter(None, works):
                parts[work] += part / len(works)
        return tuple(sorted(parts.items(), key=lambda item: item[0].job_id))


def _counted_j(before: Reading, after: Reading) -> float:
    return j_from_mj(after.value - before.value)


def _integrated_j(before: Reading, after: Reading) -> float:
    return (before.value + after.value) / 2 * (after.at_s - before.at_s)


def _slice_part(row: Mapping[str, str], slices: int) -> float:
    match = _PROFILE.match(row.get("GPU_I_PROFILE", ""))
    return min(1.0, int(match[1]) / SLICES) if match else 1 / slices


class Pods:
    """Kepler's processor and memory energy of pods, which it attributes itself."""

    def __init__(self, work: Callable[[Mapping[str, str]], Work | None]) -> None:
        self.tracks: dict[tuple[str, ...], Track] = {}
        self._work = work

    def energy(self, series: list[Series]) -> Iterator[tuple[tuple[str, str], Step, Track]]:
        """Yield steps by host and device class; a pod's counter begins with the pod."""
        for one_series in series:
            labels = named(one_series.labels)
            device_class = ZONES.get(labels.get("zone", ""))
            work = self._work(labels)
            if device_class is None or work is None:
                continue
            key = work.job_id, labels.get("pod_uid", ""), labels["host"], device_class
            track = self.tracks.setdefault(key, Track(labels))
            parts: Parts = ((work, 1.0),)
            readings = [Reading(at_s, value, parts) for at_s, value in one_series.samples]
            steps = track.steps(readings, lambda a, b: b.value - a.value, "attributed")
            yield from (((labels["host"], device_class), step, track) for step in steps)


STEP_S = 300
DeviceKey = tuple[str, str]
"""Node and device."""


class ImportAnswer(Struct):
    """What became of the span: ids of new or longer jobs and of known ones, and refused lines."""

    imported: list[str]
    duplicate: int
    boards: int
    unread: list[str]
    """Boards that have nothing but zeros."""
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
        if before := self._steps.get(span):
            step = step._replace(energy_j=step.energy_j + before.energy_j, part=before.part)
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
        unread=[uuid for uuid, track in boards.tracks.items() if track.last is None],
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
            text = (
                f"{name}: {resets} steps of its readings are below 0 or over {MOST_W / 1000:g} kW"
            )
            text += "; the energy there is not known"
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

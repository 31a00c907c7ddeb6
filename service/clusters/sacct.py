"""Slurm's accounting, `sacct --json`: each job becomes one of gramwatt's, with its nodes' energy.

Fields are read by their path, and a number as such or as {set, infinite, number}, so that every
data_parser from 0.0.42 on will do. `ConsumedEnergy` is of whole nodes: it counts for jobs that had
their nodes alone. Batch and other steps overlap, so steps are never added up. docs/slurm.md
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

from gramwatt.collectors.common.identity import hashed, safe_id
from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.journal.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    encode,
    parse_time,
)
from gramwatt.service.common.errors import UseCaseError
from gramwatt.service.container import Service
from gramwatt.service.jobs.intake.ingest import ingest

METER, REPORTER, DEVICE = "slurm-sacct", "sacct", "node"
ENERGY = 3
"""Number of the energy among Slurm's TRES (slurmdb_defs.h)."""
NO_VALUE = 2**63
"""Numbers from here on are Slurm's ways to say that there is none: NO_VAL64, INFINITE64."""
NODES_MOST = 100_000
KILLED = frozenset({"CANCELLED", "TIMEOUT", "PREEMPTED", "OUT_OF_MEMORY", "DEADLINE", "REVOKED"})
ENDED = KILLED | {"COMPLETED", "FAILED", "NODE_FAIL", "BOOT_FAIL"}
DAY = timedelta(days=1)
SHARED_TEXT = (
    "energy-unmeasured: other jobs ran on its nodes at the time; Slurm's energy is of whole nodes."
)
UNKNOWN_TEXT = "energy-unmeasured: Slurm's accounting has no energy of this job."
GPU_TEXT = (
    "hardware-unknown: {} GPUs are in the energy of its nodes; Slurm does not say which they are, "
    "so their embodied carbon is not counted."
)
Span = tuple[datetime, datetime]
Project = Callable[[str | None], str | None]
"""Gives the project of an account."""


class RestDoc(TypedDict):
    """A node's energy [J] over a span, what of it jobs have, and the rest that no job has.

    With `unknown_jobs`, whose energy is in the rest, the rest is no job: it may be counted theirs.
    """

    node: str
    energy_j: float
    jobs_j: float
    rest_j: float
    unknown_jobs: int
    job_id: str | None


class SacctAnswer(TypedDict):
    """What became of the jobs of a file."""

    imported: list[str]
    duplicate: int
    running: int
    energy_unknown: int
    shared: int
    rest: list[RestDoc]
    rejected: list[dict[str, str]]


class NotSacctError(ValueError):
    """A file that is no output of `sacct --json`; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a Slurm job: a row of the accounting. `energy_j` is of its whole nodes [J]."""

    cluster: str
    slurm_id: int
    restart: int
    start: datetime
    end: datetime
    nodes: tuple[str, ...]
    energy_j: float | None
    state: str
    exit_code: int | None
    cpus: float | None
    gpus: int
    about: Mapping[str, str]
    exclusive: bool = True

    @property
    def job_id(self) -> str:
        """Return the id of the job that all attempts of a Slurm job become."""
        return safe_id(f"sacct-{self.cluster or 'cluster'}-{self.slurm_id}")

    @property
    def counted_j(self) -> float | None:
        """Return the energy that counts for the job [J]; None where nodes were shared."""
        return self.energy_j if self.exclusive else None


def import_sacct(
    service: Service,
    path: Path,
    project_of: Project = lambda account: None,
    *,
    nodes: Path | None = None,
    host_names: bool = False,
    place: Mapping[str, Any] | None = None,
) -> SacctAnswer:
    """Make a job of every Slurm job in a file of `sacct --json`; importing again changes nothing.

    `nodes` is a CSV file (node,start_utc,end_utc,energy_j) of the nodes' own counters: what no job
    has of them becomes a job too, so that jobs and rests add up to it. `project_of` gives the
    project of an account, `host_names` allows nodes by name, `place` has zone, region and PUE.
    Raises NotSacctError, or OSError.
    """
    attempts, running = read_attempts(path)
    answer: SacctAnswer = {
        "imported": [],
        "duplicate": 0,
        "running": running,
        "energy_unknown": sum(1 for a in attempts if a.exclusive and a.energy_j is None),
        "shared": sum(1 for a in attempts if not a.exclusive),
        "rest": [],
        "rejected": [],
    }
    jobs: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        jobs[attempt.job_id].append(attempt)
    for job_id, own in jobs.items():
        project = project_of(own[-1].about.get("slurm_account"))
        records = list(_records(own, project, host_names, place or {}))
        _take(service, job_id, records, answer)
    for doc, records in _rest_rows(nodes, attempts, host_names, place or {}) if nodes else ():
        answer["rest"].append(doc)
        if records:
            _take(service, records[0].job_id, records, answer)
    return answer


def read_attempts(path: Path) -> tuple[list[Attempt], int]:
    """Return what has run and ended, and how many jobs have not ended or never began.

    Raises NotSacctError, or OSError.
    """
    try:
        jobs = json.loads(path.read_text(encoding="utf-8"))["jobs"]
        rows = [_attempt(job) for job in jobs]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)[:120]
        text = f"{path} is no output of sacct --json (data_parser 0.0.42 or newer): {why}"
        raise NotSacctError(text) from None
    ended = sorted((r for r in rows if r is not None), key=lambda r: (r.start, r.slurm_id))
    return _marked_shared(ended), len(rows) - len(ended)


def number(value: Any) -> float | None:
    """Return a number of Slurm's JSON, plain or as {set, infinite, number}; None for none."""
    if isinstance(value, Mapping):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float) or value >= NO_VALUE:
        return None
    return value


def at(document: Any, *path: str | int) -> Any:
    """Return what stands at a path of a document; None where something of it is missing."""
    for name in path:
        try:
            document = document[name]
        except (LookupError, TypeError):
            return None
    return document


def expanded(text: str) -> list[str]:
    """Return the names in a list of nodes as Slurm writes it: c[01-03,7],gpu1."""
    found: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", text):
        found += _expanded_one(part)
        if len(found) > NODES_MOST:
            raise ValueError(f"more than {NODES_MOST} nodes")
    return found


def _expanded_one(text: str) -> list[str]:
    before, bracket, rest = text.partition("[")
    if not bracket:
        return [text]
    inside, _, after = rest.partition("]")
    found = []
    for entry in inside.split(","):
        first, dash, last = entry.partition("-")
        numbers = range(int(first), int(last) + 1) if dash else [int(first)]
        if len(numbers) > NODES_MOST:
            raise ValueError(f"more than {NODES_MOST} nodes")
        found += [
            f"{before}{n:0{len(first)}d}{more}" for n in numbers for more in _expanded_one(after)
        ]
    return found


def _attempt(job: Mapping[str, Any]) -> Attempt | None:
    """Return one row; None for a job that has not ended, or never ran."""
    start_s, end_s = number(at(job, "time", "start")), number(at(job, "time", "end"))
    state = at(job, "state", "current")
    states = {state} if isinstance(state, str) else set(state or ())
    names = str(job.get("nodes") or "")
    if not start_s or not end_s or end_s <= start_s or not states & ENDED or "None" in names:
        return None
    tres = {int(row["id"]): row for row in at(job, "tres", "allocated") or () if "id" in row}
    nodes = tuple(expanded(names))
    array, task = number(at(job, "array", "job_id")), number(at(job, "array", "task_id"))
    slurm_id = int(job["job_id"])
    het = number(at(job, "het", "job_id"))
    about = {
        "name": str(job.get("name") or ""),
        "slurm_account": str(job.get("account") or ""),
        "slurm_partition": str(job.get("partition") or ""),
        "slurm": f"{array:.0f}_{task:.0f}" if array and task is not None else str(slurm_id),
        "slurm_het": f"{het:.0f}" if het else "",
    }
    gpus = sum(
        number(row.get("count")) or 0
        for row in tres.values()
        if row.get("type") == "gres" and row.get("name") == "gpu"
    )
    code = number(at(job, "exit_code", "return_code"))
    return Attempt(
        cluster=str(job.get("cluster") or at(job, "association", "cluster") or ""),
        slurm_id=slurm_id,
        restart=int(number(job.get("restart_cnt")) or 0),
        start=datetime.fromtimestamp(start_s, UTC),
        end=datetime.fromtimestamp(end_s, UTC),
        nodes=nodes,
        energy_j=_energy_j(job, tres, len(nodes)),
        state="killed" if states & KILLED else "completed" if "COMPLETED" in states else "failed",
        exit_code=None if code is None else int(code),
        cpus=number(at(tres, 1, "count")),
        gpus=int(gpus),
        about={name: text for name, text in about.items() if text},
    )


def _energy_j(job: Mapping[str, Any], tres: Mapping[int, Any], nodes: int) -> float | None:
    """Return the energy of a row's nodes [J]; None where the accounting has none.

    That of the job's own row; of a job of one node else that of its batch step, which lasts as long
    as the job. 0 J is what nodes say that sample nothing.
    """
    energy_j = number(at(tres, ENERGY, "count"))
    if energy_j:
        return energy_j
    for step in (job.get("steps") or ()) if nodes == 1 else ():
        if str(at(step, "step", "name") or at(step, "step", "id")).endswith("batch"):
            return number(at(step, "statistics", "energy", "consumed")) or None
    return None


def _marked_shared(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts; those whose nodes another had at the same time are not exclusive."""
    by_node: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
    shared: set[int] = set()
    for attempt in attempts:
        for node in attempt.nodes:
            open_ = [a for a in by_node[attempt.cluster, node] if a.end > attempt.start]
            shared |= {id(a) for a in (*open_, attempt)} if open_ else set()
            by_node[attempt.cluster, node] = [*open_, attempt]
    return [replace(a, exclusive=id(a) not in shared) for a in attempts]


def _node_id(cluster: str, name: str, host_names: bool) -> str:
    return safe_id(name) if host_names else hashed("n-", f"{cluster} {name}")


def _records(
    attempts: Sequence[Attempt], project: str | None, host_names: bool, place: Mapping[str, Any]
) -> Iterator[AnyRecord]:
    """Yield the journal of a Slurm job: each node of each attempt, and each attempt as a window."""
    for attempt in attempts:
        gpu_text = [GPU_TEXT.format(attempt.gpus)] if attempt.gpus else []
        energy_j = attempt.counted_j
        if energy_j is None:
            gpu_text.append(UNKNOWN_TEXT if attempt.exclusive else SHARED_TEXT)
        tags = {name: text for name, text in attempt.about.items() if name != "name"}
        threads = attempt.cpus / len(attempt.nodes) if attempt.cpus else None
        for index, name in enumerate(attempt.nodes):
            node = _node_id(attempt.cluster, name, host_names)
            who = {"job_id": attempt.job_id, "node": node}
            yield from _of_node(
                {**who, "writer": f"sacct-{attempt.start:%Y%m%dT%H%M%S}"},
                (attempt.start, attempt.end),
                None if energy_j is None else energy_j / len(attempt.nodes),
                "measured" if len(attempt.nodes) == 1 else "attributed",
                threads,
                attempt,
                {
                    **place,
                    "project": project or "default",
                    "name": attempt.about.get("name", ""),
                    "kind": "other",
                    "tags": tags,
                    "notices": tuple(gpu_text),
                    "scheduler": {
                        "slurm_cluster": attempt.cluster,
                        "slurm_job_id": str(attempt.slurm_id),
                        "slurm_node": str(index),
                        "slurm_restart": str(attempt.restart),
                    },
                },
            )


def _of_node(
    who: Mapping[str, Any],
    span: Span,
    energy_j: float | None,
    kind: str,
    threads: float | None,
    attempt: Attempt | None,
    about: Mapping[str, Any],
) -> Iterator[AnyRecord]:
    start, end = span
    cluster = {name: text for name, text in about.get("scheduler", {}).items() if text}
    yield JobRecord(
        **who, seq=1, started_at=start, reporter=REPORTER, **{**about, "scheduler": cluster}
    )
    yield DeviceRecord(
        **who,
        seq=2,
        device_id=f"{who['node']}-{DEVICE}",
        device_class="cpu",
        name="whole node (Slurm)",
        meter=METER,
        kind=kind,
        units=threads,
        units_total=threads,
    )
    seq, since = 3, start
    while energy_j is not None and since < end:
        until = min(since + DAY, end)
        yield IntervalRecord(
            **who,
            seq=seq,
            device_id=f"{who['node']}-{DEVICE}",
            start=since,
            end=until,
            energy_j=energy_j * ((until - since) / (end - start)),
            kind=kind,
        )
        seq, since = seq + 1, until
    state, code = "completed", None
    if attempt is not None:
        state, code = attempt.state, attempt.exit_code
        window: dict[str, Any] = {
            "unit": "window",
            "amount": 0.0,
            "phase": f"attempt {attempt.restart}",
        }
        yield CountRecord(**who, seq=seq, at=end, since=start, **window)
        seq += 1
    yield EndRecord(**who, seq=seq, ended_at=end, state=state, exit_code=code)


def _rest_rows(
    path: Path, attempts: Sequence[Attempt], host_names: bool, place: Mapping[str, Any]
) -> Iterator[tuple[RestDoc, list[AnyRecord]]]:
    """Yield each row of a file of nodes' energy, and the job of what no Slurm job has of it."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for row in csv.DictReader(stream):
            try:
                name, energy_j = str(row["node"]), float(row["energy_j"])
                start, end = parse_time(row["start_utc"]), parse_time(row["end_utc"])
            except (KeyError, TypeError, ValueError, RecordError):
                text = f"{path}: a row is not node,start_utc,end_utc,energy_j: {dict(row)}"
                raise NotSacctError(text[:300]) from None
            own = [a for a in attempts if name in a.nodes and a.start < end and a.end > start]
            jobs_j = sum(
                (a.counted_j or 0.0)
                / len(a.nodes)
                * ((min(a.end, end) - max(a.start, start)) / (a.end - a.start))
                for a in own
            )
            cluster = own[0].cluster if own else ""
            rest_j, records = energy_j - jobs_j, list[AnyRecord]()
            unknown = sum(1 for a in own if a.counted_j is None)
            if rest_j >= 0 and end > start and not unknown:
                job_id = safe_id(
                    f"sacct-rest-{name if host_names else hashed('', name)}-{start:%Y%m%dT%H%M%S}"
                )
                who = {
                    "job_id": job_id,
                    "node": _node_id(cluster, name, host_names),
                    "writer": "sacct",
                }
                about = {
                    **place,
                    "name": "node without a job",
                    "kind": "other",
                    "tags": {"slurm_rest": "yes"},
                }
                records = list(_of_node(who, (start, end), rest_j, "derived", None, None, about))
            doc: RestDoc = {
                "node": name,
                "energy_j": energy_j,
                "jobs_j": jobs_j,
                "rest_j": rest_j,
                "unknown_jobs": unknown,
                "job_id": records[0].job_id if records else None,
            }
            yield doc, records


def _take(service: Service, job_id: str, records: Iterable[AnyRecord], answer: SacctAnswer) -> None:
    try:
        taken = ingest(service, job_id, [encode(record).encode() for record in records])
    except UseCaseError as error:
        answer["rejected"].append({"job_id": job_id, "message": str(error)})
        return
    if taken["rejected"]:
        answer["rejected"].append({"job_id": job_id, "message": taken["rejected"][0]["message"]})
    elif taken["accepted"]:
        answer["imported"].append(job_id)
    else:
        answer["duplicate"] += 1

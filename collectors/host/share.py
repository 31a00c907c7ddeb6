"""The job's share of a host that others use too: its own processor time over all processor time.

Of a processor that no cgroup reserves for it, a job bears the dynamic part by the processor time of
its own processes, and an equal part of the idle rest with the other jobs that gramwatt measures
there: those whose lock files are held. What all other processes draw is billed to nobody. A counter
is divided into dynamic and idle as the model would be. Within a limit a job bears the idle part by
the limit's threads. It bears the dynamic part by the processor time within the limit over the
processor time of the host. Memory is billed by use.

A job that others join or leave notices it at its next look. Jobs of other users and homes are not
seen.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.model import CpuModel, RamModel
from gramwatt.collectors.settings.clock import NS_PER_S, Timeline
from gramwatt.collectors.settings.launches import REPORTER, has_id
from gramwatt.collectors.settings.proc import environ_of, page_of, reaps, system_text

PROC = Path("/proc")
ALONE = 1 - 1e-6
LISTED_S = 60.0
"""How long the list of processes stands at most where no new number shows a new one [s]: the file
of the newest number may be made up (lxcfs)."""
STRANGERS_S = 3600.0
"""How long other processes than the job's are remembered [s], so that those that have ended are
forgotten."""


class Fraction(NamedTuple):
    """The job's part of a component's energy within its limit: as modelled, as counted, and of what
    is idle of it. That of a counter may be over 1, where the rest of the host has less load.
    """

    own: float
    counted: float
    idle: float


WHOLE = Fraction(1.0, 1.0, 1.0)


class Process(NamedTuple):
    """A process: its parent, when it began [s since boot], and its processor time [s].

    The time holds that of the children which it has waited for, so that a sum over a tree of
    processes loses none of those that end. `inode` is that of its folder in /proc: another process
    of its number has another.
    """

    parent: int
    began_s: float
    cpu_s: float
    inode: int = 0


Table = Mapping[int, Process]
Strangers = Mapping[str, int]
"""Processes that are not the job's, and never become it: the inode of each by its number."""
Reader = Callable[[Strangers], Table]


class ProcessReader:
    """Reads processes. /proc is listed again only where one has begun since: that alone takes a
    kernel 2 us for each process there.
    """

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._newest = b""
        self._list_at_s = 0.0
        self._inodes: dict[str, int] = {}
        """The inode of each process that was listed last, by its number."""

    def __call__(self, strangers: Strangers) -> Table:
        """Return all processes that can be seen here but `strangers`, zombies included."""
        per_s = os.sysconf("SC_CLK_TCK")
        table: dict[int, Process] = {}
        self._list()
        for name, inode in self._inodes.items():
            if strangers.get(name) == inode:
                continue
            try:
                text = page_of(f"{self._proc}/{name}/stat")
                cells = text[text.rindex(b")") + 2 :].split(None, 20)
                busy = sum(map(int, cells[11:15]))
                process = Process(int(cells[1]), int(cells[19]) / per_s, busy / per_s, inode)
            except (OSError, ValueError, IndexError):
                continue  # it has ended
            table[int(name)] = process
        return table

    def _list(self) -> None:
        newest, now_s = _newest_number(self._proc), time.monotonic()
        if newest == self._newest and now_s < self._list_at_s:
            return
        try:
            with os.scandir(self._proc) as entries:
                inodes = {entry.name: entry.inode() for entry in entries}
        except OSError:
            inodes = {}
        self._inodes = {name: inode for name, inode in inodes.items() if name.isdecimal()}
        self._newest, self._list_at_s = newest, now_s + (LISTED_S if newest else 0.0)


def _newest_number(proc: Path) -> bytes:
    """Return the number of the newest process or thread: proc(5). Empty where it is not known."""
    try:
        number = page_of(f"{proc}/loadavg").split()[-1]
    except (OSError, IndexError):
        return b""
    return b"" if number == b"0" else number  # gVisor has none


def used_b(pids: Iterable[int], proc: Path = PROC) -> float | None:
    """Return the memory of processes [B]: what each has alone, and the most that one shares.

    Pages that forked processes still share count for each. None where no process can be read.
    """
    own_b: list[int] = []
    shared_b = [0]
    page_b = os.sysconf("SC_PAGE_SIZE")
    for pid in pids:
        try:
            resident, shared = map(int, page_of(f"{proc}/{pid}/statm").split()[1:3])
        except (OSError, ValueError):
            continue
        own_b.append((resident - shared) * page_b)
        shared_b.append(shared * page_b)
    return float(sum(own_b) + max(shared_b)) if own_b else None


class JobProcesses(NamedTuple):
    """A job by its id, its clients' processes, and the processor time they had used before [s]."""

    job_id: str
    pids: set[int]
    used_before_s: Mapping[int, float]


class JobTime(Struct):
    """Processor time of one job's processes since its begin [s].

    The job's are its clients, what descends from them, and what did so when it was last looked at
    (`members`, by process with its begin). Of those that began before the job `before_s` is off.
    """

    began_s: float
    own_s: float = 0.0
    before_s: float = 0.0
    gone_s: float = 0.0
    """That of members which ended without a parent to wait for them [s]."""
    members: dict[str, float] = field(default_factory=dict)

    def look(self, table: Table, own: JobProcesses, strays: Iterable[int] = ()) -> bool:
        """Take in a table of processes. Returns False where time is missing: a process has ended
        that nobody has waited for, or not yet.
        """
        pids = self._pids(table, (*own.pids, *strays, os.getpid()))
        for pid in pids:
            if str(pid) not in self.members and table[pid].began_s < self.began_s:
                self.before_s += own.used_before_s.get(pid, table[pid].cpu_s)
        own_s = sum(table[pid].cpu_s for pid in pids) - self.before_s + self.gone_s
        missing_s = self.own_s - own_s
        self.members = {str(pid): table[pid].began_s for pid in pids}
        self.gone_s += max(0.0, missing_s)
        self.own_s = max(self.own_s, own_s)
        return missing_s <= 0

    def _pids(self, table: Table, roots: Iterable[int]) -> set[int]:
        children: dict[int, list[int]] = defaultdict(list)
        for pid, process in table.items():
            children[process.parent].append(pid)
        waiting = [pid for pid in roots if pid in table]
        for text, began_s in self.members.items():
            pid = int(text)
            if pid in table and table[pid].began_s == began_s:
                waiting.append(pid)
        pids: set[int] = set()
        while waiting:
            pid = waiting.pop()
            if pid not in pids:
                pids.add(pid)
                waiting += children[pid]
        return pids


class Strays:
    """Finds processes that no longer descend from a job, by its id in their environment.

    Where Slurm's Prolog has begun the measuring, also the `slurmstepd` of the job's steps, by its
    title, so that all that they start is the job's.
    """

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        slurm_job = os.environ.get("SLURM_JOB_ID") if os.environ.get(REPORTER) else None
        # Debian's is called slurmstepd-wlm.
        title = rf"slurmstepd\S*: \[{re.escape(slurm_job)}\." if slurm_job else ""
        self._step = re.compile(title) if title else None

    def find(self, table: Table, began_s: float) -> list[int]:
        """Return those among `table` that began after the job [s since boot]."""
        reapers = {parent for parent in {row.parent for row in table.values()} if reaps(parent)}
        return [
            pid
            for pid, process in table.items()
            if process.parent in reapers and process.began_s >= began_s and self._is_ours(pid)
        ]

    def _is_ours(self, pid: int) -> bool:
        if self._step and self._step.match(system_text(f"/proc/{pid}/cmdline")):
            return True
        return has_id(environ_of(pid), self._job_id)


class Look(NamedTuple):
    """Sums since the job's begin, at a time that stands still while the machine is suspended [s].

    `equal_s` has each moment divided by the number of jobs then, `own_s` the processor time of the
    job's processes, `memory_bs` their memory x time [B s]; None where they cannot be seen.
    """

    at_s: float
    equal_s: float = 0.0
    own_s: float | None = 0.0
    memory_bs: float | None = 0.0


class Share:
    """One job's part of the host, as of its last look."""

    def __init__(
        self,
        machine: Machine,
        own: JobProcesses,
        other_jobs: Callable[[], int],
        read: Reader,
        timeline: Timeline,
    ) -> None:
        """`other_jobs` counts those that are measured on the same threads, `read` returns the
        processes that can be seen but those that it is given.
        """
        self._machine, self._own, self._read = machine, own, read
        self._other_jobs, self._timeline = other_jobs, timeline
        self._strays = Strays(own.job_id)
        self._time = JobTime(0.0)
        self.memory_b: float | None = 0.0
        """What the job's processes have at the last look [B]; None where they cannot be seen."""
        self._strangers: dict[str, int] = {}
        self._strangers_of: set[int] = set()
        """The job's clients then."""
        self._all_at_s = 0.0
        """When all are looked at again [s]."""
        self.other_jobs = 0
        """How many other jobs ran there at the last look."""
        self.start = self.now = Look(0.0)
        """At the job's begin, and at the last look."""

    def begin(self, mark_ns: int, state: dict[str, Any] | None) -> None:
        """Begin at a moment of the timeline [ns], or go on from the `state` of the meter before."""
        if state:
            self._time, self.now = JobTime(**state["time"]), Look(*state["now"])
        else:
            boot_ns = mark_ns - self._timeline.offset_ns
            self._time = JobTime(boot_ns / NS_PER_S)
            self.now = Look((boot_ns - self._timeline.suspended_ns()) / NS_PER_S)
        self.start, self.other_jobs = self.now, self._other_jobs()
        self.look()

    def state(self) -> dict[str, Any]:
        """Return what the next meter needs to continue, JSON-ready."""
        return {"time": asdict(self._time), "now": list(self.now)}

    def look(self, *, last: bool = False) -> None:
        """Take in what the job's processes have used up to now. At the `last` look they may have
        ended: until then they had the memory of the look before, or more.
        """
        at_s = self._timeline.clock.mono_ns() / NS_PER_S
        if last or at_s >= self._all_at_s or self._own.pids != self._strangers_of:
            self._strangers, self._strangers_of = {}, set(self._own.pids)
            self._all_at_s = at_s + STRANGERS_S
        table = self._read(self._strangers)
        if table:
            strays, before = self._strays.find(table, self._time.began_s), replace(self._time)
            if not self._time.look(table, self._own, strays):
                # A child may have been waited for while the table was read.
                self._time = before
                self._time.look(self._read(self._strangers), self._own, strays)
            for pid, process in table.items():
                if str(pid) not in self._time.members:
                    self._strangers[str(pid)] = process.inode
        others, memory_b = self._other_jobs(), used_b(map(int, self._time.members))
        if last:
            memory_b = max(memory_b or 0.0, self.memory_b or 0.0) or None
        span_s = max(0.0, at_s - self.now.at_s)
        jobs = 1 + (self.other_jobs + others) / 2  # one that came or went did so half-way
        memory_bs = None if memory_b is None else (self.now.memory_bs or 0.0) + memory_b * span_s
        self.now = Look(
            at_s,
            self.now.equal_s + span_s / jobs,
            self._time.own_s if self._time.members else None,
            memory_bs,
        )
        self.other_jobs, self.memory_b = others, memory_b

    def of(self, model: CpuModel | RamModel, before: Look) -> Fraction | None:
        """Return the job's part of the modelled component since a look; None where no time has
        passed. `model` has the load since that look.
        """
        span_s = self.now.at_s - before.at_s
        if span_s <= 0:
            return None
        equal = min(1.0, max(0.0, (self.now.equal_s - before.equal_s) / span_s))
        if isinstance(model, CpuModel):
            return Fraction(*self._of_cpu(model, before, span_s, equal), equal)
        part = self._of_ram(before, span_s, equal)
        return Fraction(part, part, part)

    def _of_cpu(
        self, model: CpuModel, before: Look, span_s: float, equal: float
    ) -> tuple[float, float]:
        """Return the parts of what the model gives for the threads within the limit, and of what a
        counter gives for the host. What a cgroup reserves for one job is all its own.
        """
        machine, power, now_s = self._machine, model.power, self.now.own_s
        if now_s is not None and machine.threads:
            # The kernel counts the load in ticks, gVisor's not at all.
            own_s = max(0.0, now_s - (before.own_s or 0.0))
            model.own_load = own_s / (machine.threads * span_s)
        load = model.load()
        if load is None or power is None:
            return equal, equal
        dynamic = equal
        if machine.cpu_share < 1 and equal > ALONE:
            dynamic = 1.0
        elif load and model.own_load is not None:
            dynamic = min(1.0, model.own_load / load)

        def part(of_load: float) -> float:
            idle, ratio = power.at(0.0) / power.at(of_load), load / of_load if of_load else 1.0
            return idle * equal + (1 - idle) * dynamic * min(ratio, 1 / machine.cpu_share)

        return part(load), part(model.host_load() or load)

    def _of_ram(self, before: Look, span_s: float, equal: float) -> float:
        """Return the part of the memory. What a cgroup reserves with its threads is divided equally
        by the jobs in it; else what they use is theirs, and all of the limit for a job alone.
        """
        machine = self._machine
        if machine.memory_share < 1 and (machine.limit or equal > ALONE):
            return equal
        if self.now.memory_bs is None or not machine.memory_b:
            return equal
        used_b = (self.now.memory_bs - (before.memory_bs or 0.0)) / span_s
        return min(1.0, max(0.0, used_b / machine.memory_b))

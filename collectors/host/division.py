"""How jobs that run on a processor at the same time divide its energy, and what is strangers'.

Of a processor without reserved cores a job bears the dynamic part by the processor time of its own
processes, and an equal part of the idle rest with the other jobs that gramwatt measures there. The
dynamic part of all other processes is billed to nobody. RAPL's counter is divided into dynamic and
idle as the model would be, so that the parts of all jobs add up to it.

The meters of a home keep one small file for each processor, which they change one at a time: the
sum of each moment divided by the number of jobs then, and the processor time of every job. So a
job that comes or goes changes the others' parts at that moment, without anyone looking. Jobs of
other users and homes are not seen: strangers, that pay idle time in full too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gramwatt.collectors.common import files
from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.proc import pid_namespace
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.model import CpuModel
from gramwatt.collectors.host.processes import (
    JobTime,
    Reader,
    Strays,
    used_b,
)
from gramwatt.sci.base.host_model import FULL_W_PER_THREAD, IDLE_W_PER_THREAD

TRIES, PAUSE_S = 40, 0.005
"""Another meter has the file for a millisecond or so; one that was stopped does not hold up all."""


class Part(NamedTuple):
    """Of a component's energy, the job's, and its part of strangers' (each 0 to 1).

    `others` is None where that is not known. `reserved` is the job's part of what is idle.
    """

    own: float
    others: float | None
    reserved: float


WHOLE = Part(1.0, None, 1.0)


class Moment(NamedTuple):
    """Sums at a boot time [ns], all in s: the job's equal parts of each moment and of strangers'
    processor time, its own processor time (None where its processes cannot be seen), all jobs'.
    """

    at_ns: int
    idle_s: float
    others_s: float
    own_s: float | None
    jobs_s: float


@dataclass(slots=True)
class _Shared:
    """What the meters of one processor know together."""

    at_ns: int = 0
    since_ns: int = 0
    """Boot times of the last look, and of that of the first job."""
    idle_s: float = 0.0
    others_s: float = 0.0
    """Every moment, and strangers' processor time in it, divided by the number of jobs then [s]."""
    ended_s: float = 0.0
    """Processor time of the jobs that have ended [s]."""
    counted: list[float] | None = None
    """Processor time in use, and that of all jobs, when strangers' was last told [s]."""
    jobs: dict[str, JobTime] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: bytes) -> _Shared:
        try:
            state = json.loads(text)
            jobs = {name: JobTime(**one) for name, one in state.pop("jobs").items()}
            return cls(**state, jobs=jobs)
        except (ValueError, LookupError, TypeError, AttributeError):
            return cls()  # new, or torn by a full disk: the sums begin anew

    @property
    def jobs_s(self) -> float:
        return self.ended_s + sum(one.own_s for one in self.jobs.values())

    def drop(self, name: str) -> None:
        """Take a job out that has ended."""
        if ended := self.jobs.pop(name, None):
            self.ended_s += ended.own_s

    def admit(self, name: str, began_ns: int, own_s: float) -> float:
        """Return the job's equal part of each moment since it began [s], for one that joins now.

        Until now the jobs before it have borne these moments, and `own_s` of it as a stranger's.
        """
        if self.counted:  # what it has used since its begin is no news of this moment
            self.counted[1] += own_s
        others = [one for key, one in self.jobs.items() if key != name]
        back_s = max(0.0, (self.at_ns - began_ns) / NS_PER_S)
        if not others:
            self.since_ns = self.at_ns
            return back_s
        first_s = min(one.began_s for one in others)
        alone_s = min(back_s, max(0.0, first_s - began_ns / NS_PER_S))
        part_s = (back_s - alone_s) / (len(others) + 1)
        self.idle_s -= part_s / len(others)
        known_s = min(back_s, (self.at_ns - self.since_ns) / NS_PER_S)
        if back_s:
            self.others_s -= own_s * known_s / back_s / len(others)
        return alone_s + part_s

    def advance(self, now_ns: int, busy_s: float | None) -> None:
        """Add the time since the last call, and what strangers used of it, to the sums."""
        count = max(1, len(self.jobs))
        if now_ns > self.at_ns:
            self.idle_s += (now_ns - self.at_ns) / NS_PER_S / count
            self.at_ns = now_ns
        if busy_s is None:
            return
        jobs_s = self.jobs_s
        before = self.counted or [busy_s, jobs_s]
        others_s = (busy_s - before[0]) - (jobs_s - before[1])
        if others_s >= 0:  # else the kernel's ticks are behind: next time
            self.others_s += others_s / count
            self.counted = [busy_s, jobs_s]


class Whose(NamedTuple):
    """A job by its id, its clients' processes, and the processor time they had used before [s]."""

    job_id: str
    pids: set[int]
    used_before_s: Mapping[int, float]


class Division:
    """One job's part of a processor that other jobs and strangers use too."""

    def __init__(
        self,
        path: Path,
        name: str,
        whose: Whose,
        living: Callable[[], set[str]],
        read: Reader,
        now_ns: Callable[[], int],
        busy_s: Callable[[], float | None],
    ) -> None:
        """`path` is the meters' common file, `name` the job's in it; `living` returns the names of
        the jobs whose meters live, this one's included, `now_ns` the boot time [ns], and `busy_s`
        the processor time used by all since some moment [s].
        """
        self._path, self._name, self._living = path, name, living
        self._whose, self._read, self._now_ns, self._busy_s = whose, read, now_ns, busy_s
        self._strays = Strays(whose.job_id)
        self._shared = _Shared()
        self._job = JobTime(0.0, [])
        self._used: list[tuple[int, float]] = []
        """Memory of the job's processes at the looks [boot ns, B]."""
        self.joined_ns: int | None = None
        """When it joined after its begin, strangers' time before not known [boot ns]."""
        self.start = self.now = Moment(0, 0.0, 0.0, 0.0, 0.0)
        """At the job's begin, and at the last look."""

    @property
    def others(self) -> int:
        """Number of other jobs on the processor at the last look."""
        return len(set(self._shared.jobs) - {self._name})

    def join(self, began_ns: int, state: dict[str, Any] | None) -> None:
        """Begin at a boot time [ns], or go on from the `state` of the meter before."""
        with self._locked() as shared:
            self._look()
            now_ns, jobs_s = shared.at_ns, shared.jobs_s
            if state and self._name in shared.jobs:
                self.start = Moment(*state["now"])
            else:
                job = JobTime(began_ns / NS_PER_S, [], pid_namespace())
                if state:
                    job, began_ns = JobTime(**state["job"]), Moment(*state["now"]).at_ns
                before_s, shared.jobs[self._name] = job.own_s, job
                self._refresh()
                own_s = shared.jobs[self._name].own_s - before_s
                part_s = shared.admit(self._name, began_ns, own_s)
                idle_s, jobs_s = shared.idle_s - part_s, jobs_s + before_s
                self.start = Moment(began_ns, idle_s, shared.others_s, before_s, jobs_s)
                if len(shared.jobs) == 1:
                    self.joined_ns = now_ns
            self._take()

    def look(self) -> None:
        """Take in what the processes of all jobs have used up to now."""
        with self._locked() as shared:
            shared.jobs.setdefault(self._name, self._job)
            self._look()
            self._take()

    def leave(self) -> None:
        """Leave the processor to the other jobs."""
        with self._locked() as shared:
            shared.drop(self._name)
            if not shared.jobs:
                with contextlib.suppress(OSError):
                    self._path.unlink()

    def state(self) -> dict[str, Any]:
        """Return what the next meter needs to continue, JSON-ready."""
        return {"job": asdict(self._job), "now": list(self.now)}

    def _take(self) -> None:
        shared = self._shared
        self._job = job = shared.jobs[self._name]
        own_s = job.own_s if job.members else None
        self.now = Moment(shared.at_ns, shared.idle_s, shared.others_s, own_s, shared.jobs_s)
        if (memory_b := used_b(int(pid) for pid in job.members)) is not None:
            self._used.append((self.now.at_ns, memory_b))

    def _look(self) -> None:
        shared = self._shared
        for name in set(shared.jobs) - self._living():
            shared.drop(name)
        self._refresh()
        shared.advance(self._now_ns(), self._busy_s())

    def _refresh(self) -> None:
        used_before_s = self._whose.used_before_s
        shared, table, space = self._shared, self._read(), pid_namespace()
        if mine := shared.jobs.get(self._name):
            strays = self._strays.found(table, mine.began_s)
            mine.roots = sorted({*mine.roots, *self._whose.pids, *strays, os.getpid()})
        for name, one in shared.jobs.items():
            if table and one.space == space:
                before = replace(one)
                if not one.look(table, used_before_s):
                    # A child may have been waited for while the table was read.
                    shared.jobs[name] = before
                    before.look(self._read(), used_before_s)

    def mean_used_b(self, since_ns: int) -> float | None:
        """Return mean memory of the job's processes since a boot time [ns, B]; None if not known.

        A look finds what was used since the one before, and the last one what that found or more:
        the job's processes may have ended.
        """
        before_ns, used = since_ns, 0.0
        for number, (at_ns, memory_b) in enumerate(self._used):
            if at_ns <= since_ns:
                continue
            last = number == len(self._used) - 1 and number
            held_b = max(memory_b, self._used[number - 1][1]) if last else memory_b
            used += held_b * (at_ns - before_ns)
            before_ns = at_ns
        return used / (before_ns - since_ns) if before_ns > since_ns else None

    def forget_used(self) -> None:
        """Forget the memory used before the last look."""
        del self._used[:-1]

    @contextmanager
    def _locked(self) -> Iterator[_Shared]:
        """Hold the common file; where it cannot be had, go on with what is known, unwritten."""
        descriptor = self._acquired()
        try:
            if descriptor is not None:
                text = b""
                with contextlib.suppress(OSError):
                    text = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
                self._shared = _Shared.parse(text)
            yield self._shared
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    os.pwrite(
                        descriptor, json.dumps(asdict(self._shared)).encode().ljust(len(text)), 0
                    )
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _acquired(self) -> int | None:
        for _ in range(TRIES):
            try:
                files.folder(self._path.parent)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                descriptor = os.open(self._path, flags, 0o600)
            except OSError:
                return None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_nlink:
                    return descriptor
            except BlockingIOError:
                time.sleep(PAUSE_S)
            except OSError:
                os.close(descriptor)
                return None
            os.close(descriptor)
        return None


class Divided(Protocol):
    """What divides one component's energy."""

    def part(self) -> Part | None:
        """Return the job's part since `recorded` was last called; None where no time has passed."""

    def recorded(self) -> None:
        """Begin the next span at the last look."""


class _OfMoments:
    """Divides a component by what `division` has seen between two moments."""

    def __init__(self, division: Division, machine: Machine) -> None:
        self._division, self._machine = division, machine
        self._since: Moment | None = None

    def part(self) -> Part | None:
        """Return the job's part since `recorded` was last called; None where no time has passed."""
        before, now = self._since or self._division.start, self._division.now
        return self._part(before, now) if now.at_ns > before.at_ns else None

    def recorded(self) -> None:
        """Begin the next span at the last look."""
        self._since = self._division.now

    def _part(self, before: Moment, now: Moment) -> Part:
        raise NotImplementedError


class CpuDivision(_OfMoments):
    """The processor: dynamic energy by processor time, idle energy equally among jobs.

    Of what a cgroup reserves the job bears all, with the other jobs that it reserves it for.
    """

    def __init__(self, division: Division, machine: Machine, model: CpuModel) -> None:
        """`model` has the processor's load since energy was last recorded."""
        super().__init__(division, machine)
        self._model = model

    def _part(self, before: Moment, now: Moment) -> Part:
        threads, reserved = self._machine.threads, self._machine.cpu_share < 1
        span_s = (now.at_ns - before.at_ns) / NS_PER_S
        jobs_s = now.jobs_s - before.jobs_s
        if threads:
            self._model.least_load = jobs_s / threads / span_s
        seen = self._machine.usage is not None or not reserved
        part = cpu_part(before, now, threads or 0.0, self._model.load() if seen else None)
        if part.others is not None and self._since is None and self._division.joined_ns:
            known_s = (now.at_ns - self._division.joined_ns) / NS_PER_S
            part = part._replace(others=part.others * span_s / known_s if known_s > 0 else None)
        if reserved:  # processes of nobody measured run on what is the jobs' own
            return Part(part.own + (part.others or 0.0), None, part.reserved)
        return part


def cpu_part(before: Moment, now: Moment, threads: float, load: float | None) -> Part:
    """Return the job's part of the processor's energy between two moments.

    `load` is the mean of `threads` (0 to 1). Without it all is divided equally.
    """
    span_s = (now.at_ns - before.at_ns) / NS_PER_S
    idle = min(1.0, max(0.0, (now.idle_s - before.idle_s) / span_s))
    if load is None or not threads or now.own_s is None:
        return Part(idle, None, idle)
    own_s = max(0.0, now.own_s - (before.own_s or 0.0))
    jobs_s = max(own_s, now.jobs_s - before.jobs_s)
    busy_s = max(load * threads * span_s, jobs_s)
    dynamic_w = FULL_W_PER_THREAD - IDLE_W_PER_THREAD
    idle_j = IDLE_W_PER_THREAD * threads * span_s
    whole_j = idle_j + dynamic_w * busy_s
    own = (idle_j * idle + dynamic_w * own_s) / whole_j
    others_s = max(0.0, now.others_s - before.others_s)
    return Part(min(1.0, own), dynamic_w * others_s / whole_j, idle)


class RamDivision(_OfMoments):
    """Memory: what is reserved, which jobs in one cgroup divide equally; else what is used."""

    def _part(self, before: Moment, now: Moment) -> Part:
        span_s, machine = (now.at_ns - before.at_ns) / NS_PER_S, self._machine
        equal = min(1.0, max(0.0, (now.idle_s - before.idle_s) / span_s))
        if machine.memory_share < 1:
            alone = machine.usage is None
            return WHOLE if alone else Part(equal, None, equal)
        used_b = self._division.mean_used_b(before.at_ns)
        if used_b is None or not machine.memory_total_b:
            return Part(equal, None, equal)
        part = min(1.0, used_b / machine.memory_total_b)
        return Part(part, None, part)

    def recorded(self) -> None:
        """Begin the next span at the last look."""
        super().recorded()
        self._division.forget_used()

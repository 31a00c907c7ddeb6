"""A meter on a virtual clock with a synthetic NVML: what its journal says against the truth."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.rapl import NO_COUNTERS
from gramwatt.collectors.meter.device_manager import Dependencies
from gramwatt.collectors.meter.job_meter import JobMeter
from gramwatt.collectors.serving.poll import Poller
from gramwatt.collectors.serving.presets import Server
from gramwatt.collectors.settings import identity
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.settings.config import Config
from gramwatt.collectors.spool.counts import Processes
from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.collectors.track.counts import CLOSED, JobFolder, Totals
from gramwatt.sci.records.merge import MergedJob, merge
from gramwatt.sci.records.records import AnyRecord, EndRecord, IntervalRecord, decode
from tests.collectors.doubles.synthetic import SyntheticNvml
from tests.collectors.memory import file_of
from tests.collectors.virtual_clock import VirtualClock

MACHINE = Machine("Test Xeon", 8.0, 8.0, 64.0 * 2**30, 64.0 * 2**30)
CONSTANT = {"type": "constant", "power_w": 250.0}


def gpu(waveform: dict[str, Any] = CONSTANT, **more: Any) -> dict[str, Any]:
    return {"waveform": waveform, **more}


class Rig:
    """One machine: a clock, a GPU driver, a home, processes of a job, and meters started on it."""

    double = SyntheticNvml
    """What plays the driver."""

    def __init__(
        self, home: Path, *gpus: dict[str, Any], clock: VirtualClock | None = None, **spec: Any
    ) -> None:
        self.home, self.clock = home, clock or VirtualClock()
        spec.setdefault("origin_s", self.clock.now_ns() / NS_PER_S)
        self.nvml = self.double({"gpus": list(gpus), **spec}, self.clock)
        self.boot = "boot-1"
        self.clients: dict[int, int] = {}  # processes that live, and when they began [ns]
        self.mark = (self.clock.mono_ns(), self.clock.wall_ns())
        self.processes: dict[tuple[str, int], Totals] = {}
        """By a job's folder and a process, its file there."""
        self._runs: dict[str, int] = {}
        parents = home.absolute().parents  # of which one may be a file
        self._memory = next(p for p in parents if p.is_dir()) / f"{home.name}-memory"
        self.polls: Callable[[Sequence[Server]], Poller] = Poller
        """What reads the servers of a job; a test gives one on the virtual clock."""

    def memory(self, job_id: str = "job") -> JobFolder:
        """The folder in memory of a job's latest run on this node."""
        key = f"{job_id}.{identity.node_id()}"
        return JobFolder(f"{self._memory}/{key}.{self._runs.get(key, 0)}")

    def enter(
        self,
        pid: int = 100,
        role: str = "command",
        *,
        environ: dict[str, str] | None = None,
        mark: tuple[int, int] | None = None,
        waits: bool = False,
        **more: Any,
    ) -> JobFolder:
        """A process of the job enters it; of a new run where the last one has ended.

        A command has begun, unless it `waits` for the meter.
        """
        job_id = more.setdefault("job_id", "job")
        folder = self.memory(job_id)
        if not any(int(name.split("-")[0]) in self.clients for name in folder.names()):
            folder.take(CLOSED)  # as who enters does with what was killed
        if folder.closed:
            key = f"{job_id}.{identity.node_id()}"
            self._runs[key] = self._runs.get(key, 0) + 1
            folder = self.memory(job_id)
            os.makedirs(folder.path)
        mono_ns, wall_ns = mark or self.mark
        at_ns = mono_ns + self.clock.now_ns() - self.clock.mono_ns()
        began_ns = self.clients.setdefault(pid, at_ns)
        first = {"role": role, "pid": pid, "began_ns": began_ns, **more}
        first |= {"at_ns": at_ns, "wall_ns": wall_ns, "visible": environ or {}}
        totals = self.processes[folder.path, pid] = file_of(folder, f"{pid}-{began_ns}-1", first)
        if role == "command" and not waits:
            totals.append({"cmd": "begin", "pid": pid, "at_ns": at_ns})
        return folder

    def start(
        self, *, pid: int = 100, environ: dict[str, str] | None = None, **more: Any
    ) -> JobMeter:
        """A meter that is ready, of a job that `pid` begins or has begun.

        `mark` in `more` overrides the job's start.
        """
        given = more.pop("config", {})
        folder = self.memory(more.get("job_id", "job"))
        if (folder.path, pid) not in self.processes or folder.closed:
            folder = self.enter(pid, more.pop("role", "command"), environ=environ, **more)
        config = Config(home=self.home, **{"units": ("image",), **given})
        processes = Processes(folder, self.clients.get)
        processes.enter()
        meter = JobMeter(self.dependencies(environ or {}), config, processes)
        meter.start()
        return meter

    def dependencies(self, environ: dict[str, str]) -> Dependencies:
        """What a meter finds on this machine."""
        return Dependencies(
            environ=environ,
            clock=self.clock,
            random=Random(1),
            boot=self.boot,
            process_start_ns=self.clients.get,
            machine=lambda: MACHINE,
            counters=lambda: NO_COUNTERS,
            ports=lambda _: [self.nvml],
            processes=lambda _: {},
            polls=self.polls,
        )

    def count(
        self,
        amount: float,
        unit: str | None = None,
        phase: str | None = None,
        pid: int = 100,
        job_id: str = "job",
    ) -> None:
        """A process of the job counts."""
        self.processes[self.memory(job_id).path, pid].count(amount, unit, phase)

    def send(self, meter: JobMeter | None, pid: int | None = None, **message: Any) -> None:
        """A process writes a line, the one that began the job by default; the meter looks."""
        path = meter.memory.path if meter else self.memory().path
        default = meter.first["pid"] if meter else 100
        self.processes[path, default if pid is None else pid].append(message)
        if meter is not None:
            meter.wake()
            meter.tick()

    def now(self) -> int:
        self.mark = (self.clock.mono_ns(), self.clock.wall_ns())
        return self.clock.now_ns()

    def run(self, duration_s: float, *meters: JobMeter) -> None:
        """Let time pass as the loop would: everybody's next due moment, then a tick."""
        end_ns = self.clock.now_ns() + round(duration_s * NS_PER_S)
        while True:
            meters = tuple(meter for meter in meters if not meter.closed)
            waits = [meter.due_ns() - meter.timeline.now_ns() for meter in meters]
            wait_ns = max(min(waits, default=10**15), 1000)
            if self.clock.now_ns() + wait_ns >= end_ns:
                self.clock.advance_ns(end_ns - self.clock.now_ns())
                return
            self.clock.advance_ns(wait_ns)
            for meter in meters:
                meter.tick()

    def stop(
        self, meter: JobMeter, state: str = "completed", pid: int | None = None, **more: Any
    ) -> None:
        """A process ends, and with the last one the job."""
        self.send(meter, pid, cmd="stop", state=state, at_ns=self.clock.now_ns(), **more)
        if meter.closed:
            meter.release()

    def job(self, duration_s: float, **more: Any) -> JobMeter:
        """The meter of a whole job of that length [s]; `more` as `start` takes it."""
        meter = self.start(**more)
        self.run(duration_s, meter)
        self.stop(meter)
        return meter

    def measured(self, duration_s: float = 60.0, **more: Any) -> float:
        """Measure a job of that length [s]; the exact energy of the first board over it [J]."""
        begin_ns = self.now()
        meter = self.start(**more)
        self.run(duration_s, meter)
        end_ns = self.clock.now_ns()
        self.stop(meter)
        return self.truth_j(begin_ns, end_ns) if self.nvml.gpus else 0.0

    def kill(self, meter: JobMeter) -> None:
        """As SIGKILL: nothing more is written, the kernel lets go of the locks."""
        meter.release()
        if meter.devices is not None:
            meter.devices._locks.release()

    def die(self, pid: int = 100) -> None:
        """As SIGKILL of a process of the job."""
        del self.clients[pid]

    def folder(self, job_id: str = "job") -> SpoolFolder:
        return SpoolFolder(next((self.home / "spool" / job_id).iterdir()))

    def records(self, job_id: str = "job") -> list[AnyRecord]:
        return [decode(line) for line in self.folder(job_id).lines()]

    def notices(self, code: str = "", job_id: str = "job") -> list[str]:
        """Those at the job's end, of a code or all."""
        ends = by_type(self.records(job_id), EndRecord)
        return [text for end in ends for text in end.notices if text.startswith(code)]

    def merged(self, job_id: str = "job") -> MergedJob:
        return merge(self.records(job_id))

    def gpu_intervals(self, place: int = 0) -> list[IntervalRecord]:
        uuid = self.nvml.gpus[place].uuid
        found = [d for d in self.merged().devices if d.record.device_id == uuid]
        return list(found[0].intervals) if found else []

    def truth_j(self, start_ns: int, end_ns: int, place: int = 0) -> float:
        """Exact energy between two boot times [ns]."""
        return self.nvml.gpus[place].truth_j(start_ns / NS_PER_S, end_ns / NS_PER_S)


def energy_j(intervals: Iterable[IntervalRecord], *kinds: str) -> float:
    return sum(i.energy_j for i in intervals if not kinds or i.kind in kinds)


def by_type(records: Iterable[AnyRecord], kind: type[Any]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def states(folder: SpoolFolder) -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted(folder.path.glob("*.open")):
        found[path.stem] = json.loads(path.read_text().splitlines()[0])["state"]
    return found

"""The host of a job on a virtual clock, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from gramwatt.collectors.devices.sampler import NodeJob
from gramwatt.collectors.devices.shared_board import DeviceLocks
from gramwatt.collectors.host.devices import HostDevices
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.rapl import NO_COUNTERS, Counters
from gramwatt.collectors.host.share import JobProcesses, Reader
from gramwatt.collectors.meter.device_manager import Dependencies
from gramwatt.collectors.settings.clock import NS_PER_S, Timeline
from gramwatt.collectors.spool.intervals import Interval, Schedule
from tests.collectors.rig import MACHINE
from tests.collectors.virtual_clock import VirtualClock

NOBODY = JobProcesses("job", set(), {})


class BenchJob(NodeJob):
    """A job whose intervals are kept as they are, not rounded as in a journal."""

    def emit(self, device_id: str, interval: Interval) -> None:
        self.put(Interval, device_id=device_id, interval=interval)


class HostBench:
    """A clock, a machine, and the records and notices of the hosts begun on it."""

    def __init__(self, machine: Machine = MACHINE, clock: Any = None) -> None:
        self.clock, self.machine = clock or VirtualClock(), machine
        self.timeline = Timeline.from_mark(self.clock, self.clock.mono_ns(), self.clock.wall_ns())
        self.start_ns = self.timeline.start_ns
        self.recorded: list[tuple[str, Interval]] = []
        self.devices: list[dict[str, Any]] = []
        self.notices: list[str] = []

    def begin(
        self,
        counters: Counters = NO_COUNTERS,
        spawn: Callable[[], Any] | None = None,
        state: dict[str, Any] | None = None,
        mark_ns: int | None = None,
        home: Path | None = None,
        own: JobProcesses = NOBODY,
        processes: Reader = lambda _: {},
        **environ: str,
    ) -> HostDevices:
        """A host that is measured from the job's start on, or from `mark_ns` [ns].

        Without a `home` nobody else is there; `processes` are those that it sees.
        """
        dependencies = Dependencies(
            environ=environ,
            clock=self.clock,
            machine=lambda: self.machine,
            counters=lambda: counters,
            processes=processes,
            codecarbon=(lambda _: spawn()) if spawn else None,
        )
        schedule = Schedule(self.start_ns)
        job = BenchJob("n", self.timeline, schedule, Random(1), self.put, self.notify)
        locks = DeviceLocks(home or Path(mkdtemp()), own.job_id, "n")
        host = HostDevices(job, dependencies, "/nowhere", locks, own)
        host.begin(state, self.start_ns if mark_ns is None else mark_ns)
        return host

    def put(self, record: type[Any], **fields: Any) -> None:
        if record is Interval:
            self.recorded.append((fields["device_id"].rpartition("-")[2], fields["interval"]))
        else:
            self.devices.append(fields)

    def notify(self, code: str, text: str) -> None:
        self.notices.append(f"{code}: {text}")

    def sources(self) -> list[tuple[str, str]]:
        """Meter and kind of CPU and RAM as their newest records say."""
        newest = {device["device_class"]: device for device in self.devices}
        return [(newest[name]["meter"], newest[name]["kind"]) for name in ("cpu", "ram")]

    def total_j(self, device: str, *kinds: str) -> float:
        found = [i for name, i in self.recorded if name == device]
        return sum(i.energy_j for i in found if not kinds or i.kind in kinds)

    def span_s(self, device: str) -> float:
        return sum((i.end_ns - i.start_ns) / NS_PER_S for n, i in self.recorded if n == device)

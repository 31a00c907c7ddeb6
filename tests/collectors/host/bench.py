"""A host meter on a virtual clock, and what it records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.meter import HostMeter, host_meter
from gramwatt.collectors.host.parts import CPU, RAM, Part
from gramwatt.collectors.host.rapl import Counters
from gramwatt.collectors.journal.intervals import Interval, Schedule
from tests.collectors.rig import MACHINE
from tests.collectors.virtual_clock import VirtualClock


class HostBench:
    """A clock, a machine, and the intervals and notices of the meters begun on it."""

    def __init__(self, machine: Machine = MACHINE) -> None:
        self.clock, self.machine = VirtualClock(), machine
        self.timeline = Timeline.from_mark(self.clock, self.clock.mono_ns(), self.clock.wall_ns())
        self.start_ns = self.timeline.start_ns
        self.recorded: list[tuple[str, Interval]] = []
        self.notices: list[str] = []

    def host_meter(self, counters: Counters | None, spawn: Callable[[], Any] | None) -> HostMeter:
        schedule = Schedule(self.start_ns)
        shares = {CPU: self.machine.cpu_share, RAM: self.machine.memory_share}
        parts = {n: Part(n, share, schedule, self._record) for n, share in shares.items()}
        return host_meter(self.timeline, self.machine, parts, self.notify, spawn, counters)

    def _record(self, device: str, interval: Interval) -> None:
        self.recorded.append((device, interval))

    def notify(self, code: str, text: str) -> None:
        self.notices.append(f"{code}: {text}")

    def total_j(self, device: str, *kinds: str) -> float:
        found = [i for name, i in self.recorded if name == device]
        return sum(i.energy_j for i in found if not kinds or i.kind in kinds)

    def span_s(self, device: str) -> float:
        return sum((i.end_ns - i.start_ns) / NS_PER_S for n, i in self.recorded if n == device)

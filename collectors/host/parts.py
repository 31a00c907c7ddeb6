"""The parts of a host, CPU and RAM: how much of their energy is the job's.

Without a cgroup limit nothing is reserved, so measured jobs that run at the same time get equal
parts of the host: together they are billed it once. Jobs of one home see each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gramwatt.collectors.common import identity
from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.devices.locks import DeviceLocks
from gramwatt.collectors.devices.port import Notify
from gramwatt.collectors.journal.intervals import Interval, Ledger, Schedule
from gramwatt.sci.base.notices import CODES

CPU, RAM = "cpu", "ram"
Emit = Callable[[str, Interval], None]


class Part:
    """CPU or RAM of the host, its ledger and the share of it that is billed.

    `share` (0 to 1] is reserved for the job; `fraction` is the job's part of that while other jobs,
    which have reserved as much, run too.
    """

    __slots__ = ("_billed_j", "_emit", "_schedule", "_whole_j", "fraction", "ledger", "share")

    def __init__(self, device_id: str, share: float, schedule: Schedule, emit: Emit) -> None:
        self.ledger = Ledger(device_id, schedule, emit)
        self.share, self.fraction = share, 1.0
        self._schedule, self._emit = schedule, emit
        self._whole_j = self._billed_j = 0.0

    @property
    def mean_share(self) -> float:
        """The share billed so far, weighted by energy."""
        return round(self._billed_j / self._whole_j, 9) if self._whole_j > 0 else self.share

    def record(self, start_ns: int, end_ns: int, energy_j: float, kind: str) -> None:
        """Record the job's share of the host's energy [J] over [start, end)."""
        whole = self.share * self.fraction >= 1
        label = "attributed" if not whole and kind == "measured" else kind
        billed_j = self._bill_j(energy_j)
        power_w = billed_j * NS_PER_S / (end_ns - start_ns)
        self.ledger.add(start_ns, end_ns, billed_j, label, round(power_w, 3))

    def record_before(self, start_ns: int, end_ns: int, power_w: float) -> None:
        """Record an estimated power [W] over a span before what the ledger already holds."""
        before = Ledger(self.ledger.device_id, self._schedule, self._emit)
        energy_j = power_w * (end_ns - start_ns) / NS_PER_S
        before.add(start_ns, end_ns, self._bill_j(energy_j), "estimated")
        before.close()

    def _bill_j(self, energy_j: float) -> float:
        billed_j = energy_j * self.share * self.fraction
        self._whole_j += energy_j
        self._billed_j += billed_j
        return billed_j


class HostShare:
    """The parts of the host that nothing limits, divided among the measured jobs of a home."""

    def __init__(self, locks: DeviceLocks, parts: Iterable[Part], notify: Notify) -> None:
        """A part that a cgroup limits is the job's own and is left alone.

        Locks go by the machine, since several machines may share a home, and by job and node:
        containers of one machine are nodes of their own.
        """
        self._locks, self._notify = locks, notify
        self._parts = {_lock_of(part): part for part in parts if part.share >= 1}
        for name in self._parts:
            locks.acquire(name, by_node=True)
        self.refresh_share()

    def refresh_share(self) -> None:
        """Set each part's share to 1 / (number of measured jobs on this host) from now on."""
        for name, part in self._parts.items():
            others = self._locks.others(name)
            part.fraction = 1 / (1 + others)
            if others:
                self._notify("host-shared", CODES["host-shared"])


def _lock_of(part: Part) -> str:
    return f"{identity.kernel_id()}-{part.ledger.device_id.rpartition('-')[2]}"

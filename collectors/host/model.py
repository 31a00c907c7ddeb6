"""The host's power by model, where no meter reads it: load and size times published means.

`sci.base.host_model` has the figures and their ranges; everything here is `estimated`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gramwatt.collectors.common.files import text_of
from gramwatt.collectors.journal.intervals import Ledger
from gramwatt.sci.base.host_model import cpu_power_w, ram_power_w


class Load(NamedTuple):
    """Processor time since some moment: busy, and of all threads, in one unit of time."""

    busy: float
    total: float


def read_load(proc: Path = Path("/proc")) -> Load | None:
    """The first line of /proc/stat; None where there is none."""
    try:
        with (proc / "stat").open("rb") as stream:
            ticks = [int(part) for part in stream.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    if len(ticks) < 5:
        return None
    idle = ticks[3] + ticks[4]  # idle and iowait, proc(5)
    return Load(sum(ticks) - idle, sum(ticks))


def cgroup_load(folder: Path, threads: float) -> Load | None:
    """Processor time [s] that a cgroup has used of its `threads`; None where it is not known."""
    for line in (text_of(folder / "cpu.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec" and value.isdecimal():
            return Load(int(value) / 1e6, threads * time.monotonic())
    used_ns = text_of(folder / "cpuacct.usage") or ""  # version 1
    return Load(int(used_ns) / 1e9, threads * time.monotonic()) if used_ns.isdecimal() else None


def mean_load(before: Load | None, after: Load | None) -> float | None:
    """Share of processor time in use (0 to 1) between two readings.

    Without them the 1-minute load average over the number of threads; None without that either.
    """
    if before and after and after.total > before.total:
        return min(1.0, max(0.0, (after.busy - before.busy) / (after.total - before.total)))
    try:
        return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except OSError:
        return None


def memory_used_b() -> float | None:
    """Host memory in use [B]: total less available; None where /proc/meminfo is missing."""
    try:
        with Path("/proc/meminfo").open("rb") as stream:
            values = dict(line.split()[:2] for line in stream)
        return (int(values[b"MemTotal:"]) - int(values[b"MemAvailable:"])) * 1024.0
    except (OSError, KeyError, ValueError):
        return None


class CpuModel:
    """The processor's power: linear in its load, between idle and full."""

    def __init__(
        self, threads: float | None, load: Callable[[], Load | None] | None = None
    ) -> None:
        """`threads` are the hardware threads of the host, None where they are not known; `load`
        reads the processor time of those that the job may use, the host's by default.
        """
        self._threads, self._load = threads, load or (lambda: read_load())
        self._since = self._observed = self._load()

    def power_w(self) -> float | None:
        """Power [W] of the whole processor at the mean load since `restart`."""
        load = mean_load(self._since, self._load())
        return None if not self._threads or load is None else cpu_power_w(self._threads, load)

    def restart(self) -> None:
        """Begin the next span here."""
        self._since = self._load()

    def observe(self, ledger: Ledger) -> None:
        """Note the mean load since the last observation."""
        before, self._observed = self._observed, self._load()
        load = mean_load(before, self._observed) if before else None
        ledger.observe(None if load is None else round(load, 4), None)


class RamModel:
    """The memory's power: constant for each GiB installed, in use or not."""

    def __init__(self, memory_b: float | None) -> None:
        """`memory_b` is the host's memory [B], None where it is not known."""
        self._memory_b = memory_b

    def power_w(self) -> float | None:
        """Power of all installed memory [W]."""
        return ram_power_w(self._memory_b) if self._memory_b else None

    def restart(self) -> None:
        """Nothing: the power is constant."""

    def observe(self, ledger: Ledger) -> None:
        """Note the memory in use [B]."""
        ledger.observe(None, memory_used_b())


PartModel = CpuModel | RamModel

"""The host's power by model, where no meter reads it: load times a published curve.

Everything here is `estimated`; the engine gives it +-40 % (arXiv:2509.22092).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from gramwatt.collectors.journal.intervals import Ledger
from gramwatt.sci.base.units import gib_from_bytes

IDLE_W_PER_THREAD, FULL_W_PER_THREAD = 0.74, 3.5
"""Power of one vCPU at 0 and 100 % load, mean over server CPUs: Cloud Carbon Footprint,
AwsFootprintEstimationConstants.ts, MIN_WATTS_AVG and MAX_WATTS_AVG (from SPECpower_ssj2008)."""
DRAM_W_PER_GB = 0.392
"""Power of DRAM per GB installed: Cloud Carbon Footprint, MEMORY_COEFFICIENT 0.000392 kWh/GBh.
Its GB is taken as GiB, as memory is sold."""


class Load(NamedTuple):
    """Processor time since boot, of all threads: busy and total [clock ticks]."""

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

    def __init__(self, threads: float | None) -> None:
        """`threads` are the hardware threads of the host, None where they are not known."""
        self._threads = threads
        self._since = self._observed = read_load()

    def power_w(self) -> float | None:
        """Power [W] at the mean load since `restart`."""
        load = mean_load(self._since, read_load())
        if not self._threads or load is None:
            return None
        each_w = IDLE_W_PER_THREAD + load * (FULL_W_PER_THREAD - IDLE_W_PER_THREAD)
        return self._threads * each_w

    def restart(self) -> None:
        """Begin the next span here."""
        self._since = read_load()

    def observe(self, ledger: Ledger) -> None:
        """Note the mean load since the last observation."""
        before, self._observed = self._observed, read_load()
        load = mean_load(before, self._observed) if before else None
        ledger.observe(None if load is None else round(load, 4), None)


class RamModel:
    """The memory's power: constant for each GB installed, in use or not."""

    def __init__(self, memory_b: float | None) -> None:
        """`memory_b` is the host's memory [B], None where it is not known."""
        self._memory_b = memory_b

    def power_w(self) -> float | None:
        """Power of all installed memory [W]."""
        return gib_from_bytes(self._memory_b) * DRAM_W_PER_GB if self._memory_b else None

    def restart(self) -> None:
        """Nothing: the power is constant."""

    def observe(self, ledger: Ledger) -> None:
        """Note the memory in use [B]."""
        ledger.observe(None, memory_used_b())


PartModel = CpuModel | RamModel

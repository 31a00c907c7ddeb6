"""The host's power by model, where no meter of the host can be had: load x a published curve.

Everything here is `estimated`; the engine gives it +-40 % (arXiv:2509.22092).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from gramwatt.sci.base.units import gib_from_bytes

IDLE_W_PER_THREAD, FULL_W_PER_THREAD = 0.74, 3.5
"""Power of one vCPU at 0 and 100 % load, mean over server CPUs: Cloud Carbon Footprint,
AwsFootprintEstimationConstants.ts, MIN_WATTS_AVG and MAX_WATTS_AVG (from SPECpower_ssj2008)."""
DRAM_W_PER_GB = 0.392
"""Power of DRAM per GB installed: Cloud Carbon Footprint, MEMORY_COEFFICIENT 0.000392 kWh/GBh.
Its GB is taken as GiB, as memory is sold."""
METER = "gramwatt-model"


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


def memory_used_b(proc: Path = Path("/proc")) -> float | None:
    """Host memory in use [B]: total less available; None where /proc/meminfo is missing."""
    try:
        with (proc / "meminfo").open("rb") as stream:
            values = dict(line.split()[:2] for line in stream)
        return (int(values[b"MemTotal:"]) - int(values[b"MemAvailable:"])) * 1024.0
    except (OSError, KeyError, ValueError):
        return None


def cpu_power_w(threads: float, load: float) -> float:
    """Power [W] of `threads` hardware threads at a load of 0 to 1, linear between the two ends."""
    return threads * (IDLE_W_PER_THREAD + load * (FULL_W_PER_THREAD - IDLE_W_PER_THREAD))


def ram_power_w(memory_b: float) -> float:
    """Power [W] of `memory_b` [B] of DRAM, in use or not."""
    return gib_from_bytes(memory_b) * DRAM_W_PER_GB

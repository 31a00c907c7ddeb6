"""The host's power by model, where no counter is read: load and size times published means.

`sci.base.host_model` has the figures and their ranges; everything here is `estimated`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from gramwatt.collectors.common.files import text_of
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.source import Span
from gramwatt.collectors.journal.intervals import Ledger
from gramwatt.sci.base.host_model import CPU_MODEL, RAM_MODEL, cpu_power_w, ram_power_w


class Load(NamedTuple):
    """Processor time since some moment: busy, and of all threads, in one unit of time."""

    busy: float
    total: float


def read_load(proc: Path = Path("/proc")) -> Load | None:
    """Return the first line of /proc/stat; None where there is none."""
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
    """Return the processor time [s] that a cgroup has used of its `threads`; None if not known."""
    for line in (text_of(folder / "cpu.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec" and value.isdecimal():
            return Load(int(value) / 1e6, threads * time.monotonic())
    used_ns = text_of(folder / "cpuacct.usage") or ""  # version 1
    return Load(int(used_ns) / 1e9, threads * time.monotonic()) if used_ns.isdecimal() else None


def mean_load(before: Load | None, after: Load | None) -> float | None:
    """Return the share of processor time in use (0 to 1) between two readings.

    Without them the 1-minute load average over the number of threads; None without that either.
    """
    if before and after and after.total > before.total:
        return min(1.0, max(0.0, (after.busy - before.busy) / (after.total - before.total)))
    try:
        return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except OSError:
        return None


def memory_used_b() -> float | None:
    """Return the host's memory in use [B]: total less available; None without /proc/meminfo."""
    try:
        with Path("/proc/meminfo").open("rb") as stream:
            values = dict(line.split()[:2] for line in stream)
        return (int(values[b"MemTotal:"]) - int(values[b"MemAvailable:"])) * 1024.0
    except (OSError, KeyError, ValueError):
        return None


class ModelSource:
    """The model as a source: it has a power at any moment, and nothing to continue."""

    meter = ""
    kind = "estimated"

    def power_w(self) -> float | None:
        """Return the mean power of the whole component since `restart` [W]; None if not known."""
        raise NotImplementedError

    def restart(self) -> None:
        """Begin the next span here."""

    def observe(self, ledger: Ledger) -> None:
        """Note in the open interval how the component is used."""
        raise NotImplementedError

    def due_ns(self) -> None:
        """Return None: it is never due by itself."""

    def read(self, since_ns: int, now_ns: int, until_ns: int) -> list[Span]:
        """Return the whole time from `since_ns` to `until_ns` [ns], at the model's power."""
        return [Span(since_ns, until_ns, None, self.kind)]

    def cut_ns(self, mark_ns: int, now_ns: int) -> int:
        """Return the boundary itself [ns], unless it is to come."""
        return min(mark_ns, now_ns)

    def state(self) -> dict[str, Any]:
        """Return nothing: the next meter's model begins anew."""
        return {}

    def resume(self, state: dict[str, Any]) -> None:
        """Ignore the state of whatever source there was."""


class CpuModel(ModelSource):
    """The processor's power: linear in its load, between idle and full."""

    meter = CPU_MODEL

    def __init__(self, machine: Machine) -> None:
        """The load is that of the job's cgroup where one limits it, else of the host."""
        self._machine = machine
        self._since = self._observed = self._load()
        self.least_load = 0.0
        """What measured jobs have used since `restart`: the kernel counts the load in ticks."""

    def load(self) -> float | None:
        """Return the mean load since `restart` (0 to 1); None where it is not known."""
        load = mean_load(self._since, self._load())
        return None if load is None else min(1.0, max(load, self.least_load))

    def busy_s(self) -> float | None:
        """Return processor time in use since some moment [s]; None where it is not known."""
        load = self._load()
        if load is None:
            return None
        of_cgroup = self._machine.usage and self._machine.threads
        return load.busy if of_cgroup else load.busy / os.sysconf("SC_CLK_TCK")

    def power_w(self) -> float | None:
        """Return the power of the whole processor at the mean load since `restart` [W]."""
        threads, load = self._machine.threads_total, self.load()
        return None if not threads or load is None else cpu_power_w(threads, load)

    def restart(self) -> None:
        """Begin the next span here."""
        self._since, self.least_load = self._load(), 0.0

    def observe(self, ledger: Ledger) -> None:
        """Note the mean load since the last observation."""
        before, self._observed = self._observed, self._load()
        load = mean_load(before, self._observed) if before else None
        ledger.observe(None if load is None else round(load, 4), None)

    def _load(self) -> Load | None:
        folder, threads = self._machine.usage, self._machine.threads
        return cgroup_load(folder, threads) if folder and threads else read_load()


class RamModel(ModelSource):
    """The memory's power: constant for each GiB installed, in use or not."""

    meter = RAM_MODEL

    def __init__(self, machine: Machine) -> None:
        """The power is that of all memory of the machine, not of the job's share."""
        self._memory_b = machine.memory_total_b

    def power_w(self) -> float | None:
        """Return the power of all installed memory [W]; None where its size is not known."""
        return ram_power_w(self._memory_b) if self._memory_b else None

    def observe(self, ledger: Ledger) -> None:
        """Note the memory in use [B]."""
        ledger.observe(None, memory_used_b())

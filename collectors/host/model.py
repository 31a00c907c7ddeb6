"""The host's power by model, where no counter is read: load and size times published means.

`sci.figures.host_model` has the figures and their ranges; everything here is `estimated`. What a
source of any kind answers (`Span`) is here too.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.settings.files import text_of
from gramwatt.collectors.settings.proc import page_of
from gramwatt.collectors.spool.intervals import Ledger
from gramwatt.sci.catalog.hardware import Cpu
from gramwatt.sci.catalog.names import Names, cpu_name
from gramwatt.sci.figures.csv_data import data_text, read_rows
from gramwatt.sci.figures.host_model import CPU_MODEL, RAM_MODEL, CpuPower, cpu_power, ram_power_w

WAIT_NS = 60 * NS_PER_S
"""How long a counter may be silent before its component is estimated."""
SERVERS = re.compile(r"xeon|epyc|opteron", re.IGNORECASE)
"""Processors of the evidence, 609 results of servers."""
BOOSTS = re.compile(r"\bCore\b|\bRyzen (?!Threadripper)")
"""Processors of desks and laptops, which are rated at their base clock."""
DENSE_THREADS = 192
"""More threads a processor than this have less power each than those of the evidence."""
CORES = re.compile(r"(\d+)-core", re.IGNORECASE)
NUMBER = re.compile(r"\d{3,}")
"""The number of a processor's name."""


class Span(NamedTuple):
    """Mean power [W] of a whole component over [start, end) of the timeline [ns].

    None for a span of which a source tells nothing: the model stands in. `awake` (0 to 1) is the
    fraction in which the machine was not suspended: only then it drew this power. None where the
    source does not tell it by span: the fraction of all time since the last reading then counts.
    """

    start_ns: int
    end_ns: int
    power_w: float | None
    kind: str
    awake: float | None = None


class HostSource:
    """What the energy of a component comes from: a RAPL counter, codecarbon or the model."""

    meter = ""
    """The name of what gives the energy now, as in device records."""
    kind = "estimated"
    """How that energy is known."""

    def due_ns(self) -> int | None:
        """Return when it must be read again [ns]; None where it need not be."""
        return None

    def read(self, since_ns: int, now_ns: int, until_ns: int, *, last: bool) -> list[Span]:
        """Return what is known of the time from `since_ns` to `until_ns` [ns], in order.

        The rest may come with the next reading; what lies beyond `until_ns` is cut off. `last`: an
        interval ends now, so that a reading in doubt cannot wait for the next one.
        """
        raise NotImplementedError

    def cut_ns(self, mark_ns: int, now_ns: int) -> int | None:
        """Return where a reading now may end an interval for a window's boundary `mark_ns` [ns].

        None where it cannot.
        """
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return what the next meter's source needs to continue, JSON-ready."""
        return {}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from the `state` of another meter's source, whichever that was."""


class Load(NamedTuple):
    """Processor time since some moment: busy, and of all threads, in one unit of time."""

    busy: float
    total: float


def read_load(proc: Path = Path("/proc")) -> Load | None:
    """Return the first line of /proc/stat; None where there is none."""
    try:
        line = page_of(f"{proc}/stat").partition(b"\n")[0]
        ticks = [int(part) for part in line.split()[1:9]]
    except (OSError, ValueError):
        return None
    if len(ticks) < 5:
        return None
    not_used = sum(ticks[3:5] + ticks[7:])  # idle, iowait and what a hypervisor stole, proc(5)
    return Load(sum(ticks) - not_used, sum(ticks))


def cgroup_load(folder: Path, threads: float) -> Load | None:
    """Return the processor time [s] that a cgroup has used of its `threads`; None if not known."""
    for line in (text_of(folder / "cpu.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec" and value.isdecimal():
            return Load(int(value) / 1e6, threads * time.monotonic())
    used_ns = text_of(folder / "cpuacct.usage") or ""  # version 1
    return Load(int(used_ns) / 1e9, threads * time.monotonic()) if used_ns.isdecimal() else None


def mean_load(before: Load | None, after: Load | None) -> float | None:
    """Return the fraction of processor time in use (0 to 1) between two readings.

    Without them the 1-minute load average over the number of threads; None without that either.
    """
    if before and after and after.total > before.total:
        return min(1.0, max(0.0, (after.busy - before.busy) / (after.total - before.total)))
    try:
        return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except OSError:
        return None


def power_of(machine: Machine) -> CpuPower | None:
    """Return the model of this machine's processor; None where its size is not known.

    A machine of several processors is modelled as one. Of a virtual machine's host only the threads
    are known that it shows.
    """
    threads, name = machine.threads_total, machine.cpu_name or ""
    if not threads:
        return None
    # Not `rows`, which keeps them: 1 MB in every meter.
    (table,) = Cpu.files
    packaged = {row.id: row for row in read_rows(Cpu, data_text(table), table)}
    # The end of a short job waits for this: 15 us a name, and most have another number.
    alike = [row for row in packaged.values() if all(n in name for n in NUMBER.findall(row.name))]
    named = [(text, row.id) for row in alike for text in (row.id, row.name)]
    ids = Names("cpu", named, simplify=cpu_name).ids(name)
    part = packaged[ids[0]] if len(ids) == 1 else None
    if part and part.tdp_w:
        count = machine.sockets or threads / part.threads
        boosts = bool(BOOSTS.search(part.name))
        return cpu_power(threads, rated_w=part.tdp_w * count, boosts=boosts)
    cores = CORES.search(name)
    each = max(threads / (machine.sockets or threads), 2 * float(cores[1]) if cores else 0.0)
    like = bool(SERVERS.search(name)) and each <= DENSE_THREADS
    return cpu_power(threads, sockets=machine.sockets, like_evidence=like)


class ModelSource(HostSource):
    """The model as a source: it has a power at any moment."""

    def power_w(self) -> float | None:
        """Return the mean power of the whole component since `restart` [W]; None if not known."""
        raise NotImplementedError

    def look(self) -> None:
        """Read how the component is used now."""

    def restart(self) -> None:
        """Begin the next span at the last look."""

    def observe(self, ledger: Ledger, memory_b: float | None) -> None:
        """Note in the open interval how it is used; the job has `memory_b` of memory [B]."""
        raise NotImplementedError

    def read(self, since_ns: int, now_ns: int, until_ns: int, *, last: bool) -> list[Span]:
        """Return the whole time from `since_ns` to `until_ns` [ns], at the model's power."""
        return [Span(since_ns, until_ns, None, self.kind)]

    def cut_ns(self, mark_ns: int, now_ns: int) -> int:
        """Return the boundary itself [ns], unless it is to come."""
        return min(mark_ns, now_ns)


class CpuModel(ModelSource):
    """The processor's power by its load, between idle and full."""

    def __init__(self, machine: Machine) -> None:
        """The load is that of the job's cgroup where one limits it, else of the host."""
        self._machine = machine
        self.power = power_of(machine)
        self.meter = self.power.meter if self.power else CPU_MODEL
        self._since = self._observed = self._now = self._loads()
        self.own_load: float | None = None
        """What the job has used since `restart`; None where its processes cannot be seen."""

    def load(self) -> float | None:
        """Return the mean load from `restart` to the last look (0 to 1); None if not known."""
        own, now = self.own_load, self._now[0]
        if now is None:  # nobody counts the load within the limit; the host's is another
            return self.host_load() if own is None else min(1.0, own)
        load = mean_load(self._since[0], now)
        return None if load is None else min(1.0, max(load, own or 0.0))

    def host_load(self) -> float | None:
        """Return the same of all threads of the host, within the job's limit or not."""
        return mean_load(self._since[1], self._now[1])

    def power_w(self) -> float | None:
        """Return the power of the whole processor at the mean load since `restart` [W]."""
        load = self.load()
        return None if load is None or self.power is None else self.power.at(load)

    def look(self) -> None:
        """Read the processor time that was used up to now."""
        self._now = self._loads()

    def restart(self) -> None:
        """Begin the next span at the last look."""
        self._since, self.own_load = self._now, None

    def observe(self, ledger: Ledger, memory_b: float | None) -> None:
        """Note the mean load since the last observation."""
        before, self._observed = self._observed[0], self._now
        load = mean_load(before, self._observed[0]) if before else None
        ledger.observe(None if load is None else round(load, 4), None)

    def _loads(self) -> tuple[Load | None, Load | None]:
        """Return the load of the threads within the limit, where it is counted, and of all."""
        folder, threads, host = self._machine.usage, self._machine.threads, read_load()
        if self._machine.cpu_share == 1:
            return host, host
        return (cgroup_load(folder, threads) if folder and threads else None), host


class RamModel(ModelSource):
    """The memory's power: constant for each GiB installed, in use or not."""

    meter = RAM_MODEL

    def __init__(self, machine: Machine) -> None:
        """The power is that of all memory of the machine, not of the job's share."""
        self._memory_b = machine.memory_total_b

    def power_w(self) -> float | None:
        """Return the power of all installed memory [W]; None where its size is not known."""
        return ram_power_w(self._memory_b) if self._memory_b else None

    def observe(self, ledger: Ledger, memory_b: float | None) -> None:
        """Note the memory that the job uses [B]."""
        ledger.observe(None, memory_b)

"""Power of a host's processor and memory where no counter gives it: load and size times published
means. Estimated; docs/measuring.md, "The model", has the evidence.

Where no rated power is known, the processor's power is linear in its load: so many joules a second
reserved, and so many more a second of processor time, however often the load was read.
"""

from __future__ import annotations

from typing import NamedTuple

from gramwatt.sci.figures.units import gib_from_bytes

CPU_MODEL, RAM_MODEL = "gramwatt-cpu-model", "gramwatt-ram-model"
CPU_MODEL_RATED = f"{CPU_MODEL}-rated"
"""For a processor whose rated power the catalog has."""
CPU_MODEL_BASE = f"{CPU_MODEL}-base"
"""For a processor of a desk or laptop: the catalog's figure is the power at its base clock."""
CPU_MODEL_UNLIKE = f"{CPU_MODEL}-unlike"
"""For a processor unlike those of the evidence."""
STANDS_IN = "+"
"""Between a counter and the model that stood in for it, in the meter of a device: the model gave
what is `estimated`, the counter the rest."""
IDLE_W_PER_THREAD, FULL_W_PER_THREAD = 0.63, 3.35
"""Power of a server per hardware thread, idle and at full load: medians of the 609 results of
SPECpower_ssj2008 published from 2017 to 2026 (list of 2026-03-09 in
cloud-carbon-footprint/ccf-coefficients)."""
RATED_FULL_LOAD = 0.5
"""Load from which a processor of a known rated power draws all that it will: its threads are two a
core. It had 0.75 of its rated power there, and 1.02 at full load (Teads, on AWS)."""
BOOST = 2.6
"""Power of a desk's or laptop's processor at its highest clocks over that at its base clock: 115 W
and 45 W of an i7-12700H (Intel, as quoted in mlco2/codecarbon, pull request 824)."""
HIGHEST_RATED_W = 500.0
"""The highest rated power of one processor among the 4 918 of codecarbon 3.3.2."""
DRAM_W_PER_GIB = 0.19
"""Power of memory per GiB installed, in use or not: mean of idle servers, in Simon et al.,
BoaviztAPI, HotCarbon 2024 (as quoted in Boavizta/boaviztapi, issue 298)."""


class RelativeRange(NamedTuple):
    """The true value is `low` to `high` times the figure, eight times in ten; and the evidence."""

    low: float
    high: float
    source: str


RANGES: dict[str, RelativeRange] = {
    CPU_MODEL: RelativeRange(0.42, 1.75, "holds eight in ten of 609 SPECpower_ssj2008 results"),
    CPU_MODEL_RATED: RelativeRange(0.42, 1.3, "ends at the processor's rated power in the catalog"),
    CPU_MODEL_BASE: RelativeRange(
        0.3, 2.0, "ends at 2.6 times the power that the catalog has for the base clock"
    ),
    CPU_MODEL_UNLIKE: RelativeRange(
        0.2, 1.75, "wider, as the processor is unlike those of 609 SPECpower_ssj2008 results"
    ),
    RAM_MODEL: RelativeRange(0.47, 2.06, "0.09 W/GiB (a server of 1 TB) to 0.39 (modules of 8 GB)"),
}


class CpuPower(NamedTuple):
    """The model of one processor: its name, and power [W] idle and from `full_load` (0 to 1) on."""

    meter: str
    idle_w: float
    full_w: float
    full_load: float = 1.0

    def at(self, load: float) -> float:
        """Return the power [W] at a mean load (0 to 1)."""
        return self.idle_w + (self.full_w - self.idle_w) * min(1.0, load / self.full_load)


def cpu_power(
    threads: float,
    *,
    rated_w: float | None = None,
    boosts: bool = False,
    sockets: int | None = None,
    like_evidence: bool = True,
) -> CpuPower:
    """Return the model of a processor with so many hardware threads.

    The range of its power never goes above its rated power `rated_w` [W], or what a processor that
    `boosts` makes of it, and where that is not known not above what so many `sockets` have at most.
    """
    idle_w = threads * IDLE_W_PER_THREAD
    if rated_w:
        meter, most_w = (CPU_MODEL_BASE, BOOST * rated_w) if boosts else (CPU_MODEL_RATED, rated_w)
        full_w = most_w / RANGES[meter].high
        return CpuPower(meter, min(idle_w, full_w), full_w, RATED_FULL_LOAD)
    meter = CPU_MODEL if like_evidence else CPU_MODEL_UNLIKE
    line_w = threads * FULL_W_PER_THREAD
    full_w = min(line_w, sockets * HIGHEST_RATED_W / RANGES[meter].high) if sockets else line_w
    if full_w <= idle_w:
        return CpuPower(meter, full_w, full_w)
    return CpuPower(meter, idle_w, full_w, (full_w - idle_w) / (line_w - idle_w))


def ram_power_w(memory_b: float) -> float:
    """Return power [W] of so much installed memory [B]."""
    return gib_from_bytes(memory_b) * DRAM_W_PER_GIB


def gave(meter: str, kind: str) -> str:
    """Return what gave a device's energy of a kind: its counter, or the model that stood in."""
    counter, _, model = meter.partition(STANDS_IN)
    return model if model and kind == "estimated" else counter

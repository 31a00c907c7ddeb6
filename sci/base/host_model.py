"""Power of a host's processor and memory where no counter gives it: load and size times published
means. Estimated; docs/measuring.md, "The model", has the evidence.

The processor's power is linear in its load, so a job's energy does not depend on how often the load
was read: so many joules a second reserved, and so many more a second of processor time.
"""

from __future__ import annotations

from typing import NamedTuple

from gramwatt.sci.base.units import gib_from_bytes

CPU_MODEL, RAM_MODEL = "gramwatt-cpu-model", "gramwatt-ram-model"
"""Names of the model's two halves in device records."""
IDLE_W_PER_THREAD, FULL_W_PER_THREAD = 0.63, 3.35
"""Power of a server per hardware thread, idle and at full load: medians of the 609 results of
SPECpower_ssj2008 published from 2017 to 2026 (list of 2026-03-09 in
cloud-carbon-footprint/ccf-coefficients)."""
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
    RAM_MODEL: RelativeRange(0.47, 2.06, "0.09 W/GiB (a server of 1 TB) to 0.39 (modules of 8 GB)"),
}


def cpu_power_w(threads: float, load: float) -> float:
    """Return power [W] of a processor with so many hardware threads at a mean load (0 to 1)."""
    return threads * (IDLE_W_PER_THREAD + load * (FULL_W_PER_THREAD - IDLE_W_PER_THREAD))


def ram_power_w(memory_b: float) -> float:
    """Return power [W] of so much installed memory [B]."""
    return gib_from_bytes(memory_b) * DRAM_W_PER_GIB

"""What measuring itself used: an estimate from the meter's processor time and memory.

It is a part of the host's energy, and so already in E where the host is measured or modelled; it is
told apart so that nobody has to wonder.
"""

from __future__ import annotations

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import gib_from_bytes

FULL_W_PER_THREAD = 3.5
"""Power of one hardware thread at full load [W]: Cloud Carbon Footprint,
AwsFootprintEstimationConstants.ts, MAX_WATTS_AVG (from SPECpower_ssj2008)."""
DRAM_W_PER_GIB = 0.392
"""Power of DRAM per GB installed [W]: Cloud Carbon Footprint, MEMORY_COEFFICIENT 0.000392 kWh/GBh;
its GB is taken as GiB, as memory is sold."""
SPREAD = 0.40
"""Software estimates are off by up to 40 % (arXiv:2509.22092)."""
SOURCE = "processor time x 3.5 W a thread, memory x 0.392 W a GiB (Cloud Carbon Footprint)"


def meter_energy_j(
    cpu_s: float | None, memory_b: float | None, duration_s: float
) -> Quantity | None:
    """Energy of the job's meters [J] out of CPU time [s], peak memory [B] and duration [s].

    None when no meter has said what it used.
    """
    if cpu_s is None:
        return None
    memory_w = gib_from_bytes(memory_b or 0.0) * DRAM_W_PER_GIB
    energy_j = cpu_s * FULL_W_PER_THREAD + memory_w * duration_s
    return Quantity.around(energy_j, SPREAD, "J", "estimated", SOURCE)

"""Figures that stand beside a score and never enter it: other lives of the hardware, what a supply
contract says, and what the meter itself used.

The standard keeps certificates, purchase agreements and offsets out of the intensity (ISO/IEC
21031, "Carbon intensity"). A job that has such a figure declares it as tags:

    contract_g_per_kwh = 12
    contract_source = "supplier's statement for 2025, cancelled guarantees of origin"
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gramwatt.sci.base.document import MemoDoc, SensitivityDoc
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import gib_from_bytes
from gramwatt.sci.score.allocation import EmbodiedShares
from gramwatt.sci.score.functional_unit import UnitScore

LIFETIMES_YEARS = (3.0, 4.0, 5.0, 6.0)
"""The lives that published footprints assume; see docs/methodology.md."""
CONTRACT_FIGURE, CONTRACT_SOURCE = "contract_g_per_kwh", "contract_source"
NOTE = (
    "Market-based: what a contract says about the power that was bought. It is no part of SCI, of "
    "any total, or of any comparison."
)
FULL_W_PER_THREAD = 3.5
"""Power of one hardware thread at full load [W]: Cloud Carbon Footprint,
AwsFootprintEstimationConstants.ts, MAX_WATTS_AVG (from SPECpower_ssj2008)."""
DRAM_W_PER_GIB = 0.392
"""Power of DRAM per GB installed [W]: Cloud Carbon Footprint, MEMORY_COEFFICIENT 0.000392 kWh/GBh;
its GB is taken as GiB, as memory is sold."""
METER_SPREAD = 0.40
"""Software estimates are off by up to 40 % (arXiv:2509.22092)."""
METER_SOURCE = "processor time x 3.5 W a thread, memory x 0.392 W a GiB (Cloud Carbon Footprint)"


def lifetime_sensitivity(
    embodied: EmbodiedShares, operational_g: Quantity | None, units: Sequence[UnitScore]
) -> list[SensitivityDoc]:
    """M, C [gCO2e] and C per R with EL of 3, 4, 5 and 6 years for all hardware of the job."""
    if not embodied.shares:
        return []
    by_year = math.fsum(s.embodied_g.value * s.life.value for s in embodied.shares)
    rows: list[SensitivityDoc] = []
    for years in LIFETIMES_YEARS:
        embodied_g = by_year / years
        total_g = operational_g.value + embodied_g if operational_g else None
        row: SensitivityDoc = {
            "lifetime_years": years,
            "embodied_g": embodied_g,
            "total_g": total_g,
            "g_per_unit": {u.unit: total_g / u.count if total_g else None for u in units},
        }
        rows.append(row)
    return rows


def market_based(
    tags: Mapping[str, str], energy_kwh: Quantity | None, pue: Quantity
) -> tuple[MemoDoc | None, tuple[Notice, ...]]:
    """The contract's figure [gCO2e/kWh] and energy x PUE times it [gCO2e]; None where not given.

    A figure without a source, or one that is no number, leaves a notice.
    """
    text = tags.get(CONTRACT_FIGURE)
    if text is None:
        return None, ()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        return None, (_ignored(f"{text!r} is not a number of grams per kWh"),)
    if not tags.get(CONTRACT_SOURCE):
        return None, (_ignored(f"it needs the tag {CONTRACT_SOURCE!r}, which says who states it"),)
    contract = Quantity.exact(value, "gCO2e/kWh", "declared", tags[CONTRACT_SOURCE])
    grams = energy_kwh.times(pue, "kWh").times(contract, "gCO2e") if energy_kwh else None
    return {
        "contract_g_per_kwh": contract.to_doc(),
        "contract_g": grams.to_doc() if grams else None,
        "note": NOTE,
    }, ()


def _ignored(why: str) -> Notice:
    return Notice("argument-ignored", f"The tag {CONTRACT_FIGURE!r} is ignored: {why}.", None)


def meter_energy_j(
    cpu_s: float | None, memory_b: float | None, duration_s: float
) -> Quantity | None:
    """Energy of the job's meters [J] out of CPU time [s], peak memory [B] and duration [s].

    An estimate, and a part of the host's energy: it is in E already where the host is measured or
    modelled. None when no meter recorded what it used.
    """
    if cpu_s is None:
        return None
    memory_w = gib_from_bytes(memory_b or 0.0) * DRAM_W_PER_GIB
    energy_j = cpu_s * FULL_W_PER_THREAD + memory_w * duration_s
    return Quantity.around(energy_j, METER_SPREAD, "J", "estimated", METER_SOURCE)

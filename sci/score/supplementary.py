"""Figures that stand beside a score and never enter it: other lives of the hardware, what a supply
contract says, and what the meter itself used.

The standard keeps certificates, purchase agreements and offsets out of the intensity (ISO/IEC
21031, "Carbon intensity"). A job that has such a figure declares it as tags:

    contract_g_per_kwh = 12
    contract_source = "supplier's statement for 2025, cancelled guarantees of origin"
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gramwatt.sci.base.document import (
    MemoDoc,
    SensitivityDoc,
    doc,
)
from gramwatt.sci.base.host_model import (
    CPU_MODEL,
    DRAM_W_PER_GIB,
    FULL_W_PER_THREAD,
    RAM_MODEL,
    ram_power_w,
)
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import Quantity, total
from gramwatt.sci.base.uncertainty import energy
from gramwatt.sci.score.functional_unit import ScoredJob

LIFETIMES_YEARS = (3.0, 4.0, 5.0, 6.0)
"""The lives that published footprints assume; see docs/methodology.md."""
CONTRACT_FIGURE, CONTRACT_SOURCE = "contract_g_per_kwh", "contract_source"
NOTE = (
    "Market-based: what a contract says about the power that was bought. It is no part of SCI, of "
    "any total, or of any comparison."
)
METER_SOURCE = f"processor time x {FULL_W_PER_THREAD} W, memory x {DRAM_W_PER_GIB} W/GiB"


def lifetime_sensitivity(scored: ScoredJob) -> list[SensitivityDoc]:
    """Return M, C [gCO2e] and C per R with EL of 3, 4, 5 and 6 years for all hardware."""
    shares, operational_g = scored.embodied.shares, scored.operational_g
    if not shares:
        return []
    by_year = math.fsum(s.embodied_g.value * s.of.life.value for s in shares)
    rows: list[SensitivityDoc] = []
    for years in LIFETIMES_YEARS:
        embodied_g = by_year / years
        total_g = operational_g.value + embodied_g if operational_g else None
        row: SensitivityDoc = {
            "lifetime_years": years,
            "embodied_g": embodied_g,
            "total_g": total_g,
            "g_per_unit": {
                unit: total_g / count if total_g else None for unit, count in scored.counts.items()
            },
        }
        rows.append(row)
    return rows


def contract(tags: Mapping[str, str]) -> tuple[Quantity | None, tuple[Notice, ...]]:
    """Return the contract's figure [gCO2e/kWh], None where not given.

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
    return Quantity.exact(value, "gCO2e/kWh", "declared", tags[CONTRACT_SOURCE]), ()


def market_based(
    tags: Mapping[str, str], energy_kwh: Quantity | None, pue: Quantity
) -> MemoDoc | None:
    """Return the contract's figure and energy x PUE times it [gCO2e]; None where not given."""
    found, _ = contract(tags)
    if found is None:
        return None
    grams = energy_kwh.times(pue, "kWh").times(found, "gCO2e") if energy_kwh else None
    return {"contract_g_per_kwh": found.to_doc(), "contract_g": doc(grams), "note": NOTE}


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
    cpu_j = cpu_s * FULL_W_PER_THREAD
    ram_j = ram_power_w(memory_b or 0.0) * duration_s
    parts = (energy(cpu_j, "estimated", CPU_MODEL), energy(ram_j, "estimated", RAM_MODEL))
    whole = total(parts)
    return whole.sourced(METER_SOURCE) if whole else None

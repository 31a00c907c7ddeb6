"""What the score would be if the hardware lived shorter or longer than is assumed."""

from __future__ import annotations

import math

from gramwatt.sci.base.document import SciDoc, SensitivityDoc
from gramwatt.sci.score.context import Parts

LIFETIMES_YEARS = (3.0, 4.0, 5.0, 6.0)
"""The lives that published footprints assume; see docs/methodology.md."""


def lifetime_sensitivity(parts: Parts, scores: list[SciDoc]) -> list[SensitivityDoc]:
    """M, C [gCO2e] and C per R with EL of 3, 4, 5 and 6 years for all hardware of the job."""
    if not parts.embodied.shares:
        return []
    by_year = math.fsum(s.embodied_g.value * s.life.value for s in parts.embodied.shares)
    operational = parts.operational_g
    rows: list[SensitivityDoc] = []
    for years in LIFETIMES_YEARS:
        embodied = by_year / years
        emitted = operational.value + embodied if operational else None
        per_unit = {r["unit"]: emitted / r["count"] if emitted else None for r in scores}
        row: SensitivityDoc = {
            "lifetime_years": years,
            "embodied_g": embodied,
            "total_g": emitted,
            "g_per_unit": per_unit,
        }
        rows.append(row)
    return rows

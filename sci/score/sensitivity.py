"""What a score hangs on: the input that widens its range most, and how long hardware lives."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from gramwatt.sci.figures.document import InputDoc, SensitivityDoc
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.score.functional_unit import ScoredJob

WIDENS = {"E": "energy", "I": "carbon intensity", "PUE": "PUE", "EL": "hardware lifetime"}
"""What the inputs of a symbol are called where they widen the range."""
LIFETIMES_YEARS = (3.0, 4.0, 5.0, 6.0)
"""The lives that published footprints assume; see docs/methodology.md."""


def largest_uncertainty(total_g: Quantity | None, inputs: Iterable[InputDoc]) -> str | None:
    """Return the input that widens the total most, with its share; None where that is unknown.

    The range is a root of squares: an input has the share of its squares. What several ids stand
    for, such as the counters of boards, is one input.
    """
    if total_g is None:
        return None
    names = {id_: _name_of(row) for row in inputs for id_ in row.ids}
    squares: dict[str, float] = defaultdict(float)
    for id_, (low, high) in total_g.inputs.items():
        squares[names.get(id_, "other inputs")] += low * low + high * high
    whole = sum(squares.values())
    if whole <= 0:
        return None
    name = max(squares, key=squares.__getitem__)
    return f"{name} ({squares[name] / whole:.0%} of the range)"


def _name_of(row: InputDoc) -> str:
    if row.symbol == "TE":
        return f"embodied carbon of {row.of}"
    return WIDENS[row.symbol]


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
        row: SensitivityDoc = SensitivityDoc(
            lifetime_years=years,
            embodied_g=embodied_g,
            total_g=total_g,
            g_per_unit={
                unit: total_g / count if total_g else None for unit, count in scored.counts.items()
            },
        )
        rows.append(row)
    return rows

"""How far the mean intensity of some hours lies from a zone's published annual value.

`odbl/intensity_spread.csv` has, by type of grid and length of time, the range that held eight in
ten means of hourly traces, as multiples of the annual value that the catalog publishes:
`python -m benchmarks.calibration` fits and checks it. A zone without a type has the range of all.
"""

from __future__ import annotations

import math
from functools import cache

from gramwatt.sci.base.csv_data import rows
from gramwatt.sci.base.quantity import Quantity

OTHER = "other"
USUAL_HOURS = 24.0
"""The length of time where none is known."""
LONG_HOURS = 720.0
"""What moves the mean of a month moves that of every job in it; the rest is its hours' own."""
SAME_HOURS = 3
"""Jobs in the same so many hours of the day share their own part: a grid repeats itself daily. By
`python -m benchmarks.calibration`, months of daily jobs then lie in their range 77 to 90 % of the
time by type of grid; if each job's part were its own, 59 to 79 %."""
OWN = ", in the hours "
"""Within the name of an input: after it, the hours whose own part of the range it is."""
HOURLY_SPREAD = 0.1
"""Relative range of an hour's value as published; stated, not fitted, because no two publishers'
lifecycle values of the same hours were at hand. Of 23 years of zones, later editions of the same
publisher moved 8 in 10 by at most 4 %, all by at most 12 % (`python -m benchmarks.calibration`).
Publishers differ by more: annual values of 7 countries by 0 to 23 %, 3 of them by at most 10 %."""
DERIVED_SPREAD = 0.3
"""Relative range of an hour that is derived from generation by fuel: the factor of gas alone spans
410 to 650 of 490 gCO2e/kWh (IPCC AR5, Annex III), and imports are left out."""
EXPECTED_SPREADS = {"forecast": 0.22, "profile": 0.27}
"""Relative range of an hour that was expected: eight in ten hours up to 96 h ahead came within 0.20
of a forecast and 0.25 of the usual value for the hour (means over the zones' hourly traces of
`python -m benchmarks.planning`), together with the range of an hour as published."""
WITHOUT_DATA = (0.65, 1.35)
"""Where the file was removed: hourly accounting differs from annual accounting by up to 30 to 35 %
(Miller, Novan and Jenn 2022)."""


def spread_over(grid_type: str | None, hours: float) -> tuple[float, float]:
    """Return the range over so many hours, as multiples of the annual value; a year's at the most.

    Between the lengths of the table it is interpolated over their logarithms.
    """
    found = _table().get(grid_type or OTHER) or _table().get(OTHER)
    if not found:
        return WITHOUT_DATA
    before = found[0]
    for after in found:
        if hours <= after[0]:
            break
        before = after
    if before[0] >= after[0]:
        return after[1:]
    share = math.log(max(hours, before[0]) / before[0]) / math.log(after[0] / before[0])
    low, high = (a + share * (b - a) for a, b in zip(before[1:], after[1:], strict=True))
    return low, high


@cache
def _table() -> dict[str, list[tuple[float, float, float]]]:
    """Return hours, low and high, in order of hours, by type."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows("odbl/intensity_spread.csv"):
        ends = row.known("hours"), row.known("low"), row.known("high")
        found.setdefault(row.text("type"), []).append(ends)
    return {name: sorted(lines) for name, lines in found.items()}


@cache
def grid_types() -> dict[str, str]:
    """Return the type of every zone whose hourly values are known."""
    return {row.text("zone"): row.text("type") for row in rows("odbl/grid_types.csv")}


def at_equal_grid(before: Quantity, after: Quantity) -> tuple[Quantity, Quantity]:
    """Return two figures to compare, as if hours that have one annual value had one intensity.

    Annual values say nothing about the hours of either; what differs between the figures then is
    what the jobs did.
    """
    names = [set(figure.uncertainty.effects) for figure in (before, after)]
    shared = set.intersection(*({name.split(OWN)[0] for name in own} for own in names))
    hours = {n for own in names for n in own if OWN in n and n.split(OWN)[0] in shared}
    return before.with_exact(hours), after.with_exact(hours)

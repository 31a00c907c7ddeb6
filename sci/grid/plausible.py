"""What intensity can be: the same bounds at each door by which it comes in."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.grid.intensity import Basis

LARGEST = 5000.0
"""Above every intensity [gCO2e/kWh]: lignite burnt in an old plant has 1 300."""
CLEANEST, DIRTIEST = 5.0, 2000.0
"""Intensities that no grid goes beyond [gCO2e/kWh]: the catalog's zones have 15 to 1121."""
KILOGRAMS = 2.0
"""Below it a lifecycle value looks like kg: no supply is cleaner (nuclear power has 4 g), and no
grid emits more than 2 kg."""
TIMES_ANNUAL = 3.0
"""How far the mean of an import may be from its zone's year before it is remarked."""


def wrong_unit(values: Iterable[float], basis: Basis = "lifecycle") -> str | None:
    """Return what is wrong where most values [gCO2e/kWh] look like kg/kWh; None where few do.

    Zero says nothing about the unit, and a direct value of a clean grid may be any.
    """
    positive = [value for value in values if value > 0]
    low = [value for value in positive if value < KILOGRAMS]
    if basis != "lifecycle" or 2 * len(low) <= len(positive):
        return None
    if len(positive) == 1:
        return f"{low[0]:g} gCO2e/kWh looks like kg/kWh: multiply by 1000"
    return f"{len(low)} of {len(positive)} values look like kg/kWh: multiply by 1000"


def remark(
    values: Iterable[float], field: str, basis: Basis = "lifecycle", annual: float | None = None
) -> list[Notice]:
    """Return a notice where most values [gCO2e/kWh], or their mean against the year, are unlikely.

    `annual` is the annual value of the zone, on the lifecycle basis. The values count as given.
    """
    numbers = [value for value in values if value == value]
    far = [value for value in numbers if not CLEANEST <= value <= DIRTIEST]
    if basis != "lifecycle" or not numbers:
        return []
    mean = f"{fmean(numbers):g}"
    if 2 * len(far) > len(numbers):
        text = f"{mean} gCO2e/kWh is what no grid has ({CLEANEST:g} to {DIRTIEST:g})"
    elif annual and not annual / TIMES_ANNUAL <= fmean(numbers) <= annual * TIMES_ANNUAL:
        text = f"{mean} gCO2e/kWh on average, where the year of the zone has {annual:g}"
    else:
        return []
    return [Notice("input-implausible", f"{text}; check the unit. It counts as given.", field)]

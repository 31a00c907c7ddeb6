"""Intensity of a grid from its generation by fuel, for sources that publish nothing else.

`fuel_factors.csv` has the factors with their sources. Only generation within the zone counts:
imports are left out, and so is what storage gives back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

from msgspec import field

from gramwatt.sci.figures.csv_data import Cell, Id, Row, Source, Year, between, column, rows
from gramwatt.sci.grid.intensity import Basis

STORAGE = "storage"
IMPORTS = "imports"
"""Names in a mix that are no generation within the zone."""
OTHER = "other"
NOT_EXPLAINED = 0.1
"""Above this share of imports and unnamed fuels a value counts as estimated: a tenth of a mix at
the difference between the least and the greatest factor moves the mean by some 80 gCO2e/kWh."""


Grams = Annotated[float, between(0, 1500, "gCO2e/kWh")]


class FuelRow(Row, frozen=True, kw_only=True):
    """Emissions of a kWh by fuel, for grids of which only the generation by fuel is published."""

    files = ("fuel_factors.csv",)
    key = ("fuel",)

    fuel: Annotated[Id, column("Fuel; sci/grid/fuels.py maps the providers' codes to it")]
    lifecycle: Annotated[Grams, column("With fuel chain and construction")] = field(
        name="lifecycle_g_per_kwh"
    )
    direct: Annotated[Grams, column("From the stack only")] = field(name="direct_g_per_kwh")
    year: Annotated[Year, column("Year of the source")]
    source: Source
    notes: Annotated[Cell | None, column("What the factor stands for")] = None


def mix_intensity(generation: Mapping[str, float], basis: Basis) -> float | None:
    """Return the mean intensity [gCO2e/kWh] of generation by fuel in one unit; None without any.

    Raises KeyError for a fuel without a factor. Negative generation is a plant's own use: 0.
    """
    generated = {
        fuel: amount
        for fuel, amount in generation.items()
        if fuel not in (STORAGE, IMPORTS) and amount > 0
    }
    whole = sum(generated.values())
    if whole <= 0:
        return None
    return sum(amount * _factors(basis)[fuel] for fuel, amount in generated.items()) / whole


def is_explained(generation: Mapping[str, float]) -> bool:
    """Return whether nine tenths of the supply is generation of named fuels."""
    supply = {fuel: max(amount, 0.0) for fuel, amount in generation.items() if fuel != STORAGE}
    vague = supply.get(IMPORTS, 0.0) + supply.get(OTHER, 0.0)
    return vague <= NOT_EXPLAINED * sum(supply.values())


@cache
def _factors(basis: Basis) -> dict[str, float]:
    return {row.fuel: getattr(row, basis) for row in rows(FuelRow)}

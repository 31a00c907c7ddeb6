"""The parameters of the embodied model, each with its range, unit and source.

They are the lines of embodied_model.csv; `sci.embodied` computes with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

from msgspec import field

from gramwatt.sci.figures.csv_data import Cell, Id, Row, Sources, between, column, rows
from gramwatt.sci.figures.quantity import Quantity

MODEL = "embodied model v1"
"""The name of the embodied models in sources; a change of a parameter is the next version."""


class Parameter(Row, frozen=True, kw_only=True):
    """Parameters of the embodied models, v1. A change here is a new version of the method."""

    files = ("embodied_model.csv",)
    key = ("name",)
    ranges = (("low", "value", "high"),)

    name: Annotated[Id, column("Key")] = field(name="key")
    value: Annotated[float, between(0.001, 10_000), column("Value in its unit")]
    low: Annotated[Annotated[float, between(0, 10_000)] | None, column("Lower end")] = None
    high: Annotated[Annotated[float, between(0, 10_000)] | None, column("Upper end")] = None
    unit: Annotated[Cell, column("Unit")]
    source: Sources
    doc: Annotated[Cell, column("Meaning and derivation")]


class Parameters:
    """The figures of embodied_model.csv by key."""

    def __init__(self, lines: Mapping[str, Parameter]) -> None:
        """Store the lines of embodied_model.csv by key."""
        self._lines = lines

    def __getitem__(self, key: str) -> float:
        """Return the value of a parameter in its unit."""
        return self._lines[key].value

    def quantity(self, key: str) -> Quantity:
        """Return a parameter with its range [its unit]."""
        line = self._lines[key]
        low, high = (line.value if end is None else end for end in (line.low, line.high))
        source = f"{MODEL}, {key} ({', '.join(line.source)})"
        return Quantity(line.value, low, high, line.unit, "estimated", source).as_input(
            f"embodied:{key}"
        )

    def cpa_kg_per_cm2(self, process_nm: float) -> float:
        """Return the carbon of a cm2 of wafer at a node, before yield; KeyError if unknown."""
        node = f"{process_nm:g}nm"
        if f"node_{node}" in self._lines:
            node = f"{self[f'node_{node}']:g}nm"
        return self[f"cpa_{node}"]


@cache
def parameters() -> Parameters:
    """Return the packaged parameters, read once per process."""
    return Parameters({line.name: line for line in rows(Parameter)})


def lifetime_years() -> Quantity:
    """Return EL of hardware for which none is declared [years]: 4, from 3 to 6."""
    return parameters().quantity("lifetime")

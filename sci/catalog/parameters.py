"""The parameters of the embodied model, each with its range, unit and source.

They are the lines of embodied_model.csv; `sci.embodied` computes with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gramwatt.sci.base.csv_data import Row, rows
from gramwatt.sci.base.quantity import Quantity

MODEL = "embodied model v1"
"""The name of the embodied models in sources; a change of a parameter is the next version."""


class Parameters:
    """The figures of embodied_model.csv by key."""

    def __init__(self, lines: Mapping[str, Row]) -> None:
        """Store the lines of embodied_model.csv by key."""
        self._lines = lines

    def __getitem__(self, key: str) -> float:
        """Return the value of a parameter in its unit."""
        return self._lines[key].known("value")

    def quantity(self, key: str) -> Quantity:
        """Return a parameter with its range [its unit]."""
        line = self._lines[key]
        value, low, high = line.known("value"), line.number("low"), line.number("high")
        low, high = (value if end is None else end for end in (low, high))
        source = f"{MODEL}, {key} ({', '.join(line.listing('source'))})"
        return Quantity(value, low, high, line.text("unit"), "estimated", source).as_input(
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
    return Parameters({line.text("key"): line for line in rows("embodied_model.csv")})


def lifetime_years() -> Quantity:
    """Return EL of hardware for which none is declared [years]: 4, from 3 to 6."""
    return parameters().quantity("lifetime")

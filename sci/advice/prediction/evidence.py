"""Measured effect of changes other than hardware: ranges of ratios, new over old.

benchmarks/suggestions makes `evidence.csv` from the measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gramwatt.sci.advice.prediction.measurements import table, title
from gramwatt.sci.base.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Evidence:
    """A ratio, new over old: of time or of energy per unit, from that many measured pairs."""

    key: str
    figure: str
    low: float
    value: float
    high: float
    pairs: int
    source: str

    @property
    def titles(self) -> str:
        """The titles of the sources."""
        return "; ".join(title(key) for key in self.source.split(";"))

    def ratio(self, exponent: float = 1.0) -> Quantity:
        """The ratio, raised to an exponent for a change over fewer doublings than was measured."""
        ends = (self.value**exponent, self.low**exponent, self.high**exponent)
        text = f"{self.titles}: {self.pairs} pairs ({self.key})"
        return Quantity(*ends, "1", "measured", text)


def evidence(key: str, figure: str) -> Evidence | None:
    """The evidence under that key for "time" or "energy"; None where nothing was measured."""
    return _shipped().get((key, figure))


@cache
def _shipped() -> Mapping[tuple[str, str], Evidence]:
    rows = (
        Evidence(
            row.text("key"),
            row.text("figure"),
            row.known("low"),
            row.known("value"),
            row.known("high"),
            int(row.known("pairs")),
            row.text("source"),
        )
        for row in table("evidence.csv")
    )
    return {(row.key, row.figure): row for row in rows}

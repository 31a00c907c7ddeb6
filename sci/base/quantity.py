"""`Quantity`: a figure with its range, unit, kind and source.

A range holds the true value eight times in ten. Ranges combine by interval arithmetic: the result's
range holds every combination of the inputs' ranges. That assumes that all errors may point the same
way, which is right for the errors that dominate here (one catalog value or one sensor gain shared
by every interval of a job) and cautious where they are independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from gramwatt.sci.base.errors import QuantityError

Kind = Literal[
    "measured", "integrated", "attributed", "declared", "catalog", "derived", "estimated"
]
"""How a figure is known, best first. A figure computed from several has their weakest kind."""

KINDS: tuple[Kind, ...] = get_args(Kind)
_RANK = {kind: rank for rank, kind in enumerate(KINDS)}


class QuantityDoc(TypedDict):
    """A `Quantity` as JSON."""

    value: float
    low: float
    high: float
    unit: str
    kind: Kind
    source: str


def weakest(kinds: Iterable[Kind]) -> Kind:
    """The least certain of the given kinds; raises QuantityError when none is given."""
    found = list(kinds)
    if not found:
        raise QuantityError("no kind to choose from")
    return max(found, key=_RANK.__getitem__)


def prevailing(amounts: Mapping[Kind, float]) -> Kind:
    """The weakest kind that at least nine tenths of a sum reach; `amounts` are its parts by kind.

    A sum of 96 % measured and 4 % estimated energy is "measured": the estimated first second of a
    long job does not hide that the rest was measured. The shares are published beside the sum.
    Raises QuantityError when there are no amounts.
    """
    whole, reached = sum(amounts.values()), 0.0
    for kind in KINDS:
        reached += amounts.get(kind, 0.0)
        if amounts and reached >= 0.9 * whole:
            return kind
    raise QuantityError("no kind to choose from")


def join_sources(sources: Iterable[str]) -> str:
    """Each distinct source once, in order of first appearance, separated by '; '."""
    seen: dict[str, None] = {}
    for source in dict.fromkeys(sources):
        seen.update(dict.fromkeys(part for part in source.split("; ") if part))
    return "; ".join(seen)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure with low <= value <= high [unit], how it is known and where it comes from.

    Raises QuantityError for NaN or infinite figures, a range that does not hold the value, an
    unknown kind, or an empty unit or source.
    """

    value: float
    low: float
    high: float
    unit: str
    kind: Kind
    source: str

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.value, self.low, self.high))):
            raise QuantityError(f"not a finite figure: {self.value} ({self.low} to {self.high})")
        if not self.low <= self.value <= self.high:
            raise QuantityError(f"range {self.low} to {self.high} does not hold {self.value}")
        if self.kind not in _RANK:
            raise QuantityError(f"unknown kind {self.kind!r}; known: {', '.join(KINDS)}")
        if not self.unit or not self.source:
            raise QuantityError("a figure needs a unit and a source")

    @classmethod
    def exact(cls, value: float, unit: str, kind: Kind, source: str) -> Quantity:
        """A figure without a range, such as a count or a declared value."""
        return cls(value, value, value, unit, kind, source)

    @classmethod
    def around(cls, value: float, spread: float, unit: str, kind: Kind, source: str) -> Quantity:
        """A figure with the range value x (1 -+ spread), which never crosses zero."""
        if spread < 0:
            raise QuantityError(f"a spread cannot be negative: {spread}")
        ends = (value * (1 - min(spread, 1.0)), value * (1 + spread))
        return cls(value, min(ends), max(ends), unit, kind, source)

    def __add__(self, other: Quantity) -> Quantity:
        if self.unit != other.unit:
            raise QuantityError(f"cannot add {self.unit} and {other.unit}")
        return Quantity(
            self.value + other.value,
            self.low + other.low,
            self.high + other.high,
            self.unit,
            weakest((self.kind, other.kind)),
            join_sources((self.source, other.source)),
        )

    def scaled(self, factor: float, unit: str | None = None) -> Quantity:
        """This figure times an exact number, in `unit` (default: unchanged)."""
        ends = (self.low * factor, self.high * factor)
        return Quantity(
            self.value * factor, min(ends), max(ends), unit or self.unit, self.kind, self.source
        )

    def times(self, other: Quantity, unit: str) -> Quantity:
        """This figure times another, in `unit`."""
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return self._combined(other, self.value * other.value, ends, unit)

    def over(self, other: Quantity, unit: str) -> Quantity:
        """This figure over another, in `unit`; raises QuantityError if its range holds zero."""
        if other.low <= 0 <= other.high:
            raise QuantityError(f"division by a range that holds zero: {other.low} to {other.high}")
        ends = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        return self._combined(other, self.value / other.value, ends, unit)

    def sourced(self, source: str, kind: Kind | None = None) -> Quantity:
        """This figure with another source text, and with another kind where one is given."""
        return Quantity(self.value, self.low, self.high, self.unit, kind or self.kind, source)

    def to_doc(self) -> QuantityDoc:
        """This figure as JSON-ready data."""
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "unit": self.unit,
            "kind": self.kind,
            "source": self.source,
        }

    @classmethod
    def from_doc(cls, doc: QuantityDoc) -> Quantity:
        """The figure in a document of `to_doc`; raises QuantityError for an impossible one."""
        unit, kind, source = doc["unit"], doc["kind"], doc["source"]
        return cls(doc["value"], doc["low"], doc["high"], unit, kind, source)

    def _combined(self, other: Quantity, value: float, ends: list[float], unit: str) -> Quantity:
        # Rounding may put the product of the values just outside those of the ends.
        return Quantity(
            value,
            min(*ends, value),
            max(*ends, value),
            unit,
            weakest((self.kind, other.kind)),
            join_sources((self.source, other.source)),
        )


def total(parts: Iterable[Quantity]) -> Quantity | None:
    """The sum of figures in one unit; None for no figures, because unknown is not zero.

    Raises QuantityError for figures in several units.
    """
    items = list(parts)
    if not items:
        return None
    units = {part.unit for part in items}
    if len(units) > 1:
        raise QuantityError(f"cannot add {' and '.join(sorted(units))}")
    value, low, high = (
        math.fsum(vals) for vals in zip(*((p.value, p.low, p.high) for p in items), strict=True)
    )
    return Quantity(
        value,
        min(low, value),
        max(high, value),
        items[0].unit,
        weakest(part.kind for part in items),
        join_sources(part.source for part in items),
    )


def total_known(figures: Iterable[QuantityDoc | None]) -> Quantity | None:
    """The sum of those figures of documents that are known; None where none is."""
    return total(Quantity.from_doc(figure) for figure in figures if figure is not None)

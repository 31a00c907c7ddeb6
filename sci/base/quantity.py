"""`Quantity`: a figure with its range, unit, kind and source.

A range holds the true value eight times in ten. Ranges combine as JCGM 100 and 101 say
(`propagation.py`): inputs of different names as independent, an input that stands in several
figures as one. The name of an input is its source, unless `named` gives another. So the range of a
sum is narrower than the sum of its parts' ranges.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict, get_args

from gramwatt.sci.base.errors import QuantityError
from gramwatt.sci.base.propagation import Uncertainty, UncertaintyDoc, of_sum

Kind = Literal[
    "measured", "integrated", "attributed", "declared", "catalog", "derived", "estimated"
]
"""How a figure is known, best first. A figure computed from several has their weakest kind."""

WIDEST = 1e3
"""Figures whose range reaches beyond so many times their value combine by their ends only."""
KINDS: tuple[Kind, ...] = get_args(Kind)
ESTIMATES: frozenset[str] = frozenset(("derived", "estimated"))
"""Kinds of figures that a model or an assumption says, and no meter, publisher or person."""
METERED: tuple[Kind, ...] = ("measured", "integrated", "attributed")
"""Kinds of energy that a meter read."""
_RANK = {kind: rank for rank, kind in enumerate(KINDS)}
SEPARATOR = "; "
"""Between several sources in the text of them all, which is for people: code reads `sources`."""


class _SourcesDoc(TypedDict, total=False):
    sources: list[str]


class QuantityDoc(_SourcesDoc):
    """A `Quantity` as JSON; `sources` has those that `source` names together, where it does."""

    value: float
    low: float
    high: float
    unit: str
    kind: Kind
    source: str


def sources_of(figure: QuantityDoc) -> list[str]:
    """Return each source of a figure."""
    return figure.get("sources") or [figure["source"]]


def is_estimate(figure: QuantityDoc | None) -> bool:
    """Return whether a figure is known, and estimated."""
    return figure is not None and figure["kind"] in ESTIMATES


def weakest(kinds: Iterable[Kind]) -> Kind:
    """Return the least certain of the given kinds; raises QuantityError when none is given."""
    found = list(kinds)
    if not found:
        raise QuantityError("no kind to choose from")
    return max(found, key=_RANK.__getitem__)


def kind_of_sum(amounts: Mapping[Kind, float]) -> Kind:
    """Return the weakest kind that nine tenths of a sum reach; `amounts` are its parts by kind.

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


def join_sources(figures: Iterable[Quantity]) -> list[str]:
    """Return each distinct source of figures once, in order of first appearance."""
    return list(dict.fromkeys(source for figure in figures for source in figure.sources))


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
    _derived: Uncertainty | None = field(default=None, compare=False, repr=False)
    """Its uncertainty by inputs, where it was computed; None for an input."""
    _sources: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The sources that `source` names together; none where it is one."""

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
    def exact(cls, value: float, unit: str, kind: Kind, *sources: str) -> Quantity:
        """Return a figure without a range, such as a count or a declared value."""
        return of_sources(value, value, value, unit, kind, sources)

    @classmethod
    def around(cls, value: float, spread: float, unit: str, kind: Kind, source: str) -> Quantity:
        """Return a figure with the range value x (1 -+ spread), which never crosses zero."""
        if spread < 0:
            raise QuantityError(f"a spread cannot be negative: {spread}")
        ends = (value * (1 - min(spread, 1.0)), value * (1 + spread))
        return cls(value, min(ends), max(ends), unit, kind, source)

    def __add__(self, other: Quantity) -> Quantity:
        summed = total((self, other))
        assert summed is not None  # there are two
        return summed

    @property
    def sources(self) -> tuple[str, ...]:
        """Return each source of the figure."""
        return self._sources or (self.source,)

    def named(self, name: str) -> Quantity:
        """Return this figure as one input: only figures of that name share its error."""
        return replace(self, _derived=self.uncertainty.renamed(name))

    def with_exact(self, names: Collection[str]) -> Quantity:
        """Return this figure with the inputs of these names known exactly."""
        if not names or not self.relative:
            return self
        left = self.uncertainty.without(names)
        return of_uncertainty(self.value, left, self.unit, self.kind, *self.sources)

    @property
    def computed(self) -> bool:
        """Return whether it was computed from others, whose errors it has; else it is an input."""
        return self._derived is not None

    @property
    def uncertainty(self) -> Uncertainty:
        """Return the relative uncertainty of a figure above zero, by its inputs."""
        if self._derived is not None:
            return self._derived
        return Uncertainty.of_input(self.source, self.value, self.low, self.high)

    def ranged(self, low: float, high: float) -> Quantity:
        """Return this value with another range, given as multiples of it."""
        ends = (min(low, 1.0) * self.value, max(high, 1.0) * self.value)
        return of_sources(self.value, *ends, self.unit, self.kind, self.sources)

    def scaled(self, factor: float, unit: str | None = None) -> Quantity:
        """Return this figure times an exact number, in `unit` (default: unchanged)."""
        ends = (self.low * factor, self.high * factor)
        value, unit = self.value * factor, unit or self.unit
        derived = self._uncertainty_or_none() if factor > 0 else None
        low, high = min(ends), max(ends)
        return of_sources(value, low, high, unit, self.kind, self.sources, derived)

    def times(self, other: Quantity, unit: str) -> Quantity:
        """Return this figure times another, in `unit`."""
        if self.relative and other.relative:
            derived = self.uncertainty.times(other.uncertainty)
            return self._combined(other, self.value * other.value, derived, unit)
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return self._spanning(other, self.value * other.value, ends, unit)

    def over(self, other: Quantity, unit: str) -> Quantity:
        """Return this figure over another, in `unit`; raises QuantityError if that may be zero."""
        if other.low <= 0 <= other.high:
            raise QuantityError(f"division by a range that holds zero: {other.low} to {other.high}")
        if self.relative and other.relative:
            derived = self.uncertainty.times(other.uncertainty, -1.0)
            return self._combined(other, self.value / other.value, derived, unit)
        ends = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        return self._spanning(other, self.value / other.value, ends, unit)

    def complement(self, unit: str) -> Quantity:
        """Return 1 less this share or ratio, in `unit`: what a ratio of carbon saves."""
        ends = (1 - self.value, 1 - self.high, 1 - self.low)
        return of_sources(*ends, unit, self.kind, self.sources)

    def sourced(self, *sources: str) -> Quantity:
        """Return this figure with other sources."""
        ends, derived = (self.low, self.high), self._uncertainty_or_none()
        return of_sources(self.value, *ends, self.unit, self.kind, sources, derived)

    def at_most(self) -> Quantity:
        """Return this figure with a range from zero."""
        return of_sources(self.value, 0.0, self.high, self.unit, self.kind, self.sources)

    def of_kind(self, kind: Kind) -> Quantity:
        """Return this figure as one of another kind."""
        return replace(self, kind=kind, _derived=self._uncertainty_or_none())

    def to_doc(self) -> QuantityDoc:
        """Return this figure as JSON-ready data."""
        doc: QuantityDoc = {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "unit": self.unit,
            "kind": self.kind,
            "source": self.source,
        }
        return {**doc, "sources": list(self._sources)} if self._sources else doc

    @classmethod
    def from_doc(cls, doc: QuantityDoc, known: UncertaintyDoc | None = None) -> Quantity:
        """Return the figure of a document of `to_doc`, with its uncertainty where `known`.

        Raises QuantityError for an impossible one.
        """
        unit, kind, source = doc["unit"], doc["kind"], doc["source"]
        derived = Uncertainty.from_doc(known) if known else None
        sources = tuple(doc.get("sources", ()))
        return cls(doc["value"], doc["low"], doc["high"], unit, kind, source, derived, sources)

    @property
    def relative(self) -> bool:
        """Return whether its uncertainty is one of its logarithm."""
        return self.value > 0 and self.low >= 0 and self.high <= WIDEST * self.value

    def _uncertainty_or_none(self) -> Uncertainty | None:
        return self.uncertainty if self.relative else None

    def _combined(self, other: Quantity, value: float, derived: Uncertainty, unit: str) -> Quantity:
        kind, sources = weakest((self.kind, other.kind)), join_sources((self, other))
        return of_uncertainty(value, derived, unit, kind, *sources)

    def _spanning(self, other: Quantity, value: float, ends: list[float], unit: str) -> Quantity:
        """Return every combination of the ends: for figures that may be zero or below."""
        kind, sources = weakest((self.kind, other.kind)), join_sources((self, other))
        return of_sources(value, min(*ends, value), max(*ends, value), unit, kind, sources)


def of_uncertainty(
    value: float, uncertainty: Uncertainty, unit: str, kind: Kind, *sources: str
) -> Quantity:
    """Return a figure above zero with the range of an uncertainty."""
    low, high = (value * math.exp(end) for end in uncertainty.ends())
    ends = min(low, value), max(high, value)
    return of_sources(value, *ends, unit, kind, sources, uncertainty)


def of_sources(
    value: float,
    low: float,
    high: float,
    unit: str,
    kind: Kind,
    sources: Sequence[str],
    derived: Uncertainty | None = None,
) -> Quantity:
    """Return a figure that comes from one or several sources."""
    several = tuple(sources) if len(sources) > 1 else ()
    return Quantity(value, low, high, unit, kind, SEPARATOR.join(sources), derived, several)


def total(parts: Iterable[Quantity]) -> Quantity | None:
    """Return the sum of figures in one unit; None for none, because unknown is not zero.

    Raises QuantityError for figures in several units.
    """
    items = list(parts)
    if not items:
        return None
    units = {part.unit for part in items}
    if len(units) > 1:
        raise QuantityError(f"cannot add {' and '.join(sorted(units))}")
    kind, sources = weakest(part.kind for part in items), join_sources(items)
    value, unit = math.fsum(part.value for part in items), items[0].unit
    parts = [part for part in items if part.low or part.high]
    if parts and all(part.relative for part in parts):
        shares = [(part.value / value, part.uncertainty) for part in parts]
        return of_uncertainty(value, of_sum(shares), unit, kind, *sources)
    low, high = (math.fsum(ends) for ends in zip(*((p.low, p.high) for p in items), strict=True))
    return of_sources(value, min(low, value), max(high, value), unit, kind, sources)


def total_known(figures: Iterable[QuantityDoc | None]) -> Quantity | None:
    """Return the sum of those figures of documents that are known; None where none is."""
    return total(Quantity.from_doc(figure) for figure in figures if figure is not None)


def is_change(low: float, high: float) -> bool:
    """Return whether the range [low, high] of a ratio leaves out 1 by more than rounding.

    Documents keep the effects of inputs to six digits, so a smaller difference is none.
    """
    return not low - 1e-6 <= 1 <= high + 1e-6

"""`Quantity`: a figure with its range, unit, kind and source, and the inputs that move it.

A range holds the true value eight times in ten: the value is the median, `low` the 10th and `high`
the 90th percentile, which is what most sources of inputs state. Where an end is the value, nothing
lies beyond it. Ranges have one arithmetic (JCGM 100, 5.1, first order, in the logarithm of the
figure). A figure has, by the id of each uncertain input, its effect: by how much the figure's
logarithm changes when that input alone is at its low or at its high end.

- A product adds the effects of both factors, a quotient subtracts them. An input that both have
  counts once, or cancels.
- A sum weights the effects of its parts by their values.
- The range is the root of the sum of squares of the effects, below and above the value apart.

So the range of a sum is narrower than the sum of the ranges of its parts, unless they share inputs.
`benchmarks/calibration` shows how often such ranges hold a known truth.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from gramwatt.sci.figures.errors import QuantityError, ScoreError
from gramwatt.sci.figures.structs import convert

Kind = Literal[
    "measured", "integrated", "attributed", "declared", "catalog", "derived", "estimated"
]
"""How a figure is known, best first. A figure computed from several has their weakest kind."""
Effect = tuple[float, float]
"""Change of a figure's logarithm when one input is at its low end, and at its high end.

Both are the same where the change is known and only not in the value, as of hours that usually lie
above the mean of the year: that shifts both ends of the range.
"""

WIDEST = 1e3
"""Figures whose range reaches beyond so many times their value combine by their ends only."""
DEEPEST = 0.01
"""A range down to zero has no logarithm; it is taken to end at a hundredth of the value."""
STORED_MOST, STORED_FROM = 16, 0.01
"""Documents keep so many inputs of a figure, and none whose effect is below this fraction of the
largest: the others are one input together."""
KINDS: tuple[Kind, ...] = get_args(Kind)
ESTIMATES: frozenset[str] = frozenset(("derived", "estimated"))
"""Kinds of figures that a model or an assumption says, and no meter, publisher or person."""
METERED: tuple[Kind, ...] = ("measured", "integrated", "attributed")
"""Kinds of energy that a meter read."""
_RANK = {kind: rank for rank, kind in enumerate(KINDS)}
EIGHT_IN_TEN = 1.2815515655446004
"""Standard deviations: eight tenths of a normal distribution lie between it and its negative."""
SEPARATOR = "; "
"""Between several sources in the text of them all, which is for people: code reads `sources`."""


def is_estimate(figure: Quantity | None) -> bool:
    """Return whether a figure is known, and estimated."""
    return figure is not None and figure.kind in ESTIMATES


def weakest(kinds: Iterable[Kind]) -> Kind:
    """Return the least certain of the given kinds; raises QuantityError when none is given."""
    ranked = sorted(kinds, key=_RANK.__getitem__)
    if not ranked:
        raise QuantityError("no kind to choose from")
    return ranked[-1]


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


class Quantity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure with low <= value <= high [unit], how it is known and where it comes from.

    Encoded by msgspec it is the figure of all documents. A document publishes `figure.bare()`,
    without `effects`. Only the terms of a job, its intensity and its PUE are kept with them
    (`condensed`), so that sums of jobs count an input that they share once.

    `effects` has the effect of each input by its id. Without them the figure is an input itself,
    known by its source; `as_input` gives it an id. `several` has the sources that `source` names
    together, none where it is one; in JSON it is `sources`.

    Raises QuantityError for NaN or infinite figures, a range that does not hold the value, an
    unknown kind, or an empty unit or source.
    """

    value: float
    low: float
    high: float
    unit: str
    kind: Kind
    source: str
    several: tuple[str, ...] = msgspec.field(default=(), name="sources")
    effects: dict[str, Effect] | None = None

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.value, self.low, self.high))):
            raise QuantityError(f"not a finite figure: {self.value} ({self.low} to {self.high})")
        if not self.low <= self.value <= self.high:
            raise QuantityError(f"range {self.low} to {self.high} does not hold {self.value}")
        if self.kind not in _RANK:
            raise QuantityError(f"unknown kind {self.kind!r}; known: {', '.join(KINDS)}")
        if not self.unit or not self.source:
            raise QuantityError("a figure needs a unit and a source")

    def __hash__(self) -> int:
        return hash((self.value, self.low, self.high, self.unit, self.kind, self.source))

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
        return self.several or (self.source,)

    @property
    def inputs(self) -> dict[str, Effect]:
        """Return the effect of each input on a figure above zero, by id."""
        return self._as_one(self.source) if self.effects is None else self.effects

    @property
    def relative(self) -> bool:
        """Return whether its range is one of its logarithm."""
        return self.value > 0 and self.low >= 0 and self.high <= WIDEST * self.value

    def as_input(self, id_: str) -> Quantity:
        """Return this figure as one input: all figures that this id moves share its error."""
        return replace(self, effects=self._as_one(id_))

    def without(self, ids: Collection[str]) -> Quantity:
        """Return this figure with these inputs known exactly."""
        if self.effects is None or self.effects.keys().isdisjoint(ids):
            return self
        return self._moved({id_: own for id_, own in self.effects.items() if id_ not in ids})

    def bare(self) -> Quantity:
        """Return this figure as documents publish it, without what moves it."""
        return self if self.effects is None else replace(self, effects=None)

    def condensed(self, rest: str) -> Quantity:
        """Return this figure with its small inputs as one of the id `rest`, to be kept."""
        sizes = {id_: max(map(abs, effect)) for id_, effect in self.inputs.items()}
        least = max(sizes.values(), default=0.0) * STORED_FROM
        large = sorted((n for n in sizes if sizes[n] >= least), key=lambda n: (-sizes[n], n))
        effects = {id_: self.inputs[id_] for id_ in large[:STORED_MOST]}
        if small := {id_: own for id_, own in self.inputs.items() if id_ not in effects}:
            effects[rest] = ends_of(small)
        rounded = {id_: (round(low, 6), round(high, 6)) for id_, (low, high) in effects.items()}
        return replace(self, effects=rounded)

    def ranged(self, low: float, high: float) -> Quantity:
        """Return this value as an input with another range, given as multiples of it."""
        return self.between(min(low, 1.0) * self.value, max(high, 1.0) * self.value)

    def between(self, low: float, high: float) -> Quantity:
        """Return this value as an input with another range [its unit]."""
        return of_sources(self.value, low, high, self.unit, self.kind, self.sources)

    def fitted(self, low: float, high: float) -> Quantity:
        """Return this value with another range, moved by the same inputs in the same proportions.

        `low` and `high` are multiples of the value.
        """
        down, up = ends_of(self.inputs)
        below = math.log(max(low, DEEPEST)) / down if down else 1.0
        above = math.log(high) / up if up else 1.0

        def stretched(change: float) -> float:
            return change * (below if change < 0 else above)

        effects = {id_: (stretched(a), stretched(b)) for id_, (a, b) in self.inputs.items()}
        return self._moved(effects)

    def scaled(self, factor: float, unit: str | None = None) -> Quantity:
        """Return this figure times an exact number, in `unit` (default: unchanged)."""
        factor = float(factor)  # numpy's would not be encoded
        ends = (self.low * factor, self.high * factor)
        effects = self.inputs if factor > 0 and self.relative else None
        value, low, high = self.value * factor, min(ends), max(ends)
        return Quantity(
            value, low, high, unit or self.unit, self.kind, self.source, self.several, effects
        )

    def times(self, other: Quantity, unit: str) -> Quantity:
        """Return this figure times another, in `unit`."""
        value = self.value * other.value
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return self._combined(other, 1.0, value, ends, unit)

    def over(self, other: Quantity, unit: str) -> Quantity:
        """Return this figure over another, in `unit`; raises QuantityError if that may be zero."""
        if other.low <= 0 <= other.high:
            raise QuantityError(f"division by a range that holds zero: {other.low} to {other.high}")
        value = self.value / other.value
        ends = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        return self._combined(other, -1.0, value, ends, unit)

    def complement(self, unit: str) -> Quantity:
        """Return 1 less this share or ratio, in `unit`: what a ratio of carbon saves."""
        ends = (1 - self.value, 1 - self.high, 1 - self.low)
        return of_sources(*ends, unit, self.kind, self.sources)

    def sourced(self, *sources: str) -> Quantity:
        """Return this figure with other sources."""
        effects = self.inputs if self.relative else None
        text, several = SEPARATOR.join(sources), sources if len(sources) > 1 else ()
        return replace(self, source=text, several=several, effects=effects)

    def at_most(self) -> Quantity:
        """Return this figure with a range from zero."""
        return self.between(0.0, self.high)

    def of_kind(self, kind: Kind) -> Quantity:
        """Return this figure as one of another kind."""
        return replace(self, kind=kind)

    def _as_one(self, id_: str) -> dict[str, Effect]:
        """Return the effect of the whole figure as that of one input; none of an exact figure."""
        if self.low == self.high or not self.value > 0:
            return {}
        down = math.log(max(self.low / self.value, DEEPEST))
        return {id_: (down, math.log(self.high / self.value))}

    def _moved(self, effects: dict[str, Effect]) -> Quantity:
        low, high = _range(self.value, effects)
        return replace(self, low=low, high=high, effects=effects)

    def _combined(
        self, other: Quantity, sign: float, value: float, ends: list[float], unit: str
    ) -> Quantity:
        """Return a product, or for sign -1 a quotient; by its `ends` where one may be zero."""
        effects: dict[str, Effect] | None = None
        low, high = min(*ends, value), max(*ends, value)
        if self.relative and other.relative:
            effects = dict(self.inputs)
            for id_, (down, up) in other.inputs.items():
                own = effects.pop(id_, (0.0, 0.0))
                joint = own[0] + sign * down, own[1] + sign * up
                if max(map(abs, joint)) > 1e-12:
                    effects[id_] = joint
            low, high = _range(value, effects)
        kind, sources = weakest((self.kind, other.kind)), join_sources((self, other))
        return of_sources(value, low, high, unit, kind, sources, effects)


def of_sources(
    value: float,
    low: float,
    high: float,
    unit: str,
    kind: Kind,
    sources: Collection[str],
    effects: dict[str, Effect] | None = None,
) -> Quantity:
    """Return a figure that comes from one or several sources."""
    several = tuple(sources) if len(sources) > 1 else ()
    return Quantity(value, low, high, unit, kind, SEPARATOR.join(sources), several, effects)


def of_effects(
    value: float, effects: dict[str, Effect], unit: str, kind: Kind, *sources: str
) -> Quantity:
    """Return a figure above zero with the range of the effects of its inputs."""
    return of_sources(value, *_range(value, effects), unit, kind, sources, effects)


def ends_of(effects: Mapping[str, Effect]) -> Effect:
    """Return the logarithms of low/value and high/value of the range of independent effects."""
    shift = below = above = 0.0
    for low, high in effects.values():
        if low == high:
            shift += low
        else:
            below += min(low, high, 0.0) ** 2
            above += max(low, high, 0.0) ** 2
    return min(shift - math.sqrt(below), 0.0), max(shift + math.sqrt(above), 0.0)


def _range(value: float, effects: Mapping[str, Effect]) -> tuple[float, float]:
    low, high = ends_of(effects)
    return min(value * math.exp(low), value), max(value * math.exp(high), value)


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
        effects = _of_sum([(part.value / value, part.inputs) for part in parts])
        return of_sources(value, *_range(value, effects), unit, kind, sources, effects)
    low, high = (math.fsum(ends) for ends in zip(*((p.low, p.high) for p in items), strict=True))
    return of_sources(value, min(low, value), max(high, value), unit, kind, sources)


def _of_sum(parts: Collection[tuple[float, Mapping[str, Effect]]]) -> dict[str, Effect]:
    """Return the effects on a sum of parts, each with its fraction of the sum."""
    changes: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for fraction, effects in parts:
        for id_, (low, high) in effects.items():
            change = changes[id_]
            change[0] += fraction * math.expm1(low)
            change[1] += fraction * math.expm1(high)
    return {id_: (math.log1p(low), math.log1p(high)) for id_, (low, high) in changes.items()}


def total_known(figures: Iterable[Quantity | None]) -> Quantity | None:
    """Return the sum of those figures that are known; None where none is."""
    return total(figure for figure in figures if figure is not None)


def bare(figure: Quantity | None) -> Quantity | None:
    """Return a figure as documents publish it, without what moves it; None for an unknown one."""
    return figure.bare() if figure else None


def figure_of(document: Mapping[str, Any], name: str) -> Quantity | None:
    """Return a figure of a JSON document that a server sent; None where it is not known.

    Raises QuantityError for what is not a figure.
    """
    figure = document.get(name)
    return None if figure is None else read_figure(figure)


def read_figure(data: Any) -> Quantity:
    """Return a figure of JSON data; raises QuantityError for what is not one."""
    try:
        return convert(data, Quantity)
    except msgspec.ValidationError as error:
        raise QuantityError(f"not a figure: {error}") from None


def per_unit(total_g: Quantity, count: float, unit: str) -> Quantity:
    """Return C per R [gCO2e/unit]; raises ScoreError for R <= 0, which has no meaning."""
    if count <= 0:
        raise ScoreError(f"R must be above zero, not {count} {unit}", code="bad-functional-unit")
    return total_g.scaled(1 / count, f"gCO2e/{unit}")


def is_change(low: float, high: float) -> bool:
    """Return whether the range [low, high] of a ratio leaves out 1 by more than rounding.

    Documents keep the effects of inputs to six digits, so a smaller difference is none.
    """
    return not low - 1e-6 <= 1 <= high + 1e-6

"""Ratios of two parts, target over now, and their ranges: independent errors as factors.

A ratio of two runs of one job shares most of its inputs: the grid's intensity stands above and
below the line. So each input is moved to its ends alone, and the moves of the logarithm add up as
roots of sums of squares. The corners of all inputs at once would say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gramwatt.sci.advice.documents import Basis
from gramwatt.sci.figures.quantity import Quantity, join_sources, of_sources, weakest

ONE_SIDED = 0.842 / 1.282
"""Normal quantile of 80 % over that of 90 %: beyond the outer one of two ratios that lie far apart
only one end of its range can be missed."""

Values = Mapping[str, float]
Formula = Callable[[Values], float]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Time ratio, and the energy ratio where it was measured; None with a reason where refused."""

    time: Quantity | None
    energy: Quantity | None
    basis: Basis
    point: str
    reasons: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def refused(reason: str) -> Prediction:
    """Return that there is no prediction, and why."""
    return Prediction(None, None, "none", "", (reason,))


def ratio_of(formula: Formula, inputs: Mapping[str, Quantity], source: str = "") -> Quantity:
    """Return a positive ratio with its 80 % range; `formula` takes the inputs' values by name."""
    middles = {name: figure.value for name, figure in inputs.items()}
    middle = formula(middles)
    down = up = 0.0
    moved = dict(middles)
    for name, figure in inputs.items():
        if figure.low == figure.high:
            continue
        moves = []
        for moved[name] in (figure.low, figure.high):
            moves.append(math.log(formula(moved) / middle))
        moved[name] = figure.value
        down += min(0.0, *moves) ** 2
        up += max(0.0, *moves) ** 2
    low, high = (middle * math.exp(-math.sqrt(down)), middle * math.exp(math.sqrt(up)))
    kind = weakest(figure.kind for figure in inputs.values())
    sources = [source] if source else join_sources(inputs.values())
    return of_sources(middle, min(low, middle), max(high, middle), "1", kind, sources)


def other_factor(product: Quantity, factor: Quantity) -> Quantity:
    """Return the other factor of a product, with what is left of the product's range [1]."""
    value = product.value / factor.value
    ends = []
    for whole, part in ((product.low, factor.low), (product.high, factor.high)):
        squares = math.log(whole / product.value) ** 2 - math.log(part / factor.value) ** 2
        ends.append(math.exp(math.sqrt(max(0.0, squares))))
    return Quantity(value, value / ends[0], value * ends[1], "1", product.kind, product.source)


def factor_range(value: float, factor: float, source: str) -> Quantity:
    """Return a ratio with a range of x/÷ `factor`."""
    return Quantity(value, value / factor, value * factor, "1", "estimated", source)


def union_factor(factor: float, logs: Sequence[float]) -> float:
    """Return the x/÷ factor around the mean of ratios, one of which holds to x/÷ `factor`."""
    half = (max(logs) - min(logs)) / 2
    return max(factor, math.exp(half + ONE_SIDED * math.log(factor)))


def widened(ratio: Quantity, factor: float) -> Quantity:
    """Return a ratio whose range is wider by x/÷ `factor`."""
    return ratio.between(ratio.low / factor, ratio.high * factor)


def unchanged(source: str) -> Quantity:
    """Return exactly 1: the present run over itself."""
    return Quantity.exact(1.0, "1", "derived", source)

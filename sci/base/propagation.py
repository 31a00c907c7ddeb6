"""Propagation of uncertainty through products and sums (JCGM 100 and 101).

Every uncertain input has a range that holds its true value eight times in ten, in the shape of a
split normal distribution of its logarithm: two half normals that meet at the stated value, one as
wide as the range's low side, one as its high side. That one family has the symmetric ranges of
meters, the log-normal ranges of modelled carbon, and one-sided ranges as of an undeclared PUE.

A figure keeps, by the name of each input, by how much its logarithm changes when that input alone
is at its low or at its high end (JCGM 100, 5.1.3, note 2). An input that stands in several figures
has one name, so it is added, or cancelled, and not counted as many. Three cumulants describe the
whole:

- in a product, logarithms add, and so do the cumulants of independent inputs: exact;
- in a sum, inputs that its parts share are combined as above, and the parts themselves by a
  numerical integral over two of them at a time.

A split normal distribution with those cumulants gives the range. `benchmarks/calibration` shows how
often such ranges hold a known truth.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from statistics import NormalDist
from typing import NamedTuple, TypedDict

_NORMAL = NormalDist()
END = _NORMAL.inv_cdf(0.9)
"""Ends of the middle eight tenths of a normal distribution, in standard deviations."""
HALF_MEAN = math.sqrt(2 / math.pi)
"""Mean of a half normal distribution, in standard deviations of the whole one."""
MOST_SKEW = 0.995
"""Skewness of a half normal distribution, the most skewed of its family."""
_DEEPEST = 0.05
"""A range down to zero has no logarithm; it is taken to end at a twentieth of the value."""
NARROW = 0.1
"""Parts narrower than this are as good as normal: their effects on a sum only add up."""
MOST_FOLDS = 12
"""Parts of a sum that are integrated one by one, the largest; the others are many and small."""
NEGLIGIBLE = 1e-12
"""Shares of a sum below this do not change its range."""
_STORED_MOST = 16
_STORED_FROM = 0.01
"""What is stored of an uncertainty: so many inputs, and none below this share of the largest."""
_FITS = 5
"""Steps to the ends that are asked for: one left them off by up to a third, five by 4 %."""
_STEP = 2 / 3
SIMPSON = tuple(
    (_STEP * n, weight * math.exp(-((_STEP * n) ** 2) / 2))
    for n, weight in enumerate((1, 4, 2, 4, 2, 4, 1))
)
"""Nodes [standard deviations] and weights of Simpson's rule over half a normal distribution."""


class _HoursDoc(TypedDict, total=False):
    hours_of: dict[str, str]


class UncertaintyDoc(_HoursDoc):
    """An `Uncertainty` as JSON.

    `inputs` has the changes of the figure's natural logarithm with each input at its low and at its
    high end, `interplay` the cumulants that sums of inputs add. `hours_of` names, of an input that
    is what some hours have of their own, the annual value that it is of; it is left out without.
    """

    inputs: dict[str, list[float]]
    interplay: list[float]


class Effect(NamedTuple):
    """Change of a figure's logarithm when one input is at its low end, and at its high end.

    Both ends are the same where the change is known and only not in the value, as of hours that
    usually lie above the year's mean.
    """

    low: float
    high: float

    def cumulants(self) -> Cumulants:
        """Return the cumulants of the change, a split normal variable."""
        if self.low == self.high:
            return Cumulants(self.low, 0.0, 0.0)
        below, above = max(-self.low, -self.high, 0.0), max(self.low, self.high, 0.0)
        down, up = below / END, above / END
        gap, product = up - down, up * down
        return Cumulants(
            HALF_MEAN * gap,
            (1 - 2 / math.pi) * gap * gap + product,
            HALF_MEAN * gap * ((4 / math.pi - 1) * gap * gap + product),
        )


class Cumulants(NamedTuple):
    """Mean, variance and third central moment of a logarithm; those of independent ones add."""

    mean: float
    variance: float
    third: float

    def plus(self, other: Cumulants) -> Cumulants:
        """Return the cumulants of the sum of two independent variables."""
        return Cumulants(*map(add, self, other))

    def signed(self, sign: float) -> Cumulants:
        """Return the cumulants of the variable times 1 or -1."""
        return Cumulants(sign * self.mean, self.variance, sign * self.third)

    def times(self, factor: float) -> Cumulants:
        """Return these cumulants, each times a factor."""
        return Cumulants(self.mean * factor, self.variance * factor, self.third * factor)

    @property
    def width(self) -> float:
        """Return how far the logarithm usually lies from that of the value."""
        return math.sqrt(max(self.variance, 0.0)) + abs(self.mean)

    def ends(self) -> Effect:
        """Return both ends of the range of a split normal logarithm with these cumulants."""
        split = _Split.of(self)
        if not split.below + split.above:
            return Effect(0.0, 0.0)
        outside = 0.2 * split.share_below(0.0)
        low, high = (
            split.quantile(min(max(share, 1e-12), 1 - 1e-12)) for share in (outside, 0.8 + outside)
        )
        return Effect(min(low, 0.0), max(high, 0.0))


NONE = Cumulants(0.0, 0.0, 0.0)


class _Split(NamedTuple):
    """A split normal distribution: its mode, and the deviations below and above it."""

    mode: float
    below: float
    above: float

    @classmethod
    def of(cls, cumulants: Cumulants) -> _Split:
        """Return the distribution with these cumulants, or with the most skew there is."""
        deviation = math.sqrt(max(cumulants.variance, 0.0))
        if deviation < 1e-12:
            return cls(cumulants.mean, 0.0, 0.0)
        skew = cumulants.third / deviation**3
        skew = max(-MOST_SKEW, min(MOST_SKEW, skew)) / HALF_MEAN
        gap, cubic = skew, 6 / math.pi - 2
        for _ in range(6):
            gap -= (gap + cubic * gap**3 - skew) / (1 + 3 * cubic * gap * gap)
        product = max(1 - (1 - 2 / math.pi) * gap * gap, 0.0)
        both = math.sqrt(gap * gap + 4 * product)
        mode = cumulants.mean - HALF_MEAN * gap * deviation
        return cls(mode, (both - gap) / 2 * deviation, (both + gap) / 2 * deviation)

    def share_below(self, x: float) -> float:
        """Return the probability of a value below x."""
        lower = self.below / (self.below + self.above)
        if x < self.mode:
            return 2 * lower * _NORMAL.cdf((x - self.mode) / self.below) if self.below else 0.0
        z = (x - self.mode) / self.above if self.above else math.inf
        return lower + (1 - lower) * (2 * _NORMAL.cdf(z) - 1)

    def quantile(self, share: float) -> float:
        """Return the value below which `share` lies, in (0, 1)."""
        lower = self.below / (self.below + self.above)
        if share < lower:
            return self.mode + self.below * _NORMAL.inv_cdf(share / (2 * lower))
        rest = min(0.5 + (share - lower) / (1 - lower) / 2, 1 - 1e-12) if lower < 1 else 0.5
        return self.mode + self.above * _NORMAL.inv_cdf(rest)

    def nodes(self) -> list[tuple[float, float]]:
        """Return values and weights that integrate over the distribution."""
        if not self.below + self.above:
            return [(self.mode, 1.0)]
        found = [(self.mode - self.below * z, self.below * w) for z, w in SIMPSON]
        found += [(self.mode + self.above * z, self.above * w) for z, w in SIMPSON]
        whole = sum(weight for _, weight in found)
        return [(x, weight / whole) for x, weight in found]


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """The relative uncertainty of a figure: the effect of each input on its logarithm.

    `nonlinear` are cumulants that sums of uncertain parts add to those of the single effects.
    `hours_of` has, of each input that is what some hours have of their own, the name of the annual
    value that they differ from.
    """

    effects: Mapping[str, Effect]
    nonlinear: Cumulants = NONE
    hours_of: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_input(cls, name: str, value: float, low: float, high: float) -> Uncertainty:
        """Return that of an input of this name with value > 0 and low <= value <= high."""
        if low == high:
            return EXACT
        down = math.log(max(low / value, _DEEPEST))
        return cls({name: Effect(down, math.log(high / value))})

    def times(self, other: Uncertainty, sign: float = 1.0) -> Uncertainty:
        """Return that of a product; of a quotient for sign -1, in which what both share cancels.

        The nonlinear parts of a quotient's sides that share inputs cancel for the most part, and by
        how much is not known: they are left out. Their difference would often exceed the effects.
        """
        if not other.effects:
            return self
        alike = sign < 0 and not self.effects.keys().isdisjoint(other.effects)
        nonlinear = NONE if alike else self.nonlinear.plus(other.nonlinear.signed(sign))
        effects = dict(self.effects)
        for name, (low, high) in other.effects.items():
            mine = effects.pop(name, Effect(0.0, 0.0))
            joint = Effect(mine.low + sign * low, mine.high + sign * high)
            if max(map(abs, joint)) > 1e-12:
                effects[name] = joint
        return Uncertainty(effects, nonlinear, {**self.hours_of, **other.hours_of})

    def renamed(self, name: str) -> Uncertainty:
        """Return the same of an input of this name; a computed figure counts as one input."""
        return Uncertainty({name: self.ends()}) if self.effects else self

    def without(self, names: Iterable[str]) -> Uncertainty:
        """Return the same with the inputs of these names known exactly."""
        left = dict(self.effects)
        for name in names:
            left.pop(name, None)
        return replace(self, effects=left)

    def fitted(self, ends: Effect) -> Uncertainty:
        """Return the same inputs with effects as much greater or smaller as `ends` asks for.

        What an input does below the value follows the low end, what it does above it the high one.
        Where that makes the whole more or less skewed, both ends move: so it is done again.
        """
        fitted = self
        for _ in range(_FITS):
            pairs = zip(ends, fitted.ends(), strict=True)
            fitted = fitted._stretched(*(wanted / have if have else 1.0 for wanted, have in pairs))
        return fitted

    def _stretched(self, below: float, above: float) -> Uncertainty:
        """Return the same with what is below the value, and above it, so many times as great."""
        effects = {
            name: Effect(*(change * (below if change < 0 else above) for change in effect))
            for name, effect in self.effects.items()
        }
        mean, variance, third = self.nonlinear
        both = (below + above) / 2
        nonlinear = Cumulants(mean * both, variance * both**2, third * both**3)
        return replace(self, effects=effects, nonlinear=nonlinear)

    def condensed(self, rest: str) -> Uncertainty:
        """Return the same with the small inputs as one of the name `rest`, to be stored."""
        sizes = {name: max(map(abs, effect)) for name, effect in self.effects.items()}
        least = max(sizes.values(), default=0.0) * _STORED_FROM
        kept = sorted((n for n in sizes if sizes[n] >= least), key=lambda n: (-sizes[n], n))
        small = [self.effects[name] for name in sizes if name not in kept[:_STORED_MOST]]
        effects = {name: self.effects[name] for name in kept[:_STORED_MOST]}
        if small:
            low = math.sqrt(math.fsum(effect.low**2 for effect in small))
            effects[rest] = Effect(-low, math.sqrt(math.fsum(effect.high**2 for effect in small)))
        return replace(self, effects=effects)

    def to_doc(self, *, exact: bool = False) -> UncertaintyDoc:
        """Return the effects of all inputs, and what sums add to them, as JSON-ready data.

        Rounded to what a document needs, unless `exact`.
        """
        doc: UncertaintyDoc = {
            "inputs": {
                name: [end if exact else round(end, 6) for end in ends]
                for name, ends in self.effects.items()
            },
            "interplay": [part if exact else round(part, 9) for part in self.nonlinear],
        }
        hours_of = {name: of for name, of in self.hours_of.items() if name in self.effects}
        return {**doc, "hours_of": hours_of} if hours_of else doc

    @classmethod
    def from_doc(cls, doc: UncertaintyDoc) -> Uncertainty:
        """Return what `to_doc` wrote."""
        effects = {name: Effect(*ends) for name, ends in doc["inputs"].items()}
        return cls(effects, Cumulants(*doc["interplay"]), doc.get("hours_of", {}))

    def ends(self) -> Effect:
        """Return the logarithms of low/value and high/value of the range.

        What the range leaves out, two tenths, is divided as the distribution is divided by the
        value: a range then always holds the value, and that of a single input is its own. A known
        change moves both ends, as far as the range still holds the value.
        """
        known = math.fsum(low for low, high in self.effects.values() if low == high)
        if len(self.effects) == 1 and self.nonlinear == NONE:
            (effect,) = self.effects.values()
            return Effect(min(*effect, 0.0), max(*effect, 0.0))
        low, high = self.cumulants().plus(Cumulants(-known, 0.0, 0.0)).ends()
        return Effect(min(low + known, 0.0), max(high + known, 0.0))

    def cumulants(self) -> Cumulants:
        """Return those of the figure's logarithm, relative to its value."""
        return reduce(
            Cumulants.plus, (effect.cumulants() for effect in self.effects.values()), self.nonlinear
        )


EXACT = Uncertainty({})


def of_sum(parts: Sequence[tuple[float, Uncertainty]]) -> Uncertainty:
    """Return the uncertainty of a sum of parts, each with its share (they add up to 1).

    Inputs of every part act as factors of the sum. Parts that share another input form a group, in
    which single effects add; the groups are independent of each other.
    """
    parts = [row for row in parts if row[0] > NEGLIGIBLE]
    if len(parts) == 1:
        return parts[0][1]
    effects = _effects(parts)
    common = set.intersection(*(set(part.effects) for _, part in parts))
    groups = [_group(members, common) for members in _grouped(parts, common)]
    hours_of = {name: of for _, part in parts for name, of in part.hours_of.items()}
    return Uncertainty(effects, _nonlinear(groups, effects), hours_of)


def _effects(parts: Sequence[tuple[float, Uncertainty]]) -> dict[str, Effect]:
    """Return the effect of each input on the sum of parts, relative to the shares' sum."""
    whole = math.fsum(share for share, _ in parts)
    changes: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for share, part in parts:
        for name, effect in part.effects.items():
            change = changes[name]
            change[0] += share / whole * math.expm1(effect.low)
            change[1] += share / whole * math.expm1(effect.high)
    return {
        name: Effect(math.log1p(low), math.log1p(high)) for name, (low, high) in changes.items()
    }


def _grouped(
    parts: Sequence[tuple[float, Uncertainty]], common: Collection[str]
) -> list[list[tuple[float, Uncertainty]]]:
    """Return parts by the inputs that they share, without those common to all."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = name = parent[parent[name]]
        return name

    groups: dict[str, list[tuple[float, Uncertainty]]] = defaultdict(list)
    own = [[name for name in part.effects if name not in common] for _, part in parts]
    for names in own:
        for name in names:
            parent[root(name)] = root(names[0])
    for names, row in zip(own, parts, strict=True):
        groups[root(names[0]) if names else ""].append(row)
    return list(groups.values())


def _group(
    parts: Sequence[tuple[float, Uncertainty]], common: Collection[str]
) -> tuple[float, Uncertainty]:
    """Return parts that share inputs as one with its share, without the inputs common to all."""
    whole = math.fsum(share for share, _ in parts)
    nonlinear = reduce(
        Cumulants.plus, (part.nonlinear.times(share / whole) for share, part in parts), NONE
    )
    return whole, Uncertainty(_effects(parts), nonlinear).without(common)


def _nonlinear(
    groups: Sequence[tuple[float, Uncertainty]], effects: Mapping[str, Effect]
) -> Cumulants:
    """Return what independent groups add to the single effects of their inputs on the sum."""
    wide = [(share, group, group.cumulants()) for share, group in groups]
    wide = [row for row in wide if row[2].width > NARROW]
    if not wide:
        return NONE
    wide.sort(key=lambda row: (-row[0] * row[2].width, row[2]))
    rows = [(share, cumulants) for share, _, cumulants in wide]
    if len(rows) > MOST_FOLDS:
        rows = [*rows[:MOST_FOLDS], _many(rows[MOST_FOLDS:])]
    whole, summed = max(1 - math.fsum(share for share, _ in rows), 0.0), NONE
    for share, cumulants in rows:
        summed = _added(whole, summed, share, cumulants)
        whole += share
    single = (effects[name].cumulants() for _, group, _ in wide for name in group.effects)
    return summed.plus(reduce(Cumulants.plus, single, NONE).times(-1.0))


def _many(groups: Sequence[tuple[float, Cumulants]]) -> tuple[float, Cumulants]:
    """Return many small independent groups as one with its share: as good as normal."""
    whole = math.fsum(share for share, _ in groups)
    mean = variance = 0.0
    for share, cumulants in groups:
        nodes = [(math.exp(x), weight) for x, weight in _Split.of(cumulants).nodes()]
        first = math.fsum(weight * x for x, weight in nodes)
        mean += share / whole * first
        variance += (share / whole) ** 2 * math.fsum(w * (x - first) ** 2 for x, w in nodes)
    relative = variance / mean**2
    return whole, Cumulants(math.log(mean) - relative / 2, relative, 0.0)


def _added(share: float, one: Cumulants, other_share: float, other: Cumulants) -> Cumulants:
    """Return cumulants of the logarithm of the sum of two independent parts over its value."""
    whole = share + other_share
    left = [(share / whole * math.exp(x), weight) for x, weight in _Split.of(one).nodes()]
    right = [(other_share / whole * math.exp(x), weight) for x, weight in _Split.of(other).nodes()]
    first = second = third = 0.0
    for x, weight in left:
        for y, other_weight in right:
            logarithm = math.log(x + y)
            moment = weight * other_weight * logarithm
            first += moment
            moment *= logarithm
            second += moment
            third += moment * logarithm
    return Cumulants(first, second - first * first, third - 3 * first * second + 2 * first**3)

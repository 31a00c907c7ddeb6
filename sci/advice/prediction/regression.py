"""Fit of the time model: log(units/s) of a part as shrunken sums, solved without any library.

    log rate = level of the group + a x log(peak) + b x log(bandwidth)       per workload class
             + part + part in class + part in class and stack + part in class and precision

The last line are the parts' departures from what their specifications say, each drawn to zero by
its variance, so that a part measured once moves little. Group levels and departures of one family
of workloads on one part are fitted and thrown away: they keep many rows of one workload from
counting as many witnesses. Ratios of two parts need neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gramwatt.sci.advice.prediction.rows import Measurement
from gramwatt.sci.advice.prediction.specs import RATES, Specs

Term = tuple[str, ...]
"""A fitted coefficient: its kind, then what it belongs to."""

FITTED_CLASSES = frozenset(("training", "batch-inference", "decode", "prefill", "recsys"))
"""Small jobs do not follow specifications; LLM serving follows its software (direct rows only)."""

SLOPES: Mapping[str, float] = {"peak": 0.35, "bandwidth": 0.50}
"""Prior of the exponents: the survey's fit for training, the largest class."""

VARIANCES: Mapping[str, float] = {
    "peak": 0.2,
    "bandwidth": 0.2,
    "part": 0.01,
    "part-class": 0.01,
    "part-stack": 0.02,
    "part-rate": 0.02,
    "part-family": 0.02,
    "group": 100.0,
}
NOISE = 0.01
"""Variances of the natural logarithm. Eight settings between half and five times these were tried:
the median error stayed within 13 to 14 %, the 90th percentile within 42 to 44 %."""

DROPPED = frozenset(("group", "part-family"))


@dataclass(frozen=True, slots=True)
class Observation:
    """One row ready to fit: logarithms of rate, peak and bandwidth, and the terms it touches."""

    row: Measurement
    log_rate: float
    log_peak: float
    log_bandwidth: float

    def terms(self) -> list[tuple[Term, float]]:
        """Each coefficient of this row with its factor."""
        row = self.row
        rate = RATES[row.precision]
        family = ("part-family", row.family, row.stack, row.hardware)
        return [
            (("group", *row.group), 1.0),
            (family, 1.0),
            *model_terms(row.workload_class, row.stack, rate, row.hardware),
            (("peak", row.workload_class), self.log_peak),
            (("bandwidth", row.workload_class), self.log_bandwidth),
        ]


def model_terms(
    name: str, stack: str | None, rate: str | None, part: str
) -> list[tuple[Term, float]]:
    """The departures of a part, those of an unknown stack or precision left out."""
    found: list[tuple[Term, float]] = [(("part", part), 1.0), (("part-class", name, part), 1.0)]
    if stack is not None:
        found.append((("part-stack", name, stack, part), 1.0))
    if rate is not None:
        found.append((("part-rate", name, rate, part), 1.0))
    return found


def observations(rows: Iterable[Measurement], specs: Mapping[str, Specs]) -> list[Observation]:
    """Rows of fitted classes whose group holds at least two parts with known specifications."""
    found = []
    for row in rows:
        peak = specs[row.hardware].peak(row.precision)
        bandwidth = specs[row.hardware].bandwidth_gbs
        if row.use == "time" and row.workload_class in FITTED_CLASSES and peak and bandwidth:
            found.append(
                Observation(row, math.log(row.units_per_s), math.log(peak), math.log(bandwidth))
            )
    parts: dict[tuple[str, ...], set[str]] = {}
    for one in found:
        parts.setdefault(one.row.group, set()).add(one.row.hardware)
    return [one for one in found if len(parts[one.row.group]) > 1]


def fit(
    rows: Sequence[Observation], start: Mapping[Term, float] | None = None
) -> dict[Term, float]:
    """Coefficients by conjugate gradients on the normal equations; `start` only saves time."""
    index: dict[Term, int] = {}
    lines = [
        [(index.setdefault(term, len(index)), factor) for term, factor in one.terms()]
        for one in rows
    ]
    names = list(index)
    priors = [SLOPES.get(term[0], 0.0) for term in names]
    weights = [1.0 / VARIANCES[term[0]] for term in names]
    targets = [
        one.log_rate - sum(factor * priors[at] for at, factor in line)
        for one, line in zip(rows, lines, strict=True)
    ]
    begin = [
        (start or {}).get(term, prior) - prior for term, prior in zip(names, priors, strict=True)
    ]
    found = _solve(lines, targets, weights, begin)
    return {term: prior + value for term, prior, value in zip(names, priors, found, strict=True)}


def kept(coefficients: Mapping[Term, float]) -> dict[Term, float]:
    """What predictions need: without group levels and departures of single families."""
    return {term: value for term, value in coefficients.items() if term[0] not in DROPPED}


Line = list[tuple[int, float]]
TOLERANCE = 1e-9
STEPS_MAX = 2000


def _solve(
    lines: Sequence[Line], targets: Sequence[float], weights: Sequence[float], begin: list[float]
) -> list[float]:
    """The x that solves (X'X / noise + weights) x = X'y / noise, by preconditioned gradients."""
    size = len(weights)
    diagonal = list(weights)
    right = [0.0] * size
    for line, target in zip(lines, targets, strict=True):
        for at, factor in line:
            diagonal[at] += factor * factor / NOISE
            right[at] += factor * target / NOISE

    def apply(vector: Sequence[float]) -> list[float]:
        out = [weight * value for weight, value in zip(weights, vector, strict=True)]
        for line in lines:
            inner = sum(factor * vector[at] for at, factor in line) / NOISE
            for at, factor in line:
                out[at] += factor * inner
        return out

    return _conjugate(apply, diagonal, right, begin)


def _conjugate(
    apply: Callable[[Sequence[float]], list[float]],
    diagonal: Sequence[float],
    right: Sequence[float],
    x: list[float],
) -> list[float]:
    rest = [b - a for a, b in zip(apply(x), right, strict=True)]
    scaled = [r / d for r, d in zip(rest, diagonal, strict=True)]
    way = list(scaled)
    size = _dot(rest, scaled)
    goal = TOLERANCE**2 * max(_dot(right, right), 1e-30)
    for _ in range(STEPS_MAX):
        if _dot(rest, rest) <= goal:
            break
        image = apply(way)
        step = size / _dot(way, image)
        x = [a + step * b for a, b in zip(x, way, strict=True)]
        rest = [a - step * b for a, b in zip(rest, image, strict=True)]
        scaled = [r / d for r, d in zip(rest, diagonal, strict=True)]
        size, before = _dot(rest, scaled), size
        way = [a + size / before * b for a, b in zip(scaled, way, strict=True)]
    return x


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))

"""Fit of the ranking's numbers to the published measurements, each source kept out in turn.

The exponents of a regime maximise the likelihood of a Student t of four degrees around
`a x ln peak + b x ln bandwidth + c x ln rated power`, by reweighting (Lange, Little and Taylor
1989); `c` only where the ranking has one. Numbers are shipped rounded: one that is called fitted
lies, but for its rounding, among the fits to all sources and with each kept out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.suggestions.groups import REFUSED, Pair
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.estimate.ranking import (
    QUANTILE_90,
    REFERENCE,
    RankingRow,
    is_general,
    level,
    number,
    peak,
)
from gramwatt.sci.figures.csv_data import rows

DEGREES = 4
ROUNDS = 60
ROUNDING = 0.05
"""Step to which exponents are rounded: they move more than by it with the sources."""
PRIOR = 0.001
"""Weight of the shipped exponents in a fit, of all pairs: it holds those that no source tells."""


class Point(NamedTuple):
    """One pair: its source, regime, differences of logarithms, ln(rate) and weight."""

    source: str
    regime: str
    factors: tuple[float, ...]
    value: float
    weight: float


class Fitted(NamedTuple):
    """The coefficients and the scale of the error, with what was kept out and how it came out."""

    regime: str
    out: str
    coefficients: tuple[float, ...]
    scale: float
    pairs: int
    holds: float
    """Fraction of the ranges that hold, of the source that was kept out, or of all."""


def points(pairs: Sequence[Pair], catalog: Catalog) -> Iterator[Point]:
    """Yield each pair once where the ranking is linear: by exponents, or by the share of power."""
    reference = catalog.hardware(REFERENCE)
    for pair in pairs:
        group, work = pair.group, pair.group.work_on(pair.now.id, catalog)
        if group.workload_class in REFUSED:
            continue
        size = math.log((pair.target.tdp_w or 1.0) / (pair.now.tdp_w or 1.0))
        if work.infers and work.regime == "busy" and work.power_share:
            share = math.log(work.power_share)
            if abs(size) >= math.log(number("share-size")):
                factors: tuple[float, ...] = (size, size * share)
                yield Point(group.source, "share-time", factors, pair.time, pair.weight)
                yield Point(group.source, "share-energy", factors, pair.energy, pair.weight)
            continue
        sides = [(peak(part, work), part.memory_bandwidth_gbs) for part in (pair.now, pair.target)]
        levels = [level(part, work, reference) or 0.0 for part in (pair.now, pair.target)]
        (peak_now, width_now), (peak_target, width_target) = sides
        if pair.now.id > pair.target.id or (is_general(work) and max(levels) > 0):
            continue
        if peak_now and peak_target and width_now and width_target:
            factors = (peak_target - peak_now, math.log(width_target / width_now), size)
            factors = factors[: len(shipped(work.regime))]
            yield Point(group.source, work.regime, factors, -pair.time, 2 * pair.weight)


def fits(found: Sequence[Point]) -> Iterator[Fitted]:
    """Yield the fit of each regime to all its sources, then with each kept out."""
    for regime in dict.fromkeys(point.regime for point in found):
        own = [point for point in found if point.regime == regime]
        yield fit(own, own, "none")
        sources = dict.fromkeys(point.source for point in own)
        for source in sources if len(sources) > 1 else ():
            rest = [point for point in own if point.source != source]
            yield fit(rest, [point for point in own if point.source == source], source)


def fit(used: Sequence[Point], asked: Sequence[Point], out: str) -> Fitted:
    """Return the coefficients that suit the points used, and how they do on those asked."""
    factors = np.array([point.factors for point in used])
    values, weights = (np.array([getattr(p, name) for p in used]) for name in ("value", "weight"))
    weights = weights / weights.sum()
    prior = np.array(shipped(used[0].regime))
    coefficients, scale = prior, 0.3
    for _ in range(ROUNDS):
        said = factors @ coefficients
        spread = np.hypot(scale, number("growth") * said)
        errors = (values - said) / spread
        pull = weights * (DEGREES + 1) / (DEGREES + errors**2)
        heavy = pull / spread**2
        normal = factors.T @ (factors * heavy[:, None]) + PRIOR * np.eye(len(prior)) / scale**2
        coefficients = np.linalg.solve(
            normal, factors.T @ (heavy * values) + PRIOR * prior / scale**2
        )
        scale = max(0.02, scale * math.sqrt(float((pull * errors**2).sum())))
    said = np.array([point.factors for point in asked]) @ coefficients
    ends = QUANTILE_90 * np.hypot(scale, number("growth") * said)
    inside = np.abs([point.value for point in asked] - said) <= ends
    heavy = np.array([point.weight for point in asked])
    holds = float((heavy * inside).sum() / heavy.sum())
    return Fitted(used[0].regime, out, tuple(coefficients), scale, len(asked), holds)


def shipped(regime: str) -> tuple[float, ...]:
    """Return the shipped coefficients of a regime."""
    if regime.startswith("share"):
        return number(f"{regime}-level"), number(f"{regime}-slope")
    exponents = number("peak", regime), number("bandwidth", regime), number("rated", regime)
    return exponents if exponents[-1] else exponents[:-1]


def strays(fitted: Sequence[Fitted]) -> list[str]:
    """Return the numbers of ranking.csv that are called fitted and lie beyond the fits."""
    fits_of: dict[tuple[str, str], list[float]] = {}
    for row in fitted:
        for key, value in numbers([row]).items():
            fits_of.setdefault(key, []).append(value)
    return [
        f"{row.regime} {row.figure}"
        for row in rows(RankingRow)
        if row.how == "fitted"
        for values in [fits_of[row.figure, row.regime]]
        if not min(values) - ROUNDING / 2 <= row.value <= max(values) + ROUNDING / 2
    ]


def numbers(fitted: Iterable[Fitted]) -> dict[tuple[str, str], float]:
    """Return the numbers of some fits by figure and regime, as the ranking asks for them."""
    found: dict[tuple[str, str], float] = {}
    for row in fitted:
        if row.regime.startswith("share"):
            names = [(f"{row.regime}-level", "all"), (f"{row.regime}-slope", "all")]
        else:
            names = [(name, row.regime) for name in ("peak", "bandwidth", "rated")]
            found["spread", row.regime] = row.scale
        found |= dict(zip(names, row.coefficients, strict=False))
    return found

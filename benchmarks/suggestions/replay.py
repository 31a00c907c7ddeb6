"""What the time model predicts for pairs of measurements that were kept out of its fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.suggestions.quantiles import percentile
from benchmarks.suggestions.regression import Observation, fit
from gramwatt.sci.advice.prediction.measurements import Measurement, Pair, pairs
from gramwatt.sci.advice.prediction.time_model import Setting, Specs, TimeModel

COVERAGE_AIM = 0.80
"""Share of the kept-out residuals that a range is made to hold."""

SOURCE_LEAST = 20
"""Pairs from which on a source has to be held by itself."""
SETTINGS: Mapping[str, Callable[[Measurement], Setting]] = {
    "full": lambda row: Setting(row.workload_class, row.stack, row.precision),
    "precision": lambda row: Setting(row.workload_class, None, row.precision),
    "plain": lambda row: Setting(row.workload_class, None, None),
}
"""What a request may say of a row's work: all of it, class and precision, or the class alone."""

RULES_OF_THUMB: Mapping[str, Callable[[Specs, str], float | None]] = {
    "peak": lambda part, precision: part.peak(precision),
    "bandwidth": lambda part, _: part.bandwidth_gbs,
    "TDP": lambda part, _: part.tdp_w,
}
"""Figures whose plain ratio is often taken for the ratio of throughput."""


@dataclass(frozen=True, slots=True)
class Residual:
    """A pair and the ln(time ratio) predicted for it."""

    pair: Pair
    predicted: float

    @property
    def error(self) -> float:
        """ln(predicted / measured time ratio)."""
        return self.predicted - self.pair.log_time

    @property
    def workload_class(self) -> str:
        """The class of the pair."""
        return self.pair.now.workload_class


def leave_out(
    rows: Sequence[Observation],
    specs: Mapping[str, Specs],
    key: Callable[[Measurement], str],
    asked: Sequence[Pair] | None = None,
) -> dict[str, list[Residual]]:
    """Residuals of pairs (default: all) whose rows were kept out of the fit, by name of setting.

    With the family as `key` both rows are kept out, with the hardware those of the target.
    """
    every = list(pairs(row.row for row in rows)) if asked is None else asked
    residuals: dict[str, list[Residual]] = {name: [] for name in SETTINGS}
    for out in dict.fromkeys(key(pair.target) for pair in every):
        model = TimeModel(fit([row for row in rows if key(row.row) != out]))
        kept_out = [pair for pair in every if key(pair.target) == out]
        for name in SETTINGS:
            residuals[name] += predicted(model, kept_out, specs, name)
    return residuals


def predicted(
    model: TimeModel, asked: Iterable[Pair], specs: Mapping[str, Specs], setting: str = "full"
) -> list[Residual]:
    """Return what a model predicts for pairs, where it can."""
    residuals = []
    for pair in asked:
        parts = specs[pair.now.hardware], specs[pair.target.hardware]
        # Where the rate is not known, the mean over the possible ones.
        if logs := model.log_time_ratios(SETTINGS[setting](pair.now), *parts):
            residuals.append(Residual(pair, sum(logs) / len(logs)))
    return residuals


def thumb(asked: Iterable[Pair], specs: Mapping[str, Specs], rule: str) -> list[Residual]:
    """Return what a plain ratio of specifications predicts for pairs, where both are known."""
    figure = RULES_OF_THUMB[rule]
    residuals = []
    for pair in asked:
        now = figure(specs[pair.now.hardware], pair.now.precision)
        target = figure(specs[pair.target.hardware], pair.target.precision)
        if now and target:
            residuals.append(Residual(pair, math.log(now / target)))
    return residuals


def factor(errors: Iterable[float], share: float = COVERAGE_AIM) -> float:
    """The x/÷ factor that holds that share of errors of logarithms."""
    return math.exp(percentile(sorted(map(abs, errors)), share))


def source_factor(residuals: Iterable[Residual], share: float = COVERAGE_AIM) -> float:
    """The x/÷ factor that holds that share of errors in every source with enough pairs.

    One source has four pairs in five of the training rows; the next user's job is of none.
    """
    errors: dict[str, list[float]] = {}
    for one in residuals:
        errors.setdefault(one.pair.now.source, []).append(one.error)
    enough = [found for found in errors.values() if len(found) >= SOURCE_LEAST]
    every = [error for found in errors.values() for error in found]
    return max(factor(found, share) for found in enough or [every])


def throughput_errors(residuals: Iterable[Residual]) -> tuple[float, float]:
    """Median and 90th percentile of |predicted throughput ratio / measured - 1|."""
    errors = sorted(abs(math.expm1(-residual.error)) for residual in residuals)
    return median(errors), percentile(errors, 0.9)


def halves(rows: Sequence[Observation]) -> tuple[list[Observation], list[Observation]]:
    """Observations of every other family of each class, in order of name, and the others."""
    families: dict[str, set[str]] = {}
    for one in rows:
        families.setdefault(one.row.workload_class, set()).add(one.row.family)
    first = {(name, family) for name in families for family in sorted(families[name])[::2]}
    parts: tuple[list[Observation], list[Observation]] = ([], [])
    for one in rows:
        parts[(one.row.workload_class, one.row.family) not in first].append(one)
    return parts

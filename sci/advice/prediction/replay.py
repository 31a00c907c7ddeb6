"""Replay of the measurements: what the model says of pairs whose answer is known.

Used by scripts/fit_throughput.py, the benchmark and the tests, never while answering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import median

from gramwatt.sci.advice.prediction.regression import Observation, Term, fit, kept
from gramwatt.sci.advice.prediction.rows import Group, Measurement
from gramwatt.sci.advice.prediction.specs import Specs
from gramwatt.sci.advice.prediction.time_model import Setting, TimeModel
from gramwatt.sci.base.uncertainty import percentile

SettingOf = Callable[[Measurement], Setting]
COVERAGE_AIM = 0.80
"""Share of held-out residuals that a range is made to hold."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rows of one group: the same work on two parts, and its true time ratio."""

    now: Measurement
    target: Measurement

    @property
    def log_time(self) -> float:
        """ln(time on target / time now), as measured."""
        return math.log(self.now.units_per_s / self.target.units_per_s)

    @property
    def log_energy(self) -> float | None:
        """ln(board energy on target / now) per unit, as measured; None without board power."""
        watts = (self.now.power_w, self.target.power_w)
        if watts[0] is None or watts[1] is None:
            return None
        return self.log_time + math.log(watts[1] / watts[0])


@dataclass(frozen=True, slots=True)
class Residual:
    """A pair and what was predicted of it while it was kept out of the fit."""

    pair: Pair
    predicted: float

    @property
    def off(self) -> float:
        """ln(predicted / measured time ratio)."""
        return self.predicted - self.pair.log_time


def pairs(rows: Iterable[Measurement]) -> Iterator[Pair]:
    """Every ordered pair of rows of different parts within a group."""
    groups: dict[Group, list[Measurement]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    for members in groups.values():
        for now, target in permutations(members, 2):
            if now.hardware != target.hardware:
                yield Pair(now, target)


def leave_out(
    seen: Sequence[Observation],
    specs: Mapping[str, Specs],
    key: Callable[[Measurement], str],
    settings: Mapping[str, SettingOf],
    asked: Sequence[Pair] | None = None,
) -> dict[str, list[Residual]]:
    """Residuals of pairs (default: all) whose rows were kept out of the fit, by name of setting.

    With `key` the family, both rows are out. With `key` the hardware, the target's are.
    """
    whole = fit(seen)
    found: dict[str, list[Residual]] = {name: [] for name in settings}
    every = list(pairs(one.row for one in seen)) if asked is None else asked
    for out in dict.fromkeys(key(pair.target) for pair in every):
        rest = [one for one in seen if key(one.row) != out]
        model = TimeModel(kept(fit(rest, whole)))
        kept_out = [pair for pair in every if key(pair.target) == out]
        for name, setting in settings.items():
            found[name] += predicted(model, kept_out, specs, setting)
    return found


def predicted(
    model: TimeModel,
    asked: Iterable[Pair],
    specs: Mapping[str, Specs],
    settings: SettingOf,
) -> list[Residual]:
    """What a model says of pairs."""
    found = []
    for pair in asked:
        ends = specs[pair.now.hardware], specs[pair.target.hardware]
        said = model.log_time_ratio(settings(pair.now), *ends)
        if said is not None:
            found.append(Residual(pair, said))
    return found


def full(row: Measurement) -> Setting:
    """Everything the row says of its work."""
    return Setting(row.workload_class, row.stack, row.precision)


def precise(row: Measurement) -> Setting:
    """Class and precision, as when the framework was not stated."""
    return Setting(row.workload_class, None, row.precision)


def plain(row: Measurement) -> Setting:
    """The class only, as when neither framework nor precision were stated."""
    return Setting(row.workload_class, None, None)


def factor(offs: Iterable[float], share: float = COVERAGE_AIM) -> float:
    """The x/÷ factor that holds that share of residuals of logarithms."""
    return math.exp(percentile(sorted(map(abs, offs)), share))


def errors(offs: Iterable[float]) -> tuple[float, float]:
    """Median and 90th percentile of |predicted throughput ratio / measured - 1|."""
    found = sorted(abs(math.expm1(-off)) for off in offs)
    return median(found), percentile(found, 0.9)


def spec_ratio(
    pair: Pair, specs: Mapping[str, Specs], figure: Callable[[Specs, str], float | None]
) -> float | None:
    """ln(time ratio) by a plain ratio of specifications, the rule of thumb to be beaten."""
    now = figure(specs[pair.now.hardware], pair.now.precision)
    target = figure(specs[pair.target.hardware], pair.target.precision)
    return math.log(now / target) if now and target else None


RULES_OF_THUMB: Mapping[str, Callable[[Specs, str], float | None]] = {
    "peak": lambda part, precision: part.peak(precision),
    "bandwidth": lambda part, _: part.bandwidth_gbs,
    "TDP": lambda part, _: part.tdp_w,
}


def halves(seen: Sequence[Observation]) -> tuple[list[Observation], list[Observation]]:
    """Observations of every other family of each class, in order of name, and the others."""
    by_class: dict[str, dict[str, None]] = {}
    for one in seen:
        by_class.setdefault(one.row.workload_class, {})[one.row.family] = None
    first = {
        (name, family) for name, families in by_class.items() for family in sorted(families)[::2]
    }
    chosen = [one for one in seen if (one.row.workload_class, one.row.family) in first]
    others = [one for one in seen if (one.row.workload_class, one.row.family) not in first]
    return chosen, others


def coefficients(seen: Sequence[Observation]) -> dict[Term, float]:
    """The shipped coefficients."""
    return kept(fit(seen))

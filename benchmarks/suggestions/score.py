"""How good an order of devices is: regret, advice that is worse than staying, odds, ranges.

A question is a group and one of its devices as the present one. Its regret is by how much the first
answer needs more energy than the best device of the group; an unanswered one counts as staying.
Sources and classes weigh alike, so that one large source does not speak for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

from benchmarks.suggestions.groups import Group, framework_of, precision_of
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.catalog.hardware import Hardware
from gramwatt.sci.estimate.ranking import Log, Work
from gramwatt.sci.estimate.ranking import peak as peak_of

TIE = 0.02
"""Difference of logarithms of energy below which two devices have no order."""
ENDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Ends of the bins of stated odds."""
ENOUGH = 30
"""Answers of a source and class from which on it weighs as much in a bin as any other."""


class Answer(NamedTuple):
    """A device beside the present one: odds that it needs less, ratios of energy and time."""

    odds: float
    energy: Log
    time: Log | None = None


Ranker = Callable[[Group, str], Mapping[str, Answer]]
"""Answers for the other devices of a group; a device without an answer is left out."""


def baselines(catalog: Catalog) -> dict[str, Ranker]:
    """Return the rules of thumb that the suggestions have to beat."""
    return {
        "stay": lambda group, now: {},
        "peak rate a rated watt": _thumb(catalog, _rated_watts_a_peak),
        "newest": _thumb(catalog, lambda part, tuned: -float(part.release_year or 0)),
        EIGHTEEN: partial(_eighteen, catalog),
    }


def _thumb(catalog: Catalog, figure: Callable[[Hardware, bool], float]) -> Ranker:
    def rank(group: Group, now: str) -> dict[str, Answer]:
        tuned = framework_of(group.rows[now]) in ("tensorrt", "nemo")
        logs = {name: figure(catalog.hardware(name), tuned) for name in group.rows}
        apart = {name: Log(log - logs[now], 0.0) for name, log in logs.items() if name != now}
        return {name: Answer(log.odds, log) for name, log in apart.items()}

    return rank


EIGHTEEN = "eighteen numbers"
"""A simple design: two exponents by regime, rated power, one rule for the present power."""
EXPONENTS = {
    "recsys": (0.3, 0.5),
    "prefill": (0.25, 0.45),
    "decode": (0.05, 0.45),
    "served full": (0.8, 0.3),
}
BUSY = (0.4, 0.5)
SHARE_LEVEL, SHARE_SLOPE, SHARE_SIZE, SHARE_SPREAD, SPREAD, GROWTH = (
    -0.65,
    -1.47,
    1.2,
    0.15,
    0.35,
    0.25,
)
WALL_RATED, WALL_HOST_W = 0.8, 250.0


def _eighteen(catalog: Catalog, group: Group, now: str) -> dict[str, Answer]:
    """Return what the simple design says of a group."""
    row, part = group.rows[now], catalog.hardware(now)
    levels = {name: _level(catalog.hardware(name), group, now) for name in group.rows}
    infers = group.workload_class in ("batch-inference", "llm-serving")
    share = row.power_w / (part.tdp_w or 1.0) if group.metric == "board" and row.power_w else None
    answers = {}
    for name in group.rows.keys() - {now}:
        size = math.log((catalog.hardware(name).tdp_w or 1.0) / (part.tdp_w or 1.0))
        value, spread = levels[name] - levels[now], SPREAD
        if infers and share and abs(size) >= math.log(SHARE_SIZE):
            value, spread = size * (SHARE_LEVEL + SHARE_SLOPE * math.log(share)), SHARE_SPREAD
        log = Log(value, math.hypot(spread, GROWTH * value))
        answers[name] = Answer(log.odds, log)
    return answers


def _level(part: Hardware, group: Group, now: str) -> float:
    """Return the logarithm of energy a unit by the simple design."""
    row, name = group.rows[now], group.workload_class
    tuned = framework_of(row) in ("tensorrt", "nemo")
    regime = "served full" if name == "llm-serving" and tuned else name
    peak, bandwidth = EXPONENTS.get(regime, BUSY)
    work = Work("busy", "fp8" if regime == "served full" else precision_of(row), tuned)
    time = -peak * (peak_of(part, work) or 0.0)
    time -= bandwidth * math.log(part.memory_bandwidth_gbs or 1.0)
    if group.metric == "wall":
        return time + math.log(WALL_RATED * (part.tdp_w or 1.0) + WALL_HOST_W / row.count)
    one = 0.5 if name == "decode" and group.metric == "board" else 1.0
    return time + one * math.log(part.tdp_w or 1.0)


def _rated_watts_a_peak(part: Hardware, tuned: bool) -> float:
    narrow = max(part.fp8_tflops or 0.0, part.int8_tops or 0.0, part.peak_other.get("fp4", 0.0))
    half = part.fp16_tensor_tflops or part.bf16_tensor_tflops or part.fp32_tflops or 1.0
    return math.log((part.tdp_w or 1.0) / (max(narrow, half) if tuned else half))


class Outcome(NamedTuple):
    """What came of one question, and how many pairs of its devices are in the right order."""

    name: str
    weight: float
    answered: bool
    regret: float
    worse: bool
    moved: bool
    right: float
    comparable: int


def outcomes(
    groups: Sequence[Group], catalog: Catalog, rank: Ranker, least: float = 0.0
) -> Iterator[Outcome]:
    """Yield the outcome of every question, moving where the first answer has the odds `least`."""
    sizes = _sizes(groups)
    for group in groups:
        energies = group.energies(catalog)
        for now in group.rows:
            answers = rank(group, now)
            logs = {now: 0.0, **{name: answer.energy.value for name, answer in answers.items()}}
            pick = min(logs, key=logs.__getitem__)
            if pick != now and answers[pick].odds < least:
                pick = now
            yield Outcome(
                group.name,
                1 / len(group.rows) / sizes[group.name],
                bool(answers),
                energies[pick] / min(energies.values()) - 1,
                energies[pick] > 1.0001 * energies[now],
                pick != now,
                *_order(energies, logs),
            )


def _sizes(groups: Iterable[Group]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for group in groups:
        sizes[group.name] = sizes.get(group.name, 0) + 1
    return sizes


def _order(energies: Mapping[str, float], logs: Mapping[str, float]) -> tuple[float, int]:
    products = [
        (logs[one] - logs[other]) * true
        for one, other in combinations(logs, 2)
        if abs(true := math.log(energies[one] / energies[other])) > TIE
    ]
    return sum(1.0 if said > 0 else 0.5 * (said == 0) for said in products), len(products)


class Summary(NamedTuple):
    """Weighted fractions and quantiles of outcomes."""

    questions: int
    answered: float
    median: float
    p90: float
    right: float
    worse: float
    moved: float


def summary(items: Sequence[Outcome]) -> Summary:
    """Return the figures of some outcomes."""
    ordered = [item for item in items if item.comparable]
    regrets = sorted((item.regret, item.weight) for item in items)
    return Summary(
        len(items),
        mean((item.answered, item.weight) for item in items),
        quantile(regrets, 0.5),
        quantile(regrets, 0.9),
        mean((item.right / item.comparable, item.weight) for item in ordered),
        mean((item.worse, item.weight) for item in items),
        mean((item.moved, item.weight) for item in items),
    )


def mean(weighted: Iterable[tuple[float, float]]) -> float:
    """Return the mean of values with their weights; NaN without any."""
    values, weights = 0.0, 0.0
    for value, weight in weighted:
        values, weights = values + value * weight, weights + weight
    return values / weights if weights else math.nan


def quantile(ordered: Sequence[tuple[float, float]], fraction: float) -> float:
    """Return the value below which a fraction of the weight lies."""
    whole, below = fraction * sum(weight for _, weight in ordered), 0.0
    for value, weight in ordered:
        below += weight
        if below >= whole:
            return value
    return math.nan


class Said(NamedTuple):
    """One answer beside the truth: the odds of the likelier side and whether it was right, and
    whether the range of time holds.
    """

    name: str
    odds: float
    right: bool
    holds: bool | None
    weight: float


def said(groups: Sequence[Group], catalog: Catalog, rank: Ranker) -> list[Said]:
    """Return every answer of a ranker beside the truth."""
    sizes, found = _sizes(groups), []
    for group in groups:
        energies, number = group.energies(catalog), len(group.rows)
        for now, row in group.rows.items():
            for name, answer in rank(group, now).items():
                less = energies[name] < energies[now]
                time = math.log(row.units_per_s / group.rows[name].units_per_s)
                found.append(
                    Said(
                        group.name,
                        max(answer.odds, 1 - answer.odds),
                        less == (answer.odds > 0.5),
                        answer.time.holds(time) if answer.time else None,
                        1 / (number * (number - 1) * sizes[group.name]),
                    )
                )
    return found


class Bin(NamedTuple):
    """Answers of about the same odds: their number, what was said of them and what was true."""

    low: float
    high: float
    number: int
    stated: float
    true: float


def bins(answers: Iterable[Said]) -> list[Bin]:
    """Return the bins of stated odds; a source of few answers weighs by their number."""
    items, found = list(answers), []
    numbers: dict[str, int] = {}
    for item in items:
        numbers[item.name] = numbers.get(item.name, 0) + 1
    for low, high in zip(ENDS, ENDS[1:], strict=False):
        inside = [
            (item, item.weight * min(1.0, numbers[item.name] / ENOUGH))
            for item in items
            if low <= item.odds < high or item.odds == high == 1
        ]
        if inside:
            stated = mean((item.odds, weight) for item, weight in inside)
            true = mean((item.right, weight) for item, weight in inside)
            found.append(Bin(low, high, len(inside), stated, true))
    return found


def coverage(answers: Iterable[Said]) -> dict[str, tuple[int, float]]:
    """Return by source and class how many ranges of time there are, and the fraction that holds."""
    found: dict[str, list[tuple[float, float]]] = {}
    for answer in answers:
        if answer.holds is not None:
            found.setdefault(answer.name, []).append((answer.holds, answer.weight))
    return {name: (len(items), mean(items)) for name, items in sorted(found.items())}

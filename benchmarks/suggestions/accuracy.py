"""How accurate the suggestions are: every figure of the accuracy report, computed from the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from benchmarks.suggestions.quantiles import percentile
from benchmarks.suggestions.regression import Observation, fit, observations
from benchmarks.suggestions.replay import (
    COVERAGE_AIM,
    RULES_OF_THUMB,
    SETTINGS,
    Residual,
    factor,
    halves,
    leave_out,
    predicted,
    source_factor,
    throughput_errors,
    thumb,
)
from benchmarks.suggestions.shipped import Shipped, shipped
from gramwatt.sci.advice.actions.host_power import WALL_CLASSES, has_wall_evidence
from gramwatt.sci.advice.prediction.measurements import Measurement, Pair, pairs
from gramwatt.sci.advice.prediction.predict import power_exponent
from gramwatt.sci.advice.prediction.ratio_range import Prediction
from gramwatt.sci.advice.prediction.serving import direct, serving_rows
from gramwatt.sci.advice.prediction.time_model import Specs, TimeModel, specs_of
from gramwatt.sci.advice.prediction.workload import SMALL_POWER_SHARE
from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.figures.quantity import Quantity

ALL = "all"
METERED = ("training", "recsys", "decode")
"""Fitted classes with rows of measured board power."""
STUDENT = {1: 3.078 / 1.282, 2: 1.886 / 1.282}
"""Student's over the normal quantile of 90 %, by parts less one, for parts that were not metered
where two or three were: the many workloads on each are not as many witnesses of another part."""
CROSSING_AIM = 0.98
"""Share held where single precision moves between parts with and without TF32. Half the error is
the kind of model there, which no request tells, so that the range must hold the kinds."""
WALL_LEAST = 4
"""Pairs from which on a factor of wall energy is made."""
UNKNOWN_AIM = 0.85
"""Share held, in each source, where the precision is not known."""

TIES = 1 + 1e-9
"""A range made of a pair holds it, in both directions, however its logarithm was rounded."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Pairs of one class by one method, median and 90th percentile of the throughput's error."""

    method: str
    workload_class: str
    pairs: int
    median: float
    p90: float


@dataclass(frozen=True, slots=True)
class Range:
    """An x/÷ factor that holds four errors in five."""

    workload_class: str
    figure: str
    known: str
    factor: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Share of pairs whose measured ratio lies inside the predicted range."""

    workload_class: str
    pairs: int
    inside: float


@dataclass(frozen=True, slots=True)
class ServingCoverage:
    """Direct answers with the model family kept out: pairs, those answered, share inside."""

    figure: str
    pairs: int
    answered: int
    inside: float


@dataclass(frozen=True, slots=True)
class Claims:
    """The verdict `lower` on pairs whose board energy was measured."""

    workload_class: str
    pairs: int
    claims: int
    right: int
    true_savings: int


@dataclass(frozen=True, slots=True)
class PowerShare:
    """Mean over rated board power of a class: 10th, 50th and 90th percentile of its rows."""

    workload_class: str
    low: float
    value: float
    high: float
    rows: int


@dataclass(frozen=True, slots=True)
class EnergyPair:
    """ln of a pair's ratio of board energy, as predicted with the workload kept out, and as is.

    `power_error` is that of the power alone, taken as the same share of rated power.
    """

    predicted: float
    measured: float
    power_error: float
    target: str


@dataclass(frozen=True, slots=True)
class WallPair:
    """A pair and the error of ln(its ratio of wall energy), taken as time x rated power."""

    pair: Pair
    error: float

    @property
    def workload_class(self) -> str:
        """The class of the pair."""
        return self.pair.now.workload_class


class Replay:
    """The residuals of all pairs, with their workload and with their target kept out."""

    def __init__(self, rows: Sequence[Measurement], catalog: Catalog) -> None:
        """Fit the rows once for each workload and part: some seconds for the shipped ones."""
        specs = {part.id: specs_of(part) for part in catalog.all_hardware()}
        self.rows, self.specs = rows, specs
        self.fitted = observations(rows, specs)
        self.by_workload = leave_out(self.fitted, specs, lambda row: row.family)
        self.by_part = leave_out(self.fitted, specs, lambda row: row.hardware)
        small = (pair for pair in pairs(rows) if pair.now.workload_class == "small")
        self.small = [Residual(pair, 0.0) for pair in small]

    def accuracies(self) -> list[Accuracy]:
        """Errors by method and class: rules of thumb, then the model with rows kept out."""
        every = [*pairs(one.row for one in self.fitted), *(one.pair for one in self.small)]
        methods = {f"{rule} ratio": thumb(every, self.specs, rule) for rule in RULES_OF_THUMB}
        methods["leave one workload out"] = self.by_workload["full"] + self.small
        methods["leave one part out"] = self.by_part["full"] + self.small
        methods["class only known, workload out"] = self.by_workload["plain"] + self.small
        return [
            Accuracy(method, name, len(group), *throughput_errors(group))
            for method, residuals in methods.items()
            for name, group in sorted({**by_class(residuals), ALL: residuals}.items())
        ]

    def ranges(self) -> list[Range]:
        """The factors that answers use."""
        ranges = []
        for known in SETTINGS:
            inside, across = self._split(self.by_workload[known], known)
            ranges += time_ranges(known, inside)
            ranges += time_ranges(f"{known}, crossing", across)
            new = self._split(self.by_part[known], known)[0]
            ranges += time_ranges(f"{known}, new part", new)
            ranges += time_ranges(known, self.small)
        for name in METERED:
            found = self.energies(name)
            width = factor(pair.power_error for pair in found)
            ranges.append(Range(name, "power", "full", width, len(found)))
            width **= STUDENT.get(len({pair.target for pair in found}) - 1, 1.0)
            ranges.append(Range(name, "power", "full, new part", width, len(found)))
        for name in WALL_CLASSES:
            errors = [one.error for one in self.walls if one.workload_class == name]
            ranges.append(Range(name, "wall", "full", factor(errors), len(errors)))
        return sorted(ranges, key=lambda one: (one.workload_class, one.figure, one.known))

    @cached_property
    def walls(self) -> list[WallPair]:
        """Pairs of server parts whose wall energy was measured, workload out of the fit."""
        catalog = load_catalog()
        rows = [
            row
            for row in self.rows
            if (row.source, row.use) == ("mlperf-inference-earlier", "power")
            and row.workload_class in WALL_CLASSES
            and has_wall_evidence(catalog.hardware(row.hardware))
        ]
        asked = list(pairs(rows))
        found = leave_out(self.fitted, self.specs, lambda row: row.family, asked)["full"]
        return [
            WallPair(one.pair, one.predicted + _rated(one.pair, self.specs) - energy)
            for one in found
            if (energy := one.pair.log_energy) is not None
        ]

    def wall_coverages(self) -> list[Coverage]:
        """Coverage of wall energy by the factor of pairs without the same workload, round, part."""
        keys: Mapping[str, Callable[[Measurement], str]] = {
            "workload": lambda row: row.family,
            "round": lambda row: row.round,
            "part": lambda row: row.hardware,
        }
        return [Coverage(name, *self._walls_without(key)) for name, key in keys.items()]

    def _walls_without(self, key: Callable[[Measurement], str]) -> tuple[int, float]:
        hits = []
        for asked in self.walls:
            width = self._wall_factor(asked.pair, key)
            if width is not None:
                hits.append(abs(asked.error) <= math.log(width) * TIES)
        return len(hits), sum(hits) / len(hits)

    def _wall_factor(self, pair: Pair, key: Callable[[Measurement], str]) -> float | None:
        """The factor from pairs of the class without what both rows are of; None from too few."""
        out = {key(pair.now), key(pair.target)}
        errors = [
            one.error
            for one in self.walls
            if one.workload_class == pair.now.workload_class
            and not out & {key(one.pair.now), key(one.pair.target)}
        ]
        return factor(errors) if len(errors) >= WALL_LEAST else None

    def energies(self, name: str) -> list[EnergyPair]:
        """Pairs of a class with board energy, without the small jobs of training."""
        found = []
        for residual in self.by_workload["full"]:
            pair, measured = residual.pair, residual.pair.log_energy
            share = power_share(pair.now, self.specs)
            if residual.workload_class != name or measured is None or share is None:
                continue
            now, target = (self.specs[row.hardware].tdp_w for row in (pair.now, pair.target))
            if not now or not target or (name == "training" and share < SMALL_POWER_SHARE):
                continue
            rated = power_exponent(name) * math.log(target / now)
            power_error = rated - (measured - pair.log_time)
            found.append(
                EnergyPair(residual.predicted + rated, measured, power_error, pair.target.hardware)
            )
        return found

    def serving(self) -> list[ServingCoverage]:
        """Coverage of direct answers to LLM serving."""
        answers = list(self._served())
        time = [inside(found.time, pair.log_time) for pair, found in answers if found.time]
        energy = [
            inside(found.energy, pair.log_energy)
            for pair, found in answers
            if found.energy and pair.log_energy is not None
        ]
        return [
            ServingCoverage(figure, len(answers), len(hits), sum(hits) / len(hits))
            for figure, hits in (("time", time), ("energy", energy))
        ]

    def claims(self) -> Claims:
        """How often direct answers to LLM serving would claim less board energy, and are right."""
        measured, claimed = [], []
        for pair, answer in self._served():
            if pair.log_energy is not None:
                measured.append(pair.log_energy)
                if answer.energy and answer.energy.high < 1:
                    claimed.append(pair.log_energy)
        return claims_of("llm-serving", measured, claimed)

    @cached_property
    def shipped(self) -> list[Shipped]:
        """The verdicts as users get them, on measured energy."""
        return shipped(
            self.rows,
            self.fitted,
            load_catalog(),
            lambda pair: self._wall_factor(pair, lambda row: row.round),
        )

    def coverages(self) -> list[Coverage]:
        """Coverage of the shipped ranges on the residuals of one workload kept out."""
        residuals = self.by_workload["full"]
        return coverages(self._hits(residuals, residuals))

    def halved(self) -> list[Coverage]:
        """Coverage on families kept out of the fit and of the ranges."""
        one, other = halves(self.fitted)
        return coverages(self._crossed(one, other) + self._crossed(other, one))

    def _served(self) -> Iterable[tuple[Pair, Prediction]]:
        """Each serving pair with the direct answer of the other model families."""
        every = list(pairs(serving_rows(self.rows)))
        for pair in every:
            others = [
                one
                for one in every
                if (one.now.hardware, one.target.hardware)
                == (pair.now.hardware, pair.target.hardware)
                and one.now.family != pair.now.family
            ]
            yield pair, direct(others, pair.now.batch, pair.now.count)

    def _crossed(
        self, fitted: Sequence[Observation], asked: Sequence[Observation]
    ) -> list[tuple[str, bool]]:
        known = leave_out(fitted, self.specs, lambda row: row.family)["full"]
        every = pairs(one.row for one in asked)
        return self._hits(known, predicted(TimeModel(fit(fitted)), every, self.specs))

    def _hits(self, known: Sequence[Residual], asked: Sequence[Residual]) -> list[tuple[str, bool]]:
        """Class and hit of the asked residuals, by ranges made of the known ones."""
        hits = []
        groups = zip(
            self._split(known), self._split(asked), (COVERAGE_AIM, CROSSING_AIM), strict=True
        )
        for given, wanted, aim in groups:
            widths = {
                name: math.log(factor((one.error for one in group), aim))
                for name, group in by_class(given).items()
            }
            hits += [
                (one.workload_class, abs(one.error) <= widths[one.workload_class] * TIES)
                for one in wanted
                if one.workload_class in widths
            ]
        return hits

    def _split(
        self, residuals: Iterable[Residual], known: str = "full"
    ) -> tuple[list[Residual], list[Residual]]:
        """Residuals whose setting does not and does cross, as an answer uses the factors."""
        parts: tuple[list[Residual], list[Residual]] = ([], [])
        for one in residuals:
            now, target = (self.specs[r.hardware] for r in (one.pair.now, one.pair.target))
            parts[SETTINGS[known](one.pair.now).crosses(now, target)].append(one)
        return parts


def power_shares(rows: Iterable[Measurement], specs: Mapping[str, Specs]) -> list[PowerShare]:
    """Mean over rated board power by class; "other" pools training and serving."""
    shares: dict[str, list[float]] = {}
    for row in rows:
        share = power_share(row, specs)
        if share is not None and row.energy_scope == "board":
            shares.setdefault(row.workload_class, []).append(share)
    shares["other"] = [*shares["training"], *shares["llm-serving"]]
    found = []
    for name, values in sorted(shares.items()):
        low, middle, high = (percentile(sorted(values), share) for share in (0.1, 0.5, 0.9))
        found.append(PowerShare(name, low, middle, high, len(values)))
    return found


def _rated(pair: Pair, specs: Mapping[str, Specs]) -> float:
    """ln(rated power of the target / that of the present part)."""
    now, target = (specs[row.hardware].tdp_w or 1.0 for row in (pair.now, pair.target))
    return math.log(target / now)


def power_share(row: Measurement, specs: Mapping[str, Specs]) -> float | None:
    """Mean over rated board power of a row; None where one is not known."""
    rated = specs[row.hardware].tdp_w
    return row.power_w / rated if row.power_w and rated else None


def inside(ends: Quantity, log_ratio: float) -> bool:
    """Return whether a range holds a measured ratio."""
    return ends.low <= math.exp(log_ratio) <= ends.high


def claims_of(name: str, measured: Sequence[float], claimed: Sequence[float]) -> Claims:
    """The claims of a class, of logarithms of measured energy ratios."""
    right, savings = (sum(ratio < 0 for ratio in ratios) for ratios in (claimed, measured))
    return Claims(name, len(measured), len(claimed), right, savings)


def coverages(hits: Iterable[tuple[str, bool]]) -> list[Coverage]:
    """Pairs and share inside by class; all classes last."""
    groups: dict[str, list[bool]] = {}
    for name, hit in hits:
        groups.setdefault(name, []).append(hit)
    every = [hit for group in groups.values() for hit in group]
    rows = [*sorted(groups.items()), (ALL, every)]
    return [Coverage(name, len(group), sum(group) / len(group)) for name, group in rows]


def by_class(residuals: Iterable[Residual]) -> dict[str, list[Residual]]:
    """Residuals by workload class."""
    groups: dict[str, list[Residual]] = {}
    for one in residuals:
        groups.setdefault(one.workload_class, []).append(one)
    return groups


def time_ranges(known: str, residuals: Iterable[Residual]) -> list[Range]:
    """The factor of time of each class.

    At an unknown precision that of the source that needs the widest, for UNKNOWN_AIM: the sources
    differ most there, because each chose its precisions.
    """
    ranges = []
    for name, group in by_class(residuals).items():
        share = CROSSING_AIM if "crossing" in known else COVERAGE_AIM
        if known.startswith("plain") and name != "small":
            width = source_factor(group, UNKNOWN_AIM)
        else:
            width = factor((one.error for one in group), share)
        ranges.append(Range(name, "time", known, width, len(group)))
    return ranges

"""How accurate the advice is: every figure of the accuracy report, computed from the rows.

Used by scripts/fit_throughput.py, the benchmark and the tests, never while answering.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gramwatt.sci.advice.prediction.regression import Observation, observations
from gramwatt.sci.advice.prediction.replay import (
    COVERAGE_AIM,
    RULES_OF_THUMB,
    Pair,
    Residual,
    coefficients,
    errors,
    factor,
    full,
    halves,
    leave_out,
    pairs,
    plain,
    precise,
    predicted,
    spec_ratio,
)
from gramwatt.sci.advice.prediction.rows import Measurement
from gramwatt.sci.advice.prediction.serving import direct, serving_rows
from gramwatt.sci.advice.prediction.specs import Specs
from gramwatt.sci.advice.prediction.time_model import TimeModel
from gramwatt.sci.advice.prediction.workload import SMALL_POWER_SHARE
from gramwatt.sci.base.uncertainty import percentile

ALL = "all"
KNOWLEDGE = {"full": full, "precision": precise, "plain": plain}
CROSSING_AIM = 0.98
"""Share held where single precision crosses the border of TF32. Half the error is the kind of model
there, which no question tells, so that the range must hold the kinds."""


@dataclass(frozen=True, slots=True)
class Line:
    """One method on one class: pairs, median and 90th percentile of the error of throughput."""

    method: str
    workload_class: str
    pairs: int
    median: float
    p90: float


@dataclass(frozen=True, slots=True)
class Range:
    """An x/÷ factor that holds four residuals in five."""

    workload_class: str
    figure: str
    known: str
    factor: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Claims:
    """Replay of the verdict `lower` on pairs whose board energy was measured."""

    where: str
    pairs: int
    claims: int
    right: int
    true_savings: int

    @property
    def abstention(self) -> float:
        """Share of pairs on which nothing was claimed."""
        return 1 - self.claims / self.pairs


class Replay:
    """All residuals of a set of rows, computed once."""

    def __init__(self, rows: Sequence[Measurement], specs: Mapping[str, Specs]) -> None:
        """Fit and refit: about half a minute for the shipped rows."""
        self.rows, self.specs = rows, specs
        self.seen = observations(rows, specs)
        self.workload = leave_out(self.seen, specs, lambda row: row.family, KNOWLEDGE)
        self.part = leave_out(self.seen, specs, lambda row: row.hardware, KNOWLEDGE)

    def lines(self) -> list[Line]:
        """Error by method and class: rules of thumb, then the model with rows kept out."""
        every = list(pairs(one.row for one in self.seen)) + self._small()
        found = []
        for name, figure in RULES_OF_THUMB.items():
            said = [(pair, spec_ratio(pair, self.specs, figure)) for pair in every]
            ratios = [Residual(pair, ratio) for pair, ratio in said if ratio is not None]
            found += _lines(f"{name} ratio", ratios)
        still = [Residual(pair, 0.0) for pair in self._small()]
        found += _lines("leave one workload out", self.workload["full"] + still)
        found += _lines("leave one part out", self.part["full"] + still)
        return found + _lines("class only known, workload out", self.workload["plain"] + still)

    def ranges(self) -> list[Range]:
        """The factors that answers use."""
        found = []
        for known in KNOWLEDGE:
            inside, across = self._split(self.workload[known])
            found += _ranges("time", known, inside)
            found += _ranges("time", f"{known}, crossing", across, CROSSING_AIM)
            found += _ranges("time", f"{known}, new part", self._split(self.part[known])[0])
        small = [Residual(pair, 0.0) for pair in self._small()]
        found += [
            Range("small", "time", known, factor(one.off for one in small), len(small))
            for known in KNOWLEDGE
        ]
        for name in ("training", "recsys"):
            offs = [said - true for said, true, _ in self.energies(name)]
            found.append(Range(name, "energy", "full", factor(offs), len(offs)))
        return sorted(found, key=lambda one: (one.workload_class, one.figure, one.known))

    def energies(self, name: str) -> list[tuple[float, float, Pair]]:
        """Ln energy ratio said and measured, workload kept out, small jobs left out of training."""
        found = []
        for one in self.workload["full"]:
            pair, true = one.pair, one.pair.log_energy
            shares = _power_share(pair.now, self.specs), _power_share(pair.target, self.specs)
            if pair.now.workload_class != name or true is None or None in shares:
                continue
            if name == "training" and (shares[0] or 0) < SMALL_POWER_SHARE:
                continue
            rated = [self.specs[row.hardware].tdp_w or 1 for row in (pair.now, pair.target)]
            found.append((one.predicted + math.log(rated[1] / rated[0]), true, pair))
        return found

    def serving(self) -> list[tuple[str, int, int, float]]:
        """Direct answers with the model family kept out: figure, pairs, answered, share inside."""
        every = list(pairs(serving_rows(self.rows)))
        hits: dict[str, list[bool]] = {"time": [], "energy": []}
        for pair in every:
            same = [one for one in every if _parts(one) == _parts(pair)]
            others = [one for one in same if one.now.family != pair.now.family]
            found = direct(others, pair.now.batch, pair.now.count)
            for name, ends, true in (
                ("time", found.time, pair.log_time),
                ("energy", found.energy, pair.log_energy),
            ):
                if ends is not None and true is not None:
                    hits[name].append(ends[0] <= math.exp(true) <= ends[2])
        return [(name, len(every), len(h), sum(h) / len(h)) for name, h in hits.items()]

    def claims(self) -> list[Claims]:
        """How often `lower` would be said of board energy, and how often it would be true."""
        found = []
        for name in ("training", "recsys"):
            energies = self.energies(name)
            width = factor(said - true for said, true, _ in energies)
            said_lower = [true for said, true, _ in energies if math.exp(said) * width < 1]
            right = sum(true < 0 for true in said_lower)
            savings = sum(true < 0 for _, true, _ in energies)
            found.append(Claims(name, len(energies), len(said_lower), right, savings))
        return [*found, self._serving_claims()]

    def halved(self) -> list[tuple[str, int, float]]:
        """Coverage on families kept out of fit and ranges: class, pairs, share inside."""
        one, other = halves(self.seen)
        hits = _covered(one, other, self.specs) + _covered(other, one, self.specs)
        return _shares(hits)

    def coverages(self) -> list[tuple[str, int, float]]:
        """Coverage of the shipped ranges on the residuals of one workload kept out."""
        found = self.workload["full"]
        return _shares(_inside(found, found, self.specs))

    def _split(self, found: Sequence[Residual]) -> tuple[list[Residual], list[Residual]]:
        """Residuals without and with a crossing of the border of TF32."""
        across = [one for one in found if crosses(one.pair, self.specs)]
        marked = set(map(id, across))
        return [one for one in found if id(one) not in marked], across

    def _small(self) -> list[Pair]:
        return [p for p in pairs(self.rows) if p.now.workload_class == "small"]

    def _serving_claims(self) -> Claims:
        every = list(pairs(serving_rows(self.rows)))
        asked = [pair for pair in every if pair.log_energy is not None]
        said_lower = []
        for pair in asked:
            others = [one for one in every if one.now.family != pair.now.family]
            same = [one for one in others if _parts(one) == _parts(pair)]
            found = direct(same, pair.now.batch, pair.now.count)
            if found.energy and found.energy[2] < 1:
                said_lower.append(pair.log_energy or 0.0)
        savings = sum((pair.log_energy or 0.0) < 0 for pair in asked)
        right = sum(true < 0 for true in said_lower)
        return Claims("llm-serving", len(asked), len(said_lower), right, savings)


def power_shares(
    rows: Iterable[Measurement], specs: Mapping[str, Specs]
) -> list[tuple[str, float, float, float, int]]:
    """Mean over rated board power by class: 10th, 50th, 90th percentile and rows; pooled last."""
    found: dict[str, list[float]] = {}
    for row in rows:
        share = _power_share(row, specs)
        if share is not None and row.energy_scope == "board":
            found.setdefault(row.workload_class, []).append(share)
    found["other"] = [*found["training"], *found["llm-serving"]]
    out = []
    for name, shares in sorted(found.items()):
        low, middle, high = (percentile(sorted(shares), q) for q in (0.1, 0.5, 0.9))
        out.append((name, low, middle, high, len(shares)))
    return out


def _parts(pair: Pair) -> tuple[str, str]:
    return (pair.now.hardware, pair.target.hardware)


def _power_share(row: Measurement, specs: Mapping[str, Specs]) -> float | None:
    rated = specs[row.hardware].tdp_w
    return row.power_w / rated if row.power_w and rated else None


def crosses(pair: Pair, specs: Mapping[str, Specs]) -> bool:
    """Whether the pair moves single precision over the border of TF32."""
    return full(pair.now).crosses(specs[pair.now.hardware], specs[pair.target.hardware])


def _covered(
    fitted: Sequence[Observation], asked: Sequence[Observation], specs: Mapping[str, Specs]
) -> list[tuple[str, bool]]:
    kept = leave_out(fitted, specs, lambda row: row.family, {"full": full})["full"]
    model = TimeModel(coefficients(fitted))
    return _inside(kept, predicted(model, pairs(one.row for one in asked), specs, full), specs)


def _inside(
    known: Iterable[Residual], asked: Iterable[Residual], specs: Mapping[str, Specs]
) -> list[tuple[str, bool]]:
    """Class and hit of each asked residual, by ranges made of the known ones."""
    offs: dict[tuple[str, bool], list[float]] = {}
    for one in known:
        offs.setdefault((one.pair.now.workload_class, crosses(one.pair, specs)), []).append(one.off)
    widths = {key: factor(found, _aim(key[1])) for key, found in offs.items()}
    out: list[tuple[str, bool]] = []
    for one in asked:
        key = (one.pair.now.workload_class, crosses(one.pair, specs))
        if key in widths:
            out.append((key[0], abs(one.off) <= math.log(widths[key])))
    return out


def _aim(across: bool) -> float:
    return CROSSING_AIM if across else COVERAGE_AIM


def _shares(hits: Iterable[tuple[str, bool]]) -> list[tuple[str, int, float]]:
    """Class, pairs and share inside; all classes last."""
    found: dict[str, list[bool]] = {}
    for name, hit in hits:
        found.setdefault(name, []).append(hit)
    every = [hit for inside in found.values() for hit in inside]
    rows = [*sorted(found.items()), (ALL, every)]
    return [(name, len(inside), sum(inside) / len(inside)) for name, inside in rows]


def _by_class(found: Iterable[Residual]) -> dict[str, list[Residual]]:
    out: dict[str, list[Residual]] = {}
    for one in found:
        out.setdefault(one.pair.now.workload_class, []).append(one)
        out.setdefault(ALL, []).append(one)
    return out


def _lines(method: str, found: Iterable[Residual]) -> list[Line]:
    return [
        Line(method, name, len(ones), *errors(one.off for one in ones))
        for name, ones in sorted(_by_class(found).items())
    ]


def _ranges(
    figure: str, known: str, found: Iterable[Residual], share: float = COVERAGE_AIM
) -> list[Range]:
    return [
        Range(name, figure, known, factor((one.off for one in ones), share), len(ones))
        for name, ones in _by_class(found).items()
        if name != ALL
    ]

"""What was measured: own runs of the store, public pairs of devices, effects of other settings.

Each is a logarithm of a ratio with its own error. It stands beside what the ranking says of data
sheets, weighted by the inverse of its variance: a measurement close to the job leads, one of other
work counts as much as its error allows. `data/` says where the public ones are from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from msgspec import Struct, field

from gramwatt.sci.estimate.ranking import QUANTILE_90, Log
from gramwatt.sci.figures.checks import Amount
from gramwatt.sci.figures.csv_data import Cell, Row, rows
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.suggest.documents import Basis

SINGLE_RUN = math.log(1.1) / QUANTILE_90
"""Error of a ratio of two single runs (an estimate until runs repeat)."""
OTHER_WORKLOADS = math.log(1.3) / QUANTILE_90
"""Error from other workloads of a class to this one: that of published training."""
WORKLOADS_LEAST = 2
"""Own workloads of a class that must have run on both devices, to predict another of that class."""
UNLIKE_EACH_OTHER = ("llm-serving", "small")
"""Classes of which one workload says nothing of another: serving follows its software and its
concurrency, and small jobs wait for their hosts."""


class SourceRow(Row, frozen=True, kw_only=True):
    """A source of measurements."""

    package = "gramwatt.sci.suggest"
    files = ("sources.csv",)
    key = ("name",)

    name: Cell = field(name="key")
    title: Cell
    url: Cell | None = None
    licence: Cell
    licence_evidence: Cell | None = None
    note: Cell | None = None


class EffectRow(Row, frozen=True, kw_only=True):
    """A ratio, new over old: of time or of energy per unit, from that many measured pairs.

    It is the effect of a change other than hardware; benchmarks/suggestions makes `evidence.csv`.
    """

    package = "gramwatt.sci.suggest"
    files = ("evidence.csv",)
    key = ("change", "figure")
    ranges = (("low", "value", "high"),)

    change: Cell = field(name="key")
    figure: Literal["time", "energy"]
    low: Amount
    value: Amount
    high: Amount
    pairs: int
    source: tuple[Cell, ...]

    @property
    def log(self) -> Log:
        """Return the ratio as a logarithm with its error."""
        return Log(math.log(self.value), math.log(self.high / self.low) / 2 / QUANTILE_90)

    @property
    def titles(self) -> list[str]:
        """Return the titles of the sources."""
        return [title(key) for key in self.source]

    @property
    def span(self) -> str:
        """Return the range in words."""
        return f"{self.low:.2f} to {self.high:.2f}"


@cache
def _effects() -> Mapping[tuple[str, str], EffectRow]:
    return {(row.change, row.figure): row for row in rows(EffectRow)}


def effect(change: str, figure: str) -> EffectRow | None:
    """Return a measured effect; None where nothing was measured."""
    return _effects().get((change, figure))


def both(change: str) -> tuple[EffectRow, EffectRow] | None:
    """Return the measured effects on time and energy; None without both."""
    time, energy = effect(change, "time"), effect(change, "energy")
    return (time, energy) if time and energy else None


@cache
def _titles() -> Mapping[str, str]:
    return {row.name: row.title for row in rows(SourceRow)}


def title(source: str) -> str:
    """Return the title of a source key of the measurements."""
    return _titles()[source]


def log_of(figure: Quantity) -> Log:
    """Return the logarithm of a ratio above zero with the error that its 80 % range has."""
    return Log(math.log(figure.value), math.log(figure.high / figure.low) / 2 / QUANTILE_90)


class Witness(NamedTuple):
    """What measurements say of two devices: time and energy of the devices, and in which words."""

    time: Log
    energy: Log | None
    basis: Basis
    reason: str
    sources: tuple[str, ...]


class OwnRow(Struct):
    """One measured job: work a second and power [W] of one device, and what work it was."""

    job_id: str
    workload: str
    workload_class: str | None
    hardware: str
    count: int
    unit: str
    units_per_s: float
    power_w: float


class PresentRun(Struct, frozen=True):
    """What a request says of the present run: part, class, and rates [unit/s] of one device."""

    hardware: str
    workload_class: str | None
    units_per_s: Mapping[str, float]


def own_witness(
    own: Sequence[OwnRow], now: str, target: str, name: str | None, workload: str | None
) -> Witness | None:
    """Return own ratios of two parts: of this workload, else of several others of its class."""
    pairs: dict[str, list[tuple[OwnRow, OwnRow]]] = {}
    sides = [[row for row in own if row.hardware == part] for part in (now, target)]
    for run, other in product(*sides):
        if (run.workload, run.unit) == (other.workload, other.unit):
            pairs.setdefault(run.workload, []).append((run, other))
    if workload is not None and workload in pairs:
        return _own(pairs[workload], f"own runs of {workload} on both", SINGLE_RUN)
    alike = [group for group in pairs.values() if group[0][0].workload_class == name]
    if name is None or name in UNLIKE_EACH_OTHER or len(alike) < WORKLOADS_LEAST:
        return None
    text = f"own runs of {len(alike)} other workloads of class {name} on both"
    return _own([pair for group in alike for pair in group], text, OTHER_WORKLOADS)


def _own(pairs: Sequence[tuple[OwnRow, OwnRow]], text: str, least: float) -> Witness:
    times = [math.log(run.units_per_s / other.units_per_s) for run, other in pairs]
    powers = [math.log(other.power_w / run.power_w) for run, other in pairs]
    energies = [time + power for time, power in zip(times, powers, strict=True)]
    return Witness(_mean(times, least), _mean(energies, least), "own-runs", text, (text,))


def _mean(logs: Sequence[float], least: float) -> Log:
    """Return the mean with the error of what differs among the runs, and at least `least`."""
    return Log(fmean(logs), max(least, stdev(logs) if len(logs) > 1 else 0.0))


def recognised(own: Iterable[OwnRow], run: PresentRun) -> str | None:
    """Return the own workload of a run, by part, class, unit and rate; None unless one matches.

    Runs of one workload on one part differ by less than a tenth.
    """
    matching = {
        row.workload
        for row in own
        if row.hardware == run.hardware and row.unit in run.units_per_s
        if None in (row.workload_class, run.workload_class)
        or row.workload_class == run.workload_class
        if abs(math.log(row.units_per_s / run.units_per_s[row.unit])) <= math.log(1.1)
    }
    return matching.pop() if len(matching) == 1 else None

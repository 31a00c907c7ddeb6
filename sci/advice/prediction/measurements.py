"""The published measurements in `advice/data`: pairs that may be compared, measured effects.

docs/suggestions.md says what each file holds and where it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Literal

from msgspec import field

from gramwatt.sci.advice.suggest_request import WorkloadClass
from gramwatt.sci.figures.checks import Amount
from gramwatt.sci.figures.csv_data import Cell, Row, rows
from gramwatt.sci.figures.quantity import Quantity

FREE_PRECISION = (
    "mlperf-inference",
    "mlperf-inference-earlier",
    "mlperf-systems",
    "mlperf-training",
)
"""Sources in which each part chooses its precision (MLPerf)."""
Group = tuple[str, ...]
"""What rows have in common that may be compared: all but the hardware."""


class DataRow(Row, frozen=True):
    """A line of a data file of this package."""

    package = "gramwatt.sci.advice"


class Measurement(DataRow, frozen=True, kw_only=True):
    """One published measurement of a workload on a part, per device as the driver lists them.

    `units_per_s` [unit/s] and `power_w` [W] are per device; `power_w` is the board's, or with
    `energy_scope` "system" the device's share of the whole machine. `use` is "time" for rows that
    are fitted, "power" for whole-machine rows, "none" for rows kept as context only.
    """

    files = ("measurements.csv",)

    id: Cell
    use: Literal["time", "power", "none"]
    workload_class: WorkloadClass = field(name="class")
    task: Cell
    family: Cell
    workload: Cell
    stack: str = ""
    precision: str = ""
    point: str = ""
    round: str = ""
    batch: float | None = None
    model_parameters: float | None = None
    hardware: Cell
    count: int
    units_per_s: Amount
    unit: Cell
    power_w: Amount | None = None
    joules_per_unit: Amount | None = None
    energy_scope: str = ""
    source: Cell
    note: str = ""

    @property
    def group(self) -> Group:
        """Return what rows that ran the same work have in common."""
        precision = "" if self.source in FREE_PRECISION else self.precision
        return (self.source, self.round, self.workload, self.point, precision)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rows of one group: the same work on two parts, and its measured ratios."""

    now: Measurement
    target: Measurement

    @property
    def log_time(self) -> float:
        """Return ln(time on target / time now)."""
        return math.log(self.now.units_per_s / self.target.units_per_s)

    @property
    def log_energy(self) -> float | None:
        """Return ln(board energy on target / now) per unit; None without board power."""
        if self.now.power_w is None or self.target.power_w is None:
            return None
        return self.log_time + math.log(self.target.power_w / self.now.power_w)


def pairs(rows: Iterable[Measurement]) -> Iterator[Pair]:
    """Yield every ordered pair of rows of different parts within a group."""
    groups: dict[Group, list[Measurement]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    for members in groups.values():
        for now, target in permutations(members, 2):
            if now.hardware != target.hardware:
                yield Pair(now, target)


def measurements() -> tuple[Measurement, ...]:
    """Return every published measurement, in the order of the file."""
    return rows(Measurement)


class SourceRow(DataRow, frozen=True, kw_only=True):
    """A source of measurements."""

    files = ("sources.csv",)
    key = ("name",)

    name: Cell = field(name="key")
    title: Cell
    url: Cell | None = None
    licence: Cell
    licence_evidence: Cell | None = None
    note: Cell | None = None


@cache
def _titles() -> Mapping[str, str]:
    return {row.name: row.title for row in rows(SourceRow)}


def title(source: str) -> str:
    """Return the title of a source key of the measurements."""
    return _titles()[source]


class Evidence(DataRow, frozen=True, kw_only=True):
    """A ratio, new over old: of time or of energy per unit, from that many measured pairs.

    It is the effect of a change other than hardware; benchmarks/suggestions makes `evidence.csv`.
    """

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
    def titles(self) -> str:
        """Return the titles of the sources."""
        return "; ".join(title(key) for key in self.source)

    def ratio(self, exponent: float = 1.0) -> Quantity:
        """Return the ratio, raised to an exponent for fewer doublings than were measured."""
        ends = (self.value**exponent, self.low**exponent, self.high**exponent)
        text = f"{self.titles}: {self.pairs} pairs ({self.change})"
        return Quantity(*ends, "1", "measured", text)


def evidence(key: str, figure: str) -> Evidence | None:
    """Return the evidence of that key for "time" or "energy"; None where none was measured."""
    return _shipped().get((key, figure))


def time_and_energy(key: str) -> tuple[Evidence, Evidence] | None:
    """Return the evidence of that key for time and for energy; None where one was not measured."""
    time, energy = evidence(key, "time"), evidence(key, "energy")
    return None if time is None or energy is None else (time, energy)


@cache
def _shipped() -> Mapping[tuple[str, str], Evidence]:
    return {(row.change, row.figure): row for row in rows(Evidence)}

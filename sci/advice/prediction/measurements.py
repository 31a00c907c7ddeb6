"""The published measurements in `advice/data`: pairs that may be compared, measured effects.

docs/suggestions.md says what each file holds and where it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import cast

from gramwatt.sci.advice.suggest_request import WorkloadClass
from gramwatt.sci.base.csv_data import Row, data_text, parse, read_as
from gramwatt.sci.base.quantity import Quantity

FREE_PRECISION = (
    "mlperf-inference",
    "mlperf-inference-earlier",
    "mlperf-systems",
    "mlperf-training",
)
"""Sources in which each part chooses its precision (MLPerf)."""
Group = tuple[str, ...]
"""What rows have in common that may be compared: all but the hardware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One published measurement of a workload on a part, per device as the driver lists them.

    `units_per_s` [unit/s] and `power_w` [W] are per device; `power_w` is the board's, or with
    `energy_scope` "system" the device's share of the whole machine. `use` is "time" for rows that
    are fitted, "power" for whole-machine rows, "none" for rows kept as context only.
    """

    id: str
    use: str
    workload_class: WorkloadClass
    family: str
    workload: str
    stack: str
    precision: str
    point: str
    round: str
    batch: float | None
    hardware: str
    count: int
    units_per_s: float
    power_w: float | None
    energy_scope: str
    source: str

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


@cache
def table(name: str) -> tuple[Row, ...]:
    """Return the rows of a data file of this package, read once per process."""
    return tuple(parse(data_text(name, "gramwatt.sci.advice"), name))


@cache
def measurements() -> tuple[Measurement, ...]:
    """Return every published measurement, in the order of the file."""
    return tuple(measurement_of(row) for row in table("measurements.csv"))


@cache
def _titles() -> Mapping[str, str]:
    return {row.text("key"): row.text("title") for row in table("sources.csv")}


def title(source: str) -> str:
    """Return the title of a source key of the measurements."""
    return _titles()[source]


def measurement_of(row: Row) -> Measurement:
    """Return the measurement in a line of `measurements.csv`, or of a file with its columns."""
    return read_as(Measurement, row, workload_class=cast(WorkloadClass, row.text("class")))


@dataclass(frozen=True, slots=True)
class Evidence:
    """A ratio, new over old: of time or of energy per unit, from that many measured pairs.

    It is the effect of a change other than hardware; benchmarks/suggestions makes `evidence.csv`.
    """

    key: str
    figure: str
    low: float
    value: float
    high: float
    pairs: int
    source: tuple[str, ...]

    @property
    def titles(self) -> str:
        """Return the titles of the sources."""
        return "; ".join(title(key) for key in self.source)

    def ratio(self, exponent: float = 1.0) -> Quantity:
        """Return the ratio, raised to an exponent for fewer doublings than were measured."""
        ends = (self.value**exponent, self.low**exponent, self.high**exponent)
        text = f"{self.titles}: {self.pairs} pairs ({self.key})"
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
    found = (read_as(Evidence, row) for row in table("evidence.csv"))
    return {(one.key, one.figure): one for one in found}

"""The published measurements packaged in `advice/data`, and pairs of them that may be compared.

docs/suggestions.md says what each file holds and where it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import cast

from gramwatt.sci.advice.request import WorkloadClass
from gramwatt.sci.base.csv_data import Row, data_text, parse

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
        """ln(time on target / time now)."""
        return math.log(self.now.units_per_s / self.target.units_per_s)

    @property
    def log_energy(self) -> float | None:
        """ln(board energy on target / now) per unit; None without board power."""
        if self.now.power_w is None or self.target.power_w is None:
            return None
        return self.log_time + math.log(self.target.power_w / self.now.power_w)


def pairs(rows: Iterable[Measurement]) -> Iterator[Pair]:
    """Every ordered pair of rows of different parts within a group."""
    groups: dict[Group, list[Measurement]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    for members in groups.values():
        for now, target in permutations(members, 2):
            if now.hardware != target.hardware:
                yield Pair(now, target)


@cache
def table(name: str) -> tuple[Row, ...]:
    """The rows of a data file of this package, read once per process."""
    return tuple(parse(data_text(name, "gramwatt.sci.advice")))


@cache
def measurements() -> tuple[Measurement, ...]:
    """Every published measurement, in the order of the file."""
    return tuple(measurement_of(row) for row in table("measurements.csv"))


@cache
def _titles() -> Mapping[str, str]:
    return {row.text("key"): row.text("title") for row in table("sources.csv")}


def title(source: str) -> str:
    """The title of a source key of the measurements."""
    return _titles()[source]


def measurement_of(row: Row) -> Measurement:
    """The measurement in a line of `measurements.csv`, or of a file with its columns."""
    return Measurement(
        id=row.text("id"),
        use=row.text("use"),
        workload_class=cast(WorkloadClass, row.text("class")),
        family=row.text("family"),
        workload=row.text("workload"),
        stack=row.text("stack"),
        precision=row.text("precision"),
        point=row.text("point"),
        round=row.text("round"),
        batch=row.number("batch"),
        hardware=row.text("hardware"),
        count=int(row.known("count")),
        units_per_s=row.known("units_per_s"),
        power_w=row.number("power_w"),
        energy_scope=row.text("energy_scope"),
        source=row.text("source"),
    )

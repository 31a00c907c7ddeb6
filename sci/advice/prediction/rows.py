"""Readers of the advice data packaged in `advice/data`: measurements, fitted table, rules.

docs/suggestions.md says what each file holds and where it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from gramwatt.sci.base.csv_data import Row, data_text, parse

WorkloadClass = Literal[
    "training", "batch-inference", "decode", "prefill", "llm-serving", "recsys", "small"
]
CLASSES: tuple[WorkloadClass, ...] = get_args(WorkloadClass)
Group = tuple[str, ...]
"""What rows have in common that may be compared: all but the hardware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One published (or own) measurement of a workload on a part, per device as the driver lists.

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
    model_parameters: float | None
    hardware: str
    count: int
    units_per_s: float
    unit: str
    power_w: float | None
    energy_scope: str
    source: str

    @property
    def group(self) -> Group:
        """Rows of one group ran the same work. MLPerf lets each part choose its precision."""
        free = self.source.startswith("mlperf")
        precision = "" if free else self.precision
        return (self.source, self.round, self.workload, self.point, precision)


def workload_class(name: str) -> WorkloadClass:
    """The class of that name; raises KeyError."""
    return {known: known for known in CLASSES}[name]  # type: ignore[index]


@cache
def table(name: str) -> tuple[Row, ...]:
    """The rows of a data file of this package, read once per process."""
    return tuple(parse(data_text(name, "gramwatt.sci.advice")))


@cache
def measurements() -> tuple[Measurement, ...]:
    """Every public measurement, in the order of the file."""
    return tuple(_measurement(row) for row in table("measurements.csv"))


@cache
def source_texts() -> Mapping[str, str]:
    """What each source key of the measurements stands for, in words."""
    return {row.text("key"): row.text("title") for row in table("sources.csv")}


def cited(key: str) -> str:
    """A source in words, or the key itself where it is the organisation's own."""
    return source_texts().get(key, key)


def _measurement(row: Row) -> Measurement:
    return Measurement(
        id=row.text("id"),
        use=row.text("use"),
        workload_class=workload_class(row.text("class")),
        family=row.text("family"),
        workload=row.text("workload"),
        stack=row.text("stack"),
        precision=row.text("precision"),
        point=row.text("point"),
        round=row.text("round"),
        batch=row.number("batch"),
        model_parameters=row.number("model_parameters"),
        hardware=row.text("hardware"),
        count=int(row.known("count")),
        units_per_s=row.known("units_per_s"),
        unit=row.text("unit"),
        power_w=row.number("power_w"),
        energy_scope=row.text("energy_scope"),
        source=row.text("source"),
    )

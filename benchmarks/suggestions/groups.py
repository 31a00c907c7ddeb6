"""The same work measured on two devices or more: `data/measurements.csv` by source and work.

Sources are the unit of every figure: what a number is worth is how it does on a source that it was
not fitted to. A row is the best published result of a device; `sources.csv` of the package names
each source with its licence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import field

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.catalog.hardware import Hardware
from gramwatt.sci.estimate.ranking import Work, work_of
from gramwatt.sci.figures.checks import Amount
from gramwatt.sci.figures.csv_data import Cell, Row, read_rows
from gramwatt.sci.suggest.request import WorkloadClass

DATA = Path(__file__).parent / "data"
Metric = Literal["board", "wall", "rated"]
"""What stands for energy: metered at the board, metered at the wall, or time x rated power."""
TUNED = "tuned"
REFUSED = ("interactive",)
"""Classes that the product does not rank."""
SOFTWARE = {"training": "nemo", "recsys": "nemo"}
"""Software of tuned results by class; tensorrt for all others."""
SAME_RUN = {"3d-unet-99.9": "3d-unet-99", "dlrm-99.9": "dlrm-99", "bert-99.9": "bert-99"}
"""Workloads of MLPerf whose rows are the runs of another."""


class Measurement(Row, frozen=True, kw_only=True):
    """One published measurement of a workload, per device as the driver lists them.

    `units_per_s` [unit/s] and `power_w` [W] are per device; `power_w` is the board's, or with
    `energy_scope` "system" the device's share of the whole machine. `use` is "time" for rates,
    "power" for whole-machine rows, "none" for rows kept as context only.
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


@cache
def measurements() -> tuple[Measurement, ...]:
    """Return every published measurement, in the order of the file."""
    text = (DATA / "measurements.csv").read_text(encoding="utf-8")
    return tuple(read_rows(Measurement, text, "measurements.csv"))


@dataclass(frozen=True, slots=True)
class Group:
    """One source's rows of the same work at the same operating point, by hardware."""

    source: str
    workload_class: WorkloadClass
    work: str
    metric: Metric
    rows: dict[str, Measurement]

    @property
    def name(self) -> str:
        """Return the source and the class, which are held out together."""
        return f"{self.source}, {self.workload_class}"

    def energies(self, catalog: Catalog) -> dict[str, float]:
        """Return energy a unit by hardware; where it was not metered, time x rated power."""
        return {
            name: (
                row.power_w
                if self.metric != "rated" and row.power_w
                else catalog.hardware(name).tdp_w or math.nan
            )
            / row.units_per_s
            for name, row in self.rows.items()
        }

    def work_on(self, now: str, catalog: Catalog) -> Work:
        """Return what a user of that hardware would say of the work."""
        row, part = self.rows[now], catalog.hardware(now)
        share = (
            row.power_w / part.tdp_w
            if self.metric == "board" and row.power_w and part.tdp_w
            else None
        )
        return work_of(
            self.workload_class,
            precision_of(row),
            framework_of(row),
            infers=self.workload_class in ("batch-inference", "llm-serving"),
            batch_size=row.batch,
            power_share=share,
            model_parameters=row.model_parameters,
        )


def precision_of(row: Measurement) -> str | None:
    """Return the precision of a row as a request names it; None where its source states none."""
    names = {"q4": "int4", "fp32-cores": "fp32", "mixed": "fp8", "unstated": None, "": None}
    return names.get(row.precision, row.precision)


def framework_of(row: Measurement) -> str:
    """Return the framework of a row as a request names it."""
    return SOFTWARE.get(row.workload_class, "tensorrt") if row.stack == TUNED else row.stack


def groups(catalog: Catalog) -> list[Group]:
    """Return every group of two devices or more whose data sheets are in the catalog."""
    found: dict[tuple[str, ...], Group] = {}
    for row in measurements():
        part, metric = catalog.hardware(row.hardware), _metric(row)
        if metric is None or not part.tdp_w or not part.memory_bandwidth_gbs:
            continue
        work = f"{row.workload}, {row.point}".removesuffix(", best published result")
        precision = "" if row.stack == TUNED else row.precision
        key = (row.source, row.round, row.workload_class, work, precision)
        group = found.setdefault(key, Group(row.source, row.workload_class, work, metric, {}))
        best = group.rows.get(row.hardware)
        if best is None or best.units_per_s < row.units_per_s:
            group.rows[row.hardware] = row
    return [group for group in found.values() if len(group.rows) > 1]


def _metric(row: Measurement) -> Metric | None:
    if row.use == "none" or row.workload_class == "small" or row.workload in SAME_RUN:
        return None
    if row.use == "power":
        return "wall" if row.source == "mlperf-systems" else None
    return "board" if row.power_w else "rated"


class Pair(NamedTuple):
    """Two devices of a group, logarithms of time and energy on the target over now, and a weight.

    The weights of all pairs of a source and class sum to 1.
    """

    group: Group
    now: Hardware
    target: Hardware
    time: float
    energy: float
    weight: float


def pairs(every: list[Group], catalog: Catalog) -> Iterator[Pair]:
    """Yield every ordered pair of devices of the groups."""
    sizes: dict[str, int] = {}
    for group in every:
        sizes[group.name] = sizes.get(group.name, 0) + 1
    for group in every:
        energies, number = group.energies(catalog), len(group.rows)
        for now, row in group.rows.items():
            for target, other in group.rows.items():
                if now != target:
                    yield Pair(
                        group,
                        catalog.hardware(now),
                        catalog.hardware(target),
                        math.log(row.units_per_s / other.units_per_s),
                        math.log(energies[target] / energies[now]),
                        1 / (number * (number - 1) * sizes[group.name]),
                    )

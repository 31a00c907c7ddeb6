"""Published results of the same model on two devices, beside what data sheets say of them.

Asked of a model in another round, with software tuned to each device, such a ratio is off by half
of what the ranking is off. Of other models of the class, and of other software, published ratios
say nothing that the ranking does not (docs/reference/suggestions-accuracy.md): these
rows are not shipped.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import fmean
from typing import NamedTuple

from msgspec import field

from gramwatt.sci.catalog.hardware import Hardware
from gramwatt.sci.estimate.ranking import Log, Work, number
from gramwatt.sci.figures.checks import Amount
from gramwatt.sci.figures.csv_data import Cell, Row, rows
from gramwatt.sci.suggest.request import WorkloadClass

SAME_SIZE = 0.05
"""How far the parameters of the same model may differ, as users count them."""


class ResultRow(Row, frozen=True, kw_only=True):
    """The best published result of a model on a device, per device as the driver lists them.

    benchmarks/suggestions makes the file; rows of one source, round and point are comparable.
    """

    files = ("measured.csv",)
    package = "gramwatt.sci.suggest"

    id: Cell
    workload_class: WorkloadClass = field(name="class")
    workload: Cell
    model_parameters: Amount
    round: Cell
    point: Cell
    hardware: Cell
    units_per_s: Amount
    unit: Cell
    source: Cell


class Published(NamedTuple):
    """ln(time on the target over now) of a model, its name and the keys of its sources."""

    time: Log
    workload: str
    sources: tuple[str, ...]


@cache
def _results() -> dict[tuple[WorkloadClass, str], list[ResultRow]]:
    results: dict[tuple[WorkloadClass, str], list[ResultRow]] = {}
    for row in rows(ResultRow):
        results.setdefault((row.workload_class, row.hardware), []).append(row)
    return results


def published_time(
    now: Hardware,
    target: Hardware,
    workload_class: WorkloadClass | None,
    work: Work,
    model_parameters: float | None,
    without: str | None = None,
) -> Published | None:
    """Return the published ratio of time of the same model; None where there is none.

    Only software tuned to each device counts, and of language models served full only the work that
    may choose its precision, as these results did. `without` leaves out a source.
    """
    if workload_class is None or model_parameters is None or not work.tuned:
        return None
    if work.regime == "full" and not work.narrowest:
        return None
    sides = [
        {
            (row.source, row.round, row.workload, row.point): row
            for row in _results().get((workload_class, part.id), ())
            if abs(row.model_parameters / model_parameters - 1) <= SAME_SIZE
            and row.source != without
        }
        for part in (now, target)
    ]
    both = sorted(sides[0].keys() & sides[1].keys())
    if not both:
        return None
    ratios = [math.log(sides[0][key].units_per_s / sides[1][key].units_per_s) for key in both]
    sources = tuple(dict.fromkeys(key[0] for key in both))
    return Published(Log(fmean(ratios), number("measured")), both[0][2], sources)

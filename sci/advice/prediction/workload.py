"""Which class of workload a job belongs to, and what share of rated power that class draws.

The order is: the class the user declared; a small job by its power; the kind of job with its batch.
The thresholds are estimates: no public table pairs utilisation with throughput on other hardware.
docs/suggestions.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from msgspec import field

from gramwatt.sci.advice.prediction.measurements import DataRow
from gramwatt.sci.advice.suggest_request import SuggestRequest, WorkloadClass
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.figures.checks import Amount
from gramwatt.sci.figures.csv_data import Cell, rows
from gramwatt.sci.figures.quantity import Quantity

SMALL_POWER_SHARE = 0.35
"""Mean over rated power below which a job is small: it does not follow specifications."""
SMALL_UTILISATION = 0.5
"""Busy share below which a job of low power is small rather than waiting for memory."""
MEMORY_BOUND = 0.6
"""Share of time that memory is active above which inference is decoding."""
LLM_PARAMETERS = 1e9
"""Models from this size on are taken for language models when they infer."""
REINFORCEMENT = ("stable-baselines3", "sb3", "rllib", "cleanrl", "torchrl", "sample-factory")
"""Frameworks of reinforcement learning, whose environments run on the processor."""
REINFORCED_POWER = 0.5
"""Mean over rated power from which on such a job keeps its device busy all the same."""
POWER_OF_CLASS = {
    "training": "training",
    "llm-serving": "llm-serving",
    "recsys": "recsys",
    "small": "recsys",
}
"""Whose power share a class takes; classes without metered rows that of all, small jobs that of
recommender training, which runs at as small a share of rated power."""


@dataclass(frozen=True, slots=True)
class Classified:
    """The class, None where unknown, and how it was found."""

    name: WorkloadClass | None
    reason: str


def classify(request: SuggestRequest, part: Hardware | None) -> Classified:
    """Return the class of the job in the request."""
    if request.workload_class:
        return Classified(request.workload_class, "class declared")
    if steps_environments(request, part):
        text = f"{request.framework} steps environments on the processor: reinforcement learning"
        return Classified("small", text)
    share = mean_power_share(request, part)
    busy = request.utilisation
    little = share is not None and share < SMALL_POWER_SHARE and (busy or 0.0) < SMALL_UTILISATION
    if share is not None and little and not request.pace:
        text = f"mean power is {share:.0%} of rated power, below {SMALL_POWER_SHARE:.0%}"
        if busy is not None:
            text += f", and the device was busy {busy:.0%} of the time"
        return Classified("small", text)
    if request.trains:
        return Classified("training", f"kind {request.kind or 'training'}")
    if request.kind in ("inference", "evaluation"):
        return _inference(request)
    return Classified(None, "neither kind nor workload_class is known")


def steps_environments(request: SuggestRequest, part: Hardware | None) -> bool:
    """Tell whether a host paces reinforcement learning here, by framework and power."""
    share = mean_power_share(request, part)
    named = (request.framework or "").strip().lower() in REINFORCEMENT
    return named and not request.pace and (share is None or share < REINFORCED_POWER)


def speed_class(request: SuggestRequest, name: WorkloadClass | None) -> WorkloadClass | None:
    """Return the class whose time ratios say if a part keeps up with a job that waits."""
    if name == "small":
        return "training" if request.trains else "batch-inference"
    return "decode" if name == "llm-serving" else name


def mean_power_share(request: SuggestRequest, part: Hardware | None) -> float | None:
    """Return the declared mean power over the part's rated power; None where one is not known."""
    if request.mean_power_w is None or part is None or not part.tdp_w:
        return None
    return request.mean_power_w / part.tdp_w


def power_share(name: WorkloadClass | None) -> Quantity:
    """Return the mean over rated board power by class, 80 % of the measured runs."""
    return _power_shares()[POWER_OF_CLASS.get(name or "", "other")]


class PowerRow(DataRow, frozen=True, kw_only=True):
    """Mean over rated board power of the measured runs of a class."""

    files = ("power.csv",)
    key = ("workload_class",)
    ranges = (("low", "value", "high"),)

    workload_class: Cell = field(name="class")
    low: Amount
    value: Amount
    high: Amount
    rows: int


@cache
def _power_shares() -> Mapping[str, Quantity]:
    return {
        row.workload_class: Quantity(
            row.value,
            row.low,
            row.high,
            "1",
            "derived",
            f"mean over rated board power of {row.rows} measured runs ({row.workload_class})",
        )
        for row in rows(PowerRow)
    }


def _inference(request: SuggestRequest) -> Classified:
    batch, size = request.batch_size, request.model_parameters or 0.0
    if size >= LLM_PARAMETERS:
        if batch is not None and batch <= 1:
            return Classified("decode", "inference of a large model, one sequence")
        return Classified("llm-serving", "inference of a large model, several sequences")
    if (request.memory_bandwidth_utilisation or 0.0) > MEMORY_BOUND and batch == 1:
        return Classified("decode", f"memory active more than {MEMORY_BOUND:.0%}, batch 1")
    if size and batch == 1:
        return Classified("small", "inference of a small model, batch 1")
    return Classified("batch-inference", "inference")

"""The time ratio of a job on another part, from the best evidence there is, or a refusal.

In this order: the organisation's own jobs; direct public rows (LLM serving); the
model fitted to the public table, wider where the part or the setting is not in it; nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from msgspec import field

from gramwatt.sci.advice.prediction.measurements import (
    DataRow,
    Pair,
    measurements,
    pairs,
)
from gramwatt.sci.advice.prediction.own_runs import OwnRow, own_ratios
from gramwatt.sci.advice.prediction.ratio_range import (
    Prediction,
    factor_range,
    refused,
    union_factor,
)
from gramwatt.sci.advice.prediction.serving import direct, serving_rows
from gramwatt.sci.advice.prediction.time_model import (
    FITTED_CLASSES,
    RATES,
    Setting,
    Specs,
    shipped_model,
    specs_of,
)
from gramwatt.sci.advice.suggest_request import WorkloadClass
from gramwatt.sci.catalog.catalog import Hardware, load_catalog
from gramwatt.sci.figures.checks import Amount
from gramwatt.sci.figures.csv_data import Cell, rows
from gramwatt.sci.figures.quantity import Quantity

STACKS: Mapping[str, str] = {
    "pytorch": "pytorch",
    "torch": "pytorch",
    "tensorrt": "tuned",
    "tensorrt-llm": "tuned",
    "llama.cpp": "llama.cpp",
    "vllm": "vllm",
}
"""The measurements' software stack of a framework; "tuned" are vendors' own entries of MLPerf."""
FAMILIES_MEASURED = 2
"""A part measured with fewer workloads than this in a class counts as not in the table."""
UNKNOWN_CLASS = 1.6
"""Least x/÷ factor where the class is not known (an estimate)."""
UNKNOWN_VENDOR = 1.25
"""Further x/÷ factor for a vendor without any row in the class (an estimate)."""
MEMORY_BOUND_POWER = 0.5
"""Power of decoding follows rated power less than that of computing: measured pairs of parts show
exponents of -0.5 (ML.ENERGY 2023) and 0.3 (ML.ENERGY), against 1.3 for training (Zeus)."""
UNKNOWN_CLASSES: tuple[WorkloadClass, ...] = ("training", "batch-inference", "decode")
MODEL_SOURCE = "time model fitted to published measurements (docs/suggestions-accuracy.md)"


@dataclass(frozen=True, slots=True)
class Workload:
    """What determines a job's time on another part; `name` is its workload in own measurements."""

    workload_class: WorkloadClass | None
    framework: str | None
    precision: str | None
    batch: float | None
    count: float
    name: str | None = None


def predict(
    workload: Workload, now: Hardware, target: Hardware, own: Sequence[OwnRow]
) -> Prediction:
    """Return the prediction for one target that is not the present part; `own` are rows of own
    jobs.
    """
    from_own_runs = own_ratios(own, now.id, target.id, workload.workload_class, workload.name)
    if from_own_runs is not None:
        return from_own_runs
    if workload.workload_class == "llm-serving":
        return direct(_serving_pairs().get((now.id, target.id), ()), workload.batch, workload.count)
    if workload.workload_class == "small":
        return _small(now, target)
    if workload.workload_class is None:
        return _unclassified(workload, now, target)
    return _modelled(workload, workload.workload_class, now, target)


def power_exponent(name: WorkloadClass | None) -> float:
    """Return the exponent of the ratio of rated powers that gives the ratio of mean powers."""
    return MEMORY_BOUND_POWER if name in ("decode", "llm-serving") else 1.0


def power_factor(name: WorkloadClass | None, *parts: Hardware) -> float:
    """Return the x/÷ factor of board power that follows from rated powers by `power_exponent`.

    Of its own class where that was measured, else of training; wider for parts that were not
    metered where few were. Small jobs take that of recommender training, which runs at as small a
    share of rated power.
    """
    name = "recsys" if name == "small" else name
    known = "full" if all((name, part.id) in _metered() for part in parts) else "full, new part"
    factors = _factors()
    return factors.get((name or "", "power", known), factors["training", "power", known])


def wall_factor(name: WorkloadClass | None) -> float | None:
    """Return the x/÷ factor of wall energy by time and rated powers; None where not known."""
    return _factors().get((name or "", "wall", "full"))


def stack_of(framework: str | None) -> str | None:
    """Return the measurements' software stack of a framework; None where they have none of it."""
    return STACKS.get((framework or "").lower())


def full_factor(name: WorkloadClass) -> float:
    """Return the x/÷ factor of the time ratio where all of the setting is known."""
    return _factors()[name, "time", "full"]


def steady_factor() -> float:
    """Return the x/÷ factor of time of work that is overhead, or that a part keeps up with."""
    return _factors()["small", "time", "plain"]


def families_measured(name: WorkloadClass | None) -> Mapping[str, int]:
    """Return how many workloads of that class were measured, by part."""
    parts = _families().get(name or "", {})
    return {part: len(set().union(*stacks.values())) for part, stacks in parts.items()}


def _small(now: Hardware, target: Hardware) -> Prediction:
    if "gpu" not in (now.device_class, target.device_class):
        return refused("small jobs were measured on GPUs only")
    text = "small jobs take about as long on every part: their time is overhead"
    time = factor_range(1.0, steady_factor(), f"{text} (ResNet-50, batch 1 to 8)")
    return Prediction(time, None, "class-model", "batch as now", (text,), (MODEL_SOURCE,))


def _unclassified(workload: Workload, now: Hardware, target: Hardware) -> Prediction:
    """Return the mean of the classes, as wide as all of them together."""
    of_classes = [_modelled(workload, name, now, target) for name in UNKNOWN_CLASSES]
    known = [prediction for prediction in of_classes if prediction.time is not None]
    times = [prediction.time for prediction in known if prediction.time is not None]
    if not times:
        return of_classes[0]
    # Known to no more than the least known class.
    least = next((one for one in known if one.basis == "class-model"), known[0])
    middle = math.exp(sum(math.log(time.value) for time in times) / len(times))
    low = min(middle / UNKNOWN_CLASS, *(time.low for time in times))
    high = max(middle * UNKNOWN_CLASS, *(time.high for time in times))
    time = Quantity(middle, low, high, "1", "estimated", f"{MODEL_SOURCE}, class not known")
    reason = "the class of work is not known: give kind or workload_class for a narrower range"
    return Prediction(time, None, least.basis, least.point, (reason,), least.sources)


def _modelled(
    workload: Workload,
    name: WorkloadClass,
    now: Hardware,
    target: Hardware,
) -> Prediction:
    setting = _setting(workload, name)
    counts = [(part, _counted(setting, part)) for part in (now, target)]
    for part, _ in counts:
        if part.device_class != "gpu" and part.id not in _families()[name]:
            return refused(f"nothing comparable was measured on {part.id} or parts of its kind")
    specs_now, specs_target = specs_of(now), specs_of(target)
    ratios = shipped_model().log_time_ratios(setting, specs_now, specs_target)
    if not ratios:
        return refused("the catalog lacks a peak rate or the bandwidth of one of the parts")
    in_table = min(count for _, count in counts) >= FAMILIES_MEASURED
    factor = _range_factor(setting, specs_now, specs_target, in_table=in_table)
    if setting.precision is not None:  # the range of an unknown one holds all rates already
        factor = union_factor(factor, ratios)
    if any(part.vendor not in _vendors()[name] for part in (now, target)):
        factor *= UNKNOWN_VENDOR
    source = f"{MODEL_SOURCE}, class {name}, 80 % within x/÷ {factor:.2f}"
    return Prediction(
        time=factor_range(math.exp(sum(ratios) / len(ratios)), factor, source),
        energy=None,
        basis="calibrated" if in_table else "class-model",
        point="same settings on each device, batch as large as now or as memory allows",
        reasons=tuple(_reasons(setting, counts)),
        sources=(MODEL_SOURCE,),
    )


def _counted(setting: Setting, part: Hardware) -> int:
    """Return how many workloads of the class, and the stack if known, a part was measured with."""
    found = _families()[setting.workload_class].get(part.id, {})
    if setting.known == "full":
        return len(found.get(setting.stack or "", ()))
    return len(set().union(*found.values()))


def _setting(workload: Workload, name: WorkloadClass) -> Setting:
    """Return the setting as far as the table knows it: the rest counts as unknown."""
    precision, stack = workload.precision, stack_of(workload.framework)
    if precision is None or (name, RATES[precision]) not in _rates():
        return Setting(name, None, None)
    return Setting(name, stack if (name, stack) in _stacks() else None, precision)


def _range_factor(setting: Setting, now: Specs, target: Specs, *, in_table: bool) -> float:
    """Return the x/÷ factor of the time ratio."""
    known, factors = setting.known, _factors()
    factor = factors[setting.workload_class, "time", known + ("" if in_table else ", new part")]
    if setting.crosses(now, target):
        across = factors.get((setting.workload_class, "time", f"{known}, crossing"), factor)
        return max(factor, across)
    return factor


def _reasons(setting: Setting, counts: Iterable[tuple[Hardware, int]]) -> list[str]:
    reasons = []
    software = f" on {setting.stack}" if setting.known == "full" else ""
    for part, count in counts:
        if count < FAMILIES_MEASURED:
            reasons.append(
                f"{part.id} was measured with {count} workload{'' if count == 1 else 's'} of class "
                f"{setting.workload_class}{software}: the range is that of a part not in the table"
            )
    unknown = {
        "plain": "precision is not known or not measured in this class: the range covers all",
        "precision": "framework not known or not measured in this class: the range covers all",
    }
    if setting.known in unknown:
        reasons.append(unknown[setting.known])
    if setting.precision == "fp32":
        reasons.append(
            "fp32 may run on TF32 units or plain cores: give precision tf32 if they are switched on"
        )
    return reasons


class RangeRow(DataRow, frozen=True, kw_only=True):
    """The x/÷ factor that held eight in ten of so many pairs."""

    files = ("ranges.csv",)
    key = ("workload_class", "figure", "known")

    workload_class: Cell = field(name="class")
    figure: Cell
    known: Cell
    factor: Amount
    pairs: int


@cache
def _factors() -> Mapping[tuple[str, str, str], float]:
    """Return the x/÷ factors of `ranges.csv` by class, figure and what is known of the setting."""
    return {(row.workload_class, row.figure, row.known): row.factor for row in rows(RangeRow)}


@cache
def _families() -> Mapping[str, Mapping[str, Mapping[str, set[str]]]]:
    """Return the workload families that were measured, by class, part and software stack."""
    found: dict[str, dict[str, dict[str, set[str]]]] = {name: {} for name in FITTED_CLASSES}
    found["llm-serving"] = {}
    for row in measurements():
        if row.use == "time" and row.workload_class in found:
            stacks = found[row.workload_class].setdefault(row.hardware, {})
            stacks.setdefault(row.stack, set()).add(row.family)
    return found


@cache
def _metered() -> frozenset[tuple[str | None, str]]:
    """Return the class and part of the rows with measured power of the board."""
    return frozenset(
        (row.workload_class, row.hardware)
        for row in measurements()
        if row.energy_scope == "board" and row.power_w
    )


@cache
def metered_vendors() -> frozenset[str]:
    """Return the vendors with parts whose board power was measured by class of work."""
    return frozenset(load_catalog().hardware(part).vendor for _, part in _metered())


@cache
def _stacks() -> frozenset[tuple[str, str]]:
    return frozenset((row.workload_class, row.stack) for row in measurements())


@cache
def _rates() -> frozenset[tuple[str, str]]:
    return frozenset((row.workload_class, RATES[row.precision]) for row in measurements())


@cache
def _vendors() -> Mapping[str, frozenset[str]]:
    """Return the vendors with measured parts, by class."""
    vendor_of = load_catalog().hardware
    return {
        name: frozenset(vendor_of(part).vendor for part in parts)
        for name, parts in _families().items()
    }


@cache
def _serving_pairs() -> Mapping[tuple[str, str], Sequence[Pair]]:
    """Return the pairs of serving rows by present and target part."""
    by_parts: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs(serving_rows(measurements())):
        by_parts.setdefault((pair.now.hardware, pair.target.hardware), []).append(pair)
    return by_parts

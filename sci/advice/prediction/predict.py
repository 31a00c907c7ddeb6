"""The time ratio of a job on another part, from the best evidence there is, or a refusal.

In this order: the organisation's own measurements; direct public rows (LLM serving); the model
fitted to the public table, wider where the part or the setting is not in it; nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gramwatt.sci.advice.constraints.support import STACKS
from gramwatt.sci.advice.documents import Basis
from gramwatt.sci.advice.prediction.calibration import OwnRow, own_ratio
from gramwatt.sci.advice.prediction.ratio_range import within
from gramwatt.sci.advice.prediction.regression import FITTED_CLASSES
from gramwatt.sci.advice.prediction.replay import Pair, pairs
from gramwatt.sci.advice.prediction.rows import WorkloadClass, cited, measurements, table
from gramwatt.sci.advice.prediction.serving import direct, serving_rows
from gramwatt.sci.advice.prediction.specs import RATES, Specs, specs_of
from gramwatt.sci.advice.prediction.time_model import Setting, shipped_model
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import Hardware

FAMILIES_MEASURED = 2
"""A part measured with fewer workloads than this in a class counts as not in the table."""
UNKNOWN_CLASS = 1.6
"""Least x/÷ factor where the class is not known (survey, section 5, an estimate)."""
UNKNOWN_VENDOR = 1.25
"""Further x/÷ factor for a vendor without any row in the class (survey's widening, an estimate)."""
UNKNOWN_CLASSES: tuple[WorkloadClass, ...] = ("training", "batch-inference", "decode")
MODEL_SOURCE = "time model fitted to published measurements (docs/suggestions-accuracy.md)"


@dataclass(frozen=True, slots=True)
class Prediction:
    """Time ratio, and the energy ratio where it was measured; None with a reason where refused."""

    time: Quantity | None
    energy: Quantity | None
    basis: Basis
    point: str
    reasons: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a job decides its time elsewhere; `workload` names it in the own measurements."""

    workload_class: WorkloadClass | None
    framework: str | None
    precision: str | None
    batch: float | None
    count: float
    workload: str | None = None


def predict(asked: Asked, now: Hardware, target: Hardware, own: Sequence[OwnRow]) -> Prediction:
    """The prediction for one target; the same part is not asked for here."""
    learnt = own_ratio(own, now.id, target.id, asked.workload_class, asked.workload)
    if learnt is not None:
        time, energy, point = learnt
        return Prediction(time, energy, "direct", point, (), (time.source,))
    if asked.workload_class == "llm-serving":
        return _served(asked, now, target)
    if asked.workload_class == "small":
        return _small(now, target)
    if asked.workload_class is None:
        return _unclassified(asked, now, target)
    return _modelled(asked, asked.workload_class, now, target)


def refusal(reason: str) -> Prediction:
    """No answer, and why."""
    return Prediction(None, None, "none", "", (reason,), ())


def _served(asked: Asked, now: Hardware, target: Hardware) -> Prediction:
    found = direct(_serving().get((now.id, target.id), ()), asked.batch, asked.count)
    if found.time is None:
        return refusal(found.refusal or "")
    sources = tuple(cited(key) for key in found.sources)
    text = f"direct measurements of {found.families} model families at {found.point}"
    low, middle, high = found.time
    time = Quantity(middle, low, high, "1", "measured", text)
    energy = None
    if found.energy:
        low, middle, high = found.energy
        energy = Quantity(middle, low, high, "1", "measured", text)
    reason = (
        f"{text}; the range holds all of them. Compared at equal concurrency and device count: a "
        "larger part that is given more sequences can do better"
    )
    return Prediction(time, energy, "direct", found.point, (reason,), sources)


def _small(now: Hardware, target: Hardware) -> Prediction:
    if "gpu" not in (now.device_class, target.device_class):
        return refusal("small jobs were measured on GPUs only")
    text = "small jobs take about as long on every part: their time is overhead"
    time = within(1.0, _factors()["small", "time", "plain"], f"{text} (ResNet-50, batch 1 to 8)")
    return Prediction(time, None, "class-model", "batch as now", (text,), (MODEL_SOURCE,))


def _unclassified(asked: Asked, now: Hardware, target: Hardware) -> Prediction:
    """The mean of the classes, as wide as all of them together."""
    found = [_modelled(asked, name, now, target) for name in UNKNOWN_CLASSES]
    known = [one for one in found if one.time is not None]
    times = [one.time for one in known if one.time is not None]
    if not times:
        return found[0]
    # Known to no more than the least known class.
    least = next((one for one in known if one.basis == "class-model"), known[0])
    middle = math.exp(sum(math.log(time.value) for time in times) / len(times))
    low = min(middle / UNKNOWN_CLASS, *(time.low for time in times))
    high = max(middle * UNKNOWN_CLASS, *(time.high for time in times))
    time = Quantity(middle, low, high, "1", "estimated", f"{MODEL_SOURCE}, class not known")
    reason = "the class of work is not known: give kind or workload_class for a narrower range"
    return Prediction(time, None, least.basis, least.point, (reason,), (MODEL_SOURCE,))


def _modelled(asked: Asked, name: WorkloadClass, now: Hardware, target: Hardware) -> Prediction:
    measured = [_families().get((name, part.id), 0) for part in (now, target)]
    for part, count in zip((now, target), measured, strict=True):
        if part.device_class != "gpu" and not count:
            return refusal(f"nothing comparable was measured on {part.id} or parts of its kind")
    setting = setting_for(name, asked.framework, asked.precision)
    ratio = shipped_model().log_time_ratio(setting, specs_of(now), specs_of(target))
    if ratio is None:
        return refusal("the catalog lacks a peak rate or the bandwidth of one of the parts")
    in_table = min(measured) >= FAMILIES_MEASURED
    factor = _range(setting, specs_of(now), specs_of(target), in_table)
    reasons = _reasons(asked, setting, zip((now, target), measured, strict=True))
    if any(part.vendor not in _vendors()[name] for part in (now, target)):
        factor *= UNKNOWN_VENDOR
    point = "same settings on each device, batch as large as now or as memory allows"
    basis: Basis = "calibrated" if in_table else "class-model"
    source = f"{MODEL_SOURCE}, class {name}, 80 % within x/÷ {factor:.2f}"
    time = within(math.exp(ratio), factor, source)
    return Prediction(time, None, basis, point, tuple(reasons), (MODEL_SOURCE,))


def setting_for(name: WorkloadClass, framework: str | None, precision: str | None) -> Setting:
    """The setting as far as the table knows it: the rest counts as unknown."""
    stack = STACKS.get((framework or "").lower())
    if precision is None or (name, RATES[precision]) not in _rates():
        return Setting(name, None, None)
    return Setting(name, stack if (name, stack) in _stacks() else None, precision)


def _range(setting: Setting, now: Specs, target: Specs, in_table: bool) -> float:
    """x/÷ factor of the time ratio."""
    known, factors = setting.known, _factors()
    factor = factors[setting.workload_class, "time", known + ("" if in_table else ", new part")]
    if setting.crosses(now, target):
        across = factors.get((setting.workload_class, "time", f"{known}, crossing"), factor)
        return max(factor, across)
    return factor


def _reasons(asked: Asked, setting: Setting, parts: Iterable[tuple[Hardware, int]]) -> list[str]:
    reasons = []
    for part, count in parts:
        if count < FAMILIES_MEASURED:
            reasons.append(
                f"{part.id} was measured with {count} workload{'' if count == 1 else 's'} of class "
                f"{setting.workload_class}: the range is that of a part not in the table"
            )
    unknown = {
        "plain": "precision is not known or not measured in this class: the range covers all",
        "precision": "framework not known or not measured in this class: the range covers all",
    }
    if setting.known in unknown:
        reasons.append(unknown[setting.known])
    if asked.precision == "fp32":
        reasons.append("fp32 is taken to run on TF32 units where the part has them")
    return reasons


@cache
def _factors() -> Mapping[tuple[str, str, str], float]:
    return {
        (row.text("class"), row.text("figure"), row.text("known")): row.known("factor")
        for row in table("ranges.csv")
    }


def energy_factor(name: str | None) -> float:
    """x/÷ factor of board energy: of its own class where measured, else of training.

    Small jobs take that of recommender training, which runs at as small a share of rated power.
    """
    own = {"recsys": "recsys", "small": "recsys"}.get(name or "", "training")
    return _factors()[own, "energy", "full"]


@cache
def _families() -> Mapping[tuple[str, str], int]:
    found: dict[tuple[str, str], set[str]] = {}
    for row in measurements():
        if row.use == "time" and row.workload_class in FITTED_CLASSES:
            found.setdefault((row.workload_class, row.hardware), set()).add(row.family)
    return {key: len(names) for key, names in found.items()}


def families_measured(name: str | None) -> Mapping[str, int]:
    """Workloads of that class, of training where it is not known, measured on each part."""
    wanted = name if name in FITTED_CLASSES else "training"
    return {part: count for (group, part), count in _families().items() if group == wanted}


@cache
def _stacks() -> frozenset[tuple[str, str]]:
    return frozenset((row.workload_class, row.stack) for row in measurements())


@cache
def _rates() -> frozenset[tuple[str, str]]:
    return frozenset((row.workload_class, RATES[row.precision]) for row in measurements())


@cache
def _vendors() -> Mapping[str, frozenset[str]]:
    names = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "google": "Google"}
    found: dict[str, set[str]] = {}
    for name, part in _families():
        found.setdefault(name, set()).add(names[part.split("-")[0]])
    return {name: frozenset(vendors) for name, vendors in found.items()}


@cache
def _serving() -> Mapping[tuple[str, str], Sequence[Pair]]:
    found: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs(serving_rows(measurements())):
        found.setdefault((pair.now.hardware, pair.target.hardware), []).append(pair)
    return found

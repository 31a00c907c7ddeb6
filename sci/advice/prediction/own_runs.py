"""Ratios from the organisation's own runs: each measured job with R is a row.

Own rows are used before the public table. A pair counts when the same workload ran on both parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any, cast

from msgspec import Struct

from gramwatt.sci.advice.prediction.ratio_range import Prediction
from gramwatt.sci.advice.prediction.workload import classify
from gramwatt.sci.advice.suggest_request import CLASSES, METHODS, SuggestRequest, WorkloadClass
from gramwatt.sci.figures.checks import Amount, checked
from gramwatt.sci.figures.document import DeviceDoc, JobDoc
from gramwatt.sci.figures.quantity import METERED, Quantity
from gramwatt.sci.month.compare import is_synthetic
from gramwatt.sci.records.records import ACCELERATORS, JobKind

SINGLE_RUN = 1.1
"""x/÷ factor of a ratio of two single runs; an estimate until runs repeat."""
OTHER_WORKLOADS = 1.3
"""x/÷ factor from other workloads to this one: that of the public table for training."""
WORKLOADS_LEAST = 2
"""Own workloads of a class that must have run on both parts, to predict another of that class."""
UNLIKE_EACH_OTHER = ("llm-serving", "small")
"""Classes of which one workload says nothing of another: serving follows its software and its
concurrency, and small jobs wait for their hosts."""


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


@dataclass(frozen=True, slots=True)
class PresentRun:
    """What a request says of the present run: part, class, and rates [unit/s] of one device."""

    hardware: str
    workload_class: str | None
    units_per_s: Mapping[str, float]


def own_row(document: JobDoc) -> OwnRow | None:
    """Return the row of a job document; None where the job cannot be one.

    It must have ended well, counted a declared unit, run on devices of one known part and measured
    their energy with a real meter.
    """
    devices = accelerators_of(document)
    name = only_part(document)
    counted = [score for score in document.sci if score.count > 0 and score.unit != "job"]
    seconds, power = document.duration_s, mean_power_w(document)
    energies = [device.energy_j for device in devices]
    if any(energy.kind not in METERED for energy in energies if energy):
        return None
    if document.state != "completed" or is_synthetic(document) or not counted:
        return None
    if name is None or power is None or not seconds:
        return None
    return OwnRow(
        job_id=document.job_id,
        workload=workload_of(document),
        workload_class=class_of(document),
        hardware=name,
        count=len(devices),
        unit=counted[0].unit,
        units_per_s=counted[0].count / seconds / len(devices),
        power_w=power,
    )


def own_rows(documents: Iterable[JobDoc]) -> list[OwnRow]:
    """Return the rows of those jobs that can be one."""
    return [row for row in map(own_row, documents) if row is not None]


def workload_of(document: JobDoc) -> str:
    """Return what names the same work in jobs: the model if known, else project and name."""
    return document.model_id or f"{document.project}/{document.name}"


def tagged(document: JobDoc) -> dict[str, Any]:
    """Return what tags say of the run, by field of a request; meaningless ones are left out."""
    tags = document.tags
    fields: dict[str, Any] = {}
    for name, choices in (("method", METHODS), ("workload_class", CLASSES)):
        if tags.get(name) in choices:
            fields[name] = tags[name]
    for name in ("batch_size", "model_parameters"):
        try:
            fields[name] = checked(Amount, tags.get(name, ""), strict=False)
        except ValueError:
            continue
    return fields


def class_of(document: JobDoc) -> WorkloadClass | None:
    """Return the class of a job's work by its kind and tags; None where they do not give it."""
    kind = cast(JobKind, document.kind)
    return classify(SuggestRequest(kind=kind, **tagged(document)), None).name


def accelerators_of(document: JobDoc) -> list[DeviceDoc]:
    """Return the accelerators among a job's devices."""
    return [device for device in document.devices if device.device_class in ACCELERATORS]


def only_part(document: JobDoc) -> str | None:
    """Return the catalog id of a job's accelerators; None where unknown, or of several kinds."""
    names = {device.hardware for device in accelerators_of(document)}
    return names.pop() if len(names) == 1 else None


def mean_power_w(document: JobDoc) -> float | None:
    """Return the mean power of an accelerator over the job [W]; None if an energy is unknown."""
    devices, seconds = accelerators_of(document), document.duration_s
    energies = [device.energy_j for device in devices]
    known = [energy.value for energy in energies if energy is not None]
    if not devices or not seconds or len(known) != len(devices):
        return None
    return sum(known) / len(devices) / seconds


def own_ratios(
    rows: Sequence[OwnRow], now: str, target: str, name: str | None, workload: str | None
) -> Prediction | None:
    """Return own ratios of two parts: of this workload, else of several others of its class."""
    by_workload = _pairs(rows, now, target)
    if workload is not None and workload in by_workload:
        text = f"own measurements of {workload} on both parts"
        return _ratios(by_workload[workload], text, SINGLE_RUN)
    classes = {row.workload: row.workload_class for row in reversed(rows)}
    same_class = [found for key, found in by_workload.items() if classes[key] == name]
    if name is None or name in UNLIKE_EACH_OTHER or len(same_class) < WORKLOADS_LEAST:
        return None
    text = f"own measurements of {len(same_class)} other workloads of class {name}"
    return _ratios([pair for found in same_class for pair in found], text, OTHER_WORKLOADS)


def recognised(rows: Sequence[OwnRow], run: PresentRun) -> str | None:
    """Return the own workload of a run, by part, class, unit and rate; None unless one matches.

    Runs of one workload on one part differ by less than `SINGLE_RUN`, with which they are compared.
    """
    matching = {
        row.workload
        for row in rows
        if row.hardware == run.hardware and row.unit in run.units_per_s
        if None in (row.workload_class, run.workload_class)
        or row.workload_class == run.workload_class
        if abs(math.log(row.units_per_s / run.units_per_s[row.unit])) <= math.log(SINGLE_RUN)
    }
    return matching.pop() if len(matching) == 1 else None


def _pairs(rows: Sequence[OwnRow], now: str, target: str) -> dict[str, list[tuple[OwnRow, OwnRow]]]:
    """Return every run on one part with every run of the same work on the other, by workload."""
    by_workload: dict[str, list[tuple[OwnRow, OwnRow]]] = {}
    runs_now = [row for row in rows if row.hardware == now]
    runs_target = [row for row in rows if row.hardware == target]
    for run, other in product(runs_now, runs_target):
        if (run.workload, run.unit) == (other.workload, other.unit):
            by_workload.setdefault(run.workload, []).append((run, other))
    return by_workload


def _ratios(pairs: Sequence[tuple[OwnRow, OwnRow]], text: str, least: float) -> Prediction:
    times = [math.log(run.units_per_s / other.units_per_s) for run, other in pairs]
    powers = [math.log(other.power_w / run.power_w) for run, other in pairs]
    energies = [time + power for time, power in zip(times, powers, strict=True)]
    time, energy = (_ratio(logs, text, least) for logs in (times, energies))
    return Prediction(time, energy, "direct", f"{text}, per device", sources=(text,))


def _ratio(logs: Sequence[float], text: str, least: float) -> Quantity:
    """Return the median with a range that holds every run, and at least x/÷ `least`."""
    middle, margin = median(logs), math.log(least)
    low, high = min(*logs, middle - margin), max(*logs, middle + margin)
    ends = (math.exp(middle), math.exp(low), math.exp(high))
    return Quantity(*ends, "1", "measured", text)

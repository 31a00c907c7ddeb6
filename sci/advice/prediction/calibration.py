"""What the organisation's own jobs teach: each measured job with R is a calibration row.

Own rows are used before the public table. A pair counts when the same workload ran on both parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from gramwatt.sci.base.document import DeviceDoc, JobDoc
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import Catalog

ACCELERATORS = ("gpu", "accelerator", "module")
SINGLE_RUN = 1.1
"""x/÷ factor of a ratio of two single runs; an estimate until runs repeat."""
OTHER_WORKLOADS = 1.3
"""x/÷ factor from other workloads to this one: that of the public table for training."""
WORKLOADS_LEAST = 2
"""Own workloads of a class that ran on both parts, to speak for another workload of that class."""
CLASS_OF_KIND = {"training": "training", "fine-tuning": "training"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRow:
    """One measured job: work per second and power [W] of one device, and what work it was."""

    job_id: str
    workload: str
    workload_class: str | None
    hardware: str
    count: int
    unit: str
    units_per_s: float
    power_w: float

    def to_doc(self) -> dict[str, Any]:
        """This row as JSON-ready data, for export."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Run:
    """What a question says of the present run: part, class, and rates [unit/s] of one device."""

    hardware: str
    workload_class: str | None
    units_per_s: Mapping[str, float]


def row_of(document: JobDoc) -> OwnRow | None:
    """The calibration row of a job document; None where the job cannot teach.

    It must have ended well, counted a declared unit, run on devices of one known part and measured
    their energy with a real meter.
    """
    devices = accelerators_of(document)
    names = {device["hardware"] for device in devices}
    counted = [score for score in document["sci"] if score["count"] > 0 and score["unit"] != "job"]
    seconds = document["duration_s"]
    known = document["state"] == "completed" and len(names) == 1 and counted and seconds
    power = mean_power_w(document)
    name = next(iter(names), None)
    if not known or is_synthetic(document) or power is None or name is None or not seconds:
        return None
    if any(device["energy_j"]["kind"] not in MEASURED for device in devices if device["energy_j"]):
        return None
    return OwnRow(
        job_id=document["job_id"],
        workload=workload_of(document),
        workload_class=CLASS_OF_KIND.get(document["kind"]),
        hardware=name,
        count=len(devices),
        unit=counted[0]["unit"],
        units_per_s=counted[0]["count"] / seconds / len(devices),
        power_w=power,
    )


MEASURED = ("measured", "integrated", "attributed")


def is_synthetic(document: JobDoc) -> bool:
    """Whether readings come from a meter that is no hardware: they teach nothing."""
    return any(notice["code"] == "meter-synthetic" for notice in document["notices"])


def workload_of(document: JobDoc) -> str:
    """What names the same work in several jobs: the model if it is known, else project and name."""
    return document["model_id"] or f"{document['project']}/{document['name']}"


def accelerators_of(document: JobDoc) -> list[DeviceDoc]:
    """The accelerators among a job's devices."""
    return [device for device in document["devices"] if device["class"] in ACCELERATORS]


def mean_power_w(document: JobDoc) -> float | None:
    """Mean power of one accelerator over the job [W]; None where an energy is not known."""
    devices, seconds = accelerators_of(document), document["duration_s"]
    energies = [device["energy_j"] for device in devices]
    known = [energy["value"] for energy in energies if energy is not None]
    if not devices or not seconds or len(known) != len(devices):
        return None
    return sum(known) / len(devices) / seconds


def rows_of(documents: Iterable[JobDoc]) -> list[OwnRow]:
    """The calibration rows of those jobs that can teach."""
    found = (row_of(document) for document in documents)
    return [row for row in found if row is not None]


def own_rows(documents: Iterable[Mapping[str, Any]], catalog: Catalog) -> list[OwnRow]:
    """Rows that `OwnRow.to_doc` wrote; hardware names are looked up (raises LookupFailed)."""
    return [
        OwnRow(**{**document, "hardware": catalog.hardware(document["hardware"]).id})
        for document in documents
    ]


Learnt = tuple[Quantity, Quantity, str]
"""Time ratio, energy ratio and operating point."""


def own_ratio(
    rows: Sequence[OwnRow], now: str, target: str, name: str | None, workload: str | None
) -> Learnt | None:
    """Own ratios of two parts: of this very workload, else of several others of its class."""
    pairs = _pairs(rows, now, target)
    if workload is not None and workload in pairs:
        text = f"own measurements of {workload} on both parts"
        return _learnt(pairs[workload], text, SINGLE_RUN)
    same = {key: found for key, found in pairs.items() if _class(rows, key) == name}
    if name is None or len(same) < WORKLOADS_LEAST:
        return None
    every = [pair for found in same.values() for pair in found]
    text = f"own measurements of {len(same)} other workloads of class {name}"
    return _learnt(every, text, OTHER_WORKLOADS)


def recognised(rows: Sequence[OwnRow], run: Run) -> str | None:
    """The own workload that a run is, told by part, class, unit and rate; None where not one alone.

    Runs of one workload on one part differ by less than `SINGLE_RUN`, with which they are compared.
    """
    found = {
        row.workload
        for row in rows
        if row.hardware == run.hardware and row.unit in run.units_per_s
        if None in (row.workload_class, run.workload_class)
        or row.workload_class == run.workload_class
        if abs(math.log(row.units_per_s / run.units_per_s[row.unit])) <= math.log(SINGLE_RUN)
    }
    return found.pop() if len(found) == 1 else None


Logs = tuple[float, float]


def _pairs(rows: Sequence[OwnRow], now: str, target: str) -> dict[str, list[Logs]]:
    """Logarithms of time and energy ratio by workload, every run against every run."""
    found: dict[str, list[Logs]] = {}
    here = [row for row in rows if row.hardware == now]
    there = [row for row in rows if row.hardware == target]
    for one in here:
        for other in there:
            if (one.workload, one.unit) == (other.workload, other.unit):
                time = math.log(one.units_per_s / other.units_per_s)
                energy = time + math.log(other.power_w / one.power_w)
                found.setdefault(one.workload, []).append((time, energy))
    return found


def _class(rows: Sequence[OwnRow], workload: str) -> str | None:
    return next(row.workload_class for row in rows if row.workload == workload)


def _learnt(pairs: Sequence[Logs], text: str, least: float) -> Learnt:
    figures = []
    for which in (0, 1):
        logs = [pair[which] for pair in pairs]
        middle, room = median(logs), math.log(least)
        low, high = min(*logs, middle - room), max(*logs, middle + room)
        ends = (math.exp(middle), math.exp(low), math.exp(high))
        figures.append(Quantity(*ends, "1", "measured", text))
    return figures[0], figures[1], f"{text}, per device"

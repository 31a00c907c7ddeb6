"""How a job's terms divide: by class of device, overhead and idle reserve.

Each part is a share of a term of the job, so that sums over jobs weight it by that term.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from gramwatt.sci.figures.document import DeviceDoc, JobDoc, SeriesPoint
from gramwatt.sci.figures.meters import Sensor, energy, sensors
from gramwatt.sci.figures.quantity import Quantity, total
from gramwatt.sci.records.records import ACCELERATORS
from gramwatt.sci.score.assess import shares

Component = Literal["operational", "embodied"]
OVERHEAD, NO_ACCELERATOR = "overhead", "no accelerator"
COMPONENTS: tuple[tuple[Component, str], ...] = tuple(
    (part, name)
    for part in ("operational", "embodied")
    for name in ("gpu", "accelerator", "module", "cpu", "ram", "host", OVERHEAD)
)
"""Components of O and M with a range of their own, in the order in which parts number them."""
IDLE_BELOW = 0.05
"""Mean utilisation below which an accelerator counts as reserved but idle (a choice)."""
Breakdown = Literal["operational", "embodied", "boundary", "idle"]


def breakdown(job: JobDoc) -> dict[Breakdown, dict[str, float]]:
    """Return the breakdown of a job by key.

    `operational` and `embodied` sum to 1: electricity by the energy of classes of devices, and
    `overhead` for what PUE adds. `boundary` is the energy of accelerators, and of the facility,
    over E. `idle` are the shares of accelerators without work, and of those whose utilisation was
    `not seen`; with `time` the shares of all times in which accelerators had none.
    """
    sums: dict[Breakdown, dict[str, float]] = {}
    energy, pue = _by_class(job.devices, "energy_j"), job.method.pue.value
    joules = sum(energy.values())
    if joules > 0:
        by_class = {name: share / pue for name, share in shares(energy).items()}
        sums["operational"] = {**by_class, OVERHEAD: 1 - 1 / pue}
        sums["boundary"] = {
            "accelerators": sum(energy.get(name, 0.0) for name in ACCELERATORS) / joules,
            "facility": pue,
        }
    embodied = _by_class(job.devices, "embodied_g")
    grams = sum(embodied.values())
    if grams > 0:
        sums["embodied"] = shares(embodied)
    sums["idle"] = _idle(job, joules, grams)
    for name, share in _idle_time(job, joules, grams).items():
        sums["idle"][f"time {name}"] = max(share, sums["idle"].get(name, 0.0))
    return sums


def components(job: JobDoc) -> dict[tuple[Component, str], Quantity]:
    """Return the components of O and M [gCO2e], each with the range of its own meters or parts.

    Electricity of a class is as uncertain as its meters and the intensity, the overhead of the
    building as E, the intensity and what PUE is above 1. Inputs have the names that the terms have.
    """
    figures: dict[tuple[Component, str], Quantity] = {}
    grams = job.operational_g
    by_class: dict[str, list[Quantity]] = defaultdict(list)
    sensor_of = sensors(job.job_id, ((device.name, device.device_id) for device in job.devices))
    for device in job.devices:
        by_class[device.device_class] += _readings(sensor_of[device.name], device)
    sums = {name: total(parts) for name, parts in by_class.items()}
    whole = total(joules for joules in sums.values() if joules is not None)
    if grams and whole and grams.value > 0 and whole.value > 0 and grams.relative:
        pue = job.method.pue
        intensity = job.method.intensity_g_per_kwh
        per_joule = grams.value / whole.value / pue.value / intensity.value
        ends = max(0.0, pue.low - 1), pue.high - 1
        over = Quantity(pue.value - 1, *ends, pue.unit, pue.kind, pue.source)
        over = over.as_input(next(iter(pue.inputs), "pue"))
        for name, joules in (*sums.items(), (OVERHEAD, whole)):
            if joules is None or joules.value <= 0:
                continue
            figures["operational", name] = joules.times(intensity, "gCO2e").scaled(per_joule)
        figures["operational", OVERHEAD] = figures["operational", OVERHEAD].times(over, "gCO2e")
    parts_of: dict[str, list[Quantity]] = defaultdict(list)
    for device in job.devices:
        if device.embodied_g:
            parts_of[device.device_class].append(device.embodied_g)
    for name, parts in parts_of.items():
        summed = total(parts)
        if summed is not None and summed.value > 0:
            figures["embodied", name] = summed
    return figures


def _readings(sensor: Sensor, device: DeviceDoc) -> list[Quantity]:
    """Return the energy [J] of a device by kind."""
    return [
        energy(joules, kind, device.meter, sensor)  # type: ignore[arg-type]
        for kind, joules in device.kinds.items()
        if joules > 0
    ]


def hardware_of(job: JobDoc) -> str:
    """Return the accelerators of a job by catalog id, else by name; several kinds joined by "+"."""
    names = {d.hardware or d.name for d in job.devices if d.device_class in ACCELERATORS}
    return " + ".join(sorted(names)) or NO_ACCELERATOR


def _idle(job: JobDoc, joules: float, grams: float) -> dict[str, float]:
    accelerators = [device for device in job.devices if device.device_class in ACCELERATORS]
    busy = [(device, device.mean_utilisation) for device in accelerators]
    idle = [device for device, share in busy if share is not None and share < IDLE_BELOW]
    unseen = [device for device, share in busy if share is None]
    joules_of = {}
    if joules > 0 and idle:
        joules_of["energy"] = joules_of["operational"] = _summed(idle, "energy_j") / joules
    if joules > 0 and unseen:
        joules_of["not seen"] = _summed(unseen, "energy_j") / joules
    if grams > 0 and idle:
        joules_of["embodied"] = _summed(idle, "embodied_g") / grams
    return joules_of


def _idle_time(job: JobDoc, joules: float, grams: float) -> dict[str, float]:
    """Return the shares of O and M of the times in which accelerators had no work."""
    of_class = _by_class(job.devices, "embodied_g")
    idle_j = embodied = 0.0
    for name in ACCELERATORS:
        points = [point for point in job.series if point.device_class == name]
        idle = [
            point
            for point in points
            if point.utilisation is not None and point.utilisation < IDLE_BELOW
        ]
        idle_j += sum(point.energy_j for point in idle)
        if idle:
            embodied += of_class.get(name, 0.0) * _length_s(idle) / _length_s(points)
    seconds_of = {}
    if joules > 0 and idle_j > 0:
        seconds_of["operational"] = min(1.0, idle_j / joules)
    if grams > 0 and embodied > 0:
        seconds_of["embodied"] = embodied / grams
    return seconds_of


def _length_s(points: Iterable[SeriesPoint]) -> float:
    spans = (datetime.fromisoformat(p.end) - datetime.fromisoformat(p.start) for p in points)
    return sum(span.total_seconds() for span in spans)


def _by_class(
    devices: Iterable[DeviceDoc], term: Literal["energy_j", "embodied_g"]
) -> dict[str, float]:
    joules: dict[str, float] = defaultdict(float)
    for device in devices:
        if getattr(device, term):
            joules[device.device_class] += _summed([device], term)
    return joules


def _summed(devices: Iterable[DeviceDoc], term: Literal["energy_j", "embodied_g"]) -> float:
    figures = (getattr(device, term) for device in devices)
    return sum((figure.value for figure in figures if figure), 0.0)

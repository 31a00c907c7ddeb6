"""How a job's terms divide: by class of device, overhead, idle reserve and contract.

Each part is a share of a term of the job, so that sums over jobs weight it by that term.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

from gramwatt.sci.base.document import (
    DeviceDoc,
    JobDoc,
    Term,
)
from gramwatt.sci.journal.records import ACCELERATORS
from gramwatt.sci.score.assess import shares

OVERHEAD, NO_ACCELERATOR = "overhead", "no accelerator"
IDLE_BELOW = 0.05
"""Mean utilisation below which an accelerator counts as reserved but idle (a choice)."""
Breakdown = Literal["operational", "embodied", "boundary", "idle", "contract"]
WEIGHTS: Mapping[tuple[str, str], Term] = {
    ("boundary", "accelerators"): "energy_kwh",
    ("boundary", "facility"): "energy_kwh",
    ("idle", "energy"): "energy_kwh",
    ("idle", "operational"): "operational_g",
    ("idle", "embodied"): "embodied_g",
    ("idle", "not seen"): "energy_kwh",
    ("contract", "g_per_kwh"): "energy_kwh",
}
"""The term of which each key is a share; `operational` and `embodied` divide their own term."""


def breakdown(job: JobDoc) -> dict[Breakdown, dict[str, float]]:
    """Return the breakdown of a job by key.

    `operational` and `embodied` sum to 1: electricity by the energy of classes of devices, and
    `overhead` for what PUE adds. `boundary` is the energy of accelerators, and of the facility,
    over E. `idle` are the shares of accelerators without work, and of those whose utilisation was
    `not seen`. `contract` is market-based carbon over E [gCO2e/kWh].
    """
    found: dict[Breakdown, dict[str, float]] = {}
    energy, pue = _by_class(job["devices"], "energy_j"), job["method"]["pue"]["value"]
    joules = sum(energy.values())
    if joules > 0:
        by_class = {name: share / pue for name, share in shares(energy).items()}
        found["operational"] = {**by_class, OVERHEAD: 1 - 1 / pue}
        found["boundary"] = {
            "accelerators": sum(energy.get(name, 0.0) for name in ACCELERATORS) / joules,
            "facility": pue,
        }
    embodied = _by_class(job["devices"], "embodied_g")
    grams = sum(embodied.values())
    if grams > 0:
        found["embodied"] = shares(embodied)
    found["idle"] = _idle(job, joules, grams)
    memo, read = job["memo"], job["energy_kwh"]
    if memo and memo["contract_g"] and read and read["value"] > 0:
        found["contract"] = {"g_per_kwh": memo["contract_g"]["value"] / read["value"]}
    return found


def hardware_of(job: JobDoc) -> str:
    """Return the accelerators of a job by catalog id, else by name; several kinds joined by "+"."""
    found = {d["hardware"] or d["name"] for d in job["devices"] if d["class"] in ACCELERATORS}
    return " + ".join(sorted(found)) or NO_ACCELERATOR


def method_of(job: JobDoc) -> list[str]:
    """Return what compared scores must share: versions, and signal and basis of intensity."""
    method = job["method"]
    return [
        method["engine_version"],
        method["catalog_version"],
        method["intensity_signal"],
        method["intensity_basis"],
    ]


def _idle(job: JobDoc, joules: float, grams: float) -> dict[str, float]:
    accelerators = [device for device in job["devices"] if device["class"] in ACCELERATORS]
    busy = [(device, device["mean_utilisation"]) for device in accelerators]
    idle = [device for device, share in busy if share is not None and share < IDLE_BELOW]
    unseen = [device for device, share in busy if share is None]
    found = {}
    if joules > 0 and idle:
        found["energy"] = found["operational"] = _summed(idle, "energy_j") / joules
    if joules > 0 and unseen:
        found["not seen"] = _summed(unseen, "energy_j") / joules
    if grams > 0 and idle:
        found["embodied"] = _summed(idle, "embodied_g") / grams
    return found


def _by_class(
    devices: Iterable[DeviceDoc], term: Literal["energy_j", "embodied_g"]
) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for device in devices:
        if device[term]:
            found[device["class"]] += _summed([device], term)
    return found


def _summed(devices: Iterable[DeviceDoc], term: Literal["energy_j", "embodied_g"]) -> float:
    figures = (device[term] for device in devices)
    return sum(figure["value"] for figure in figures if figure)

"""Reserved hardware that stands idle: share it, or release it."""

from __future__ import annotations

import math

from gramwatt.sci.advice.documents import Action, Suggestion, verdict_of
from gramwatt.sci.advice.memory import memory_need
from gramwatt.sci.advice.spread import ratio_of
from gramwatt.sci.advice.ways import Values
from gramwatt.sci.advice.work import Work
from gramwatt.sci.catalog import Hardware
from gramwatt.sci.quantity import Quantity

MIG_MOST = 7.0
"""Slices of one device (NVIDIA MIG)."""
SHARED_BUSY = 0.5
"""Busy share up to which two such jobs fit one device by time."""
RELEASED_BUSY = 0.9
"""Busy share from which on there is nothing to release."""


def share(work: Work) -> Suggestion | None:
    """A small job with another one on the same device, by MIG or by processes."""
    part, busy = work.part, work.question.utilisation
    if work.classified.name not in ("small", "recsys") or part is None or busy is None:
        return None
    if part.idle_w is None or not 0 < busy <= SHARED_BUSY or work.question.mean_power_w is None:
        return None
    jobs = min(MIG_MOST, math.floor(1 / busy), _by_memory(work, part))
    if jobs < 2:
        return None
    return _shared(work, part, jobs, busy)


def _shared(work: Work, part: Hardware, jobs: float, busy: float) -> Suggestion | None:
    power, idle = work.power_w(), part.idle_w
    operational, embodied = work.operational_g_h(), work.embodied_g_h(part)
    if power is None or idle is None or operational is None or embodied is None:
        return None
    text = f"{idle.source}; shared by 2 to {jobs:g} such jobs"
    others = Quantity(2.0, 2.0, jobs, "1", "derived", text)
    inputs = {"idle": idle, "jobs": others, "operational": operational, "embodied": embodied}

    def energy(at: Values) -> float:
        floor = min(at["idle"], power.value)
        return 1 - floor / power.value * (1 - 1 / at["jobs"])

    def carbon(at: Values) -> float:
        whole = at["operational"] + at["embodied"]
        new = at["operational"] * energy(at) + at["embodied"] / at["jobs"]
        return new / whole

    ratio = ratio_of(carbon, inputs, f"idle power and embodied carbon shared; {text}")
    reasons = [
        f"the device is busy {busy:.0%} of the time: {jobs:g} such jobs fit by time and memory",
        "counted with two jobs that both finish as before; measure what sharing costs each",
        "MIG slices, MPS or several processes; idle power and embodied carbon are then shared",
    ]
    action: Action = "consolidate" if work.count > 1 else "share"
    return Suggestion(
        action=action,
        verdict=verdict_of(ratio),
        basis="rule",
        count=work.count,
        energy_ratio=ratio_of(energy, {"idle": idle, "jobs": others}, text),
        carbon_ratio=ratio,
        saved_g=work.saved_g(ratio),
        operating_point="two such jobs on one device",
        reasons=reasons,
        sources=(text, "rule 54"),
    )


def stop_idle(work: Work) -> Suggestion | None:
    """Release devices while nothing runs on them."""
    part, busy, hours = work.part, work.question.utilisation, work.hours
    if part is None or part.idle_w is None or busy is None or busy >= RELEASED_BUSY:
        return None
    now, embodied = work.carbon_g_h(), work.embodied_g_h(part)
    if now is None or embodied is None:
        return None
    idle_kw = part.idle_w.scaled((1 - busy) * work.count / 1000, "kW")
    grams = idle_kw.times(work.intensity, "gCO2e/h").times(work.place.pue, "gCO2e/h")
    grams = grams + embodied.scaled((1 - busy) * work.count)
    saved = grams.scaled(hours, "gCO2e") if hours else None
    inputs = {"idle": grams, "now": now}
    ratio = ratio_of(lambda at: max(1e-6, 1 - at["idle"] / at["now"]), inputs, part.idle_w.source)
    reasons = [
        f"the devices were busy {busy:.0%} of the reserved time; the rest costs idle power and "
        "embodied carbon (rule 63)",
        "the figures hold if all of that time is released; gaps between kernels cannot be",
    ]
    return Suggestion(
        action="stop-idle",
        verdict=verdict_of(ratio),
        basis="rule",
        count=work.count,
        carbon_ratio=ratio,
        saved_g=saved,
        operating_point="devices released while idle",
        reasons=reasons,
        sources=(part.idle_w.source, "rule 63"),
    )


def _by_memory(work: Work, part: Hardware) -> float:
    need = memory_need(work.question)
    if need is None or need.each_gib is None or part.memory_gb is None:
        return 1.0
    return float(math.floor(part.memory_gb / need.each_gib))

"""Reserved hardware that stands idle: share it, or release it."""

from __future__ import annotations

import math
from dataclasses import replace

from gramwatt.sci.advice.constraints.slices import fitting_slice
from gramwatt.sci.advice.documents import Suggestion, verdict_of
from gramwatt.sci.advice.prediction.ratio_range import Values, ratio_of
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import Hardware

MIG_MOST = 7.0
"""Slices of one device (NVIDIA MIG)."""
SHARED_BUSY = 0.5
"""Busy share up to which two such jobs fit one device by time."""
LEAST_LEFT = 1e-3
"""Least carbon ratio, where nothing at all ran."""
RELEASED_BUSY = 0.9
"""Busy share from which on there is nothing to release."""


def share(work: Work) -> Suggestion | None:
    """A small job with another one on the same device, by MIG or by processes."""
    part, busy = work.part, work.request.utilisation
    if work.classified.name not in ("small", "recsys") or part is None or busy is None:
        return None
    if not 0 < busy <= SHARED_BUSY or work.request.mean_power_w is None:
        return None
    jobs = min(MIG_MOST, math.floor(1 / busy), _jobs_by_memory(work, part))
    return _shared(work, part, jobs, busy) if jobs >= 2 else None


def _shared(work: Work, part: Hardware, jobs: float, busy: float) -> Suggestion | None:
    power, idle = work.power_w, part.idle_w
    operational, embodied = work.operational_g_h, work.embodied_g_h
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
    each = work.need.each_gib if work.need else None
    piece = fitting_slice(part, each, busy) if each else None
    if piece:
        reasons.append(
            f"the MIG slice {piece} holds such a job by memory and busy share; power is the "
            "board's, so that a slice saves only with others on the board"
        )
    return Suggestion(
        action="consolidate" if work.count > 1 else "share",
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


def _jobs_by_memory(work: Work, part: Hardware) -> float:
    need = work.need
    if need is None or need.each_gib is None or part.memory_gb is None:
        return 1.0
    return float(math.floor(part.memory_gb / need.each_gib))


def stop_idle(work: Work) -> Suggestion | None:
    """Release devices while nothing runs on them.

    What is released draws idle power and its share of embodied carbon; the host's power is not
    counted. No device idles at more than its mean power, so at most the idle share of the time can
    be saved: the ratio is never below the busy share.
    """
    if work.request.trains or work.pace.name in ("input", "host"):
        return None  # the gaps lie between the steps of one run, which nobody can release
    part, busy = work.part, work.request.utilisation
    power, embodied = work.power_w, work.embodied_g_h
    if part is None or part.idle_w is None or busy is None or busy >= RELEASED_BUSY:
        return None
    if power is None or embodied is None:
        return None
    inputs = {
        "idle": part.idle_w,
        "power": power,
        "host": work.host_share,
        "g per W": work.grid_g_per_wh,
        "embodied": embodied,
    }

    def left(at: Values) -> float:
        now = at["power"] * (1 + at["host"]) * at["g per W"] + at["embodied"]
        idle = min(at["idle"], at["power"]) * at["g per W"] + at["embodied"]
        return max(LEAST_LEFT, 1 - (1 - busy) * idle / now)

    ratio = ratio_of(left, inputs, f"{part.idle_w.source}; embodied {embodied.source}")
    ratio = replace(ratio, low=min(ratio.value, max(busy, ratio.low)))
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
        saved_g=work.saved_g(ratio),
        operating_point="devices released while idle",
        reasons=reasons,
        sources=(part.idle_w.source, "rule 63"),
    )

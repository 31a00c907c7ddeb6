"""How a job is run: number of nodes, power limit, checkpoints, spot capacity."""

from __future__ import annotations

import math

from gramwatt.sci.advice.actions.builders import with_ratios, without_ratios
from gramwatt.sci.advice.documents import Suggestion
from gramwatt.sci.advice.prediction.evidence import evidence
from gramwatt.sci.advice.prediction.ratio_range import unchanged, widened
from gramwatt.sci.advice.prediction.workload import mean_power_share
from gramwatt.sci.advice.work import Work
from gramwatt.sci.catalog.catalog import Hardware

MEASURED_DEVICES = 72
"""Most devices of the runs whose energy is compared with that of one node."""
LIMITS = {0.75: 0.7, 0.55: 0.6}
"""Power limit over rated power that is suggested, by least mean power over rated power now: those
of the measured runs (benchmarks/suggestions/evidence.py)."""
LIMITED_PARTS = "A40, P100, Quadro RTX 6000 and A100"
LIMITED_IDS = (
    "nvidia-a40",
    "nvidia-p100-pcie-16",
    "nvidia-quadro-rtx-6000",
    "nvidia-a100-sxm4-40",
    "nvidia-a100-sxm4-80",
)
"""Parts that were measured under a limit, by name and id; the A100 of 80 GB by that of 40 GB."""
UNLIMITED = 1.05
"""Further x/÷ factor of a part that was not measured under a limit (an estimate)."""
NODE_DEVICES = 8.0
"""Devices of the usual node, as in the MLPerf runs."""
LONG_JOB_DEVICE_HOURS = 24.0
"""From here on a job is long (rule 56; a choice, not measured)."""


def fewer_nodes(work: Work) -> Suggestion | None:
    """Training on fewer nodes: slower, and less energy a run."""
    if work.part is None or work.classified.name != "training" or work.count < 2 * NODE_DEVICES:
        return None
    fewer = max(NODE_DEVICES, work.count / 8)
    if not work.need or not work.part.memory_gb or not work.need.fits(work.part.memory_gb, fewer):
        return None
    time, energy = evidence("fewer-nodes:8:64", "time"), evidence("fewer-nodes:8:64", "energy")
    if time is None or energy is None:
        return None
    if work.count > MEASURED_DEVICES:
        text = f"fewer nodes save energy at {MEASURED_DEVICES} devices; nothing was measured beyond"
        return without_ratios(work, "fewer-nodes", [text], energy.titles)
    exponent = math.log(work.count / fewer, 8)
    reasons = [
        f"{fewer:g} devices instead of {work.count:g}: links and waiting cost energy at scale",
        f"measured on {energy.pairs} runs on 8 against 64 or 72 H100; here for a factor of "
        f"{work.count / fewer:g}, on a scale of doublings",
        f"memory: {work.need.arithmetic}",
    ]
    return with_ratios(
        work,
        "fewer-nodes",
        time=time.ratio(exponent),
        energy=energy.ratio(exponent),
        reasons=reasons,
        point=f"{fewer:g} devices",
        count=fewer,
    )


def power_cap(work: Work) -> Suggestion | None:
    """A lower power limit: measured for training by mean power, elsewhere a slowdown at most."""
    name, part = work.classified.name, work.part
    if part is None or part.vendor != "NVIDIA" or name in ("small", None) or work.pace.waits:
        return None
    if "edge" in part.intended_use and part.device_class != "gpu":
        return None  # nvidia-smi limits no Jetson
    if name == "training" and part.tdp_w and not work.impossible:
        found = _limited(work, part, part.tdp_w)
        if found is not None:
            return found
    slowdown = evidence(f"power-cap:{name}", "time")
    hint = "nvidia-smi -pl lowers the limit; try 10 % steps and compare energy per unit"
    if slowdown is None:
        text = "no measured pair of this class and power shows what it saves"
        return without_ratios(work, "power-cap", [hint, text])
    text = (
        f"in MaxQ mode H200 systems took {slowdown.low:.2f} to {slowdown.high:.2f} times as long; "
        "the energy of the unlimited runs was not published, so no saving is claimed"
    )
    return without_ratios(work, "power-cap", [hint, text], slowdown.titles)


def _limited(work: Work, part: Hardware, rated_w: float) -> Suggestion | None:
    """The limit for the job's mean power; None where it is not known, or too low to matter."""
    share = mean_power_share(work.request, part)
    least = next((least for least in LIMITS if share is not None and share >= least), None)
    if share is None or least is None:
        return None
    key = f"power-cap:training:{least:.0%}"
    time, energy = evidence(key, "time"), evidence(key, "energy")
    if time is None or energy is None:
        return None
    limit_w = LIMITS[least] * rated_w
    ratios = [time.ratio(), energy.ratio()]
    reasons = [
        f"nvidia-smi -pl {limit_w:.0f} (administrator): {LIMITS[least]:.0%} of the rated "
        f"{rated_w:g} W, at a mean of {share:.0%} now. It can be taken back at any time",
        f"measured on {energy.pairs} trainings and stages on {LIMITED_PARTS}: "
        f"{energy.low:.2f} to {energy.high:.2f} of the device's energy in {time.low:.2f} to "
        f"{time.high:.2f} times the time; the host runs as much longer",
    ]
    if part.id not in LIMITED_IDS:
        ratios = [widened(one, UNLIMITED) for one in ratios]
        reasons.append(f"{part.id} was not measured: the range is wider")
    return with_ratios(
        work,
        "power-cap",
        time=ratios[0],
        energy=ratios[1],
        reasons=reasons,
        point=f"{limit_w:.0f} W a device",
        board=True,
    )


def checkpoint(work: Work) -> Suggestion | None:
    """Checkpoints for long training, so that an interruption does not cost the run."""
    if work.classified.name != "training" or work.device_hours < LONG_JOB_DEVICE_HOURS:
        return None
    reasons = [
        "lost work is emitted twice: save checkpoints and resume from them (rule 64)",
        "how often such jobs are interrupted is not known, so no saving is claimed",
    ]
    return without_ratios(work, "checkpoint", reasons)


def spot(work: Work) -> Suggestion | None:
    """Interruptible capacity: cheaper, not lower in carbon."""
    if not work.rented or work.classified.name != "training":
        return None
    return Suggestion(
        action="spot",
        verdict="no-reliable-difference",
        basis="rule",
        count=work.count,
        carbon_ratio=unchanged("the same hardware draws the same power"),
        reasons=[
            "spot capacity costs less money and no less carbon; no carbon is credited (rule 57)",
            "work lost at an interruption adds carbon: use it with checkpoints only",
        ],
        sources=("rule 57", "rule 59"),
    )

"""How a job is run: number of nodes, power limit, checkpoints, spot capacity."""

from __future__ import annotations

import math

from gramwatt.sci.advice.actions.builders import with_ratios, without_ratios
from gramwatt.sci.advice.documents import Suggestion
from gramwatt.sci.advice.prediction.evidence import evidence
from gramwatt.sci.advice.prediction.ratio_range import unchanged
from gramwatt.sci.advice.work import Work

MEASURED_DEVICES = 72
"""Most devices of the runs whose energy is compared with that of one node."""
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
    """A lower power limit: the slowdown was measured, the saving was not."""
    name = work.classified.name
    if work.part is None or work.part.vendor != "NVIDIA" or name in ("small", None):
        return None
    slowdown = evidence(f"power-cap:{name}", "time")
    hint = "nvidia-smi -pl lowers the limit; try 10 % steps and compare energy per unit"
    if slowdown is None:
        text = "no measured pair of this class shows what it saves"
        return without_ratios(work, "power-cap", [hint, text])
    text = (
        f"in MaxQ mode H200 systems took {slowdown.low:.2f} to {slowdown.high:.2f} times as long; "
        "the energy of the unlimited runs was not published, so no saving is claimed"
    )
    return without_ratios(work, "power-cap", [hint, text], slowdown.titles)


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

"""How and where a job is run: nodes, power limit, checkpoints, spot capacity, region, time."""

from __future__ import annotations

import math

from gramwatt.sci.advice.actions.builders import figure, measured, untold
from gramwatt.sci.advice.documents import Suggestion
from gramwatt.sci.advice.prediction.evidence import evidence
from gramwatt.sci.advice.prediction.ratio_range import one
from gramwatt.sci.advice.prediction.rows import cited
from gramwatt.sci.advice.work import Work

MEASURED_DEVICES = 72
"""Most devices of the runs whose energy is compared with that of one node."""
NODE_DEVICES = 8.0
"""Devices of the usual node, as in the MLPerf runs."""
LONG_JOB_DEVICE_HOURS = 24.0
"""From here on a job is long (rule 56, a proposal of the survey)."""


def fewer_nodes(work: Work) -> Suggestion | None:
    """Training on fewer nodes: slower, and less energy a run."""
    if work.part is None or work.classified.name != "training" or work.count < 2 * NODE_DEVICES:
        return None
    need = work.need
    fewer = max(NODE_DEVICES, work.count / 8)
    if need is None or not work.part.memory_gb or not need.fits(work.part.memory_gb, fewer):
        return None
    time, energy = evidence("fewer-nodes:8:64", "time"), evidence("fewer-nodes:8:64", "energy")
    if time is None or energy is None:
        return None
    if work.count > MEASURED_DEVICES:
        text = f"fewer nodes save energy at {MEASURED_DEVICES} devices; nothing was measured beyond"
        return untold(work, "fewer-nodes", [text], cited(energy.source))
    share = math.log(work.count / fewer, 8)
    reasons = [
        f"{fewer:g} devices instead of {work.count:g}: links and waiting cost energy at scale",
        f"measured on {energy.pairs} runs on 8 against 64 or 72 H100; here for a factor of "
        f"{work.count / fewer:g}, on a scale of doublings",
        f"memory: {need.arithmetic}",
    ]
    figures = (figure(time, share), figure(energy, share))
    return measured(work, "fewer-nodes", figures, reasons, f"{fewer:g} devices", fewer)


def power_cap(work: Work) -> Suggestion | None:
    """A lower power limit: the slowdown was measured, the saving was not."""
    name = work.classified.name
    if work.part is None or work.part.vendor != "NVIDIA" or name in ("small", None):
        return None
    found = evidence(f"power-cap:{name}", "time")
    reasons = ["nvidia-smi -pl lowers the limit; try 10 % steps and compare energy per unit"]
    if found is None:
        reasons.append("no measured pair of this class tells what it saves")
        return untold(work, "power-cap", reasons)
    reasons.append(
        f"in MaxQ mode H200 systems took {found.low:.2f} to {found.high:.2f} times as long; the "
        "energy of the unlimited runs was not published, so no saving is claimed"
    )
    return untold(work, "power-cap", reasons, cited(found.source))


def checkpoint(work: Work) -> Suggestion | None:
    """Checkpoints for long training, so that an interruption does not cost the run."""
    hours = (work.hours or 0.0) * work.count
    if work.classified.name != "training" or hours < LONG_JOB_DEVICE_HOURS:
        return None
    text = "lost work is emitted twice: save checkpoints and resume from them (rule 64)"
    return untold(
        work,
        "checkpoint",
        [text, "how often such jobs are interrupted is not known, so no saving is claimed"],
    )


def spot(work: Work) -> Suggestion | None:
    """Interruptible capacity: cheaper, not lower in carbon."""
    if not work.rented or work.classified.name != "training":
        return None
    same = one("the same hardware draws the same power")
    return Suggestion(
        action="spot",
        verdict="no-reliable-difference",
        basis="rule",
        count=work.count,
        carbon_ratio=same,
        reasons=[
            "spot capacity costs less money and no less carbon; no carbon is credited (rule 57)",
            "work lost at an interruption adds carbon: use it with checkpoints only",
        ],
        sources=("rule 57", "rule 59"),
    )

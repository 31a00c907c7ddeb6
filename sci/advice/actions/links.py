"""Links between the devices of a job: what slower ones may do to its time."""

from __future__ import annotations

from gramwatt.sci.advice.prediction.ratio_range import widened
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import Hardware

PCIE_GBS = 64.0
"""Link of a PCIe card [GB/s] whose own the catalog does not have: 16 lanes of generation 4."""
SLOWER = 2.0
"""How many times slower links count as slower."""
COPIED = 1.3
"""x/÷ factor where each device holds the whole model and only gradients travel (an estimate)."""
SPLIT = 3.0
"""x/÷ factor where the model is split over the devices, and weights or activations travel: two to
four times slower without peer-to-peer links (an estimate)."""


def linked(work: Work, target: Hardware, time: Quantity, reasons: list[str]) -> Quantity:
    """The time ratio, wider where the links of a target are slower; `reasons` gets why."""
    now = work.part
    if now is None or work.count < 2:
        return time
    here, there = (part.interconnect_gbs or PCIE_GBS for part in (now, target))
    if here < SLOWER * there:
        return time
    split = _is_split(work, min(now.memory_gb or 0.0, target.memory_gb or 0.0))
    alone = not split and work.classified.name == "batch-inference"
    if split:
        text = (
            "The model does not fit one device, so that its parts wait for the links: time may "
            "differ several times"
        )
    elif alone:
        text = "Each device infers by itself; a model that is split over devices would wait"
    else:
        text = "Gradients travel over them; a model that is split over devices would wait more"
    reasons.append(f"links between devices: {_link(here)} now, {_link(there)} then. {text}")
    if alone:
        return time
    return widened(time, SPLIT if split else COPIED)


def _is_split(work: Work, memory_gb: float) -> bool:
    """Whether one device cannot hold the job, as far as that is known."""
    need = work.need
    return need is not None and need.total_gib is not None and need.total_gib > memory_gb


def _link(speed_gbs: float) -> str:
    kind = "NVLink or alike" if speed_gbs > 2 * PCIE_GBS else "PCIe, no NVLink"
    return f"{speed_gbs:g} GB/s ({kind})"

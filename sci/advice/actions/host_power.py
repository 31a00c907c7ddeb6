"""What stands around a device: its host's power, and the links to the other devices of the job.

A host does not follow its device: a 72 W card in a server is not a tenth of a 700 W one.
"""

from __future__ import annotations

import math

from gramwatt.sci.advice.prediction.predict import full_factor, stack_of, wall_factor
from gramwatt.sci.advice.prediction.ratio_range import (
    Values,
    factor_range,
    other_factor,
    ratio_of,
    widened,
)
from gramwatt.sci.advice.prediction.workload import mean_power_share
from gramwatt.sci.advice.suggest_request import WorkloadClass
from gramwatt.sci.advice.work import Work, host_beside
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.score.location import in_data_centre

HOST_RATED_W = 700.0
"""Rated power of the device whose host `HOST_W` is."""
HOST_W = Quantity(
    195.0,
    130.0,
    280.0,
    "W",
    "derived",
    "wall power of MLPerf systems less rated power of their devices: 8 x H100 7.16 kW less 5.6 kW",
)
HOST_SIZE = Quantity(
    0.25,
    -0.4,
    0.8,
    "1",
    "estimated",
    "exponent of host power over rated power of a device: MLPerf systems show 26 to 52 W beside a "
    "75 W card in some servers and 195 to 570 W beside a 72 W card in others, 93 to 175 W beside "
    "450 W cards, 157 to 200 W beside 700 W modules",
)
SHARED_HOST = Quantity(
    0.5,
    0.0,
    1.0,
    "1",
    "estimated",
    "exponent of host power over the number of devices: from one host for all to one for each",
)
RISE = Quantity(
    0.5, 0.0, 1.0, "1", "estimated", "power between that of now and a rise with speed to the rated"
)
"""How far power rises towards the rated one, times the share of time saved."""


WALL_CLASSES: tuple[WorkloadClass, ...] = ("batch-inference", "recsys")
"""Classes whose wall energy was measured on several server parts (MLPerf Inference)."""
WALL_LEAST_W = 250.0
"""Least rated power of those parts: a smaller card does not outweigh its server."""
WALL_BUSY = 0.5
"""Least mean over rated power at which a run is like those, which are full."""
PCIE_GBS = 64.0
"""Link of a PCIe card [GB/s] whose own the catalog does not have: 16 lanes of generation 4."""
SLOWER = 2.0
"""How many times slower links count as slower."""
COPIED = 1.3
"""x/÷ factor where each device holds the whole model and only gradients travel (an estimate)."""
SPLIT = 3.0
"""x/÷ factor where the model is split over the devices, and weights or activations travel: two to
four times slower without peer-to-peer links (an estimate)."""


def has_wall_evidence(part: Hardware) -> bool:
    """Tell whether it is a part of the kind whose servers were metered."""
    return in_data_centre(part) and (part.tdp_w or 0.0) >= WALL_LEAST_W


def wall_energy(work: Work, target: Hardware, time: Quantity) -> Quantity | None:
    """Return the energy ratio by measured wall power of whole servers: time x rated power.

    None where that is not known for the class or the parts, the host's power is declared, or the
    devices are not busy. The range is that of measured energy, wider where that of time is.
    """
    now, name = work.part, work.classified.name
    factor = wall_factor(name)
    if now is None or name is None or factor is None or work.request.host_power_w is not None:
        return None
    if not has_wall_evidence(now) or not has_wall_evidence(target) or not _runs_full(work, now):
        return None
    further = math.log(time.high / time.value) ** 2 - math.log(full_factor(name)) ** 2
    width = math.exp(math.hypot(math.log(factor), math.sqrt(max(0.0, further))))
    text = (
        f"time ratio x ratio of rated powers; 80 % within x/÷ {width:.2f} on wall energy of MLPerf "
        "servers, hosts included"
    )
    return factor_range(time.value * (target.tdp_w or 0.0) / (now.tdp_w or 1.0), width, text)


def _runs_full(work: Work, now: Hardware) -> bool:
    """Tell whether the devices are as busy as in those runs, by their power, else by the software.

    Recommenders usually draw little power; those of MLPerf are tuned until they do not.
    """
    share = mean_power_share(work.request, now)
    if share is not None:
        return share >= WALL_BUSY
    return work.classified.name != "recsys" or stack_of(work.request.framework) == "tuned"


def faster(work: Work, time: Quantity, most: float) -> Quantity:
    """Return the energy ratio of a change that makes the job faster on the same devices.

    `most` is rated over mean power; power rises, if at all, by as much as the job gets faster.
    """
    share = work.host_share

    def formula(at: Values) -> float:
        power = 1 + (most - 1) * at["rise"] * max(0.0, 1 - at["time"])
        return at["time"] * (power + at["host"]) / (1 + at["host"])

    inputs = {"time": time, "rise": RISE, "host": share}
    return ratio_of(formula, inputs, f"{time.source}; {RISE.source}")


def with_host(
    work: Work,
    target: Hardware,
    time: Quantity,
    board: Quantity,
    *,
    moves: bool = True,
    devices: float = 1.0,
) -> Quantity:
    """Return the energy ratio of all IT equipment: t (P p + H') / (P + H), p that of board power.

    H is the measured or declared host power of a device, else the usual one of its rated power. H'
    is that of a host for the target's rated power, or with `moves` False the same H. `board` is the
    ratio of board energy t p, whose range holds that of time. `devices` is the ratio of device
    counts, which the host follows in part.
    """
    now, power = work.part, work.power_w
    rated = now.tdp_w if now else None
    if now is None or power is None or not rated or not target.tdp_w:
        return board.sourced(*board.sources, "host power not known")
    growth = target.tdp_w / rated if moves else 1.0
    declared = work.request.host_power_w

    def formula(at: Values) -> float:
        usual = at["host"] * math.pow(rated / HOST_RATED_W, at["size"])
        beside = at["beside now"] * usual if declared is None else declared / work.count
        base = usual * at["beside then"] if declared is None else beside
        then = base * math.pow(growth, at["size"]) * math.pow(devices, at["shared"])
        return at["time"] * (power.value * at["power"] + then) / (power.value + beside)

    inputs = {
        "power": other_factor(board, time),
        "time": time,
        "host": HOST_W,
        "size": HOST_SIZE,
        "beside now": host_beside(now),
        "beside then": host_beside(target),
        "shared": SHARED_HOST,
    }
    source = HOST_W.source if declared is None else "declared or measured"
    return ratio_of(formula, inputs, f"{board.source}; host power: {source}")


def linked(work: Work, target: Hardware, time: Quantity, reasons: list[str]) -> Quantity:
    """Return the time ratio, wider where a target's links are slower; `reasons` gets why."""
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
    """Tell whether one device cannot hold the job, as far as that is known."""
    need = work.need
    return need is not None and need.total_gib is not None and need.total_gib > memory_gb


def _link(speed_gbs: float) -> str:
    kind = "NVLink or alike" if speed_gbs > 2 * PCIE_GBS else "PCIe, no NVLink"
    return f"{speed_gbs:g} GB/s ({kind})"

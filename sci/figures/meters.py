"""How far energy that a meter read may lie from the true value, with the evidence for it.

A relative spread s means that value x (1 -+ s) holds the true value eight times in ten. The
evidence for `measured` and `integrated` is NVML's; it is used for every meter, RAPL's and other
vendors' too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from msgspec import Struct

from gramwatt.sci.figures.host_model import (
    CPU_MODEL,
    DRAM_W_PER_GIB,
    FULL_W_PER_THREAD,
    RAM_MODEL,
    RANGES,
    RelativeRange,
    gave,
    ram_power_w,
)
from gramwatt.sci.figures.quantity import Effect, Kind, Quantity, total


class Spread(Struct, frozen=True):
    """A relative spread and the evidence it rests on."""

    fraction: float
    source: str


ENERGY_SPREADS: dict[Kind, Spread] = {
    "measured": Spread(
        0.05, "NVML states +-5 % for its sensor, for old parts only; newer not stated"
    ),
    "integrated": Spread(
        0.15, "sampled power: 25 % of run time is sensed on A100 and H100 (arXiv:2312.02741)"
    ),
    "attributed": Spread(
        0.20, "share of a measured whole; about 10 % central error for GPU process models"
    ),
    "declared": Spread(0.0, "taken as declared"),
    "catalog": Spread(0.35, "rated power stands for use: 27 to 37 % error (arXiv:2506.14551)"),
    "derived": Spread(0.35, "percent of rated power: 27 to 37 % error (arXiv:2506.14551)"),
    "estimated": Spread(0.40, "software estimates off by up to 40 % (arXiv:2509.22092)"),
}


METER_SOURCE = f"processor time x {FULL_W_PER_THREAD} W, memory x {DRAM_W_PER_GIB} W/GiB"
"""How the energy of the job's meters is reckoned."""


class Shared(NamedTuple):
    """Fractions of a reading's variance that boards of one type, and those of one load, share."""

    by_type: float
    by_load: float


SHARED: dict[Kind, Shared] = {"measured": Shared(0.5, 0.0), "integrated": Shared(0.25, 0.5)}
"""Of kinds of energy that a sensor of each device reads. Boards of a type have one design and one
calibration; moments of sampled power are missed alike by ranks that compute in step. How much of
the error that is, no source states: stated here so that neither of the parts is left out."""


class Sensor(NamedTuple):
    """Whose energy was read: the boards of a type in a job, named by one of them, and the job.

    All boards of a type in a job are taken to have one error, since no source states by how much
    they differ; a range that took them apart would be too narrow where they do not.
    """

    device: str
    board: str
    job: str


def sensors(job: str, devices: Iterable[tuple[str, str]]) -> dict[str, Sensor]:
    """Return the sensor of each type of board out of the (type, device) pairs of a job."""
    first: dict[str, str] = {}
    for board, device in devices:
        first[board] = min(device, first.get(board, device))
    return {board: Sensor(device, board, job) for board, device in first.items()}


def relative_range(kind: Kind, meter: str) -> RelativeRange:
    """Return the range of energy of a kind from `meter`, as factors of the value, and its evidence.

    The model of the host's power has its own, also where it stood in for a counter; others have
    that of the kind, `ENERGY_SPREADS`.
    """
    meter = gave(meter, kind)
    if kind == "estimated" and meter in RANGES:
        return RANGES[meter]
    spread = ENERGY_SPREADS[kind]
    source = spread.source
    if kind in SHARED and not meter.startswith("nvml"):
        source = f"as for NVML, since none is stated for {meter}: {source}"
    return RelativeRange(1.0 - spread.fraction, 1.0 + spread.fraction, source)


def unread(energy_j: float, most_j: float, meter: str, device: str) -> Quantity:
    """Return energy [J] of time in which a device was not read: from nothing to `most_j`."""
    figure = Quantity(energy_j, 0.0, max(energy_j, most_j), "J", "estimated", meter)
    return figure.as_input(f"unread:{device}")


def energy(energy_j: float, kind: Kind, meter: str, sensor: Sensor | None = None) -> Quantity:
    """Return energy [J] read by `meter`, with its range (`relative_range`).

    A sensor's gain stays over all intervals of a job; in a job on other boards it is in part
    another (`SHARED`). A model errs alike on all devices, and so does what is known without its
    `sensor`.
    """
    meter = gave(meter, kind)
    low, high, _ = relative_range(kind, meter)
    ends, id_ = (energy_j * low, energy_j * high), f"meter:{meter}:{kind}"
    if sensor is None or kind not in SHARED or energy_j <= 0:
        return Quantity(energy_j, *ends, "J", kind, meter).as_input(id_)
    own, by_type, by_load = _gains(kind, meter)
    effects = {f"{id_}:{sensor.device}": own, f"{id_}:type:{sensor.board}": by_type}
    if any(by_load):
        effects[f"{id_}:load:{sensor.job}"] = by_load
    return Quantity(energy_j, *ends, "J", kind, meter, (), effects)


@cache
def _gains(kind: Kind, meter: str) -> tuple[Effect, Effect, Effect]:
    """Return the effects of three errors of a sensor: its own, its type's and its load's."""
    low, high, _ = relative_range(kind, meter)
    down, up = math.log(low), math.log(high)
    by_type, by_load = SHARED[kind]
    of_device, of_type, of_load = (
        (down * math.sqrt(fraction), up * math.sqrt(fraction))
        for fraction in (1 - by_type - by_load, by_type, by_load)
    )
    return of_device, of_type, of_load


def meter_energy_j(
    cpu_s: float | None, memory_b: float | None, duration_s: float
) -> Quantity | None:
    """Return energy of the job's meters [J] out of CPU time [s], peak memory [B] and duration [s].

    An estimate, and a part of the host's energy: it is in E already where the host is measured or
    modelled. None when no meter recorded what it used.
    """
    if cpu_s is None:
        return None
    cpu_j = cpu_s * FULL_W_PER_THREAD
    ram_j = ram_power_w(memory_b or 0.0) * duration_s
    parts = (energy(cpu_j, "estimated", CPU_MODEL), energy(ram_j, "estimated", RAM_MODEL))
    whole = total(parts)
    return whole.sourced(METER_SOURCE) if whole else None

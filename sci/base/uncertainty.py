"""How far a figure of each kind may lie from the true value, with the evidence for it.

A relative spread s means that value x (1 -+ s) holds the true value eight times in ten. The
evidence for `measured` and `integrated` is NVML's; it is used for every meter, RAPL's and other
vendors' too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from gramwatt.sci.base.host_model import RANGES, RelativeRange, gave
from gramwatt.sci.base.propagation import Effect, Uncertainty
from gramwatt.sci.base.quantity import Kind, Quantity, of_uncertainty


@dataclass(frozen=True, slots=True)
class Spread:
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


OF_EACH_DEVICE: tuple[Kind, ...] = ("measured", "integrated")
"""Kinds of energy that a sensor of each device reads."""


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
    if kind in OF_EACH_DEVICE and not meter.startswith("nvml"):
        source = f"as for NVML, since none is stated for {meter}: {source}"
    return RelativeRange(1.0 - spread.fraction, 1.0 + spread.fraction, source)


class Shared(NamedTuple):
    """Shares of the variance of a reading that boards of one type, and those of one load, share."""

    by_type: float
    by_load: float


SHARED: dict[Kind, Shared] = {"measured": Shared(0.5, 0.0), "integrated": Shared(0.25, 0.5)}
"""Boards of a type have one design and one calibration; moments of sampled power are missed alike
by ranks that compute in step. How much of the error that is, no source states: stated here so that
neither of the parts is left out."""


class Sensors(NamedTuple):
    """Devices whose energy is summed: a name for them, and the relative spread of their sum over
    that of one, if each errs on its own. `types` has the share of their energy by type of board.
    """

    name: str
    spread: float
    types: Sequence[tuple[str, float]] = ()

    @classmethod
    def of(cls, joules: Mapping[str, float], types: Mapping[str, str]) -> Sensors:
        """Return those of devices with so much energy [J] each, and their types, by id."""
        whole = math.fsum(joules.values())
        shares: dict[str, float] = defaultdict(float)
        for device_id, of_device in joules.items():
            shares[types[device_id]] += of_device / whole if whole > 0 else 1 / len(joules)
        of_types = tuple(sorted(shares.items()))
        if len(joules) == 1:
            return cls(next(iter(joules)), 1.0, of_types)
        digest = sha256(" ".join(sorted(joules)).encode()).hexdigest()[:12]
        spread = math.hypot(*joules.values()) / whole if whole > 0 else 1.0
        return cls(f"{len(joules)} devices {digest}", spread, of_types)

    def uncertainty(self, name: str, one: Effect, shared: Shared) -> Uncertainty:
        """Return that of the sum, of one device's effect: a part of each board, type and load."""
        parts = {
            f"{name}, {self.name}": math.sqrt(1 - sum(shared)) * self.spread,
            f"{name}, load of {self.name}": math.sqrt(shared.by_load),
        }
        for of_type, share in self.types:
            parts[f"{name}, {of_type}"] = math.sqrt(shared.by_type) * share
        whole = math.hypot(*parts.values())
        scaled = {name: Effect(one.low * part, one.high * part) for name, part in parts.items()}
        known = Uncertainty({name: effect for name, effect in scaled.items() if any(effect)})
        return known.fitted(Effect(one.low * whole, one.high * whole))


def energy(energy_j: float, kind: Kind, meter: str, sensors: Sensors | None = None) -> Quantity:
    """Return energy [J] read by `meter`, with its range (`relative_range`).

    A sensor's gain stays over all intervals of its device; of another device it is in part its own
    (`SHARED`). A model errs alike on all devices, and so does what is known without its `sensors`.
    """
    meter = gave(meter, kind)
    low, high, _ = relative_range(kind, meter)
    name = f"{meter}, {kind}"
    figure = Quantity(energy_j, energy_j * low, energy_j * high, "J", kind, meter)
    if energy_j <= 0:
        return figure
    if not sensors or kind not in OF_EACH_DEVICE:
        return figure.named(name)
    if not sensors.types:
        return figure.named(f"{name}, {sensors.name}")
    one = Effect(math.log(low), math.log(high))
    return of_uncertainty(energy_j, sensors.uncertainty(name, one, SHARED[kind]), "J", kind, meter)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share (0 to 1) of ordered figures lies, interpolated."""
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)

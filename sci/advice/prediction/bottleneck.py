"""What sets the speed of a job: its devices, or requests, an input pipeline or the host.

Where something else sets the pace, a faster part waits longer and a slower one may keep up: then
the question is which part does the same work in the same time with less power, idle power included.
The thresholds are estimates.
"""

from __future__ import annotations

from dataclasses import dataclass

from gramwatt.sci.advice.prediction.predict import steady_factor
from gramwatt.sci.advice.prediction.ratio_range import Values, factor_range, ratio_of
from gramwatt.sci.advice.prediction.workload import (
    MEMORY_BOUND,
    SMALL_POWER_SHARE,
    SMALL_UTILISATION,
    mean_power_share,
    steps_environments,
)
from gramwatt.sci.advice.suggest_request import PaceName, SuggestRequest
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.figures.quantity import Quantity

NEAR_IDLE = 1.3
"""Mean over idle power below which the device mostly waits."""
SLOW_AT_IDLE = ("recsys",)
"""Classes that draw hardly more than idle power while the device sets their pace: recommender
training at 34 to 39 W took 0.5 to 2.4 times as long on another part (Zeus trace)."""
MEMORY_IDLE = 0.1
"""Busy share of the memory controller below which a device of low power mostly waits."""
FULL_SHARE = 0.7
"""Usual mean over rated power of well-used devices: the median of measured runs (power.csv)."""
NEAR_RATED = 0.9
"""Mean over rated power from which on a device is busy, whatever its busy share says."""
HELD_IDLE = {
    "P8": Quantity(2.4, 1.6, 3.3, "1", "derived", "T4 9 to 26 W, L4 15 to 28 W, L40S 30 to 96 W"),
    "P0": Quantity(1.25, 1.0, 1.7, "1", "derived", "A100 50 to 66 W, H100 70 to 120 W at most"),
}
"""Idle power with a process on the device over the catalog's, which is without one, by the state in
which that was read (idle_pstate of hardware.csv)."""
HELD_UNKNOWN = Quantity(1.6, 1.0, 3.0, "1", "estimated", "idle power with a process on the device")
IDLE_SHARE = Quantity(
    0.1, 0.04, 0.16, "1", "derived", "idle over rated power of the catalog's GPUs, where none is"
)
DYNAMIC = 1.9
"""x/÷ factor of energy above idle: that of board energy of training (ranges.csv)."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What sets the speed, and how that is known; `declared` says that the request names it."""

    name: PaceName
    reason: str
    declared: bool = False

    @property
    def waits(self) -> bool:
        """Tell whether the devices wait for something else."""
        return self.name != "throughput"


def find_bottleneck(request: SuggestRequest, part: Hardware | None) -> Bottleneck:
    """Return the declared pace, else what power, use and memory use of the device say."""
    if request.pace:
        return Bottleneck(request.pace, f"pace {request.pace} declared", declared=True)
    if steps_environments(request, part) and not request.workload_class:
        text = f"{request.framework} waits for environments on the processor"
        return Bottleneck("host", text)
    reason = _waiting(request, part) if part else None
    if reason is None:
        return Bottleneck("throughput", "nothing shows that the devices wait")
    if request.kind in ("inference", "evaluation"):
        return Bottleneck("requests", reason)
    return Bottleneck("input" if request.trains else "host", reason)


def _waiting(request: SuggestRequest, part: Hardware) -> str | None:
    """Return what shows that the devices wait; None where nothing does."""
    power, busy, memory = (
        request.mean_power_w,
        request.utilisation,
        request.memory_bandwidth_utilisation,
    )
    near_idle = power is not None and part.idle and power < NEAR_IDLE * part.idle.value
    if near_idle and request.workload_class not in SLOW_AT_IDLE:
        return f"mean power of {power:g} W is below {NEAR_IDLE} times idle power"
    if memory is not None and memory > MEMORY_BOUND:
        return None
    if (mean_power_share(request, part) or 0.0) >= NEAR_RATED:
        return None  # whatever the busy share says: no waiting device draws so much
    if busy is not None and busy < SMALL_UTILISATION:
        return f"the devices are busy {busy:.0%} of the time"
    share = mean_power_share(request, part)
    if memory is not None and memory < MEMORY_IDLE and share and share < SMALL_POWER_SHARE:
        return f"mean power is {share:.0%} of rated power, and memory is active {memory:.0%}"
    return None


def impossible_power(power_w: float | None, part: Hardware) -> str | None:
    """Return why a mean power cannot be that of the part; None where it can, or is not known."""
    if power_w is None:
        return None
    if part.tdp_w and power_w > 1.1 * part.tdp_w:
        text = f"{power_w:g} W is above the rated power of {part.id}, {part.tdp_w:g} W"
        several = f": the driver lists a board as {part.devices_per_board} devices"
        return text + several if part.devices_per_board > 1 else text
    if part.idle and power_w < 0.9 * part.idle.low:
        return f"{power_w:g} W is below the idle power of {part.id}, {part.idle.value:g} W"
    return None


def idle_power(part: Hardware) -> Quantity | None:
    """Return the idle power [W] of the catalog, else a usual share of the rated power."""
    if part.idle:
        return part.idle
    return IDLE_SHARE.scaled(part.tdp_w, "W") if part.tdp_w else None


@dataclass(frozen=True, slots=True)
class SameRate:
    """Time and board energy, target over present, where something else sets the pace."""

    time: Quantity
    energy: Quantity
    needed: Quantity
    """Share of the target's time that the work takes."""


def same_rate(
    power: float, busy: float | None, now: Hardware, target: Hardware, full: Quantity
) -> SameRate | None:
    """Return the same work at the same rate on a target; None where a power is not known.

    `power` [W] is the mean power now, `busy` the busy share, `full` the time ratio where the
    devices set the pace. The target draws its idle power and, above it, what the present part draws
    above its own, scaled by speed and rated powers.
    """
    idle_now, idle = idle_power(now), idle_power(target)
    if idle_now is None or idle is None or not now.tdp_w or not target.tdp_w:
        return None
    use = _use(power, busy, now)
    needed = ratio_of(lambda at: at["use"] * at["full"], {"use": use, "full": full})
    steady = steady_factor()
    time = _time(needed, steady)
    rise = (target.tdp_w - idle.value) / (now.tdp_w - idle_now.value)
    inputs = {
        "held now": _held(now),
        "held then": _held(target),
        "idle": idle,
        "work": factor_range(full.value * rise, max(DYNAMIC, full.high / full.value), full.source),
        "time": time,
    }

    def energy(at: Values) -> float:
        active = power - min(at["held now"] * idle_now.value, power)
        drawn = at["held then"] * at["idle"] * at["time"] + active * at["work"]
        return min(drawn, (target.tdp_w or 0.0) * at["time"]) / power

    text = f"power at the same rate: idle power of {target.id} and the work above it"
    board = ratio_of(energy, inputs, text)
    low = min(board.value, max(board.low, time.low * idle.low / power))
    high = max(board.value, min(board.high, time.high * target.tdp_w / power))
    return SameRate(time, board.between(low, high), needed)


def _held(part: Hardware) -> Quantity:
    """Return the idle power with a process over idle power without [1]."""
    return HELD_IDLE.get(part.idle_pstate or "", HELD_UNKNOWN)


def _use(power: float, busy: float | None, now: Hardware) -> Quantity:
    """Return the share of the device's time that the work takes at full speed."""
    idle, rated = idle_power(now), now.tdp_w or 0.0
    floor = idle.value if idle else 0.0
    most = FULL_SHARE * rated - floor
    by_power = min(1.0, max(0.02, (power - floor) / most)) if most > 0 else 1.0
    if not busy:
        ends = (by_power, by_power / 2, min(1.0, 2 * by_power))
        return Quantity(*ends, "1", "estimated", "use of the device by its power above idle")
    value = min(busy, max(by_power, busy / 2))
    low = min(value, by_power)
    return Quantity(value, low, busy, "1", "estimated", "busy share, and power above idle")


def _time(needed: Quantity, steady: float) -> Quantity:
    """Return the time ratio: 1 where the target keeps up, else what the work needs."""
    value = max(1.0, needed.value)
    low, high = max(1 / steady, needed.low), max(steady, needed.high)
    return Quantity(value, min(low, value), max(high, value), "1", "estimated", needed.source)

"""Carbon of a change: electricity and the making of hardware, by how the hardware is had.

With O electricity and M making of the present devices an hour, e and t the ratios of energy and
time, n that of the devices:

    rented    (O e + M' t n) / (O + M)      making goes with use; the usual case
    owned     (O e + M) / (O + M)           both are there: their making is past
    to buy    (O e + M + TE' n / U) / (O + M)   the device is made for this work of U hours
"""

from __future__ import annotations

import math

from gramwatt.sci.catalog.hardware import CARDS
from gramwatt.sci.embodied.te import accelerator_te
from gramwatt.sci.estimate.ranking import QUANTILE_90, Log
from gramwatt.sci.figures.formatting import NARROW_SPACE
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import HOURS_PER_YEAR
from gramwatt.sci.score.location import DATA_CENTRE_PUE, in_data_centre
from gramwatt.sci.suggest.evidence import log_of
from gramwatt.sci.suggest.facts import devices_of, instances_of
from gramwatt.sci.suggest.work import Device, Work

HOST_ERROR = math.log(1.5) / QUANTILE_90
"""Error of the power of a usual host (MLPerf systems of one size differ so)."""
LEAST = 1e-3
"""Least carbon ratio, where nothing at all runs."""


def carbon_ratio(
    work: Work,
    time: Log,
    energy: Log,
    *,
    devices: float = 1.0,
    target: Device | None = None,
    paid: float = 1.0,
) -> Log | None:
    """Return the carbon of the same work over that of now; None where that of now is not known.

    `time` and `energy` are ratios of the whole job, with hosts; `devices` is the ratio of devices,
    `paid` of those an instance comes with to those that work. Without `target` the devices stay.
    """
    operational, embodied = work.operational_g_h, work.embodied_g_h
    if operational is None or embodied is None:
        return None
    now_o, now_m = operational.value, embodied.value
    new_o, follows = now_o * math.exp(energy.value), 0.0
    ownership = work.request.ownership or "rented"
    making = work.making_g_h(target) if target else embodied
    if ownership == "rented":
        new_m, follows = making.value * math.exp(time.value) * devices * paid, 1.0
        idle = target.idle if target else None
        if idle and paid > 1:
            waste = idle.value * (paid - 1) * devices * work.grid_g_per_wh.value
            new_o += waste * math.exp(time.value)
    else:
        new_m = now_m
        if ownership == "to-buy" and target is not None:
            if not work.hours:
                return None
            new_m += bought_g(work, target).value * devices / work.hours
    whole = max(new_o + new_m, LEAST * (now_o + now_m))
    fraction, before = new_o / whole, now_o / (now_o + now_m)
    moved = fraction * energy.spread + follows * (1 - fraction) * time.spread
    if target is not None and follows:  # two makings err apart
        moved = math.hypot(moved, (1 - fraction) * log_of(making).spread)
    shared = math.hypot(log_of(operational).spread, log_of(embodied).spread)
    spread = math.hypot(moved, (fraction - before) * shared)
    return Log(math.log(whole / (now_o + now_m)), spread)


def with_hosts(
    work: Work, time: Log, board: Log, *, devices: float = 1.0, target: Device | None = None
) -> Log:
    """Return the energy ratio of devices with their hosts out of that of devices alone.

    A host's power stays, so that its energy follows the time; beside another device it follows
    that device's rated power a little.
    """
    power = work.power_w
    if power is None or power.value <= 0:
        return board
    host = work.host_w(work.now)
    boards = power.value * math.exp(board.value)
    hosts = work.host_w(target or work.now) * math.exp(time.value) * devices
    whole, now = boards + hosts, power.value + host
    fraction, before = boards / whole, power.value / now
    unknown = HOST_ERROR if work.request.host_power_w is None else 0.0
    moved = fraction * board.spread + (1 - fraction) * time.spread
    return Log(math.log(whole / now), math.hypot(moved, (fraction - before) * unknown))


def site_change(work: Work, target: Device) -> tuple[Log, str] | None:
    """Return the PUE where a target would stand over that of now; None where both are one place.

    A board of a data centre does not stand at the desk of the present card, unless the request
    names a PUE, a region or a provider. The other way nothing is gained: a card of a desk may
    stand in the data centre too.
    """
    now = work.now.board
    if work.request.pue is not None or work.request.cloud is not None:
        return None
    portable = "workstation" in now.intended_use or now.host_class == "edge"
    if in_data_centre(now) or portable or not in_data_centre(target.board):
        return None
    ratio = DATA_CENTRE_PUE.over(work.place.pue, "1")
    text = f"it stands in a data centre: PUE {DATA_CENTRE_PUE.value:g} instead of "
    return log_of(ratio), f"{text}{work.place.pue.value:g}; give pue or provider"


def paid_devices(work: Work, target: Device, count: float) -> float:
    """Return the devices of the provider's smallest instance over those that work, at least 1."""
    if work.request.cloud is None:
        return 1.0
    rows = instances_of(work.catalog, work.request.cloud, target.board)
    return max(1.0, devices_of(rows[0]) / count) if rows else 1.0


def bought_g(work: Work, target: Device) -> Quantity:
    """Return the making of what is bought for one device [gCO2e].

    A card that fits the host of the present card counts without a host; every other device counts
    with its part of a new host.
    """
    alone = accelerator_te(target.board)
    cards = work.device is not None and {work.now.board.host_class, target.board.host_class}
    return alone.te_g if alone and cards and cards <= set(CARDS) else work.te_g(target)


def break_even(
    work: Work, target: Device, energy: Log, devices: float
) -> tuple[Quantity | None, str | None]:
    """Return the hours of this work that repay the making of bought devices [h], and a sentence.

    None where nothing is bought: declared as owned or rented, in a cloud, a slice, or not sold.
    """
    hourly, request = work.operational_g_h, work.request
    part = target.board
    rented = request.cloud is not None or part.availability != "sold" or target.piece is not None
    if rented or request.ownership in ("owned", "rented") or hourly is None or energy.value >= 0:
        return None, None
    used = part.market in ("legacy", "out-of-production")
    name = f"a {'used' if used else 'new'} {part.label}"
    saving = energy.quantity("estimated", "energy ratio").complement("1")
    making = bought_g(work, target).scaled(devices)
    after_h = making.value / (hourly.value * saving.value)
    hours = None
    if saving.low > 0:
        hours = making.over(hourly.times(saving, "gCO2e/h"), "h")
        hours = hours.sourced(f"making of {part.id} over electricity saved an hour")
    after = f"repays its making after {plain_hours(after_h)} of this work"
    after += "" if hours else ", or never"
    if after_h > work.life(target).value * HOURS_PER_YEAR:
        return hours, f"Do not buy one for this: {name} never repays its making in its life."
    if work.hours is None or after_h > work.hours:
        return hours, f"Do not buy one for this: {name} {after}."
    return hours, f"{name[0].upper()}{name[1:]} {after}, if it is bought for it."


def plain_hours(hours: float) -> str:
    """Return hours of two digits, held together by narrow spaces."""
    return f"{float(f'{hours:.2g}'):,.0f}{NARROW_SPACE}h".replace(",", NARROW_SPACE)

"""What a change of hardware emits, by how the hardware is had: owned, rented, or to be bought.

With O operational and M embodied carbon of the present part an hour, e and t the ratios of energy
and time:

    owned    (O e + M) / (O + M)         both are there: their making is past and does not change
    rented   (O e + i + M' t n) / (O + M)   making goes with use; n counts the devices of the
                                         smallest instance that are paid for and unused, i their
                                         idle power
    to buy   (O e + M + TE'/U) / (O + M) the part is made for this work of U hours
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gramwatt.sci.advice.actions.break_even import BreakEven, bought_g, break_even
from gramwatt.sci.advice.constraints.availability import rented_only, smallest_rental
from gramwatt.sci.advice.documents import Verdict, verdict_of
from gramwatt.sci.advice.prediction.ratio_range import Values, ratio_of
from gramwatt.sci.advice.request import Ownership
from gramwatt.sci.advice.work import Work, te_g
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import G_PER_KG, HOURS_PER_YEAR
from gramwatt.sci.catalog.catalog import Hardware

BY_MAKING = (
    "rented: lower by making only, because fewer hours are reserved; that of energy is not certain"
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Carbon ratio and verdict for the ownership of the request, the verdicts of all, the rest."""

    carbon: Quantity | None
    verdict: Verdict
    by_ownership: Mapping[Ownership, Verdict]
    break_even: BreakEven
    reasons: list[str]


def judge(
    work: Work, target: Hardware, time: Quantity, energy: Quantity | None, devices: float
) -> Judgement:
    """The carbon of the same work on `devices` of a target, by ownership.

    `time` and `energy` are ratios for the whole job.
    """
    made, life = te_g(target), work.lifetime_of(target)
    operational, embodied = work.operational_g_h, work.embodied_g_h
    payback = break_even(work, target, energy, devices)
    if energy is None or operational is None or embodied is None or made is None:
        reasons = _unknown(work, target, energy)
        verdicts: dict[Ownership, Verdict] = dict.fromkeys(("owned", "rented", "to-buy"), "unknown")
        return Judgement(None, "unknown", verdicts, payback, reasons)
    inputs = {"O": operational, "M": embodied, "time": time, "energy": energy}
    made = made.scaled(devices / work.count)
    ratios: dict[Ownership, Quantity | None] = {
        "owned": kept(work, energy),
        "rented": _rented(work, target, {**inputs, "made": made, "life": life}, devices),
        "to-buy": _bought(work, target, inputs, devices),
    }
    found: dict[Ownership, Verdict] = {name: verdict_of(ratio) for name, ratio in ratios.items()}
    if rented_only(target):
        found["to-buy"] = "not-feasible"
    elif found["to-buy"] == "lower" and not payback.repaid(work, life):
        found["to-buy"] = "no-reliable-difference"
    reasons = [_making_reason(work, made.scaled(work.count / devices), life, operational)]
    if found["rented"] == "lower" and energy.high >= 1:
        reasons.append(BY_MAKING)
    chosen = work.ownership
    return Judgement(ratios[chosen], found[chosen], found, payback, reasons)


def kept(work: Work, energy: Quantity) -> Quantity | None:
    """(O e + M) / (O + M): what is made stays made. Below 1 exactly where the energy is."""
    operational, embodied = work.operational_g_h, work.embodied_g_h
    if operational is None or embodied is None:
        return None
    inputs = {"O": operational, "M": embodied, "energy": energy}

    def formula(at: Values) -> float:
        return (at["O"] * at["energy"] + at["M"]) / (at["O"] + at["M"])

    # The side of 1 is that of the energy: the shares of O and M move the ratio on that side only.
    ratio = ratio_of(formula, inputs, f"{energy.source}; {_source(work)}")
    corners = [
        formula({"O": o, "M": m, "energy": e})
        for o, m in ((operational.low, embodied.high), (operational.high, embodied.low))
        for e in (energy.low, energy.high)
    ]
    low, high = max(ratio.low, min(corners)), min(ratio.high, max(corners))
    return replace(ratio, low=min(low, ratio.value), high=max(high, ratio.value))


def _rented(
    work: Work, target: Hardware, inputs: Mapping[str, Quantity], devices: float
) -> Quantity:
    paid = smallest_rental(work.catalog, work.request.cloud, target) or devices
    unused = max(0.0, paid / devices - 1)
    idle_w = target.idle_w.value if target.idle_w else 0.0
    idle_g_h = work.grid_g_per_wh.value * idle_w * unused * devices / work.count

    def formula(at: Values) -> float:
        making = at["made"] / (at["life"] * HOURS_PER_YEAR) * (1 + unused)
        new = at["O"] * at["energy"] + (making + idle_g_h) * at["time"]
        return new / (at["O"] + at["M"])

    return ratio_of(formula, inputs, _source(work))


def _bought(
    work: Work, target: Hardware, inputs: Mapping[str, Quantity], devices: float
) -> Quantity | None:
    """Over the hours of the request; None where they are not known."""
    made = bought_g(work, target)
    if not work.hours or made is None:
        return None
    per_hour = made.scaled(devices / work.device_hours)

    def formula(at: Values) -> float:
        whole = at["O"] + at["M"]
        return (at["O"] * at["energy"] + at["M"] + at["bought"]) / whole

    given = {name: inputs[name] for name in ("O", "M", "energy")}
    return ratio_of(formula, {**given, "bought": per_hour}, _source(work))


def _source(work: Work) -> str:
    grid = work.intensity
    return f"operational and embodied at {grid.value:.0f} gCO2e/kWh ({grid.source})"


def _unknown(work: Work, target: Hardware, energy: Quantity | None) -> list[str]:
    """Why there is no carbon ratio, where that is not the energy."""
    parts = [part for part in (work.part, target) if part is not None]
    lacks = [part.id for part in parts if te_g(part) is None]
    if energy is None:
        return []
    if lacks:
        return [f"embodied carbon of {', '.join(lacks)} is not in the catalog"]
    return ["the power of the present part is not known: give mean_power_w"]


def _making_reason(work: Work, made: Quantity, life: Quantity, operational: Quantity) -> str:
    """Embodied carbon beside the electricity, in words."""
    rate = made.value / (life.value * HOURS_PER_YEAR)
    text = (
        f"making: {made.value / G_PER_KG:.0f} kg CO2e a device with its share of a host; over a "
        f"life of {life.value:g} years {rate:.3g} g an hour, beside {operational.value:.3g} g an "
        "hour for electricity now"
    )
    if work.ownership == "owned":
        text += ". It is past for hardware that is there, and does not change the verdict"
    return text

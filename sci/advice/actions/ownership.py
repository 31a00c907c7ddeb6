"""What a change of hardware emits, by how the hardware is had: owned, rented, or to be bought.

With O operational and M embodied carbon of the present part an hour, e and t the ratios of energy
and time:

    owned    (O e + M) / (O + M)            both are there: their embodied carbon is past
    rented   (O e + i + M' t n) / (O + M)   embodied carbon goes with use; n counts the devices of
                                            the smallest instance that are paid for and unused, i
                                            their idle power; M stays where the present part is not
                                            rented
    to buy   (O e + M + TE'/U) / (O + M)    the part is made for this work of U hours

Where the request does not say how hardware is had, nobody knows that a target is there: it is lower
only with its embodied carbon, rented or bought.

Break-even: after how much use a bought part has saved the embodied carbon it came with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gramwatt.sci.advice.constraints.availability import (
    discontinued,
    rented_only,
    smallest_rental,
)
from gramwatt.sci.advice.documents import Verdict, verdict_of
from gramwatt.sci.advice.prediction.ratio_range import Values, ratio_of
from gramwatt.sci.advice.suggest_request import OWNERSHIPS, Ownership
from gramwatt.sci.advice.work import Work, te_g
from gramwatt.sci.catalog.hardware import CARDS, Hardware
from gramwatt.sci.embodied.te import accelerator_te
from gramwatt.sci.figures.errors import QuantityError
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import G_PER_KG, HOURS_PER_YEAR
from gramwatt.sci.score.location import DATA_CENTRE_PUE, in_data_centre

BY_EMBODIED = (
    "rented: lower by embodied carbon only, because fewer hours are reserved; that of energy is "
    "not certain"
)


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Hours of the present work [h], None where there is none, and what was counted or why not."""

    hours: Quantity | None = None
    reasons: list[str] = field(default_factory=list)

    def repaid(self, work: Work, life: Quantity) -> bool:
        """Tell whether it is certainly repaid in the planned hours and the part's life [years]."""
        if self.hours is None or work.hours is None:
            return False
        return self.hours.high <= min(work.hours, life.value * HOURS_PER_YEAR)


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
    """Return the carbon of the same work on `devices` of a target, by ownership.

    `time` and `energy` are ratios for the whole job.
    """
    made, life = te_g(target), work.lifetime_of(target)
    operational, embodied = work.operational_g_h, work.embodied_g_h
    place = moved(work, target)
    if energy is not None and place is not None:
        energy = energy.times(place, "1").sourced(*energy.sources, *place.sources)
    payback = break_even(work, target, energy, devices)
    if energy is None or operational is None or embodied is None or made is None:
        reasons = _unknown(work, target, energy)
        verdicts: dict[Ownership, Verdict] = dict.fromkeys(OWNERSHIPS, "unknown")
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
    reasons = [_embodied_reason(work, made.scaled(work.count / devices), life, operational)]
    if found["rented"] == "lower" and energy.high >= 1:
        reasons.append(BY_EMBODIED)
    if place is not None:
        reasons.append(place.source)
    chosen = _how_had(work, target, found, reasons)
    return Judgement(ratios[chosen], found[chosen], found, payback, reasons)


def _how_had(
    work: Work, target: Hardware, found: Mapping[Ownership, Verdict], reasons: list[str]
) -> Ownership:
    """Return how the target would be had, which decides; `reasons` gets it if it was not said."""
    if work.request.ownership or work.rented or found["owned"] != "lower":
        return work.ownership
    listed = smallest_rental(work.catalog, None, target) is not None
    rentable = listed or in_data_centre(target)  # other clouds than the catalog's have these
    if rentable and "lower" in (found["rented"], found["to-buy"]):
        chosen: Ownership = "rented" if found["rented"] == "lower" else "to-buy"
    else:
        chosen = "rented" if rentable and found["to-buy"] != "lower" else "to-buy"
    how = "rented" if chosen == "rented" else "bought for this work"
    reasons.append(f"counted as {how}; if one is there already, say ownership owned")
    return chosen


def moved(work: Work, target: Hardware) -> Quantity | None:
    """Return the PUE where the target would stand over that of now [1]; None if it is one place.

    A board of a data centre does not stand at the desk of the present card, unless the request
    names a PUE, a region or a provider, which hold for both. The other way nothing is gained, since
    a card of a desk may stand in the data centre too.
    """
    now = work.part
    if now is None or work.request.pue is not None or work.request.cloud is not None:
        return None
    portable = "workstation" in now.intended_use or now.host_class == "edge"
    if in_data_centre(now) or portable or not in_data_centre(target):
        return None
    pue, here = DATA_CENTRE_PUE, work.place.pue.value
    text = (
        f"{target.id} stands in a data centre: PUE {pue.value:g} ({pue.low:g} to {pue.high:g}) "
        f"there, {here:g} here; its grid is taken for that of now. Give pue or provider"
    )
    return pue.over(work.place.pue, "1").sourced(text)


def kept(work: Work, energy: Quantity) -> Quantity | None:
    """Return (O e + M) / (O + M), which is below 1 exactly where the energy is; None if unknown."""
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
    return ratio.between(min(low, ratio.value), max(high, ratio.value))


def _rented(
    work: Work, target: Hardware, inputs: Mapping[str, Quantity], devices: float
) -> Quantity:
    paid = smallest_rental(work.catalog, work.request.cloud, target) or devices
    unused = max(0.0, paid / devices - 1)
    idle_w = target.idle.value if target.idle else 0.0
    idle_g_h = work.grid_g_per_wh.value * idle_w * unused * devices / work.count
    past = 0.0 if work.rented or work.request.ownership == "rented" else 1.0

    def formula(at: Values) -> float:
        hourly = at["made"] / (at["life"] * HOURS_PER_YEAR) * (1 + unused)
        new = at["O"] * at["energy"] + at["M"] * past + (hourly + idle_g_h) * at["time"]
        return new / (at["O"] + at["M"])

    return ratio_of(formula, inputs, _source(work))


def _bought(
    work: Work, target: Hardware, inputs: Mapping[str, Quantity], devices: float
) -> Quantity | None:
    """Return the ratio over the hours of the request; None where they are not known."""
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
    """Return why there is no carbon ratio, where that is not the energy."""
    parts = [part for part in (work.part, target) if part is not None]
    lacks = [part.id for part in parts if te_g(part) is None]
    if energy is None:
        return []
    if lacks:
        return [f"embodied carbon of {', '.join(lacks)} is not in the catalog"]
    return ["the power of the present part is not known: give mean_power_w"]


def _embodied_reason(work: Work, made: Quantity, life: Quantity, operational: Quantity) -> str:
    """Return embodied carbon beside the electricity, in words."""
    rate = made.value / (life.value * HOURS_PER_YEAR)
    text = (
        f"embodied carbon: {made.value / G_PER_KG:.0f} kg CO2e a device with its share of a host; "
        f"over a life of {life.value:g} years {rate:.3g} g an hour, beside "
        f"{operational.value:.3g} g an hour for electricity now"
    )
    if work.request.ownership == "owned":
        text += ". It is past for hardware that is there, and does not change the verdict"
    return text


def bought_g(work: Work, target: Hardware) -> Quantity | None:
    """Return the embodied carbon of what is bought for one device [gCO2e]; None if unknown.

    A card that fits the host of the present card counts without a host; every other part counts
    with its share of a new host.
    """
    alone, whole = accelerator_te(target), te_g(target)
    if alone is None or whole is None:
        return None
    return alone.te_g if _in_place(work, target) else whole


def break_even(
    work: Work, target: Hardware, energy: Quantity | None, devices: float | None = None
) -> BreakEven:
    """Return the hours of the present work that repay the embodied carbon of bought parts [h]."""
    if work.ownership == "rented" or rented_only(target) or work.rented:
        return BreakEven(reasons=["rented: nothing is bought, so there is no break-even"])
    if work.request.ownership == "owned" or energy is None or energy.value >= 1:
        return BreakEven()
    made, hourly = bought_g(work, target), work.operational_g_h
    if made is None or hourly is None:
        return BreakEven()
    if energy.high >= 1:
        text = (
            "if bought, electricity may not repay its embodied carbon: the energy range holds no "
            "saving"
        )
        return BreakEven(reasons=[text])
    made = made.scaled((devices or work.count) / work.count)
    saving = hourly.times(energy.complement("1"), "gCO2e/h")
    hours = _payback_h(made, saving)
    if hours is None or not math.isfinite(hours.high):
        return BreakEven()
    found = "bought used (no longer made)" if discontinued(target) else "bought new"
    where = "for the present host" if _in_place(work, target) else "with its share of a host"
    text = (
        f"{found} {where}, {made.value / G_PER_KG:.0f} kg CO2e are paid back in {hours.value:.0f} h"
        f" of the present work ({hours.low:.0f} to {hours.high:.0f})"
    )
    text += _against(work, target, hours)
    source = f"embodied carbon of {target.id} {where} over operational carbon saved an hour"
    return BreakEven(hours.sourced(source), [text])


def _against(work: Work, target: Hardware, hours: Quantity) -> str:
    """Return what stands against buying: the life of the hardware, else the length of this run."""
    life = work.lifetime_of(target).value
    if hours.value > life * HOURS_PER_YEAR:
        return f", longer than a life of {life:g} years"
    if work.hours is not None and work.hours < hours.high:
        return f": not certainly within this run of {work.hours:g} h"
    return ""


def _in_place(work: Work, target: Hardware) -> bool:
    """Tell whether both are cards, which go into any host with a slot."""
    return work.part is not None and {work.part.host_class, target.host_class} <= set(CARDS)


def _payback_h(made: Quantity, saving: Quantity) -> Quantity | None:
    """Return the hours until a saving [gCO2e/h] reaches embodied carbon; None where it may be 0."""
    try:
        return made.over(saving, "h")
    except QuantityError:
        return None

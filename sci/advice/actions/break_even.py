"""Break-even: after how much use a bought part has saved the embodied carbon it came with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gramwatt.sci.advice.constraints.availability import discontinued, rented_only
from gramwatt.sci.advice.work import Work, te_g
from gramwatt.sci.base.errors import QuantityError
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import G_PER_KG, HOURS_PER_YEAR
from gramwatt.sci.catalog.hardware import CARDS, Hardware
from gramwatt.sci.embodied.te import accelerator_te


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Hours of the present work [h], None where there is none, and what was counted or why not."""

    hours: Quantity | None = None
    reasons: list[str] = field(default_factory=list)

    def repaid(self, work: Work, life: Quantity) -> bool:
        """Whether it is certainly repaid within the planned hours and the part's life [years]."""
        if self.hours is None or work.hours is None:
            return False
        return self.hours.high <= min(work.hours, life.value * HOURS_PER_YEAR)


def bought_g(work: Work, target: Hardware) -> Quantity | None:
    """Embodied carbon of what is bought for one device [gCO2e]; None where the catalog has none.

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
    """Hours of the present work after which bought parts have saved their embodied carbon [h]."""
    if work.ownership == "rented" or rented_only(target) or work.rented:
        return BreakEven(reasons=["rented: nothing is bought, so there is no break-even"])
    if work.request.ownership == "owned" or energy is None or energy.value >= 1:
        return BreakEven()
    made, hourly = bought_g(work, target), work.operational_g_h
    if made is None or hourly is None:
        return BreakEven()
    if energy.high >= 1:
        text = "if bought, electricity may not repay its making: the energy range holds no saving"
        return BreakEven(reasons=[text])
    made = made.scaled((devices or work.count) / work.count)
    saving = hourly.times(_saved_share(energy), "gCO2e/h")
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
    """What stands against buying: the life of the hardware, else the length of this run."""
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
    """Hours until a saving [gCO2e/h] reaches embodied carbon [gCO2e]; None where it may be 0."""
    try:
        return made.over(saving, "h")
    except QuantityError:
        return None


def _saved_share(energy: Quantity) -> Quantity:
    ends = (1 - energy.value, 1 - energy.high, 1 - energy.low)
    return Quantity(*ends, "1", energy.kind, energy.source)

"""Break-even: after how much use a bought part has saved the embodied carbon it came with."""

from __future__ import annotations

import math
from typing import NamedTuple

from gramwatt.sci.advice.constraints.availability import discontinued, rented_only
from gramwatt.sci.advice.work import Work, te_g
from gramwatt.sci.base.errors import QuantityError
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import G_PER_KG, HOURS_PER_YEAR
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.embodied.accelerators import accelerator_te


class BreakEven(NamedTuple):
    """Hours of the present work [h], None where there is none, and what was counted or why not."""

    hours: Quantity | None
    reasons: list[str]


def break_even(work: Work, target: Hardware, energy: Quantity | None) -> BreakEven:
    """Hours of the present work after which a bought part has saved its embodied carbon [h].

    A card that fits the host of the present card counts without a host; every other part counts
    with its share of a new host.
    """
    if work.rented or rented_only(target):
        return BreakEven(None, ["rented: nothing is bought, so there is no break-even"])
    if energy is None or work.operational_g_h is None or energy.value >= 1:
        return BreakEven(None, [])
    if energy.high >= 1:
        text = (
            "bought, it may never pay its embodied carbon back in electricity: the range of energy "
            "holds no saving"
        )
        return BreakEven(None, [text])
    saving = work.operational_g_h.times(_saved_share(energy), "gCO2e/h")
    alone, whole = accelerator_te(target), te_g(target)
    if alone is None or whole is None:
        return BreakEven(None, [])
    in_place = work.part is not None and _is_card(work.part) and _is_card(target)
    made = alone.te_g if in_place else whole
    hours = _payback_h(made, saving)
    if hours is None or not math.isfinite(hours.high):
        return BreakEven(None, [])
    text = "bought used (no longer made)" if discontinued(target) else "bought new"
    if in_place:
        text += f" for the present host, its {_kg(made)} are paid back in"
        source = f"embodied carbon of {target.id} alone, for the present host,"
        longer = _payback_h(whole, saving)
    else:
        text += f" with its share of a host, {_kg(made)} are paid back in"
        source = f"embodied carbon of {target.id} with its share of a new host"
        longer = None
    text += f" {hours.value:.0f} h of the present work"
    if longer:
        text += f"; with a share of a new host, {_kg(whole)}, in {longer.value:.0f} h"
    text += _too_long(work, hours)
    return BreakEven(hours.sourced(f"{source} over operational carbon saved an hour"), [text])


def _too_long(work: Work, hours: Quantity) -> str:
    """What stands against it: the life of the hardware, else the length of this run."""
    life = work.lifetime.value
    if hours.value > life * HOURS_PER_YEAR:
        return f"; that is longer than a life of {life:g} years: do not buy it for this"
    if work.hours is not None and work.hours < hours.value:
        return f"; this run of {work.hours:g} h alone does not"
    return ""


def _is_card(part: Hardware) -> bool:
    """Whether it is a card that goes into any host with a slot."""
    return part.form_factor.startswith("PCIe")


def _payback_h(made: Quantity, saving: Quantity) -> Quantity | None:
    """Hours until a saving [gCO2e/h] reaches embodied carbon [gCO2e]; None where it may be 0."""
    try:
        return made.over(saving, "h")
    except QuantityError:
        return None


def _kg(made: Quantity) -> str:
    return f"{made.value / G_PER_KG:.0f} kg CO2e"


def _saved_share(energy: Quantity) -> Quantity:
    ends = (1 - energy.value, 1 - energy.high, 1 - energy.low)
    return Quantity(*ends, "1", energy.kind, energy.source)

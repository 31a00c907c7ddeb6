"""Break-even: after how much use a bought part has saved the embodied carbon it came with."""

from __future__ import annotations

import math

from gramwatt.sci.advice.constraints.availability import discontinued, rented_only
from gramwatt.sci.advice.work import Work, te_g
from gramwatt.sci.base.errors import QuantityError
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import G_PER_KG, HOURS_PER_YEAR
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.embodied.accelerators import accelerator_te


def break_even(
    work: Work, target: Hardware, energy: Quantity | None, reasons: list[str]
) -> Quantity | None:
    """Hours of the present work after which a bought part has saved its embodied carbon [h].

    A card for the host that the present card stands in comes alone; every other part comes with
    its share of a new host. `reasons` gets what was counted, or why nothing was.
    """
    if work.rented or rented_only(target):
        reasons.append("rented: nothing is bought, so there is no break-even")
        return None
    operational = work.operational_g_h()
    if energy is None or operational is None or energy.value >= 1:
        return None
    if energy.high >= 1:
        reasons.append(
            "bought, it may never pay its embodied carbon back in electricity: the range of energy "
            "holds no saving"
        )
        return None
    saving = operational.times(_saving(energy), "gCO2e/h")
    card, whole = accelerator_te(target), te_g(target)
    in_place = work.part is not None and _card(work.part) and _card(target)
    made = (card.te_g if card else None) if in_place else whole
    hours = _over(made, saving)
    if made is None or whole is None or hours is None or not math.isfinite(hours.high):
        return None
    new = "bought used (no longer made)" if discontinued(target) else "bought new"
    if in_place:
        also = _over(whole, saving)
        more = f"; with a share of a new host, {_kg(whole)}, in {also.value:.0f} h" if also else ""
        text = f"{new} for the present host, its {_kg(made)} are paid back in"
        source = f"embodied carbon of {target.id} alone, for the present host,"
    else:
        more = ""
        text = f"{new} with its share of a host, {_kg(made)} are paid back in"
        source = f"embodied carbon of {target.id} with its share of a new host"
    reasons.append(f"{text} {hours.value:.0f} h of the present work{more}{_too_long(work, hours)}")
    return hours.sourced(f"{source} over operational carbon saved an hour")


def _too_long(work: Work, hours: Quantity) -> str:
    """What stands against it: the life of the hardware, else the length of this run."""
    life = work.lifetime.value
    if hours.value > life * HOURS_PER_YEAR:
        return f"; that is longer than a life of {life:g} years: do not buy it for this"
    if work.hours is not None and work.hours < hours.value:
        return f"; this run of {work.hours:g} h alone does not"
    return ""


def _card(part: Hardware) -> bool:
    """Whether it is a card that goes into any host with a slot."""
    return part.form_factor.startswith("PCIe") and not part.in_server


def _over(made: Quantity | None, saving: Quantity) -> Quantity | None:
    try:
        return made.over(saving, "h") if made else None
    except QuantityError:
        return None


def _kg(made: Quantity) -> str:
    return f"{made.value / G_PER_KG:.0f} kg CO2e"


def _saving(energy: Quantity) -> Quantity:
    ends = (1 - energy.value, 1 - energy.high, 1 - energy.low)
    return Quantity(*ends, "1", energy.kind, energy.source)

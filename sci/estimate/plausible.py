"""Remarks on inputs of an estimate that can hardly be meant: they count as given, and are named."""

from __future__ import annotations

from collections.abc import Iterator

from gramwatt.sci.base.formatting import number, plain
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import HOURS_PER_YEAR, W_PER_KW
from gramwatt.sci.estimate.model import HOST_SHARE, Assumptions

RATED_TIMES = 2.0
"""Times its rated power a device may draw before it is remarked: peaks reach 1.3."""
CLEANEST, DIRTIEST = 5.0, 2000.0
"""Intensities that no grid goes beyond [gCO2e/kWh]: the catalog's zones have 15 to 1121."""


def remarks(work: Assumptions, hours: Quantity | None) -> Iterator[Notice]:
    """Notices on power, energy, intensity and time, each with what to do."""
    yield from _power(work, hours)
    given = work.request.intensity_g_per_kwh
    if given is not None and not CLEANEST <= given <= DIRTIEST:
        text = f"{given:g} gCO2e/kWh is what no grid has ({CLEANEST:g} to {DIRTIEST:g})"
        if CLEANEST <= given * 1000 <= DIRTIEST:
            text += f"; if it is in kg, give {given * 1000:g}"
        yield Notice("input-implausible", f"{text}.", "intensity_g_per_kwh")
    asked, life_h = work.request, work.life().value * HOURS_PER_YEAR
    known = asked.count is not None or work.instance or asked.hours is not None
    if hours is not None and known and hours.value / work.devices() > life_h:
        text = (
            f"{_text(hours.value / work.devices())} h on each device are more than its life of "
            f"{work.life().value:g} years: M is above its TE. Check hours, or declare "
            "lifetime_years."
        )
        yield Notice("lifetime-exceeded", text, "embodied_g")


def _text(value: float) -> str:
    return plain(number(value, 3))


def _power(work: Assumptions, hours: Quantity | None) -> Iterator[Notice]:
    rated = work.hardware.tdp_w * work.share if work.hardware and work.hardware.tdp_w else None
    asked = work.request
    if rated is None:
        return
    field, drawn, most = "power_w", asked.power_w.value if asked.power_w else 0.0, rated
    if asked.energy_kwh is not None and hours is not None:
        drawn = asked.energy_kwh * W_PER_KW / hours.value
        field, most = "energy_kwh", rated * (1 + HOST_SHARE.high)
    if drawn > RATED_TIMES * most:
        hint = "per device, in W" if field == "power_w" else "of all IT equipment, in kWh"
        text = (
            f"{_text(drawn)} W a device are {_text(drawn / rated)} times the rated {rated:g} W of "
            f"{asked.hardware or work.instance and work.instance.id}; {field} is {hint}."
        )
        yield Notice("input-implausible", text, field)

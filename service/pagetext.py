"""Figures and times as people read them on the pages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gramwatt.sci.document import SciDoc
from gramwatt.sci.quantity import QuantityDoc

UNKNOWN = "unknown"
NARROW_SPACE = "\u202f"
_MASS = ((1e6, "t"), (1e3, "kg"), (1.0, "g"), (1e-3, "mg"), (1e-6, "µg"))
_ENERGY = ((1e3, "MWh"), (1.0, "kWh"), (1e-3, "Wh"), (1e-6, "mWh"))


def digits(number: float, count: int = 3) -> str:
    """The number with so many significant digits, without an exponent between 1e-4 and 1e7."""
    if number == 0:
        return "0"
    if not 1e-4 <= abs(number) < 1e7:
        return f"{number:.{count - 1}e}"
    places = max(0, count - 1 - math.floor(math.log10(abs(number))))
    return f"{number:,.{places}f}".replace(",", NARROW_SPACE)


def scaled(
    figure: QuantityDoc | None, steps: tuple[tuple[float, str], ...], after: str = ""
) -> str:
    """The value in the largest step that leaves it at 1 or more, with the step's unit."""
    if figure is None:
        return UNKNOWN
    size, unit = _step(figure["value"], steps)
    return f"{digits(figure['value'] / size)} {unit}{after}"


def span(figure: QuantityDoc | None, steps: tuple[tuple[float, str], ...], after: str = "") -> str:
    """The range of a figure, in the unit that its value is shown in."""
    if figure is None:
        return ""
    size, unit = _step(figure["value"], steps)
    low, high = digits(figure["low"] / size), digits(figure["high"] / size)
    return f"{low} to {high} {unit}{after}"


def energy(figure: QuantityDoc | None) -> str:
    """Energy [kWh] in the unit that suits it."""
    return scaled(figure, _ENERGY)


def energy_range(figure: QuantityDoc | None) -> str:
    """The range of an energy [kWh]."""
    return span(figure, _ENERGY)


def mass(figure: QuantityDoc | None) -> str:
    """Mass of CO2e [g] in the unit that suits it."""
    return scaled(figure, _MASS)


def mass_range(figure: QuantityDoc | None) -> str:
    """The range of a mass [g]."""
    return span(figure, _MASS)


def sci(row: SciDoc) -> str:
    """SCI per functional unit, such as "1.2 mg/image"."""
    return scaled(row["g_per_unit"], _MASS, f"/{row['unit']}")


def sci_range(row: SciDoc) -> str:
    """The range of an SCI score."""
    return span(row["g_per_unit"], _MASS, f"/{row['unit']}")


def moment(text: str) -> str:
    """A time as written in documents, to the minute."""
    return f"{text[:10]} {text[11:16]}"


def duration(seconds: float | None) -> str:
    """A duration [s] in the largest two of days, hours, minutes and seconds."""
    if seconds is None:
        return UNKNOWN
    whole = round(seconds)
    if whole < 60:
        return f"{digits(seconds)} s"
    for size, unit, below, under in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // below} {under}"
    return f"{whole // 60} min {whole % 60} s"


def _step(value: float, steps: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    return next((step for step in steps if abs(value) >= step[0]), steps[-1] if value else steps[2])


FILTERS: dict[str, Callable[[Any], str]] = {
    "energy": energy,
    "energy_range": energy_range,
    "mass": mass,
    "mass_range": mass_range,
    "sci": sci,
    "sci_range": sci_range,
    "moment": moment,
    "duration": duration,
}

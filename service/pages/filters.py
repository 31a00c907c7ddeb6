"""Figures and shares as the pages say them, as filters of the templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import url_for

from gramwatt.reports.month_sections import month_name
from gramwatt.sci.figures.formatting import (
    NARROW_SPACE,
    change_range,
    change_text,
    count_text,
    duration,
    grams,
    minute_text,
    number,
    percent,
    prefix,
    span_text,
    value_text,
)
from gramwatt.sci.figures.printable import isolated
from gramwatt.sci.figures.quantity import METERED, Quantity, is_change, is_estimate
from gramwatt.sci.figures.units import g_from_kg
from gramwatt.service.tasks.table import period


def metered(shares: Mapping[str, float]) -> str:
    """Return how much of the energy a meter read."""
    return f"{percent(metered_share(shares))} metered" if shares else ""


def metered_share(shares: Mapping[str, float]) -> float:
    """Return which share of the energy a meter read."""
    return sum(shares.get(kind, 0.0) for kind in METERED)


def kilograms(kg: float) -> str:
    """Return a declared mass, such as a budget [kgCO2e]."""
    size, unit = prefix(g_from_kg(kg), "gCO2e")
    return f"{number(g_from_kg(kg) / size, 4)}{NARROW_SPACE}{unit}"


def is_reliable(ratio: Quantity) -> bool:
    """Return whether the range of a ratio leaves out 1."""
    return is_change(ratio.low, ratio.high)


def effect(g_per_unit: float, unit: str) -> str:
    """Return an effect on a score, with its sign."""
    if g_per_unit == 0:
        return "0"
    size, name = prefix(abs(g_per_unit), f"gCO2e/{unit}")
    sign = "−" if g_per_unit < 0 else "+"
    return f"{sign}{number(abs(g_per_unit) / size, 2)}{NARROW_SPACE}{name}"


def address(query: Mapping[str, Any], endpoint: str, **changes: Any) -> str:
    """Return the address of a page with the parameters asked for, and these instead; None for
    without.
    """
    return url_for(endpoint, **{**query, **changes})


FILTERS: dict[str, Callable[..., Any]] = {
    "figure": value_text,
    "figure_range": span_text,
    "count": count_text,
    "percent": percent,
    "duration": duration,
    "month_name": month_name,
    "clean": isolated,
    "period": period,
    "day": lambda text: text[:10],
    "clock": lambda text: text[11:19],
    "minute": minute_text,
    "change": change_text,
    "change_range": change_range,
    "metered": metered,
    "metered_share": metered_share,
    "kilograms": kilograms,
    "grams": grams,
    "is_reliable": is_reliable,
    "is_estimate": is_estimate,
    "effect": effect,
    "address": address,
}
"""Filters of the templates by name."""

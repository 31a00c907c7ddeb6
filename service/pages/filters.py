"""Figures and shares as the pages say them, as filters of the templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import url_for

from gramwatt.reports.month_sections import month_name
from gramwatt.sci.figures.formatting import (
    NARROW_SPACE,
    UNKNOWN,
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
from gramwatt.sci.figures.quantity import Quantity, is_change, is_estimate
from gramwatt.sci.figures.units import g_from_kg
from gramwatt.sci.score.assess import FINE_QUALITIES
from gramwatt.service.tasks.table import period


def change(ratio: Quantity | None) -> str:
    """Return a ratio of after over before as "12 % less"; `UNKNOWN` for None."""
    return UNKNOWN if ratio is None else "".join(_change(ratio.value))


def change_range(ratio: Quantity | None) -> str:
    """Return the range of such a ratio, "20 % less to 3 % more"; "" for an exact one."""
    if ratio is None or ratio.low == ratio.high:
        return ""
    (amount, way), (most, other) = _change(ratio.low), _change(ratio.high)
    # The words once, where both ends go the same way.
    return f"{amount} to {most}{other}" if way == other else f"{amount}{way} to {most}{other}"


def _change(ratio: float) -> tuple[str, str]:
    """Return how much a ratio changes, and which way in words."""
    if ratio >= 2:
        return number(ratio, 2), " times as much"
    share = abs(ratio - 1)
    if share < 0.0005:
        return "the same", ""
    amount = f"{number(share * 100, 2 if share >= 0.1 else 1)}{NARROW_SPACE}%"
    return amount, " less" if ratio < 1 else " more"


def measured(shares: Mapping[str, float]) -> str:
    """Return how much of the energy was measured."""
    return f"{percent(shares.get('measured', 0.0))} measured" if shares else ""


def hourly(shares: Mapping[str, float]) -> str:
    """Return how much of the energy has hourly intensity."""
    return f"{percent(sum(shares.get(name, 0.0) for name in FINE_QUALITIES))} with hourly intensity"


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


def address(asked: Mapping[str, Any], endpoint: str, **changes: Any) -> str:
    """Return the address of a page with the parameters asked for, and these instead; None for
    without.
    """
    return url_for(endpoint, **{**asked, **changes})


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
    "change": change,
    "change_range": change_range,
    "measured": measured,
    "hourly": hourly,
    "kilograms": kilograms,
    "grams": grams,
    "is_reliable": is_reliable,
    "is_estimate": is_estimate,
    "effect": effect,
    "address": address,
}
"""Filters of the templates by name."""

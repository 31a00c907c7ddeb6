"""The dozen lines that `gramwatt run` says about a scored job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gramwatt.sci import units

WORLD_LINE = "No grid zone was given: the world average intensity is used (say --zone or --region)."
_ENERGY = ((1e-3, "mWh", 1e3), (1.0, "Wh", 1.0), (1e3, "kWh", 1e-3), (1e6, "MWh", 1e-6))
_MASS = (
    (1e-6, "µg", 1e6),
    (1e-3, "mg", 1e3),
    (1.0, "g", 1.0),
    (1e3, "kg", 1e-3),
    (1e6, "t", 1e-6),
)
FINE_SPREAD = 0.05
"""Half range over value up to which a third significant digit says something."""


def summary_lines(document: Mapping[str, Any], where: str) -> list[str]:
    """The summary of a job document, aligned; `where` says how to see its report."""
    rows: list[tuple[str, str]] = [
        ("Energy", energy_text(document.get("energy_kwh")) + _measured(document)),
        ("Operational O", mass_text(document.get("operational_g"))),
        ("Embodied M", mass_text(document.get("embodied_g"))),
        ("Total O + M", mass_text(document.get("total_g"))),
    ]
    for item in document.get("sci") or []:
        count = f"   ({significant(item['count'], 6)} counted)"
        rows.append((f"SCI per {item['unit']}", mass_text(item.get("g_per_unit")) + count))
    rows += [
        ("Data quality", _grade(document)),
        ("Conformance", _conformance(document)),
        ("Notices", _notices(document.get("notices") or [])),
        ("Report", where),
    ]
    width = max(len(label) for label, _ in rows)
    return [*_head(document), *(f"  {label:<{width}}  {text}" for label, text in rows)]


def significant(value: float, digits: int) -> str:
    """`value` with so many significant digits, without an exponent where that stays readable."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    scientific = f"{value:.{digits - 1}e}"
    magnitude = int(scientific.partition("e")[2])  # after rounding: 9.996 is 10.0
    if magnitude >= 12 or magnitude < -6:
        return scientific
    decimals = digits - 1 - magnitude
    text = f"{round(value, decimals):,.{max(0, decimals)}f}".replace(",", " ")
    return text.rstrip("0").rstrip(".") if digits > 3 and "." in text else text


def figure(doc: Mapping[str, Any], scale: Sequence[tuple[float, str, float]], factor: float) -> str:
    """A Quantity document as "1.23 kWh (1.1 to 1.4)": one prefix, the digits its range supports.

    `factor` turns the document's unit into the scale's base unit [Wh] or [g].
    """
    value, low, high = (float(doc[key]) * factor for key in ("value", "low", "high"))
    unit, multiply = _prefix(value or high, scale)
    spread = (high - low) / 2 / abs(value) if value else math.inf
    digits = 3 if spread <= FINE_SPREAD else 2
    shown = [significant(number * multiply, digits) for number in (value, low, high)]
    text = f"{shown[0]} {unit}"
    return text if low == high else f"{text}   ({shown[1]} to {shown[2]})"


def _prefix(value: float, scale: Sequence[tuple[float, str, float]]) -> tuple[str, float]:
    fitting = [(unit, multiply) for least, unit, multiply in scale if abs(value) >= least]
    return fitting[-1] if fitting else (scale[0][1], scale[0][2])


def energy_text(doc: Mapping[str, Any] | None) -> str:
    """An energy document [kWh] for people, "unknown" where there is none."""
    wh_per_kwh = units.J_PER_KWH / units.S_PER_HOUR
    return figure(doc, _ENERGY, wh_per_kwh) if doc else "unknown"


def mass_text(doc: Mapping[str, Any] | None) -> str:
    """A mass document [gCO2e] for people, "unknown" where there is none."""
    return figure(doc, _MASS, 1.0) + "   CO2e" if doc else "unknown"


def _measured(document: Mapping[str, Any]) -> str:
    shares = (document.get("data_quality") or {}).get("energy") or {}
    known = [f"{round(100 * share)} % {kind}" for kind, share in shares.items() if share >= 0.005]
    return f"   {', '.join(known)}" if known else ""


def _head(document: Mapping[str, Any]) -> list[str]:
    name = document.get("name") or document.get("job_id")
    duration_s = document.get("duration_s")
    took = f" in {_duration(float(duration_s))}" if duration_s is not None else ""
    title = f"gramwatt: {name} ({document.get('project')}) {document.get('state')}{took}"
    codes = {notice.get("code") for notice in document.get("notices") or []}
    return [f"gramwatt: {WORLD_LINE}", title] if "zone-unknown" in codes else [title]


def _duration(duration_s: float) -> str:
    if duration_s < 120:
        return f"{significant(duration_s, 3)} s"
    minutes, seconds = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def _grade(document: Mapping[str, Any]) -> str:
    grade = (document.get("data_quality") or {}).get("grade") or "unknown"
    provisional = "   provisional" if document.get("provisional") else ""
    return f"{grade}   (A best, D worst){provisional}"


def _conformance(document: Mapping[str, Any]) -> str:
    deviations = document.get("deviations") or []
    text = str(document.get("conformance"))
    return f"{text}   ({len(deviations)} listed in the report)" if deviations else text


def _notices(notices: Sequence[Mapping[str, Any]]) -> str:
    codes = list(dict.fromkeys(str(notice.get("code")) for notice in notices))
    if not codes:
        return "none"
    shown = ", ".join(codes[:4])
    return f"{len(notices)}   ({shown}{', ...' if len(codes) > 4 else ''})"

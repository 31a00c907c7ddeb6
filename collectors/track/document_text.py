"""A job document in a notebook: a table with a chart of its windows, or a few lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from gramwatt.sci.figures import formatting
from gramwatt.sci.figures.quantity import Quantity, figure_of

ROWS = {
    "energy_kwh": "Energy",
    "operational_g": "Electricity",
    "embodied_g": "Making the hardware",
    "total_g": "Total",
}
WINDOWS_MAX = 20
BAR_PX = 240


def document_html(document: Mapping[str, Any]) -> str:
    """Return the figures with range, kind and unit, and the energy of each window as a bar."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(label)}</th>"
        f"<td style='text-align:left'>{escape(formatting.text(figure))}</td>"
        f"<td style='text-align:left'>{escape(figure.kind if figure else '')}</td></tr>"
        for label, figure in _figures(document)
    )
    return (
        f"<table><caption style='text-align:left'>{escape(_head(document))}</caption>{rows}</table>"
        f"{_chart(document.get('windows') or [])}<small>{escape(_foot(document))}</small>"
    )


def document_text(document: Mapping[str, Any]) -> str:
    """Return the figures with their ranges, a line each."""
    figures = [f"  {label}: {formatting.text(figure)}" for label, figure in _figures(document)]
    return "\n".join((_head(document), *figures, f"  {_foot(document)}"))


def document_line(document: Mapping[str, Any]) -> str:
    """Return energy and carbon, as the line at a job's end has them."""
    energy, total = figure_of(document, "energy_kwh"), figure_of(document, "total_g")
    parts = [formatting.value_text(figure) for figure in (energy, total) if figure]
    return formatting.plain(", ".join(parts)) or "energy not known"


def _figures(document: Mapping[str, Any]) -> list[tuple[str, Quantity | None]]:
    rows = [(label, figure_of(document, name)) for name, label in ROWS.items()]
    units = [(f"per {item['unit']}", figure_of(item, "g_per_unit")) for item in document["sci"]]
    return rows + units


def _head(document: Mapping[str, Any]) -> str:
    return f"{document.get('name') or document['job_id']}: {document['state']}"


def _foot(document: Mapping[str, Any]) -> str:
    return f"{len(document['notices'])} notices: gramwatt job {document['job_id']}"


def _chart(windows: list[Mapping[str, Any]]) -> str:
    """Return bars of the windows' energy; empty where none is known."""
    figures = [(str(item["name"]), figure_of(item, "energy_kwh")) for item in windows]
    shown = [(name, figure) for name, figure in figures if figure][:WINDOWS_MAX]
    most = max((figure.value for _, figure in shown), default=0.0)
    if most <= 0:
        return ""
    bars = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td>"
        f"<td style='text-align:left'><div style='background:#2a7f62;height:0.8em;"
        f"width:{max(1, round(BAR_PX * figure.value / most))}px'></div></td>"
        f"<td style='text-align:left'>{escape(formatting.text(figure))}</td></tr>"
        for name, figure in shown
    )
    left_out = len(windows) - len(shown)
    more = (
        f"<tr><td colspan=3>and {left_out} more without energy or room</td></tr>"
        if left_out
        else ""
    )
    return f"<table>{bars}{more}</table>"

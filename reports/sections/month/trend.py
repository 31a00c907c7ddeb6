"""The last twelve months as a chart and a table."""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.reports.charts import data_table, tip
from gramwatt.reports.charts_month import trend_columns
from gramwatt.reports.model import Block, Cell, Chart, Column, Heading, Table
from gramwatt.reports.sections.common import cell
from gramwatt.reports.sections.daily import MONTHS, month_name
from gramwatt.sci.analysis.documents import MonthDoc, TrendRow
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.base.formatting import number, prefix, significant_digits, text
from gramwatt.sci.base.quantity import QuantityDoc, is_estimate

FEWEST_MONTHS = 6
"""Months on the axis where fewer have jobs."""
PARTS = ("operational", "embodied")


def trend_chart(document: MonthDoc) -> list[Block]:
    """Operational and embodied carbon by month, with the range of each total."""
    rows = [row for row in document.trend if row.total_g is not None]
    if not rows:
        return []
    most = max(row.total_g["high"] for row in rows if row.total_g)
    size, unit = prefix(most, "gCO2e")
    bars = [
        {
            "name": short_name(row.month),
            "part": part,
            "rank": rank,
            "value": figure["value"] / size,
            "tip": tip(f"{month_name(row.month)}, {part}", figure),
            "estimated": is_estimate(figure),
            "final": row.complete,
        }
        for row in rows
        for rank, part in enumerate(PARTS)
        if (figure := row.operational_g if part == "operational" else row.embodied_g)
    ]
    totals = [_total(row, row.total_g, size) for row in rows if row.total_g]
    breaks = [short_name(row.month) for row in rows if row.method_break]
    spec = trend_columns(
        bars, totals, names=_axis(rows, document.month), y_title=unit, breaks=breaks
    )
    caption = "Carbon by month; the thin lines are ranges"
    caption += ", striped bars are estimated" if any(bar["estimated"] for bar in bars) else ""
    caption += ", dashed bars are months that may still change" if _is_open(rows) else ""
    caption += ", a dashed line is a change of method" if breaks else ""
    lines = [(row.month, text(row.total_g)) for row in rows]
    alt = "Columns of carbon by month: " + "; ".join(f"{m}: {words}" for m, words in lines) + "."
    marked = [(row.month, cell(row.total_g)) for row in rows]
    table = data_table(caption, ("Month", "Carbon"), marked)
    return [Chart(caption, alt, spec, table)]


def trend_table(document: MonthDoc) -> list[Block]:
    """Return the same months as a table, with what they are scored by."""
    columns = (
        Column("Month", weight=1.2),
        Column("Jobs", "right", 0.6),
        Column("Energy", "right", 1.1),
        Column("Carbon", "right", 1.2),
        Column("Data", weight=0.7),
        Column("Method", weight=1.9),
    )
    rows = tuple(_row(row) for row in document.trend)
    note = (
        "The method is the version of the engine, that of the catalog, and signal and basis of the "
        "intensity. Months of different methods compare with care only; earlier months are as "
        "they are scored today, not as they were first reported."
    )
    return [Heading("Trend"), Table("The last twelve months", columns, rows, note)]


def short_name(month: str) -> str:
    """`2026-05` -> `May 26`."""
    return f"{MONTHS[int(month[5:]) - 1][:3]} {month[2:4]}"


def _axis(rows: Sequence[TrendRow], month: str) -> list[str]:
    names = [month]
    while len(names) < FEWEST_MONTHS or names[0] > rows[0].month:
        names.insert(0, previous_month(names[0]))
    return [short_name(name) for name in names]


def _is_open(rows: Sequence[TrendRow]) -> bool:
    return not all(row.complete for row in rows)


def _total(row: TrendRow, total_g: QuantityDoc, size: float) -> dict[str, object]:
    value, low, high = (total_g[end] / size for end in ("value", "low", "high"))
    label = number(value, significant_digits(value, low, high))
    found = {"name": short_name(row.month), "value": value, "low": low, "high": high}
    return {**found, "label": label}


def _row(row: TrendRow) -> tuple[Cell, ...]:
    methods = "; ".join(", ".join(method) for method in row.methods)
    state = month_name(row.month) + ("" if row.complete else ", may still change")
    changed = f"changed: {methods}" if row.method_break else methods
    return (
        state,
        str(row.jobs),
        cell(row.energy_kwh),
        cell(row.total_g),
        f"grade {row.grade}",
        changed,
    )

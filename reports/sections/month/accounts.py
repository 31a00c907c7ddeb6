"""The accounts of a month: boundary, components, waste ledger, chargeback."""

from __future__ import annotations

from gramwatt.reports.charts import data_table, tip
from gramwatt.reports.charts_month import ranged_bars
from gramwatt.reports.model import Block, Cell, Chart, Column, Heading, Table, Text
from gramwatt.reports.sections.common import cell
from gramwatt.sci.analysis.documents import ComponentRow, MonthDoc
from gramwatt.sci.base.formatting import percent, prefix, text, value_text
from gramwatt.sci.base.quantity import QuantityDoc, is_estimate

CLASSES = {
    "gpu": "GPUs",
    "accelerator": "other accelerators",
    "module": "modules (processor and GPU)",
    "cpu": "processors",
    "ram": "memory",
    "host": "hosts",
    "overhead": "overhead of the building (PUE)",
    "other": "not divided",
}
ELECTRICITY, MAKING = "electricity", "embodied"
OUTCOMES = {
    "completed": "Completed work",
    "idle": "Idle but reserved, in completed jobs",
    "sweep": "Runs of sweeps",
    "failed": "Failed",
    "killed": "Cancelled",
    "lost": "Lost",
}
NO_OWNER = "no owner given"
FACTORS = (
    "Water and abiotic depletion (ADPe) are not stated: the catalog has no sourced factor for "
    "them. Neither is part of an SCI score."
)


def boundary_section(document: MonthDoc) -> list[Block]:
    """Return the narrow and the full boundary side by side."""
    boundary = document.boundary
    if boundary is None:
        return []
    columns = (Column("What", weight=1.3), Column("Narrow", "right"), Column("Full", "right"))
    rows: tuple[tuple[Cell, ...], ...] = (
        ("Energy", cell(boundary.narrow_kwh), cell(boundary.full_kwh)),
        ("Carbon", cell(boundary.narrow_g), cell(boundary.full_g)),
    )
    note = (
        "Narrow: the accelerators' electricity alone, as many reports count. Full: processors, "
        "memory, the building's overhead and embodied carbon too; scores use the full one."
    )
    return [
        Heading("Boundary"),
        Table("One month in two boundaries", columns, rows, note),
        Text(FACTORS),
    ]


def component_section(document: MonthDoc) -> list[Block]:
    """Return the carbon by component, as chart and table that sum to the total."""
    rows = document.components
    total_g = document.totals.total_g
    if not rows or total_g is None:
        return []
    caption = "Carbon by component; the thin lines are ranges"
    caption += ", striped bars are estimated" if any(is_estimate(r.g) for r in rows) else ""
    most = max(row.g["high"] for row in rows)
    size, unit = prefix(most, "gCO2e")
    bars = [
        {
            "name": component_name(row),
            **{end: row.g[end] / size for end in ("value", "low", "high")},
            "label": value_text(row.g),
            "tip": tip(component_name(row), row.g),
            "estimated": is_estimate(row.g),
        }
        for row in rows
    ]
    whole = total_g["value"]
    lines = [(component_name(row), cell(row.g), _share(row.g, whole)) for row in rows]
    lines.append(("Total", cell(total_g), percent(1.0)))
    table = data_table("Components", ("Component", "Carbon", "Share"), lines)
    said = "; ".join(f"{component_name(row)} {text(row.g)}" for row in rows)
    chart = Chart(caption, f"Bars of carbon: {said}.", ranged_bars(bars, x_title=unit), table)
    note = (
        "Electricity is divided by energy. Each component has the range of its own meters or "
        "parts; errors partly cancel, so that of the total is narrower."
    )
    printed = Table("Component scores, which sum to the total", table.columns, table.rows, note)
    return [Heading("Components of the score"), chart, printed]


def component_name(row: ComponentRow) -> str:
    """Return a component in words."""
    name = CLASSES.get(row.component, row.component)
    what = ELECTRICITY if row.part == "operational" else MAKING
    return name if row.component == "overhead" else f"{name}, {what}"


def ledger_section(document: MonthDoc) -> list[Block]:
    """Return what became of the work, and who used how much."""
    return [*_ledger(document), *_chargeback(document)]


def _ledger(document: MonthDoc) -> list[Block]:
    columns = (
        Column("Outcome", weight=2.0),
        Column("Jobs", "right", 0.6),
        Column("Energy", "right", 1.2),
        Column("Carbon", "right", 1.3),
        Column("Share", "right", 0.7),
    )
    whole, last = _total(document)
    rows: list[tuple[Cell, ...]] = [
        (
            OUTCOMES.get(row.outcome, row.outcome),
            str(row.jobs) if row.outcome != "idle" else f"in {row.jobs}",
            cell(row.energy_kwh),
            cell(row.total_g),
            _share(row.total_g, whole),
        )
        for row in document.ledger
    ]
    rows.append(("Total", *last))
    note = (
        "Idle: accelerators with a mean utilisation below 5 % over a completed job. Sweeps: "
        "completed runs with the tag sweep. Failed, cancelled and lost runs count in full."
    )
    unseen = document.idle_not_seen_kwh
    if unseen is not None:
        note += f" Accelerators without a reading of utilisation used {text(unseen)}."
    return [Heading("Waste ledger"), Table("Carbon by outcome", columns, tuple(rows), note)]


def _chargeback(document: MonthDoc) -> list[Block]:
    columns = (
        Column("Project", weight=1.6),
        Column("Owner", weight=1.3),
        Column("Jobs", "right", 0.6),
        Column("Energy", "right", 1.1),
        Column("Carbon", "right", 1.2),
        Column("Share", "right", 0.7),
    )
    whole, last = _total(document)
    rows: list[tuple[Cell, ...]] = [
        (
            row.project,
            row.owner or NO_OWNER,
            str(row.jobs),
            cell(row.energy_kwh),
            cell(row.total_g),
            _share(row.total_g, whole),
        )
        for row in document.chargeback
    ]
    rows.append(("Total", "", *last))
    note = "The owner is the tag user of the job."
    return [Heading("Chargeback"), Table("By project and owner", columns, tuple(rows), note)]


def _total(document: MonthDoc) -> tuple[float, tuple[Cell, ...]]:
    """Return the month's carbon [gCO2e], 0 where it is unknown, and the last cells of a sum's
    row.
    """
    totals = document.totals
    total_g = totals.total_g
    whole = total_g["value"] if total_g else 0.0
    share = percent(1.0) if whole else ""
    return whole, (str(totals.jobs), cell(totals.energy_kwh), cell(total_g), share)


def _share(figure: QuantityDoc | None, whole: float) -> str:
    return percent(figure["value"] / whole) if figure and whole > 0 else ""

"""The report of a year: twelve months, base year and carbon per unit of work."""

from __future__ import annotations

from gramwatt.reports.model import Block, Document, Facts, Figures
from gramwatt.reports.month_sections import month_name
from gramwatt.reports.sections import (
    STATUS,
    Field,
    Section,
    contents,
    reference,
    scope,
    source_blocks,
    table,
    terms,
)
from gramwatt.sci.figures.formatting import UNKNOWN, marked, number, percent, text
from gramwatt.sci.figures.printable import isolated
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.month.documents import ModelUnitRow, ProjectRow, UnitRow
from gramwatt.sci.month.yearly import TargetRow, YearDoc, YearMonthRow

PER_UNIT: tuple[Field[UnitRow], ...] = (
    Field("Unit", lambda row: row.unit, 0.8),
    Field("R", lambda row: row.count, 1.1, "right"),
    Field("Carbon", lambda row: row.total_g, 1.3, "right"),
    Field("Per unit", lambda row: row.g_per_unit, 1.7, "right"),
    Field("Status", lambda row: STATUS[row.conformance], 1.1),
)
MET = {True: "met", False: "missed", None: "open"}


def build(document: YearDoc) -> Document:
    """Return the report of a year document."""
    year, project = document.year, document.project
    state = "complete" if document.complete else "not complete: its figures may still change"
    projects = isolated(project) if project else "all projects"
    return Document(
        f"Energy and carbon of AI jobs, {year}",
        f"{scope(project)}; {state}.",
        "",
        tuple(contents(SECTIONS, document)),
        reference(document, f"{year}, {projects}"),
        glossary=True,
    )


def _summary(document: YearDoc) -> list[Block]:
    """Return the totals, and the base year and the targets where they are set."""
    rows: list[tuple[str, str]] = []
    base = document.base_year
    if base is not None:
        share = base.change_share
        change = UNKNOWN if share is None else marked(f"{100 * share:+.1f} %")
        rows.append((f"Base year {base.year}", f"{text(base.total_g)}; since then {change}"))
    rows += [(f"Target of {row.year}", _target(row)) for row in document.targets]
    figures = Figures(tuple(terms(document.totals).values()))
    return [figures, Facts(tuple(rows))] if rows else [figures]


def _target(row: TargetRow) -> str:
    share = UNKNOWN if row.share is None else percent(row.share)
    return f"{number(row.limit_kg, 4)} kg CO2e; this year is {share} of it; {MET[row.met]}"


def _months(document: YearDoc) -> list[Block]:
    months = table(
        "The twelve months",
        document.months,
        Field("Month", lambda row: month_name(row.month), 1.3),
        Field("Jobs", lambda row: row.jobs, 0.6, "right"),
        Field("Energy", lambda row: _known(row, row.energy_kwh), 1.1, "right"),
        Field("Operational", lambda row: _known(row, row.operational_g), 1.1, "right"),
        Field("Embodied", lambda row: _known(row, row.embodied_g), 1.1, "right"),
        Field("Carbon", lambda row: _known(row, row.total_g), 1.1, "right"),
        Field("Report", _state, 1.2),
        note="The ends of a range of the year are the sums of its months' ends: months share the "
        "errors of meters, PUE and hardware.",
    )
    return [months]


def _known(row: YearMonthRow, figure: Quantity | None) -> Quantity | str | None:
    return figure if row.jobs else ""


def _state(row: YearMonthRow) -> str:
    if not row.jobs:
        return "no job" if row.complete else "not over"
    revision = "" if row.revision is None else f"revision {row.revision}"
    return ", ".join(filter(None, (revision, "" if row.complete else "not complete")))


def _per_unit(document: YearDoc) -> list[Block]:
    project: Field[ProjectRow] = Field("Project", lambda row: row.project, 1.4)
    model: Field[ModelUnitRow] = Field("Model", lambda row: row.model_id, 1.4)
    tables = (
        table("By project and unit", document.projects, project, *PER_UNIT),
        table("By model and unit", document.models, model, *PER_UNIT),
    )
    return [rows for rows in tables if rows.rows]


def _statement(document: YearDoc) -> list[Block]:
    by = document.statement
    facts = (
        ("Organisation", by.organisation or UNKNOWN),
        ("Accountable", by.accountable or UNKNOWN),
        ("Contact", by.contact or UNKNOWN),
        ("Assurance", "none: not assured by a third party"),
    )
    return [Facts(facts, quoted=True)]


SECTIONS: tuple[Section[YearDoc], ...] = (
    Section("Summary", _summary),
    Section("Months", _months),
    Section("Carbon per unit of work", _per_unit),
    Section("Sources", lambda year: source_blocks(year.sources)),
    Section("Statement", _statement),
)
"""Every section of a year, in order."""

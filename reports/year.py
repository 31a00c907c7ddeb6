"""The report of a year: twelve months, base year and carbon per unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gramwatt.reports.model import Block, Cell, Column, Document, Facts, Figures, Heading, Table
from gramwatt.reports.sections.common import STATUS, cell, reference, source_keys, terms
from gramwatt.reports.sections.daily import month_name
from gramwatt.sci.analysis.yearly import TargetRow, YearDoc, YearMonthRow
from gramwatt.sci.base.formatting import UNKNOWN, count_text, marked, number, percent, text

RANGES = (
    "The ends of a range of the year are the sums of its months' ends: months share the errors of "
    "meters, PUE and hardware."
)
MET = {True: "met", False: "missed", None: "open"}


def build(document: YearDoc) -> Document:
    """Return the report of a year document."""
    year, project = document.year, document.project
    stamp = reference(document, f"{year}, {project or 'all projects'}")
    state = "complete" if document.complete else "not complete: its figures may still change"
    blocks: list[Block] = [
        Heading("Summary"),
        Figures(tuple(terms(document.totals).values())),
        *_held(document),
        Heading("Months"),
        _months(document.months),
        Heading("Carbon per unit of work"),
        *_per_unit("project", "By project and unit", document.projects),
        *_per_unit("model_id", "By model and unit", document.models),
        *_sources(document.sources),
        *_statement(document, stamp),
    ]
    return Document(
        f"Energy and carbon of AI jobs, {year}",
        f"{f'Project {project}' if project else 'All projects'}; {state}.",
        "",
        tuple(blocks),
        stamp,
        glossary=True,
    )


def _held(document: YearDoc) -> list[Block]:
    """Return the base year and the targets, where they are set."""
    rows: list[tuple[str, str]] = []
    base = document.base_year
    if base is not None:
        share = base.change_share
        change = UNKNOWN if share is None else marked(f"{100 * share:+.1f} %")
        rows.append((f"Base year {base.year}", f"{text(base.total_g)}; since then {change}"))
    rows += [(f"Target of {row.year}", _target(row)) for row in document.targets]
    return [Facts(tuple(rows))] if rows else []


def _target(row: TargetRow) -> str:
    share = UNKNOWN if row.share is None else percent(row.share)
    return f"{number(row.limit_kg, 4)} kg CO2e; this year is {share} of it; {MET[row.met]}"


def _months(rows: Sequence[YearMonthRow]) -> Table:
    columns = (
        Column("Month", weight=1.3),
        Column("Jobs", "right", 0.6),
        Column("Energy", "right", 1.1),
        Column("Operational", "right", 1.1),
        Column("Embodied", "right", 1.1),
        Column("Carbon", "right", 1.1),
        Column("Report", weight=1.2),
    )
    found: list[tuple[Cell, ...]] = [
        (
            month_name(row.month),
            str(row.jobs),
            *(
                cell(figure) if row.jobs else ""
                for figure in (
                    row.energy_kwh,
                    row.operational_g,
                    row.embodied_g,
                    row.total_g,
                )
            ),
            _state(row),
        )
        for row in rows
    ]
    return Table("The twelve months", columns, tuple(found), RANGES)


def _state(row: YearMonthRow) -> str:
    if not row.jobs:
        return "no job" if row.complete else "not over"
    kept = "" if row.revision is None else f"revision {row.revision}"
    state = "" if row.complete else "not complete"
    return ", ".join(filter(None, (kept, state)))


def _per_unit(of: str, title: str, rows: Sequence[Any]) -> list[Block]:
    if not rows:
        return []
    columns = (
        Column("Project" if of == "project" else "Model", weight=1.4),
        Column("Unit", weight=0.8),
        Column("R", "right", 1.1),
        Column("Carbon", "right", 1.3),
        Column("Per unit", "right", 1.7),
        Column("Status", weight=1.1),
    )
    found = tuple(
        (
            getattr(row, of),
            row.unit,
            count_text(row.count),
            cell(row.total_g),
            cell(row.g_per_unit),
            STATUS[row.conformance],
        )
        for row in rows
    )
    return [Table(title, columns, found)]


def _sources(sources: Sequence[str]) -> list[Block]:
    rows = tuple((source,) for source in sources)
    table = Table("Sources of the figures", (Column("Source"),), rows)
    return [Heading("Sources"), table, *source_keys(sources)]


def _statement(document: YearDoc, stamp: str) -> list[Block]:
    said = document.statement
    facts = (
        ("Organisation", said.organisation or UNKNOWN),
        ("Accountable", said.accountable or UNKNOWN),
        ("Contact", said.contact or UNKNOWN),
        ("Report", stamp),
        ("Assurance", "none: not assured by a third party"),
    )
    return [Heading("Statement"), Facts(facts, quoted=True)]

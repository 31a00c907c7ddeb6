"""The report of a year: page one answers; the twelve months and carbon per unit of work follow."""

from __future__ import annotations

from gramwatt.reports.model import Block, Document, Facts, Figures, Heading, Pair, Text
from gramwatt.reports.month import FIRST_BUDGETS, budget_table, sums, trend
from gramwatt.reports.month_sections import (
    FIRST_ADVICE,
    METERED_GRADES,
    advice_table,
    month_name,
    share_text,
    whole,
)
from gramwatt.reports.sections import (
    STATUS,
    Field,
    Section,
    capitalised,
    contents,
    first_of,
    reference,
    scope,
    source_blocks,
    table,
)
from gramwatt.sci.figures.formatting import (
    UNKNOWN,
    against,
    jobs_text,
    number,
    percent,
    text,
    value_text,
)
from gramwatt.sci.figures.printable import isolated
from gramwatt.sci.figures.quantity import METERED, Quantity
from gramwatt.sci.month.documents import TERMS, ModelUnitRow, ProjectRow, TrendRow, UnitRow
from gramwatt.sci.month.yearly import TargetRow, YearDoc, YearMonthRow

FIRST_PROJECTS = 6
"""Rows of the table of projects on page one."""
PER_UNIT: tuple[Field[UnitRow], ...] = (
    Field("Unit of work", lambda row: row.unit, 1.0),
    Field("How much work", lambda row: row.count, 1.2, "right"),
    Field("Carbon", lambda row: row.total_g, 1.3, "right"),
    Field("Carbon per unit", lambda row: row.g_per_unit, 1.7, "right"),
    Field("Score", lambda row: STATUS[row.conformance], 1.1),
)
MET = {True: "met", False: "missed", None: "still open"}


def build(document: YearDoc) -> Document:
    """Return the report of a year document."""
    year, project = document.year, document.project
    state = "final" if document.complete else "may still change"
    projects = isolated(project) if project else "all projects"
    return Document(
        f"Energy and carbon of AI jobs, {year}",
        f"{scope(project)}; {jobs_text(document.jobs_ended)}; {state}.",
        "",
        tuple(contents(SECTIONS, document)),
        reference(document, f"{year}, {projects}"),
    )


def headline(document: YearDoc) -> str:
    """Return the year in a sentence: its carbon, against the base year, and its targets."""
    whole, base = document.totals.total_g, document.base_year
    if whole is None:
        return "The carbon of this year is not known."
    months = sum(1 for row in document.months if row.jobs)
    sentence = f"{text(whole)}{'' if document.complete else ' so far'}"
    if base is not None and base.change_share is not None:
        sentence += f", {against(1 + base.change_share, f'in {base.year}')}"
    sentence += f", from {jobs_text(document.jobs_ended)} in {months} month{'s' * (months != 1)}."
    most = _most(document, whole) if months > 1 else []
    return " ".join((sentence, *most, *map(_target, document.targets)))


def _most(document: YearDoc, whole: Quantity) -> list[str]:
    """Return which project and which month had the most carbon, as a sentence."""
    words = []
    if len(document.by_project) > 1 and (first := document.by_project[0]).total_g:
        share = percent(first.total_g.value / whole.value) if whole.value > 0 else UNKNOWN
        words.append(f"Of this {isolated(first.project)} emitted {share}")
    month = max(document.months, key=lambda row: row.total_g.value if row.total_g else 0.0)
    if month.total_g:
        words.append(f"the most was in {month_name(month.month)}, {value_text(month.total_g)}")
    return [f"{capitalised('; '.join(words))}."] if words else []


def _target(row: TargetRow) -> str:
    share = UNKNOWN if row.share is None else percent(row.share)
    limit = f"{number(row.limit_kg, 4)} kg CO2e"
    return f"Target of {row.year}: {limit}; this year is {share} of it, {MET[row.met]}."


def _first_page(document: YearDoc) -> list[Block]:
    """Return the answer, totals, the months as a chart, projects, budgets, and what to do."""
    whole = document.totals.total_g
    read = sum(document.energy_kinds.get(kind, 0.0) for kind in METERED)
    blocks: list[Block] = [
        Text(headline(document), strong=True),
        Figures(sums(document.totals, read, document.facility_kwh)),
        *trend(
            [_bar(row) for row in document.months if row.jobs],
            document.months[-1].month,
            document.months[0].month,
        ),
        table(
            "Projects",
            document.by_project[:FIRST_PROJECTS],
            Field("Project", lambda row: row.project, 1.6),
            Field("Jobs", lambda row: row.jobs, 0.6, "right"),
            Field("Energy", lambda row: row.energy_kwh, 1.1, "right"),
            Field("Carbon", lambda row: row.total_g, 1.3, "right"),
            Field("Share", lambda row: share_text(row.total_g, whole), 0.7, "right"),
            note=first_of(FIRST_PROJECTS, len(document.by_project), "year"),
        ),
    ]
    if document.budgets:
        rows = document.budgets[:FIRST_BUDGETS]
        blocks.append(budget_table("Budgets of the months with jobs, added", rows))
    if document.advice:
        newest = next(row.month for row in reversed(document.months) if row.jobs)
        caption = f"What to do, by the jobs of {month_name(newest)}; savings are of a month"
        blocks.append(advice_table(caption, document.advice[:FIRST_ADVICE]))
    return blocks


def _bar(row: YearMonthRow) -> TrendRow:
    return TrendRow(
        **{term: getattr(row, term) for term in TERMS},
        month=row.month,
        complete=row.complete,
        jobs=row.jobs,
        grade=row.grade or "",
        methods=[],
        method_break=False,
    )


def _months(document: YearDoc) -> list[Block]:
    months = table(
        "Months with jobs",
        [row for row in document.months if row.jobs],
        Field("Month", lambda row: month_name(row.month), 1.3),
        Field("Jobs", lambda row: row.jobs, 0.6, "right"),
        Field("Energy", lambda row: _sum(row, "energy_kwh"), 1.1, "right"),
        Field("Electricity", lambda row: _sum(row, "operational_g"), 1.1, "right"),
        Field("Hardware", lambda row: _sum(row, "embodied_g"), 1.1, "right"),
        Field("Total", lambda row: _sum(row, "total_g"), 1.1, "right"),
        Field("Report", _state, 1.2),
        note="The ends of a range of the year are the sums of its months' ends: months share the "
        "errors of meters, PUE and hardware.",
    )
    return [months]


def _sum(row: YearMonthRow, term: str) -> Pair:
    return whole(getattr(row, term), term, row.grade in METERED_GRADES)


def _state(row: YearMonthRow) -> str:
    revision = "" if row.revision is None else f"version {row.revision}"
    return ", ".join(filter(None, (revision, "" if row.complete else "may still change")))


def _per_unit(document: YearDoc) -> list[Block]:
    project: Field[ProjectRow] = Field("Project", lambda row: row.project, 1.4)
    model: Field[ModelUnitRow] = Field("Model", lambda row: row.model_id, 1.4)
    tables = (
        table("By project and unit", document.projects, project, *PER_UNIT),
        table("By model and unit", document.models, model, *PER_UNIT),
    )
    return [rows for rows in tables if rows.rows]


def _sources(document: YearDoc) -> list[Block]:
    by = document.statement
    facts = (
        ("Organisation", by.organisation or UNKNOWN),
        ("Accountable", by.accountable or UNKNOWN),
        ("Contact", by.contact or UNKNOWN),
        ("Assurance", "none: not assured by a third party"),
    )
    return [Facts(facts, quoted=True), Heading("Sources", 2), *source_blocks(document.sources)]


SECTIONS: tuple[Section[YearDoc], ...] = (
    Section("Summary", _first_page),
    Section("Months", _months),
    Section("Carbon per unit of work", _per_unit),
    Section("Statement and sources", _sources),
)
"""Every section of a year, in order."""

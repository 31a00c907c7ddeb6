"""A year out of the documents of its months: sums, and what it is held against.

Months share the errors of meters, PUE and hardware, which do not cancel in a year: what moves one
month moves all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from gramwatt.sci.figures.quantity import Quantity, bare, total
from gramwatt.sci.month.documents import (
    TERMS,
    AdviceRow,
    BudgetStatus,
    BudgetUse,
    ModelUnitRow,
    MonthDoc,
    ProjectCharge,
    ProjectRow,
    StatementDoc,
    TermsDoc,
)
from gramwatt.sci.score.assess import worst_status
from gramwatt.sci.score.functional_unit import sci_doc

KG = 1000.0
UnitOf = TypeVar("UnitOf", ProjectRow, ModelUnitRow)
MONTHS = "months"
"""The id of the error that all months of a year share."""


class YearMonthRow(TermsDoc):
    """A month of the year; `revision` of its kept report and `grade` of its data: null for none."""

    month: str
    complete: bool
    revision: int | None
    grade: str | None
    jobs: int
    jobs_unknown: int


class BaseYearDoc(Struct):
    """The year that this one is compared with; `change_share` is this year over it, less one."""

    year: str
    total_g: Quantity | None
    change_share: float | None


class TargetRow(Struct):
    """What a year may emit [kgCO2e]; `met` once the year is over and its range is on one side."""

    year: str
    limit_kg: float
    share: float | None
    met: bool | None


class YearDoc(Struct):
    """The data of a year's report.

    `months` are the twelve, null figures where a month has no job. The year is `complete` once
    each of its months is over and those with jobs are complete. `energy_kinds` are the shares of
    its energy by kind, `facility_kwh` is E times PUE. `budgets` are the sums of the months'
    budgets and what was used of them, `advice` are the newest month's. `projects` and `models` are
    sums of C over sums of R by unit.
    """

    year: str
    project: str | None
    complete: bool
    jobs_ended: int
    totals: TermsDoc
    facility_kwh: Quantity | None
    energy_kinds: dict[str, float]
    months: list[YearMonthRow]
    by_project: list[ProjectCharge]
    budgets: list[BudgetUse]
    advice: list[AdviceRow]
    base_year: BaseYearDoc | None
    targets: list[TargetRow]
    projects: list[ProjectRow]
    models: list[ModelUnitRow]
    sources: list[str]
    statement: StatementDoc


def months_of_year(year: str) -> list[str]:
    """Return the twelve months of a year, YYYY-MM."""
    return [f"{year}-{number:02d}" for number in range(1, 13)]


def added(figures: Sequence[Quantity | None]) -> Quantity | None:
    """Return the sum of the known figures of months, which err alike; None where none is known."""
    summed = [figure for figure in figures if figure is not None]
    return bare(total(figure.as_input(MONTHS) for figure in summed))


def year_totals(months: Sequence[MonthDoc]) -> TermsDoc:
    """Return the sums of the terms over months."""
    return TermsDoc(*(added([getattr(of.totals, term) for of in months]) for term in TERMS))


def year_document(
    year: str,
    project: str | None,
    months: Mapping[str, MonthDoc],
    over: Mapping[str, bool],
    base: tuple[int, TermsDoc] | None,
    targets: Sequence[tuple[int, float]],
    statement: StatementDoc,
) -> YearDoc:
    """Return the document of a year; `over` says which of its months have ended."""
    documents = [months[month] for month in sorted(months)]
    totals = year_totals(documents)
    complete = all(over.values()) and all(of.complete for of in months.values())
    held = [row for row in targets if row[0] == int(year)] or list(targets)
    return YearDoc(
        year=year,
        project=project,
        complete=complete,
        jobs_ended=sum(of.totals.jobs_ended for of in months.values()),
        totals=totals,
        facility_kwh=added([of.boundary.full_kwh if of.boundary else None for of in documents]),
        energy_kinds=_energy_kinds(documents),
        by_project=_by_project(documents),
        budgets=_budgets(documents),
        advice=documents[-1].advice if documents else [],
        months=[_month(month, months.get(month), over[month]) for month in months_of_year(year)],
        base_year=_base(base, totals) if base else None,
        targets=[_target(*row, year, totals.total_g, complete) for row in held],
        projects=_per_unit(
            ProjectRow, [row for of in months.values() for row in of.projects], "project"
        ),
        models=_per_unit(
            ModelUnitRow, [row for of in months.values() for row in of.model_units], "model_id"
        ),
        sources=sorted({source for of in months.values() for source in of.sources}),
        statement=statement,
    )


def _energy_kinds(months: Sequence[MonthDoc]) -> dict[str, float]:
    """Return the shares of the energy by kind, the months weighted by their energy."""
    read: dict[str, float] = defaultdict(float)
    for of in months:
        energy = of.totals.energy_kwh
        for kind, share in of.data_quality.energy.items():
            read[kind] += share * energy.value if energy else 0.0
    whole = sum(read.values())
    return {kind: part / whole for kind, part in read.items()} if whole else {}


def _by_project(months: Sequence[MonthDoc]) -> list[ProjectCharge]:
    """Return the sums of each project, those with the most carbon first."""
    groups: dict[str, list[ProjectCharge]] = defaultdict(list)
    for of in months:
        for row in of.by_project:
            groups[row.project].append(row)
    rows = [
        ProjectCharge(
            **{term: added([getattr(row, term) for row in members]) for term in TERMS},
            project=project,
            jobs=sum(row.jobs for row in members),
        )
        for project, members in groups.items()
    ]
    return sorted(rows, key=lambda row: -(row.total_g.value if row.total_g else 0.0))


def _budgets(months: Sequence[MonthDoc]) -> list[BudgetUse]:
    """Return the budgets of months as one a project; a month not known leaves its sum unknown."""
    groups: dict[str, list[BudgetUse]] = defaultdict(list)
    for of in months:
        for row in of.budgets:
            groups[row.project].append(row)
    return [_budget(project, rows) for project, rows in sorted(groups.items())]


def _budget(project: str, rows: Sequence[BudgetUse]) -> BudgetUse:
    limit_kg = sum(row.limit_kg for row in rows)
    complete = all(row.spent_kg for row in rows)
    spent_kg = added([row.spent_kg for row in rows]) if complete else None
    share = spent_kg.value / limit_kg if spent_kg else None
    status: BudgetStatus = "within" if share is not None and share < 1 else "spent"
    return BudgetUse(
        project=project,
        limit_kg=limit_kg,
        spent_kg=spent_kg,
        spent_share=share,
        status="unknown" if share is None else status,
        range_holds_limit=spent_kg is not None and spent_kg.low <= limit_kg < spent_kg.high,
    )


def _month(month: str, document: MonthDoc | None, over: bool) -> YearMonthRow:
    totals = document.totals if document else None
    return YearMonthRow(
        **{term: getattr(totals, term, None) for term in TERMS},
        month=month,
        complete=document.complete if document else over,
        revision=document.revision if document else None,
        grade=document.data_quality.grade if document else None,
        jobs=totals.jobs if totals else 0,
        jobs_unknown=totals.jobs_unknown if totals else 0,
    )


def _base(base: tuple[int, TermsDoc], totals: TermsDoc) -> BaseYearDoc:
    year, before = base
    old, new = before.total_g, totals.total_g
    share = new.value / old.value - 1 if old and new and old.value > 0 else None
    return BaseYearDoc(year=f"{year}", total_g=old, change_share=share)


def _target(
    year: int, limit_kg: float, of: str, total_g: Quantity | None, complete: bool
) -> TargetRow:
    limit_g, met = limit_kg * KG, None
    if complete and f"{year}" == of and total_g is not None:
        met = True if total_g.high <= limit_g else False if total_g.low > limit_g else None
    share = total_g.value / limit_g if total_g is not None else None
    return TargetRow(year=f"{year}", limit_kg=limit_kg, share=share, met=met)


def _per_unit(
    shape: type[UnitOf], rows: Sequence[UnitOf], of: Literal["project", "model_id"]
) -> list[UnitOf]:
    """Return sums of C over sums of R by project or model, and unit."""
    groups: dict[tuple[str, str], list[UnitOf]] = defaultdict(list)
    for row in rows:
        groups[getattr(row, of), row.unit].append(row)
    summed = []
    for (name, unit), members in sorted(groups.items()):
        count, total_g = sum(row.count for row in members), added([r.total_g for r in members])
        summed.append(
            shape(
                **{of: name},
                unit=unit,
                jobs=sum(row.jobs for row in members),
                count=count,
                energy_kwh=added([row.energy_kwh for row in members]),
                total_g=total_g,
                g_per_unit=sci_doc(total_g, count, unit).g_per_unit,
                conformance=worst_status({row.conformance for row in members}),
            )
        )
    return summed

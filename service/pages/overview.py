"""The first page: a month at a glance. Projects with what each emitted, and budgets."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

from flask import Response, redirect, request
from msgspec import Meta

from gramwatt.reports.glossary import TERMS
from gramwatt.reports.month import budget_verdict, by_project, causes, headline
from gramwatt.reports.month_sections import (
    FIRST_ADVICE,
    METERED_GRADES,
    OUTCOMES,
    action,
    jobs_of,
    work_text,
)
from gramwatt.reports.sections import saving
from gramwatt.sci.figures.formatting import GRADE_WORDS, grams
from gramwatt.sci.figures.quantity import is_estimate
from gramwatt.sci.figures.units import g_from_kg
from gramwatt.sci.month.month import previous_month
from gramwatt.service.api.access import Access
from gramwatt.service.api.routing import from_strings
from gramwatt.service.api.support import caller, heavy, service
from gramwatt.service.budgets import BudgetRow, budgets_page, limits_kg, set_budget, standing
from gramwatt.service.common.requests import MONTH, JobList, NewBudget, Page, ProjectQuery, exactly
from gramwatt.service.jobs.lists import list_jobs
from gramwatt.service.jobs.projects import project_names, projects_page
from gramwatt.service.months.overview import Bar, month_overview, project_bars
from gramwatt.service.months.pending import energy_so_far
from gramwatt.service.months.report import months_with_data
from gramwatt.service.pages.frame import PER_PAGE, page, query, route
from gramwatt.service.scopes import ADMIN

RUNNING_SHOWN = 8
PROJECTS_SHOWN = 10
SENTENCES = (headline, causes, by_project)
"""What the page begins with."""


class OverviewQuery(ProjectQuery, frozen=True, kw_only=True):
    """Which month and project; `wait` for sums that take long."""

    month: Annotated[str, Meta(pattern=exactly(MONTH))] | None = None
    wait: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """Where a bar ends, its range and its budget, in percent of the longest; if it is estimated."""

    value: float
    low: float
    high: float
    limit: float | None = None
    estimated: bool = False


@route("/", Access.READ)
def overview() -> Response:
    """The newest month with data: its answer, budget and year; and what runs now."""
    chosen = query(OverviewQuery)
    names = project_names(service())
    project = chosen.project or _only(names)
    month = chosen.month or next(iter(months_with_data(service())), service().month_now())
    with heavy() if chosen.wait else nullcontext():  # else it sums only what takes no time
        found = month_overview(
            service(), month, project, limits=limits_kg(service(), month), wait=chosen.wait
        )
    budget = standing(service(), found.project, month).budget if found.project else None
    document = found.document
    return page(
        "overview.html",
        **_running(project),
        overview=found,
        answer=" ".join(filter(None, (say(document) for say in SENTENCES))) if document else "",
        actions=document.advice[:FIRST_ADVICE] if document else [],
        action=action,
        jobs_of=jobs_of,
        saving=saving,
        work_text=work_text,
        budget=budget if found.is_current else None,
        verdict=budget_verdict,
        chosen=chosen,
        project=project,
        names=names,
        may_see_all=caller().projects is None,
        trend=list(zip(found.trend, shapes(found.trend), strict=True)),
        projects=list(
            zip(found.projects[:PROJECTS_SHOWN], shapes(found.projects, budgets=True), strict=False)
        ),
        this_month=service().month_now(),
        outcomes=OUTCOMES,
        grades=next(term.meaning for term in TERMS if term.key == "grade"),
        in_words=GRADE_WORDS,
        before=previous_month(month),
        after=_following(month),
    )


def _only(names: list[str]) -> str | None:
    """Return the project that a caller who is bound to projects sees first; None for all of
    them.
    """
    projects = caller().projects
    if projects is None:
        return None
    return next((name for name in names if name in projects), min(projects))


@route("/running", Access.READ)
def running() -> Response:
    """Return the part of the first page that shows what runs now; it asks for itself again."""
    project = query(ProjectQuery).project
    return page("running.html", project=project, **_running(project))


def _running(project: str | None) -> dict[str, Any]:
    running_jobs = JobList(limit=RUNNING_SHOWN, project=project, state="running")
    jobs, more = list_jobs(service(), running_jobs)
    unscored = [job.head.job_id for job in jobs if job.head.energy_kwh is None]
    return {
        "running": jobs,
        "energy_so_far": energy_so_far(service(), unscored) if unscored else {},
        "more_running": more is not None,
    }


def _following(month: str) -> str:
    year, number = int(month[:4]), int(month[5:])
    return f"{year + 1:04d}-01" if number == 12 else f"{year:04d}-{number + 1:02d}"


@route("/projects", Access.READ)
def projects() -> Response:
    """Return every project: its jobs, and what it emitted this month."""
    chosen = query(Page)
    found = projects_page(service(), PER_PAGE, chosen.cursor)
    month = next(iter(months_with_data(service())), service().month_now())
    names = [row.project for row in found.projects]
    by_name, is_current = project_bars(service(), month, names, limits_kg(service(), month))
    bars = [by_name[name] for name in names]
    return page(
        "projects.html",
        rows=list(zip(found.projects, bars, shapes(bars, budgets=True), strict=True)),
        month=month,
        is_current=is_current,
        chosen=chosen,
        next_cursor=found.next_cursor,
    )


class BudgetsQuery(Page, frozen=True, kw_only=True):
    """Which page of the budgets, and as they stand in which month."""

    month: Annotated[str, Meta(pattern=exactly(MONTH))] | None = None


@route("/budgets", Access.READ)
def budgets() -> Response:
    """Return every budget: what was used of it, how it stands, and where the month will end."""
    chosen = query(BudgetsQuery)
    month = chosen.month or next(iter(months_with_data(service())), service().month_now())
    answer = budgets_page(service(), PER_PAGE, chosen.cursor, month=month)
    rows = [(row, _budget_shape(row)) for row in answer.budgets]
    return page(
        "budgets.html",
        rows=rows,
        month=month,
        this_month=service().month_now(),
        chosen=chosen,
        verdict=budget_verdict,
        next_cursor=answer.next_cursor,
        may_set=caller().may(ADMIN),
        names=project_names(service()),
    )


@route("/budgets/set", Access.ADMIN, method="POST")
def budget_set() -> Response:
    """Set the budget of the form, and show all."""
    names = ("project", "limit_kg", "month")
    values = {name: request.form.get(name, "").strip() for name in names}
    body = from_strings(NewBudget, {name: text for name, text in values.items() if text}, "form")
    set_budget(service(), body, by=caller().name)
    return redirect("/budgets" + (f"?month={body.month}" if body.month else ""), 303)  # type: ignore[return-value]


def _budget_shape(row: BudgetRow) -> Shape | None:
    """Return a budget's bar beside its limit, or the end of what was used where that is longer."""
    spent = grams(row.spent_kg)
    bar = Bar(row.project, 1, spent, limit_kg=row.limit_kg)
    return shapes([bar], budgets=True)[0]


def shapes(bars: Iterable[Bar], *, budgets: bool = False) -> list[Shape | None]:
    """Return what each bar draws, beside the longest of them; None where its total is not known."""
    rows = list(bars)
    limits = [g_from_kg(b.limit_kg) if budgets and b.limit_kg else None for b in rows]
    ends = [b.total_g.high for b in rows if b.total_g]
    longest = max([*ends, *(limit for limit in limits if limit)], default=0.0)
    if longest <= 0:
        return [None for _ in rows]
    return [_shape(bar, limit, 100 / longest) for bar, limit in zip(rows, limits, strict=True)]


def _shape(bar: Bar, limit: float | None, scale: float) -> Shape | None:
    if bar.total_g is None and limit is None:
        return None
    total = bar.total_g
    ends = (total.value, total.low, total.high) if total else (0.0, 0.0, 0.0)
    value, low, high = (round(max(0.0, end) * scale, 2) for end in ends)
    end = None if limit is None else round(limit * scale, 2)
    estimated = is_estimate(bar.total_g) and bar.grade not in METERED_GRADES
    return Shape(value, low, high, end, estimated)

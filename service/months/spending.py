"""What projects emitted in a month, running jobs provisionally, and how their budgets stand."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.documents import BudgetStatus, BudgetUse
from gramwatt.sci.base.document import DayDoc, JobDoc
from gramwatt.sci.base.quantity import Quantity, QuantityDoc, total_known
from gramwatt.sci.base.units import kg_from_g
from gramwatt.service.container import Service
from gramwatt.service.months.by_project import (
    Group,
    ProjectMonth,
    ProjectSums,
    group_sums,
    project_sums,
)
from gramwatt.service.store.budgets import Budget
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import Job, Provisional

EVERY_MONTH = ""
"""How the store writes the month of a budget that holds for every month."""


@dataclass(frozen=True, slots=True)
class MonthSpending:
    """What a project emitted in a month [gCO2e], by day too."""

    spent: Quantity | None
    days: dict[str, float]
    running: int
    unknown: int
    began_before: bool


Scope = str | Group
"""What a budget covers: a project, or a group."""


def scope_of(budget: Budget) -> Scope:
    """Return what a budget covers: the project of its name, unless it says what else."""
    if budget.covers is None:
        return budget.project
    covered = json.loads(budget.covers)
    return Group(tuple(covered.get("projects", ())), covered.get("cost_centre"))


def month_spending(
    service: Service, keys: Sequence[tuple[str, Scope]]
) -> dict[tuple[str, Scope], MonthSpending]:
    """Return what each of these projects and groups emitted in the month beside it."""
    projects = [(month, scope) for month, scope in keys if isinstance(scope, str)]
    sums, running = project_sums(service, projects), _running(service, projects)
    found: dict[tuple[str, Scope], MonthSpending] = {}
    for month, scope in keys:
        if isinstance(scope, str):
            key = month, scope
            found[month, scope] = _month(sums[key], running.get(key, []))
        else:
            found[month, scope] = _month(
                group_sums(service, month, scope), _running_of_group(service, month, scope)
            )
    return found


def budget_status(share: float | None, thresholds: Sequence[float], unknown: int) -> BudgetStatus:
    """Return what is known may reach a limit; within one it is only where all is known."""
    if share is not None and share >= 1:
        return "spent"
    if share is not None and share * 100 >= min(thresholds):
        return "threshold-reached"
    return "unknown" if unknown or share is None else "within"


def budget_uses(
    service: Service, session: Session, month: str, project: str | None
) -> list[BudgetUse]:
    """Return how much of each budget of the month its project used, by project."""
    # A month's own budget comes after the one for every month, and replaces it.
    wanted = sa.select(Budget).where(Budget.month.in_((month, EVERY_MONTH))).order_by(Budget.month)
    if project is not None:
        wanted = wanted.where(Budget.project == project)
    budgets = {row.project: row for row in session.scalars(wanted)}
    if not budgets:
        return []
    scopes = {name: scope_of(budgets[name]) for name in sorted(budgets)}
    spending = month_spending(service, [(month, scope) for scope in scopes.values()])
    return [_use(budgets[name], spending[month, scope]) for name, scope in scopes.items()]


def _use(budget: Budget, found: MonthSpending) -> BudgetUse:
    spent, limit_g = found.spent, budget.limit_g
    share = spent.value / limit_g if spent else None
    return BudgetUse(
        project=budget.project,
        limit_kg=kg_from_g(limit_g),
        spent_kg=spent.scaled(kg_from_g(1.0), "kgCO2e").to_doc() if spent else None,
        spent_share=share,
        status=budget_status(share, json.loads(budget.thresholds), found.unknown),
        range_holds_limit=spent is not None and spent.low <= limit_g < spent.high,
    )


def _month(sums: ProjectSums, running: list[list[DayDoc]]) -> MonthSpending:
    parts = [day for days in running for day in days]
    totals = sums.totals
    known = [totals.total_g if totals else None, *(g for day in parts for g in _grams(day))]
    spent = total_known(known)
    by_day: dict[str, float] = {}
    for day in (*sums.days, *parts):
        grams = sum(g["value"] for g in _grams(day) if g)
        by_day[day.day] = by_day.get(day.day, 0.0) + grams
    unknown = sums.unscored + (totals.jobs_unknown if totals else 0)
    unknown += sum(any(None in _grams(day) for day in days) for days in running)
    if spent is None and not (unknown or sums.running):  # all that there are may be excluded
        spent = Quantity.exact(0.0, "gCO2e", "declared", "no job in the month")
    return MonthSpending(
        spent=spent,
        days=by_day,
        running=len(running),
        unknown=unknown,
        began_before=sums.began_before,
    )


def _grams(day: DayDoc) -> tuple[QuantityDoc | None, QuantityDoc | None]:
    return day.operational_g, day.embodied_g


def _running(
    service: Service, keys: Collection[ProjectMonth]
) -> dict[ProjectMonth, list[list[DayDoc]]]:
    """Return the days in each month of each running job of a project, by its score as last made."""
    wanted = (
        sa.select(Job.project, Provisional.doc)
        .join(Job, Job.id == Provisional.job)
        .where(Job.state == "running", Job.project.in_({project for _, project in keys}))
    )
    with service.store.read() as session:
        documents = [(project, read_job(doc)) for project, doc in session.execute(wanted)]
    found: dict[ProjectMonth, list[list[DayDoc]]] = {}
    for project, document in documents:
        for month in {month for month, of in keys if of == project}:
            if days := _days(document, month):
                found.setdefault((month, project), []).append(days)
    return found


def _running_of_group(service: Service, month: str, group: Group) -> list[list[DayDoc]]:
    """Return the same of each running job of a group."""
    wanted = (
        sa.select(Provisional.doc)
        .join(Job, Job.id == Provisional.job)
        .where(Job.state == "running", group.holds(Job.id, Job.project))
    )
    with service.for_every_project().store.read() as session:
        found = [_days(read_job(doc), month) for doc in session.scalars(wanted)]
    return [days for days in found if days]


def _days(document: JobDoc, month: str) -> list[DayDoc]:
    """Return a job's days in a month; none of one that is excluded."""
    if document.excluded is not None:
        return []
    return [day for day in document.days if day.day.startswith(month)]

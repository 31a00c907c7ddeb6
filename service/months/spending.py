"""What projects emitted in a month, running jobs provisionally, and how their budgets stand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.orm import Session

from gramwatt.sci.figures.document import DayDoc, JobDoc
from gramwatt.sci.figures.quantity import Quantity, total_known
from gramwatt.sci.figures.structs import decode
from gramwatt.sci.figures.units import kg_from_g
from gramwatt.sci.month.documents import BudgetStatus, BudgetUse, MonthDay, MonthTotals
from gramwatt.sci.month.month import previous_month
from gramwatt.service.container import Service
from gramwatt.service.months.cache import sums_by_name
from gramwatt.service.months.large import MonthScope, scope_sums
from gramwatt.service.months.pending import pending_jobs, pending_keys
from gramwatt.service.store.columns import read_job
from gramwatt.service.store.job_labels import TAG, label_text
from gramwatt.service.store.models import Job, JobLabel, Provisional, is_pending
from gramwatt.service.store.months import Budget, JobMonth

EVERY_MONTH = ""
"""How the store writes the month of a budget that holds for every month."""
ProjectMonth = tuple[str, str]
"""A month (YYYY-MM) and a project."""


@dataclass(frozen=True, slots=True)
class Group:
    """Several projects, or the jobs of a cost centre, which is their tag `cost_centre`."""

    projects: tuple[str, ...] = ()
    cost_centre: str | None = None

    def holds(self, job: Any, project: Any) -> sa.ColumnElement[bool]:
        """Return whether a row is of a job of the group, by its columns of both."""
        if self.cost_centre is None:
            return cast(sa.ColumnElement[bool], project.in_(self.projects))
        label = label_text(TAG, f"cost_centre:{self.cost_centre}")
        tagged = sa.select(JobLabel.job).where(JobLabel.label == label)
        return cast(sa.ColumnElement[bool], job.in_(tagged))

    def scope(self, month: str) -> tuple[str, dict[str, str]]:
        """Return the condition on rows of a month that they are of the group, and its values."""
        if self.cost_centre is None:
            values = {f"project_{n}": project for n, project in enumerate(self.projects)}
            names = ", ".join(f":{name}" for name in values)
            return f"month = :month AND project IN ({names})", {"month": month, **values}
        tagged = "SELECT job FROM job_labels WHERE label = :label"
        label = label_text(TAG, f"cost_centre:{self.cost_centre}")
        return f"month = :month AND job IN ({tagged})", {"month": month, "label": label}


class _Spent(Struct):
    """The fields of a month's sums that budgets need."""

    totals: MonthTotals
    days: list[MonthDay]


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
    service = service.for_every_project()
    projects = [(month, scope) for month, scope in keys if isinstance(scope, str)]
    running, sums = _running(service, projects), sums_by_name(service, projects, _Spent)
    counts = _counts(service, projects)
    spending: dict[tuple[str, Scope], MonthSpending] = {}
    for month, scope in keys:
        if isinstance(scope, str):
            key = month, scope
            spending[key] = _month(sums.get(key), running.get(key, []), *counts[key])
        else:
            spending[month, scope] = _of_group(service, month, scope)
    return spending


def _of_group(service: Service, month: str, group: Group) -> MonthSpending:
    """Return what a group emitted, summed now: inputs that its projects share count once."""
    _, text = scope_sums(service, MonthScope(month, None, *group.scope(month)))
    spent = decode(text, _Spent)
    before = JobMonth.month == previous_month(month), group.holds(JobMonth.job, JobMonth.project)
    with service.store.read() as session:
        holds = group.holds(Job.id, Job.project)
        waiting = sa.select(Job.id, Job.started_us).where(is_pending(), holds)
        pending = {key: started_us for key, started_us in session.execute(waiting)}
        running, unscored, _ = pending_jobs(service, session, month, None, pending)
        began_before = session.scalar(sa.select(JobMonth.job).where(*before).limit(1)) is not None
    days = _running_of_group(service, month, group)
    return _month(spent, days, began_before, len(running), len(unscored))


def _counts(
    service: Service, keys: Collection[ProjectMonth]
) -> dict[ProjectMonth, tuple[bool, int, int]]:
    """Return whether the month before has jobs, and how many run or have no score in this one."""
    projects = {project for _, project in keys}
    before = {previous_month(month) for month, _ in keys}
    own = JobMonth.month.in_(before), JobMonth.project.in_(projects)
    running, unscored = Counter[ProjectMonth](), Counter[ProjectMonth]()
    with service.store.read() as session:
        began = sa.select(JobMonth.month, JobMonth.project).where(*own).distinct()
        had_jobs = {(month, project) for month, project in session.execute(began)}
        pending = pending_keys(session)
        for month in {month for month, _ in keys}:
            waiting = pending_jobs(service, session, month, None, pending)
            for counted, jobs in zip((running, unscored), waiting[:2], strict=True):
                counted.update((month, job.project) for job in jobs)
    began_before = {key: (previous_month(key[0]), key[1]) in had_jobs for key in keys}
    return {key: (began_before[key], running[key], unscored[key]) for key in keys}


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
    statement = (
        sa.select(Budget).where(Budget.month.in_((month, EVERY_MONTH))).order_by(Budget.month)
    )
    if project is not None:
        statement = statement.where(Budget.project == project)
    budgets = {row.project: row for row in session.scalars(statement)}
    if not budgets:
        return []
    scopes = {name: scope_of(budgets[name]) for name in sorted(budgets)}
    spending = month_spending(service, [(month, scope) for scope in scopes.values()])
    return [_use(budgets[name], spending[month, scope]) for name, scope in scopes.items()]


def _use(budget: Budget, spending: MonthSpending) -> BudgetUse:
    spent, limit_g = spending.spent, budget.limit_g
    share = spent.value / limit_g if spent else None
    return BudgetUse(
        project=budget.project,
        limit_kg=kg_from_g(limit_g),
        spent_kg=spent.scaled(kg_from_g(1.0), "kgCO2e").bare() if spent else None,
        spent_share=share,
        status=budget_status(share, json.loads(budget.thresholds), spending.unknown),
        range_holds_limit=spent is not None and spent.low <= limit_g < spent.high,
    )


def _month(
    sums: _Spent | None,
    running: list[list[DayDoc]],
    began_before: bool,
    jobs_running: int,
    jobs_unscored: int,
) -> MonthSpending:
    parts = [day for days in running for day in days]
    totals = sums.totals if sums else None
    figures = [totals.total_g if totals else None, *(g for day in parts for g in _grams(day))]
    spent = total_known(figures)
    by_day: dict[str, float] = {}
    for day in (*(sums.days if sums else ()), *parts):
        grams = sum(g.value for g in _grams(day) if g)
        by_day[day.day] = by_day.get(day.day, 0.0) + grams
    unknown = jobs_unscored + (totals.jobs_unknown if totals else 0)
    unknown += sum(any(None in _grams(day) for day in days) for days in running)
    if spent is None and not (unknown or jobs_running):  # all that there are may be excluded
        spent = Quantity.exact(0.0, "gCO2e", "declared", "no job in the month")
    return MonthSpending(
        spent=spent, days=by_day, running=len(running), unknown=unknown, began_before=began_before
    )


def _grams(day: DayDoc | MonthDay) -> tuple[Quantity | None, Quantity | None]:
    return day.operational_g, day.embodied_g


def _running(
    service: Service, keys: Collection[ProjectMonth]
) -> dict[ProjectMonth, list[list[DayDoc]]]:
    """Return the days in each month of each running job of a project, by its score as last made."""
    statement = (
        sa.select(Job.project, Provisional.doc)
        .join(Job, Job.id == Provisional.job)
        .where(Job.state == "running", Job.project.in_({project for _, project in keys}))
    )
    with service.store.read() as session:
        documents = [(project, read_job(doc)) for project, doc in session.execute(statement)]
    days_of: dict[ProjectMonth, list[list[DayDoc]]] = {}
    for project, document in documents:
        for month in {month for month, of in keys if of == project}:
            if days := _days(document, month):
                days_of.setdefault((month, project), []).append(days)
    return days_of


def _running_of_group(service: Service, month: str, group: Group) -> list[list[DayDoc]]:
    """Return the same of each running job of a group."""
    statement = (
        sa.select(Provisional.doc)
        .join(Job, Job.id == Provisional.job)
        .where(Job.state == "running", group.holds(Job.id, Job.project))
    )
    with service.for_every_project().store.read() as session:
        by_job = [_days(read_job(doc), month) for doc in session.scalars(statement)]
    return [days for days in by_job if days]


def _days(document: JobDoc, month: str) -> list[DayDoc]:
    """Return a job's days in a month; none of one that is excluded."""
    if document.excluded is not None:
        return []
    return [day for day in document.days if day.day.startswith(month)]

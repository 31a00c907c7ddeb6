"""Budgets of projects, how they stand, and the messages of their alerts."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import asdict

from gramwatt.service.api.access import Access
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import (
    Page,
    ProjectPage,
    Text,
    caller,
    exactly,
    service,
)
from gramwatt.service.budgets.budgets import (
    THRESHOLDS,
    BudgetRow,
    BudgetsAnswer,
    CheckAnswer,
    NewBudget,
    budgets_page,
    check,
    remove_budget,
    set_budget,
)
from gramwatt.service.months.report import MONTH
from gramwatt.service.notifications.outbox import OutboxAnswer, outbox_page

routes = Routes("budgets")

Month = Annotated[str, Meta(pattern=exactly(MONTH), description="YYYY-MM.")]
Percent = Annotated[float, Meta(gt=0, le=1000)]


class BudgetsQuery(ProjectPage, frozen=True, kw_only=True):
    """Which budgets, and the month in which they are shown (the present one by default)."""

    month: Month | None = None


class BudgetBody(Struct, frozen=True, kw_only=True):
    """A budget in kgCO2e: of one month, or without `month` of every month without its own.

    Each threshold is a percent of it, and reached once a month; that is told to `webhook` and
    `email`. With `projects`, or with the `cost_centre` that jobs have as a tag, `project` is only
    the name of the budget.
    """

    project: Text
    projects: Annotated[list[Text], Meta(min_length=1, max_length=100)] | None = None
    cost_centre: Text | None = None
    limit_kg: Annotated[float, Meta(gt=0, le=1e12)]
    month: Month | None = None
    thresholds: Annotated[list[Percent], Meta(min_length=1, max_length=20)] = field(
        default_factory=lambda: list(THRESHOLDS)
    )
    webhook: Annotated[str, Meta(min_length=1, max_length=2048, pattern="^[^\\x00]+$")] | None = (
        None
    )
    email: Annotated[str, Meta(min_length=3, max_length=254, pattern="^[^\\x00]+$")] | None = None


class CheckedQuery(Struct, frozen=True, kw_only=True):
    """The project that a job belongs to."""

    project: Text


class RemovedQuery(Struct, frozen=True, kw_only=True):
    """The budget to remove: that of a month, or without `month` that of every month."""

    project: Text
    month: Month | None = None


class RemovedBudget(Struct):
    """The budget that was removed."""

    project: str
    month: str | None


@routes.get("/v1/budgets", access=Access.READ)
def list_budgets(query: BudgetsQuery) -> BudgetsAnswer:
    """Budgets by project: how far each is spent, its forecast to the month's end, its alerts."""
    return budgets_page(service(), query.limit, query.cursor, query.project, query.month)


@routes.get("/v1/budgets/check", access=Access.INGEST)
def check_budget(query: CheckedQuery) -> CheckAnswer:
    """Return the status of a project's budget this month: what a job asks before it starts."""
    return check(service(), query.project)


@routes.post("/v1/budgets", "forbidden", access=Access.ADMIN)
def put_budget(body: BudgetBody) -> BudgetRow:
    """Set the budget of a project, in place of its budget for the same month.

    A webhook goes to a public host by https, or to one of GRAMWATT_WEBHOOK_HOSTS.
    """
    return set_budget(service(), NewBudget(**asdict(body)), by=caller().name)


@routes.delete("/v1/budgets", "unknown-budget", "forbidden", access=Access.ADMIN)
def delete_budget(query: RemovedQuery) -> RemovedBudget:
    """Remove a budget; the alerts that it made stay on record."""
    remove_budget(service(), query.project, query.month, by=caller().name)
    return RemovedBudget(project=query.project, month=query.month)


@routes.get("/v1/outbox", access=Access.READ)
def list_messages(query: Page) -> OutboxAnswer:
    """Messages of alerts, newest first: sent, waiting with the reason, or given up."""
    return outbox_page(service(), query.limit, query.cursor)

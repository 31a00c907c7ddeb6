"""Budgets of projects, how they stand, and the messages of their alerts."""

from __future__ import annotations

from msgspec import Struct

from gramwatt.service.api.access import Access
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import caller, service
from gramwatt.service.budgets import (
    BudgetRow,
    BudgetsAnswer,
    CheckAnswer,
    budgets_page,
    check,
    remove_budget,
    set_budget,
)
from gramwatt.service.common.requests import (
    BudgetsQuery,
    Month,
    NewBudget,
    Page,
    Text,
)
from gramwatt.service.notifications import OutboxAnswer, outbox_page

routes = Routes("budgets")


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
def put_budget(body: NewBudget) -> BudgetRow:
    """Set the budget of a project, in place of its budget for the same month.

    A webhook goes to a public host by https, or to one of GRAMWATT_WEBHOOK_HOSTS.
    """
    return set_budget(service(), body, by=caller().name)


@routes.delete("/v1/budgets", "unknown-budget", "forbidden", access=Access.ADMIN)
def delete_budget(query: RemovedQuery) -> RemovedBudget:
    """Remove a budget; the alerts that it made stay on record."""
    remove_budget(service(), query.project, query.month, by=caller().name)
    return RemovedBudget(project=query.project, month=query.month)


@routes.get("/v1/outbox", access=Access.READ)
def list_messages(query: Page) -> OutboxAnswer:
    """Messages of alerts, newest first: sent, waiting with the reason, or given up."""
    return outbox_page(service(), query.limit, query.cursor)

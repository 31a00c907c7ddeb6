"""Record each threshold of a budget as it is set once a month, and put its messages into the
outbox.
"""

from __future__ import annotations

from datetime import timedelta

from gramwatt.service.budgets.budgets import (
    BudgetRow,
    budget_rows,
    budgets_of,
)
from gramwatt.service.container import Service
from gramwatt.service.store.budgets import Alert, Budget, OutboxMessage, outbox_row
from gramwatt.service.store.documents import to_text
from gramwatt.service.store.timestamps import text_from_us
from gramwatt.service.store.upserts import upsert

LATE = timedelta(days=8)
"""How long the month before is looked at too: its last jobs are scored again until seven days after
their end, when the intensity of their time is known."""


def check_budgets(service: Service) -> None:
    """Record the thresholds that projects have reached; safe to repeat, by several processes too.

    An alert and its messages are written in one transaction, each at most once.
    """
    months = {service.month_now(), service.month_of(service.now() - LATE)}
    wanted = budgets_of(service, months)
    for (budget, _), row in zip(wanted, budget_rows(service, wanted), strict=True):
        _record(service, budget, row)


def _record(service: Service, budget: Budget, row: BudgetRow) -> None:
    """Record the thresholds that are reached and were not in this month, by the budget as set."""
    if row.spent_share is None:
        return
    percent = row.spent_share * 100
    known = {alert.threshold for alert in row.alerts}
    reached = [t for t in row.thresholds if percent >= t and t not in known]
    if not reached:
        return
    now_us = service.now_us()
    alerts, messages = [], []
    for threshold in reached:
        doc = to_text(_message(row, threshold, text_from_us(now_us)))
        key = {
            "project": row.project,
            "month": row.for_month,
            "budget_version": budget.version,
            "threshold": threshold,
        }
        alerts.append({**key, "made_us": now_us, "doc": doc})
        for channel, target in (("webhook", budget.webhook), ("email", budget.email)):
            if target is not None:
                to = channel, target
                messages.append(outbox_row([*key.values()], budget.project, to, doc, now_us))
    with service.store.write() as session:
        upsert(session, Alert, alerts)
        upsert(session, OutboxMessage, messages)


def _message(row: BudgetRow, threshold: float, at: str) -> dict[str, object]:
    return {
        "event": "budget-threshold",
        "at": at,
        "project": row.project,
        "projects": row.projects,
        "cost_centre": row.cost_centre,
        "month": row.for_month,
        "threshold_percent": threshold,
        "limit_kg": row.limit_kg,
        "spent_kg": row.spent_kg,
        "spent_share": row.spent_share,
        "forecast_kg": row.forecast_kg,
        "forecast_reason": row.forecast_reason,
        "jobs_running": row.jobs_running,
        "jobs_unknown": row.jobs_unknown,
    }

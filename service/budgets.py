"""Budgets of projects in kgCO2e per month: set and listed, how far they are spent, where the month
will end, and which thresholds are told to whom; `notifications` delivers the messages.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Collection, Sequence
from datetime import date, timedelta
from itertools import pairwise
from statistics import fmean, pvariance

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.orm import Session

from gramwatt.sci.figures.days import DAY, day_of, month_span
from gramwatt.sci.figures.formatting import all_digits
from gramwatt.sci.figures.quantity import EIGHT_IN_TEN as Z
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import g_from_kg, kg_from_g
from gramwatt.sci.month.documents import BudgetStatus
from gramwatt.service.access import audit
from gramwatt.service.access.projects import require_own
from gramwatt.service.common.errors import CorrectionError, ServiceError
from gramwatt.service.common.requests import NewBudget, cut, decode_cursor
from gramwatt.service.container import Service
from gramwatt.service.months.spending import (
    EVERY_MONTH,
    Group,
    MonthSpending,
    ProjectMonth,
    budget_status,
    month_spending,
    scope_of,
)
from gramwatt.service.notifications import AddressError, parse_webhook, shown
from gramwatt.service.store.alerts import Alert, OutboxMessage, outbox_row
from gramwatt.service.store.columns import text_from_us, to_text, upsert
from gramwatt.service.store.months import Budget
from gramwatt.service.store.restriction import ForeignProjectError

DAYS_LEAST = 7
"""A whole week: of fewer days none may have been a weekend."""
DEGREES_LEAST = 3
"""Of fewer degrees of freedom Student's t has ends that say nothing."""
LIKENESS_MOST = 0.9
"""Days that are more alike are a trend, which so few of them do not tell from chance."""


def month_end(spent: Quantity, days: Sequence[float], rest_days: float) -> Quantity:
    """Return what the month will emit [unit of `spent`], out of what its whole days emitted.

    `rest_days` are left of the month. The range is that of the days to come, and that of `spent`
    for the whole. Raises ValueError for fewer than DAYS_LEAST days.
    """
    number = len(days)
    if number < DAYS_LEAST:
        raise ValueError(f"too few days: {number} of {DAYS_LEAST}")
    rest, likeness = fmean(days) * rest_days, _likeness(days)
    width = _t90(max(DEGREES_LEAST, _independent(number, likeness) - 1)) * math.sqrt(
        _variance(days, likeness) * _spread(number, rest_days, likeness)
    )
    value = spent.value + rest
    # The figures of the days to come are as uncertain as those of the past, in the same direction.
    scale = value / spent.value if spent.value > 0 else 1.0
    below = math.hypot((spent.value - spent.low) * scale, min(width, rest))
    above = math.hypot((spent.high - spent.value) * scale, width)
    source = f"mean of {number} days of this month; {spent.source}"
    return Quantity(value, max(0.0, value - below), value + above, spent.unit, "estimated", source)


def _likeness(days: Sequence[float]) -> float:
    """Return how alike a day and the next are, 0 to LIKENESS_MOST: their autocorrelation.

    Of independent days the estimate is -1/n in the mean, which is added back.
    """
    mean, number = fmean(days), len(days)
    whole = sum((day - mean) ** 2 for day in days)
    if whole <= 0:
        return 0.0
    after = sum((today - mean) * (next_day - mean) for today, next_day in pairwise(days)) / whole
    return min(max(0.0, after + 1 / number), LIKENESS_MOST)


def _independent(number: float, likeness: float) -> float:
    """Return how many independent days say as much of the mean as so many days that are alike."""
    return number * (1 - likeness) / (1 + likeness)


def _of_sum(number: float, likeness: float) -> float:
    """Return the variance of the sum of so many days in a row [that of one day]."""
    tail = 2 * likeness * (1 - math.pow(likeness, number)) / (1 - likeness) ** 2
    return number * (1 + likeness) / (1 - likeness) - tail


def _variance(days: Sequence[float], likeness: float) -> float:
    """Return the variance of a day: days that are alike differ less among themselves."""
    number = len(days)
    return pvariance(days) / (1 - _of_sum(number, likeness) / number**2)


def _spread(number: int, rest_days: float, likeness: float) -> float:
    """Return the variance of the sum of the days to come around that which the known foretell."""
    share = rest_days / number
    both = (
        likeness
        * (1 - math.pow(likeness, number))
        * (1 - math.pow(likeness, rest_days))
        / (1 - likeness) ** 2
    )
    spent, rest = (_of_sum(days, likeness) for days in (number, rest_days))
    return max(0.0, rest + share**2 * spent - 2 * share * both)


def _t90(degrees: float) -> float:
    """Return the 90th percentile of Student's t, to 1 % from 3 degrees of freedom on.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    first = (Z**3 + Z) / 4
    second = (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    return Z + first / degrees + second / degrees**2


KG = 1e-3
_ALERTED = ("covers", "limit_g", "webhook", "email")
"""What an alert is about and to whom: where one of these changes, alerts begin anew."""


class AlertRow(Struct):
    """A threshold [percent] that was reached, and when that was noticed."""

    threshold: float
    at: str


class BudgetRow(Struct):
    """A budget, and how it stands in one month (`for_month`).

    One with `projects` or a `cost_centre` is of these, and `project` is its name.
    `month` is null for a budget of every month; the path of the webhook's address is not shown.
    `spent_kg` holds scored jobs and, provisionally, those that run; of `jobs_unknown` at least one
    term is in no sum, and `status` is then `unknown` unless what is known reaches a threshold.
    `forecast_kg` is null with a `forecast_reason`.
    """

    project: str
    projects: list[str] | None
    cost_centre: str | None
    month: str | None
    limit_kg: float
    thresholds: list[float]
    webhook: str | None
    email: str | None
    set_at: str
    set_by: str
    for_month: str
    status: BudgetStatus
    spent_kg: Quantity | None
    spent_share: float | None
    forecast_kg: Quantity | None
    forecast_reason: str | None
    jobs_running: int
    jobs_unknown: int
    alerts: list[AlertRow]


class BudgetsAnswer(Struct):
    """A page of budgets by project; `next_cursor` is null at the end."""

    budgets: list[BudgetRow]
    next_cursor: str | None


class StandingAnswer(Struct):
    """The budget that holds for a project this month; null where none does."""

    budget: BudgetRow | None


class CheckedBudget(Struct):
    """As much of a budget as a job needs that asks whether it may start."""

    project: str
    for_month: str
    limit_kg: float
    status: BudgetStatus


class CheckAnswer(Struct):
    """The budget that holds for a project this month; null where none does."""

    budget: CheckedBudget | None


def set_budget(service: Service, new: NewBudget, *, by: str) -> BudgetRow:
    """Set the budget of a project, in place of one for the same month.

    With another limit or receiver its alerts begin anew. Raises CorrectionError, or
    ForeignProjectError for a project of others.
    """
    for project in (new.project, *(new.projects or ())):
        require_own(service, project)
    if new.cost_centre is not None and service.caller.projects is not None:
        raise ForeignProjectError(new.cost_centre)
    _check(service, new)
    budget = Budget(
        project=new.project,
        month=new.month or EVERY_MONTH,
        covers=_covers(new),
        limit_g=g_from_kg(new.limit_kg),
        thresholds=json.dumps(sorted(set(map(float, new.thresholds)))),
        webhook=new.webhook,
        email=new.email,
        version=secrets.randbits(62),
        set_us=service.now_us(),
        set_by=by,
    )
    text = f"{new.project}, {new.month or 'every month'}: {all_digits(new.limit_kg)} kg"

    def store(session: Session) -> None:
        before = session.get(Budget, (budget.project, budget.month))
        if before is not None and all(getattr(before, n) == getattr(budget, n) for n in _ALERTED):
            budget.version = before.version
        session.merge(budget)
        audit.record(session, service, "budget-set", text, by)

    service.for_every_project().store.transact(store)
    [row] = budget_rows(service, [(budget, new.month or service.month_now())])
    return row


def _covers(new: NewBudget) -> str | None:
    if new.cost_centre is not None:
        return json.dumps({"cost_centre": new.cost_centre})
    return json.dumps({"projects": sorted(set(new.projects))}) if new.projects else None


def remove_budget(service: Service, project: str, month: str | None, *, by: str) -> None:
    """Remove a budget; its alerts stay on record.

    Raises ServiceError `unknown-budget`, or ForeignProjectError for a project of others.
    """
    require_own(service, project)
    with service.for_every_project().store.write() as session:
        budget = session.get(Budget, (project, month or EVERY_MONTH))
        if budget is None:
            when = f"in {month}" if month else "for every month"
            raise ServiceError(f"project {project!r} has no budget {when}", "unknown-budget")
        session.delete(budget)
        subject = f"{project}, {month or 'every month'}"
        audit.record(session, service, "budget-removed", subject, by)


def budgets_page(
    service: Service,
    limit: int,
    cursor: str | None,
    project: str | None = None,
    month: str | None = None,
) -> BudgetsAnswer:
    """Budgets by project, as they stand in `month` [YYYY-MM, default: now]; raises CursorError.

    A budget of another month than that is shown as it stands, or stood, in its own.
    """
    statement = sa.select(Budget).order_by(Budget.project, Budget.month).limit(limit + 1)
    if project is not None:
        statement = statement.where(Budget.project == project)
    if month is not None:
        statement = statement.where(Budget.month.in_((month, EVERY_MONTH)))
    if cursor:
        position = decode_cursor(cursor, str, str)
        statement = statement.where(sa.tuple_(Budget.project, Budget.month) > sa.tuple_(*position))
    with service.store.read() as session:
        budgets = session.scalars(statement).all()
    page, following = cut(budgets, limit, lambda budget: (budget.project, budget.month))
    now = month or service.month_now()
    rows = budget_rows(service, [(budget, budget.month or now) for budget in page])
    return BudgetsAnswer(budgets=rows, next_cursor=following)


def standing(service: Service, project: str, month: str | None = None) -> StandingAnswer:
    """Return how the budget of a project stands in a month, this one if none is named."""
    month = month or service.month_now()
    budget = budget_of(service, project, month)
    return StandingAnswer(budget=budget_rows(service, [(budget, month)])[0] if budget else None)


def standing_for_job(service: Service, project: str) -> StandingAnswer:
    """Return how the budget of a job's project stands, else that of several it is one of."""
    return StandingAnswer(budget=standing(service, project).budget or _of_group(service, project))


def check(service: Service, project: str) -> CheckAnswer:
    """Return as much of `standing` as a job may know: keys of training nodes get around."""
    row = standing_for_job(service, project).budget
    if row is None:
        return CheckAnswer(budget=None)
    budget = CheckedBudget(
        project=row.project, for_month=row.for_month, limit_kg=row.limit_kg, status=row.status
    )
    return CheckAnswer(budget=budget)


def budget_of(service: Service, project: str, month: str) -> Budget | None:
    """Return the budget that holds for a project in a month; None where none does."""
    with service.store.read() as session:
        own = session.get(Budget, (project, month))
        return own or session.get(Budget, (project, EVERY_MONTH))


def _of_group(service: Service, project: str) -> BudgetRow | None:
    """Return the budget of several projects that a project of the caller's is one of."""
    if service.caller.projects is not None and project not in service.caller.projects:
        return None
    whole, month = service.for_every_project(), service.month_now()
    for budget, _ in budgets_of(whole, {month}):
        scope = scope_of(budget)
        if isinstance(scope, Group) and project in scope.projects:
            return budget_rows(whole, [(budget, month)])[0]
    return None


def limits_kg(service: Service, month: str) -> dict[str, float]:
    """Return the budget of each project that has one for the month [kgCO2e]."""
    statement = (
        sa.select(Budget)
        .where(Budget.month.in_((EVERY_MONTH, month)), Budget.covers.is_(None))
        .order_by(Budget.month)
    )
    with service.store.read() as session:
        return {row.project: kg_from_g(row.limit_g) for row in session.scalars(statement)}


def budgets_of(service: Service, months: Collection[str]) -> list[tuple[Budget, str]]:
    """Return the budget of each project that has one, with each month that it holds for."""
    statement = sa.select(Budget).order_by(Budget.project, Budget.month)
    with service.store.read() as session:
        by_month = {(row.project, row.month): row for row in session.scalars(statement)}
    projects = dict.fromkeys(project for project, _ in by_month)
    budgets = [
        (by_month.get((project, month)) or by_month.get((project, EVERY_MONTH)), month)
        for project in projects
        for month in sorted(months)
    ]
    return [(budget, month) for budget, month in budgets if budget is not None]


def _check(service: Service, new: NewBudget) -> None:
    """Raise CorrectionError for what the types of a budget's fields do not say."""
    if not new.project.strip():
        raise CorrectionError("project", "a budget is of a project: give its name")
    if new.projects and new.cost_centre is not None:
        raise CorrectionError("cost_centre", "give projects or a cost centre, not both")
    if new.webhook is not None:
        try:
            parse_webhook(new.webhook, service.config.alerts.webhook_hosts)
        except AddressError as error:
            raise CorrectionError("webhook", str(error)) from None
    if new.email is not None:
        name, at, host = new.email.partition("@")
        signs = f"{name}{host}"
        odd = any(c.isspace() or not c.isprintable() or c in '@,:;<>()[]"\\' for c in signs)
        if not (name and at and host) or odd:
            raise CorrectionError("email", f"{new.email!r} is not a mail address; write name@host")


def budget_rows(service: Service, budgets: Sequence[tuple[Budget, str]]) -> list[BudgetRow]:
    """Return how each budget stands in the month beside it."""
    if not budgets:
        return []
    keys = [(month, budget.project) for budget, month in budgets]
    scopes = [(month, scope_of(budget)) for budget, month in budgets]
    sums = month_spending(service, scopes)
    alerts = _alerts(service, keys)
    return [
        _row(service, budget, month, sums[scope], alerts.get((*key, budget.version), []))
        for (budget, month), key, scope in zip(budgets, keys, scopes, strict=True)
    ]


def _row(
    service: Service, budget: Budget, month: str, spending: MonthSpending, alerts: list[AlertRow]
) -> BudgetRow:
    spent = spending.spent.scaled(KG, "kgCO2e") if spending.spent else None
    ahead, reason = _forecast(service, month, spending)
    thresholds = json.loads(budget.thresholds)
    share = spending.spent.value / budget.limit_g if spending.spent else None
    covered = json.loads(budget.covers or "{}")
    return BudgetRow(
        project=budget.project,
        projects=covered.get("projects"),
        cost_centre=covered.get("cost_centre"),
        month=budget.month or None,
        limit_kg=kg_from_g(budget.limit_g),
        thresholds=thresholds,
        webhook=shown(budget.webhook) if budget.webhook else None,
        email=budget.email,
        set_at=text_from_us(budget.set_us),
        set_by=budget.set_by,
        for_month=month,
        status=budget_status(share, thresholds, spending.unknown),
        spent_kg=spent.bare() if spent else None,
        spent_share=share,
        forecast_kg=ahead.scaled(KG, "kgCO2e").bare() if ahead else None,
        forecast_reason=reason,
        jobs_running=spending.running,
        jobs_unknown=spending.unknown,
        alerts=alerts,
    )


def _alerts(
    service: Service, keys: Collection[ProjectMonth]
) -> dict[tuple[str, str, int], list[AlertRow]]:
    """Return the alerts of each month, project and version of a budget, by threshold."""
    of_these = (Alert.month.in_({m for m, _ in keys}), Alert.project.in_({p for _, p in keys}))
    alerts: dict[tuple[str, str, int], list[AlertRow]] = {}
    with service.store.read() as session:
        for row in session.scalars(sa.select(Alert).where(*of_these).order_by(Alert.threshold)):
            alert = AlertRow(threshold=row.threshold, at=text_from_us(row.made_us))
            alerts.setdefault((row.month, row.project, row.budget_version), []).append(alert)
    return alerts


def _forecast(
    service: Service, month: str, spending: MonthSpending
) -> tuple[Quantity | None, str | None]:
    """Return what the month will emit [gCO2e], or why that is not known."""
    now, (start, end) = service.now(), month_span(month, service.config.zone)
    if now >= end:
        return None, "the month is over"
    if now < start:
        return None, "the month has not begun"
    if spending.spent is None or spending.unknown:
        return None, "a term of some job is not known"
    today = day_of(now, service.config.zone)
    begun = date.fromisoformat(f"{month}-01")
    first = begun if spending.began_before else _first_day(spending.days, today)
    number = (today - first).days
    days = [spending.days.get((first + DAY * n).isoformat(), 0.0) for n in range(number)]
    if number < DAYS_LEAST:
        return None, f"too few days: {max(0, number)} whole days of {DAYS_LEAST}"
    rest_days = (end - now) / DAY
    return month_end(spending.spent, days, rest_days), None


def _first_day(days: dict[str, float], today: date) -> date:
    """Return the day of the first emission; today where there is none."""
    emitting = [date.fromisoformat(day) for day, grams in days.items() if grams > 0]
    return min(emitting, default=today)


LATE = timedelta(days=8)
"""How long the month before is looked at too: its last jobs are scored again until seven days after
their end, when the intensity of their time is known."""


def check_budgets(service: Service) -> None:
    """Record the thresholds that projects have reached; safe to repeat, by several processes too.

    An alert and its messages are written in one transaction, each at most once.
    """
    months = {service.month_now(), service.month_of(service.now() - LATE)}
    budgets = budgets_of(service, months)
    for (budget, _), row in zip(budgets, budget_rows(service, budgets), strict=True):
        _record(service, budget, row)


def _record(service: Service, budget: Budget, row: BudgetRow) -> None:
    """Record the thresholds that are reached and were not in this month, by the budget as set."""
    if row.spent_share is None:
        return
    percent = row.spent_share * 100
    thresholds = {alert.threshold for alert in row.alerts}
    reached = [t for t in row.thresholds if percent >= t and t not in thresholds]
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

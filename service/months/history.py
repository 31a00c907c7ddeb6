"""The trend, the budgets and the fate of the last suggestions, out of stored sums of months."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.documents import (
    AdviceRow,
    BudgetUse,
    FollowedRow,
    ProjectCharge,
    TrendRow,
    WorkRow,
)
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import kg_from_g
from gramwatt.service.store.budgets import Budget

TREND_MONTHS = 12
EVERY_MONTH = ""
"""How the store writes the month of a budget that holds for every month."""
_BUDGETS = (
    sa.select(Budget)
    .where(Budget.month.in_((sa.bindparam("month"), EVERY_MONTH)))
    .order_by(Budget.month)
)
_BUDGETS_OF = _BUDGETS.where(Budget.project == sa.bindparam("project"))
SWAP = "change-hardware"
"""The action that shows in the jobs of the next month."""
Fields = Mapping[str, msgspec.Raw]
"""The fields of stored sums, not yet read."""


def months_before(month: str) -> list[str]:
    """Return the months before `month` that a trend shows, the latest first."""
    found = [previous_month(month)]
    while len(found) < TREND_MONTHS - 1:
        found.append(previous_month(found[-1]))
    return found


def brief(fields: Mapping[str, Any]) -> str:
    """Return what reports of later months need of these sums, as JSON."""
    kept = {name: fields[name] for name in ("totals", "methods", "advice", "work")}
    kept["data_quality"] = {"grade": fields["data_quality"]["grade"]}
    return msgspec.json.encode(kept).decode()


def trend(sums: Mapping[str, Fields], open_months: Collection[str]) -> list[TrendRow]:
    """Return a row for each month that has sums, oldest first; `open_months` may still change."""
    rows: list[TrendRow] = []
    for month in sorted(sums):
        fields = sums[month]
        totals, methods = _read(fields, "totals"), _read(fields, "methods")
        if not totals["jobs"]:
            continue
        names = ("jobs", "energy_kwh", "operational_g", "embodied_g", "total_g")
        row: dict[str, Any] = {name: totals[name] for name in names}
        row |= {"month": month, "complete": month not in open_months, "methods": methods}
        row["grade"] = _read(fields, "data_quality")["grade"]
        row["method_break"] = bool(rows) and rows[-1]["methods"] != methods
        rows.append(row)  # type: ignore[arg-type]
    return rows


def budget_uses(session: Session, month: str, project: str | None, sums: Fields) -> list[BudgetUse]:
    """Return how much of each budget of the month its project's scored jobs used, by project."""
    wanted = _BUDGETS if project is None else _BUDGETS_OF
    # A month's own budget comes after the one for every month, and replaces it.
    found = session.scalars(wanted, {"month": month, "project": project})
    budgets = {row.project: row for row in found}
    if not budgets:
        return []
    charges: Sequence[ProjectCharge] = _read(sums, "by_project")
    unknown = _read(sums, "totals")["jobs_unknown"] > 0
    return [_use(budgets[name], charges, unknown) for name in sorted(budgets)]


def _use(budget: Budget, charges: Sequence[ProjectCharge], unknown: bool) -> BudgetUse:
    """Return the use of one budget; `unknown` says that some job of the month has an unknown
    term.
    """
    spent: Quantity | None = Quantity.exact(0.0, "gCO2e", "derived", "no scored job in the month")
    for row in charges:
        if row["project"] == budget.project:
            spent = Quantity.from_doc(row["total_g"]) if row["total_g"] else None
    status = "unclear"
    if spent is not None and spent.low > budget.limit_g:
        status = "exceeded"
    elif spent is not None and spent.high <= budget.limit_g and not unknown:
        status = "within"
    return {
        "project": budget.project,
        "limit_kg": kg_from_g(budget.limit_g),
        "spent_kg": spent.scaled(kg_from_g(1.0), "kgCO2e").to_doc() if spent else None,
        "spent_share": spent.value / budget.limit_g if spent else None,
        "status": status,
    }


def revised(revision: int, before: Fields) -> str:
    """Return what the revision before this one said, as JSON; null for the first."""
    if "totals" not in before:
        return "null"
    totals = _read(before, "totals")
    found = {"revision": revision, "jobs": totals["jobs"], "total_g": totals["total_g"]}
    return msgspec.json.encode(found).decode()


def followed(before: Fields | None, now: Fields) -> list[FollowedRow]:
    """Return what became of the suggestions of the month before, by the jobs of this one."""
    if before is None or "advice" not in before:
        return []
    advice: Sequence[AdviceRow] = _read(before, "advice")
    jobs = [
        {(row["hardware"], row["work"]): row["jobs"] for row in _works(fields)}
        for fields in (before, now)
    ]
    return [_followed(row, *jobs) for row in advice]


def _works(fields: Fields) -> Sequence[WorkRow]:
    rows: Sequence[WorkRow] = _read(fields, "work")
    return rows


def _followed(
    row: AdviceRow, before: Mapping[tuple[str, str], int], now: Mapping[tuple[str, str], int]
) -> FollowedRow:
    old, new = (row["hardware"], row["work"]), (row["target"] or "", row["work"])
    counts = before.get(old, 0), now.get(old, 0), before.get(new, 0), now.get(new, 0)
    return {
        "hardware": row["hardware"],
        "work": row["work"],
        "action": row["action"],
        "target": row["target"],
        "jobs_before": counts[0],
        "jobs_now": counts[1],
        "target_before": counts[2],
        "target_now": counts[3],
        "outcome": _outcome(*counts) if row["action"] == SWAP else None,
    }


def _outcome(old_before: int, old_now: int, new_before: int, new_now: int) -> str:
    if not old_now + new_now:
        return "no-such-work"
    if not old_now:
        return "followed"
    share_before = new_before / max(1, old_before + new_before)
    return "partly" if new_now / (old_now + new_now) > share_before else "not-followed"


def _read(fields: Fields, name: str) -> Any:
    return msgspec.json.decode(fields[name])

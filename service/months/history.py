"""The trend, the budgets and the fate of the last suggestions, out of stored sums of months."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from gramwatt.sci.analysis.documents import MonthTotals, RevisedDoc, TrendRow, WorkRow
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.analysis.month_rows import (
    AdviceRow,
    FollowedRow,
)

TREND_MONTHS = 12
BADGE_MONTHS = 12
"""Months before the present one in which a badge looks for the newest with a job."""
BRIEF = ("totals", "methods", "intensity_methods", "advice", "work")
SWAP, MOVE = "change-hardware", "shift-region"
"""The actions that show in the jobs of the next month."""
Fields = Mapping[str, msgspec.Raw]
"""The fields of stored sums, not yet read."""


def months_before(month: str, number: int = TREND_MONTHS - 1) -> list[str]:
    """Return the months before `month`, as many as a trend shows, the latest first."""
    found = [previous_month(month)]
    while len(found) < number:
        found.append(previous_month(found[-1]))
    return found


def brief(fields: Mapping[str, Any]) -> str:
    """Return what reports of later months need of these sums, as JSON."""
    kept = {name: fields[name] for name in BRIEF}
    kept["data_quality"] = {"grade": fields["data_quality"].grade}
    return msgspec.json.encode(kept).decode()


def trend(sums: Mapping[str, Fields], open_months: Collection[str]) -> list[TrendRow]:
    """Return a row for each month that has sums, oldest first; `open_months` may still change."""
    rows: list[TrendRow] = []
    before: Sequence[Sequence[str]] = ()
    for month in sorted(sums):
        fields = sums[month]
        totals, methods = _totals(fields), _read(fields, "methods")
        if not totals.jobs:
            continue
        used = _read(fields, "intensity_methods")
        other = bool(rows) and (rows[-1].methods != methods or _other_sources(before, used))
        before = used
        row = TrendRow(
            energy_kwh=totals.energy_kwh,
            operational_g=totals.operational_g,
            embodied_g=totals.embodied_g,
            total_g=totals.total_g,
            month=month,
            complete=month not in open_months,
            jobs=totals.jobs,
            grade=_read(fields, "data_quality")["grade"],
            methods=methods,
            method_break=other,
        )
        rows.append(row)
    return rows


def _other_sources(one: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> bool:
    from gramwatt.service.months.sums.decomposition import other_sources  # loads numpy

    return other_sources(one, other)


def revised(revision: int, before: Fields, reasons: Sequence[str]) -> str:
    """Return what the revision before this one said, and why this one differs, as JSON."""
    totals = _totals(before)
    row = RevisedDoc(
        revision=revision, jobs=totals.jobs, total_g=totals.total_g, reasons=list(reasons)
    )
    return msgspec.json.encode(row).decode()


def followed(before: Fields | None, now: Fields) -> list[FollowedRow]:
    """Return what became of the suggestions of the month before, by the jobs of this one."""
    if before is None or "advice" not in before:
        return []
    advice = msgspec.json.decode(before["advice"], type=list[AdviceRow])
    works = [{(row.hardware, row.work): row for row in _works(fields)} for fields in (before, now)]
    return [
        _followed(row, *(_counts(row, of_month) for of_month in works))
        for row in advice
        if row.basis != "all"
    ]


def _works(fields: Fields) -> Sequence[WorkRow]:
    return msgspec.json.decode(fields["work"], type=list[WorkRow])


def _counts(row: AdviceRow, works: Mapping[tuple[str, str], WorkRow]) -> tuple[int, int]:
    """Return the jobs of a month that are as they were, and those that did what was suggested."""
    old, new = (row.hardware, row.work), (row.target or "", row.work)
    jobs = works[old].jobs if old in works else 0
    if row.action != MOVE:
        return jobs, works[new].jobs if new in works else 0
    regions = works[old].regions if old in works else {}
    moved = regions.get(row.target or "", 0)
    return jobs - moved, moved


def _followed(row: AdviceRow, before: tuple[int, int], now: tuple[int, int]) -> FollowedRow:
    counts = before[0], now[0], before[1], now[1]
    return FollowedRow(
        hardware=row.hardware,
        work=row.work,
        action=row.action,
        target=row.target,
        jobs_before=counts[0],
        jobs_now=counts[1],
        target_before=counts[2],
        target_now=counts[3],
        outcome=_outcome(*counts) if row.action in (SWAP, MOVE) else None,
    )


def _outcome(old_before: int, old_now: int, new_before: int, new_now: int) -> str:
    if not old_now + new_now:
        return "no-such-work"
    if not old_now:
        return "followed"
    share_before = new_before / max(1, old_before + new_before)
    return "partly" if new_now / (old_now + new_now) > share_before else "not-followed"


def _totals(fields: Fields) -> MonthTotals:
    return msgspec.json.decode(fields["totals"], type=MonthTotals)


def _read(fields: Fields, name: str) -> Any:
    return msgspec.json.decode(fields[name])

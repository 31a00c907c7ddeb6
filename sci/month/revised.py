"""What changed between two tables of the jobs of a month: jobs added, removed and changed, and why.

A revision of a month keeps the table of its jobs, so two tables say what any two revisions differ
by. Of each job the table has its part of the month and why its score last changed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from msgspec import Struct

from gramwatt.sci.figures.formatting import jobs_text, number, prefix
from gramwatt.sci.month.columns import JOB_TERMS

Change = Literal["added", "removed", "changed"]
CHANGES: tuple[Change, ...] = get_args(Change)
Cause = Literal["late-records", "corrected", "deleted", "intensity", "method", "not-known"]
CAUSES: tuple[Cause, ...] = get_args(Cause)
"""Why a job changed; of several causes the first counts."""
CAUSE_TEXTS: dict[Cause, str] = {
    "late-records": "arrived late",
    "corrected": "corrections",
    "deleted": "deleted",
    "intensity": "factors",
    "method": "engine, catalog or settings",
    "not-known": "scored again, why is not known",
}


DECLARED: tuple[Cause, ...] = ("late-records", "corrected")
"""Causes that may change what else a report says of a job, though not its E, O and M."""
SAME = 1e-12
"""Relative difference of figures that were added in another order."""


class JobRow(Struct):
    """A job in the sums of a month: by which of its scores, and its part of the month.

    E in kWh, O and M in gCO2e; null where a term is not known. `cause` is why its score last
    changed since a revision of the month first had it, null if it never did; `detail` says of what
    the factors are, or the method: "DE 2026", "method 9". `name`, `kind` and `started_at` are those
    of the job today, null where it was deleted.
    """

    job_id: str
    project: str
    revision: int
    energy_kwh: float | None
    operational_g: float | None
    embodied_g: float | None
    cause: Cause | None = None
    detail: str | None = None
    name: str | None = None
    kind: str | None = None
    started_at: str | None = None


class JobChange(Struct):
    """A job that differs between two tables: after minus before, E in kWh, O and M in gCO2e.

    A term that is not known counts as nothing.
    """

    job_id: str
    project: str
    change: Change
    cause: Cause
    detail: str | None
    energy_kwh: float
    operational_g: float
    embodied_g: float


class MonthDifference(Struct):
    """What differs between two revisions of a month; `revision` is null for the month as it is."""

    month: str
    project: str | None
    revision: int | None
    against: int
    changes: list[ChangeRow]
    jobs: list[JobChange]


class ChangeRow(Struct):
    """The jobs of one change and cause: how many, and the sums of their E [kWh] and C [gCO2e]."""

    change: Change
    cause: Cause
    detail: str | None
    jobs: int
    energy_kwh: float
    total_g: float


def job_changes(
    before: Iterable[JobRow], after: Iterable[JobRow], deleted: Iterable[tuple[str, str]] = ()
) -> list[JobChange]:
    """Return the jobs that differ between two tables, in order of their ids.

    A job that was scored again with the same figures does not differ.

    `deleted` are the ids and projects of deleted jobs: another job that is gone was corrected.
    """
    sides = [{(row.job_id, row.project): row for row in side} for side in (before, after)]
    old, new, gone = *sides, set(deleted)
    changes = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was is None and now is not None:
            change: Change = "added"
            cause, detail = now.cause or "late-records", now.detail
        elif was is not None and now is None:
            change, cause, detail = "removed", "deleted" if key in gone else "corrected", None
        elif was is not None and now is not None and was.revision != now.revision:
            change, detail = "changed", now.detail or was.detail
            cause = now.cause or was.cause or "not-known"
            if cause not in DECLARED and _is_same(was, now):
                continue
        else:
            continue
        energy_kwh, operational_g, embodied_g = (
            ((getattr(now, term) if now else None) or 0.0)
            - ((getattr(was, term) if was else None) or 0.0)
            for term in JOB_TERMS
        )
        changes.append(
            JobChange(*key, change, cause, detail, energy_kwh, operational_g, embodied_g)
        )
    return changes


def _is_same(was: JobRow, now: JobRow) -> bool:
    pairs = [(getattr(was, term), getattr(now, term)) for term in JOB_TERMS]
    return all(
        old == new if old is None or new is None else math.isclose(old, new, rel_tol=SAME)
        for old, new in pairs
    )


def by_cause(changes: Iterable[JobChange]) -> list[ChangeRow]:
    """Return the sums of changes by what happened and why."""
    groups: dict[tuple[Change, Cause, str | None], list[JobChange]] = defaultdict(list)
    for row in changes:
        groups[row.change, row.cause, row.detail].append(row)
    order = sorted(groups, key=lambda k: (CHANGES.index(k[0]), CAUSES.index(k[1]), k[2] or ""))
    return [
        ChangeRow(
            *key,
            jobs=len(groups[key]),
            energy_kwh=sum(row.energy_kwh for row in groups[key]),
            total_g=sum(row.operational_g + row.embodied_g for row in groups[key]),
        )
        for key in order
    ]


def change_lines(rows: Sequence[ChangeRow]) -> list[str]:
    """Return what changed as a line each for jobs added, removed and changed; for no change one."""
    lines = []
    for change in CHANGES:
        of_change = [row for row in rows if row.change == change]
        if not of_change:
            continue
        jobs, total_g = sum(row.jobs for row in of_change), sum(row.total_g for row in of_change)
        causes = [_cause_text(row) for row in of_change]
        if len(of_change) > 1:
            pairs = zip(causes, of_change, strict=True)
            causes = [f"{text} ({row.jobs}, {_signed(row.total_g)})" for text, row in pairs]
        lines.append(f"{jobs_text(jobs)} {change}, {_signed(total_g)}: {', '.join(causes)}")
    return lines or ["No job of the month changed."]


def _cause_text(row: ChangeRow) -> str:
    if row.detail is None:
        return CAUSE_TEXTS[row.cause]
    return f"factors of {row.detail}" if row.cause == "intensity" else row.detail


def _signed(grams: float) -> str:
    size, unit = prefix(abs(grams), "gCO2e")
    sign = "+" if grams > 0 else "-" if grams < 0 else "±"
    return f"{sign}{number(abs(grams) / size, 3)} {unit}"

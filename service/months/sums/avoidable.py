"""What a month's jobs used to no end, over all of them: idle time, and runs without a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gramwatt.sci.advice.jobs import EXAMPLES
from gramwatt.sci.analysis.month_rows import (
    AdviceRow,
    NamedJob,
)
from gramwatt.sci.base.formatting import jobs_text
from gramwatt.sci.base.quantity import Quantity
from gramwatt.service.months.sums.arrays import Parts, grouped
from gramwatt.service.months.sums.figures import Floats, Ints
from gramwatt.service.months.sums.totals import by_job

STOP_IDLE = "stop-idle"
IDLE_LEAST = 0.1
"""Share of a job's carbon from which on its idle time is named (a choice): each job starts."""
ENDED = {"failed": "avoid-failed", "killed": "avoid-killed", "lost": "avoid-lost"}
"""Actions by the state of runs without a result."""
ALL = "all"


def avoidable(parts: Parts, idle_g: Floats, grams: Floats) -> list[AdviceRow]:
    """Return actions by hardware, work and what was used to no end, the largest first.

    `idle_g` is the carbon of idle accelerators of each job, `grams` all of it. Of runs that failed,
    were killed or lost what they used is the most that can be saved; the least is nothing.
    """
    idle = idle_g >= IDLE_LEAST * np.where(grams > 0, grams, np.inf)
    rows = _rows(parts, _completed, idle, idle_g, grams)
    rows += _rows(parts, _ended, np.ones(len(grams), bool), grams, grams)
    return sorted(rows, key=lambda row: -row.saved_g["value"])


def _completed(of_job: dict[str, Any]) -> tuple[str, ...] | None:
    return _key(of_job, STOP_IDLE) if of_job["state"] not in ENDED else None


def _ended(of_job: dict[str, Any]) -> tuple[str, ...] | None:
    return _key(of_job, ENDED[of_job["state"]]) if of_job["state"] in ENDED else None


def _key(of_job: dict[str, Any], action: str) -> tuple[str, ...] | None:
    return None if of_job["synthetic"] else (of_job["hardware"], of_job["work"], action)


def _rows(
    parts: Parts,
    key: Callable[[dict[str, Any]], tuple[str, ...] | None],
    among: Any,
    saved: Floats,
    grams: Floats,
) -> list[AdviceRow]:
    groups, jobs, cell = grouped(parts, key)
    chosen = among[jobs]
    counts = np.bincount(cell, minlength=len(groups))
    jobs, cell = jobs[chosen], cell[chosen]
    totals = by_job(parts, jobs, cell, len(groups)).total_g
    found = []
    for n, (hardware, work, action) in enumerate(groups):
        mine, whole = jobs[cell == n], totals.quantity(n)
        used = float(saved[mine].sum())
        if whole is None or not (used > 0 and whole.value > 0):
            continue
        share = used / float(grams[mine].sum())
        figure = whole.scaled(share)
        if action != STOP_IDLE:
            figure = figure.at_most()
        found.append(_row(parts, (hardware, work, action), mine, saved, int(counts[n]), figure))
    return found


def _row(
    parts: Parts, key: tuple[str, str, str], jobs: Ints, saved: Floats, of_work: int, g: Quantity
) -> AdviceRow:
    hardware, work, action = key
    largest = jobs[np.argsort(-saved[jobs], kind="stable")]
    most = [
        NamedJob(
            job_id=parts.ids[n],
            name=parts.ids[n],
            project=parts.attributes[parts.attributes_of[n]]["project"],
        )
        for n in largest[:EXAMPLES]
    ]
    reason = f"what {jobs_text(len(jobs))} used that ended without a result: the most to be saved"
    if action == STOP_IDLE:
        reason = "accelerators were reserved and had no work (utilisation below 5 %)"
    return AdviceRow(
        hardware=hardware,
        work=work,
        action=action,
        target=None,
        jobs=len(jobs),
        jobs_of_work=of_work,
        saved_g=g.to_doc(),
        carbon_ratio=None,
        confidence="high" if action == STOP_IDLE else "low",
        reason=reason,
        examples=[one.job_id for one in most],
        named=most,
        basis=ALL,
    )

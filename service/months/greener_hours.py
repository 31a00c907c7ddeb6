"""What a month's jobs would have saved at the best start within a day: a sum known afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from gramwatt.sci.advice.jobs import EXAMPLES, Work, work_of
from gramwatt.sci.analysis.month_rows import AdviceRow
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.quantity import Quantity, total
from gramwatt.service.container import Service
from gramwatt.service.intensity.hindsight import SLACK_H, saved_by_waiting

ACTION = "shift-time"
LEAST = 0.01
"""Share of a job's carbon from which on its waiting is named, as in plans."""
SERVING = ("inference",)
"""Kinds of jobs that somebody waits for."""
Row = tuple[Quantity, JobDoc]


def greener_hours(
    service: Service,
    documents: Sequence[JobDoc],
    parts: Mapping[str, float],
    jobs_of_work: Mapping[Work, int],
) -> list[AdviceRow]:
    """Return the action to wait for greener hours by hardware and work, for completed jobs.

    `documents` have their series; `parts` is the share of each job's carbon that lies in the month.
    Jobs that serve, and jobs whose hours are not known, are left out. The saving is the most that
    waiting could have given, as nobody knows the best hour before; the least is nothing.
    """
    found: dict[Work, list[Row]] = defaultdict(list)
    for job in documents:
        if job["kind"] in SERVING or job["state"] != "completed" or job["total_g"] is None:
            continue
        saved = saved_by_waiting(service, job)
        if saved is not None and saved.value >= LEAST * job["total_g"]["value"]:
            found[work_of(job)].append((saved.scaled(parts[job["job_id"]]), job))
    return [_row(work, rows, jobs_of_work) for work, rows in found.items()]


def _row(work: Work, rows: list[Row], jobs_of_work: Mapping[Work, int]) -> AdviceRow:
    rows.sort(key=lambda row: -row[0].value)
    whole = total(saved for saved, _ in rows)
    assert whole is not None  # there are rows
    most = whole.at_most()
    named = [job for _, job in rows[:EXAMPLES]]
    return {
        "hardware": work[0],
        "work": work[1],
        "action": ACTION,
        "target": None,
        "jobs": len(rows),
        "jobs_of_work": jobs_of_work.get(work, len(rows)),
        "saved_g": most.to_doc(),
        "carbon_ratio": None,
        "confidence": "low",
        "reason": (
            f"the grid was cleaner within {SLACK_H} hours of their start: the most to be saved, as "
            "the best hour is only known afterwards"
        ),
        "examples": [job["job_id"] for job in named],
        "named": [
            {"job_id": job["job_id"], "name": job["name"], "project": job["project"]}
            for job in named
        ],
        "basis": "examined",
    }

"""Every periodic task: what it does, how often, and the function that does it.

A task is one line of TASKS. It may run twice without harm, also on two hosts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from gramwatt.service.budgets import check_budgets
from gramwatt.service.container import Service
from gramwatt.service.intensity.refresh import refresh_intensity
from gramwatt.service.jobs.local_spool import ingest_local_spool
from gramwatt.service.months.periodic import keep_ended_months, sum_newest_months
from gramwatt.service.notifications import announce, deliver
from gramwatt.service.tasks.rescoring import rescore_due, rescore_on_new_factors
from gramwatt.service.tasks.upkeep import (
    back_up,
    close_silent,
    delete_old,
    refresh_running,
    score_pending,
)


@dataclass(frozen=True, slots=True)
class Task:
    """How often, what to do, and what that is in words."""

    every: timedelta
    action: Callable[[Service], object]
    what: str = ""


def period(every_s: float) -> str:
    """Return a period in words: 5 s, 1 min, 1 h or 1 day."""
    sizes = ((86_400, "day"), (3600, "h"), (60, "min"))
    for size, unit in sizes:
        if every_s >= size and every_s % size == 0:
            return f"{every_s / size:g} {unit}"
    return f"{every_s:g} s"


def _monthly_reports(service: Service) -> None:
    for month, project in keep_ended_months(service):
        announce(service, month, project)


TASKS: Mapping[str, Task] = {
    "ingest-spool": Task(
        timedelta(seconds=5),
        ingest_local_spool,
        "take in this machine's journals, of running jobs too",
    ),
    "close-silent": Task(
        timedelta(minutes=1), close_silent, "close jobs that fell silent as lost, and score them"
    ),
    "score-pending": Task(
        timedelta(minutes=1), score_pending, "score ended jobs that a crash left unscored"
    ),
    "refresh-running": Task(
        timedelta(minutes=5), refresh_running, "bring the scores of running jobs up to date"
    ),
    "refresh-intensity": Task(
        timedelta(minutes=5),
        refresh_intensity,
        "ask the configured providers for the intensity of the zones of recent jobs",
    ),
    "rescore-intensity": Task(
        timedelta(minutes=5),
        rescore_due,
        "score jobs again when the intensity of their time is known better",
    ),
    "rescore-factors": Task(
        timedelta(minutes=5),
        rescore_on_new_factors,
        "score jobs again after the catalog, the engine, GRAMWATT_TIMEZONE or "
        "GRAMWATT_LIFETIME_YEARS changed",
    ),
    "monthly-reports": Task(
        timedelta(minutes=1),
        _monthly_reports,
        "keep and deliver the reports of ended months whose jobs changed, missed ones too",
    ),
    "newest-months": Task(
        timedelta(minutes=5),
        sum_newest_months,
        "sum the present month, and the newest of each project, for metrics and badges",
    ),
    "retention": Task(
        timedelta(hours=1),
        delete_old,
        "delete intervals older than GRAMWATT_RETENTION_DAYS and entries of the audit log older "
        "than GRAMWATT_AUDIT_RETENTION_DAYS, if those are set",
    ),
    "backup": Task(
        timedelta(days=1), back_up, "write a backup to GRAMWATT_BACKUP_DIR, if that is set"
    ),
    "budgets": Task(
        timedelta(minutes=5), check_budgets, "record the thresholds of budgets that are reached"
    ),
    "outbox": Task(timedelta(seconds=30), deliver, "deliver the messages of alerts"),
}

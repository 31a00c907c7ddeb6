"""The periodic work: ingest spools, close silent jobs, score what is left over, report months.

APScheduler decides when, the leader's lock whether this process does it. Every task is safe to
repeat, also while another process does the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta

from apscheduler.schedulers.background import BackgroundScheduler

from gramwatt.service.container import Service
from gramwatt.service.tasks.leader import leader_of
from gramwatt.service.usecases.local_spool import take_in
from gramwatt.service.usecases.month import make_missing_reports
from gramwatt.service.usecases.upkeep import close_silent, refresh_running, score_pending

_log = logging.getLogger("gramwatt.service")


@dataclass(frozen=True, slots=True)
class Task:
    """What to do, and how often."""

    every: timedelta
    action: Callable[[Service], object]


TASKS: Mapping[str, Task] = {
    "ingest-spool": Task(timedelta(seconds=5), take_in),
    "close-silent": Task(timedelta(minutes=1), close_silent),
    "score-pending": Task(timedelta(minutes=1), score_pending),
    "refresh-running": Task(timedelta(minutes=5), refresh_running),
    "monthly-reports": Task(timedelta(hours=1), make_missing_reports),
}


class Scheduler:
    """Runs the tasks of one process, while it leads."""

    def __init__(self, service: Service, tasks: Mapping[str, Task] = TASKS) -> None:
        self._service = service
        self._leader = leader_of(service.store)
        self._tasks = tasks
        self._background: BackgroundScheduler | None = None

    def run(self, name: str) -> bool:
        """Run a task now; False when another process leads."""
        if not self._leader.leads():
            return False
        try:
            self._tasks[name].action(self._service)
        except Exception:  # a failing task must not end the others
            _log.exception("task %s failed", name)
        return True

    def start(self) -> None:
        """Start running the tasks in the background, each at once and then by its period."""
        self._background = BackgroundScheduler(
            timezone=UTC,
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        for name, task in self._tasks.items():
            self._background.add_job(
                self.run,
                "interval",
                args=(name,),
                id=name,
                seconds=task.every.total_seconds(),
                next_run_time=self._service.now(),
            )
        self._background.start()

    def stop(self) -> None:
        """Stop after the task that runs now, and let another process lead."""
        if self._background is not None:
            self._background.shutdown(wait=True)
            self._background = None
        self._leader.resign()

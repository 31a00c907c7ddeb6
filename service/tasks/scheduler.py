"""The periodic work: close silent jobs, score what is left over, make monthly reports.

APScheduler only says when. Whether a task runs here is decided by the leader's lock, and a unique
row for each due time makes even two leaders harmless. Every task is safe to repeat.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from gramwatt.service.container import Service
from gramwatt.service.store.models import Job, JobRun
from gramwatt.service.tasks.leader import Leader, leader_of
from gramwatt.service.usecases.month import make_missing
from gramwatt.service.usecases.score_job import score_provisionally
from gramwatt.service.usecases.silence import close_silent, score_pending

if TYPE_CHECKING:
    from apscheduler.schedulers.background import BackgroundScheduler

KEPT_RUNS = timedelta(days=7)
_log = logging.getLogger("gramwatt.service")


@dataclass(frozen=True, slots=True)
class Task:
    """What to do, and how often."""

    every: timedelta
    act: Callable[[Service], object]


def refresh_running(service: Service) -> int:
    """Bring the passing scores of running jobs up to date, so that lists show figures."""
    from gramwatt.sci.base.errors import GramwattError

    with service.store.read() as session:
        keys = list(session.scalars(sa.select(Job.id).where(Job.state == "running")))
    for key in keys:
        try:
            score_provisionally(service, key)
        except GramwattError as error:
            _log.info("a running job cannot be scored yet: %s", error.message)
    return len(keys)


def take_in_spools(service: Service) -> list[str]:
    """Take in the closed journals spooled on this machine, where the store is theirs."""
    from gramwatt.service.usecases.local_spool import take_in_with

    return take_in_with(service) if service.config.home is not None else []


def forget_runs(service: Service) -> int:
    """Drop the rows of runs that are long done."""
    oldest_us = service.now_us() - int(KEPT_RUNS.total_seconds() * 1e6)
    with service.store.write() as session:
        deleted = session.execute(sa.delete(JobRun).where(JobRun.due_us < oldest_us))
        return int(getattr(deleted, "rowcount", 0))


TASKS: Mapping[str, Task] = {
    "take-in": Task(timedelta(minutes=1), take_in_spools),
    "close-silent": Task(timedelta(minutes=1), close_silent),
    "score-pending": Task(timedelta(minutes=1), score_pending),
    "refresh-running": Task(timedelta(minutes=5), refresh_running),
    "monthly-reports": Task(timedelta(hours=1), make_missing),
    "forget-runs": Task(timedelta(days=1), forget_runs),
}


class Scheduler:
    """Runs the tasks of one process, while it leads."""

    def __init__(
        self, service: Service, leader: Leader | None = None, tasks: Mapping[str, Task] = TASKS
    ) -> None:
        self._service = service
        self._leader = leader or leader_of(service.store)
        self._tasks = tasks
        self._runner: BackgroundScheduler | None = None

    def run(self, name: str) -> bool:
        """Run a task for the period that now falls in; False when it is not ours to run."""
        if not self._leader.leads():
            return False
        task = self._tasks[name]
        period_us = int(task.every.total_seconds() * 1e6)
        due_us = self._service.now_us() // period_us * period_us
        if not self._claim(name, due_us):
            return False
        try:
            outcome = f"done: {task.act(self._service)!r}"
        except Exception as error:  # a failing task must not end the others
            _log.exception("task %s failed", name)
            outcome = f"failed: {error!r}"
        self._finish(name, due_us, outcome[:512])
        return True

    def start(self) -> None:
        """Start running the tasks in the background, each at once and then by its period."""
        from apscheduler.schedulers.background import BackgroundScheduler

        self._runner = BackgroundScheduler(
            timezone=UTC,
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        for name, task in self._tasks.items():
            self._runner.add_job(
                self.run,
                "interval",
                args=(name,),
                id=name,
                seconds=task.every.total_seconds(),
                next_run_time=self._service.now(),
            )
        self._runner.start()

    def stop(self) -> None:
        """Stop after the task that runs now, and let another process lead."""
        if self._runner is not None:
            self._runner.shutdown(wait=True)
            self._runner = None
        self._leader.resign()

    def _claim(self, name: str, due_us: int) -> bool:
        row = JobRun(name=name, due_us=due_us, started_us=self._service.now_us())
        try:
            with self._service.store.write() as session:
                session.add(row)
        except IntegrityError:
            return False
        return True

    def _finish(self, name: str, due_us: int, outcome: str) -> None:
        with self._service.store.write() as session:
            run = session.get_one(JobRun, (name, due_us))
            run.finished_us, run.outcome = self._service.now_us(), outcome

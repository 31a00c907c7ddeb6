"""Runs the periodic tasks in the process that leads, and records every run.

APScheduler decides when; of the processes that share a store, only the leader does the work.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from threading import Thread

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy.exc import SQLAlchemyError

from gramwatt.collectors.settings.config import resolve
from gramwatt.collectors.settings.identity import node_id
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.service.container import Service
from gramwatt.service.store.columns import from_us
from gramwatt.service.store.database import UNAVAILABLE, failure_text
from gramwatt.service.tasks import runs
from gramwatt.service.tasks.leader import RENEW, expect, leader_of
from gramwatt.service.tasks.table import TASKS, Task

_log = logging.getLogger("gramwatt.service")
_LEAD = "lead"


class Scheduler:
    """Runs the tasks of one process, while it leads; it touches `alive` as often as it looks."""

    def __init__(
        self, service: Service, tasks: Mapping[str, Task] = TASKS, alive: Path | None = None
    ) -> None:
        self._service, self._alive = service, alive
        self._host = f"{node_id(resolve().allow_host_names)[:100]}:{os.getpid()}"
        self._leader = leader_of(service.store)
        self._tasks = tasks
        self._background: BackgroundScheduler | None = None
        self._pools = {"default": ThreadPoolExecutor(len(tasks)), _LEAD: ThreadPoolExecutor(1)}
        self._leads = False

    def run(self, name: str) -> bool:
        """Run a task now and record the run; False when another process leads."""
        if not self._leader.leads():
            return False
        try:
            key = runs.begin(self._service, name, self._host)
            error = self._done(name)
            runs.end(self._service, key, error)
        except SQLAlchemyError as failure:
            _report(name, failure)
            error = "database"
        if error is not None:
            self._try_again(name)
        return True

    def _done(self, name: str) -> str | None:
        """Do the task; what went wrong in one line, None for nothing."""
        try:
            self._tasks[name].action(self._service)
        except SQLAlchemyError as error:
            _report(name, error)
            return failure_text(error)
        except (OSError, GramwattError) as error:  # no mistake of ours: its text is enough
            text = " ".join(str(error).split())
            _log.error("task %s failed: %s", name, text)
            return text
        except Exception as error:  # a failing task must not end the others
            where = "".join(traceback.format_tb(error.__traceback__))
            _log.error("task %s failed: %s\n%s", name, type(error).__name__, where)
            # Its text is of a library, and may quote a setting with a password.
            return f"{type(error).__name__}; see the log of this server"
        return None

    def start(self) -> None:
        """Run the tasks in the background while this process leads, each when it is due."""
        self._background = BackgroundScheduler(
            timezone=UTC,
            executors=self._pools,
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._background.start()
        self._background.add_job(
            self._follow_lead,
            "interval",
            id=_LEAD,
            executor=_LEAD,
            seconds=RENEW.total_seconds(),
            next_run_time=self._service.now(),
        )

    def _follow_lead(self) -> None:
        """Begin the tasks when this process has become the leader, end them when it lost that."""
        if self._alive is not None:
            with suppress(OSError):
                self._alive.touch()
        background = self._background
        if background is None or (leads := self._leader.leads()) == self._leads:
            return
        if leads:
            try:
                self._begin(background)
            except SQLAlchemyError as error:  # asked again in a moment
                _log.error("the periodic work cannot begin: %s", failure_text(error))
                return
        else:
            _log.warning("this process no longer leads; it leaves the periodic work to the next")
            for name in self._tasks:
                with suppress(JobLookupError):
                    background.remove_job(name)
        self._leads = leads

    def _begin(self, background: BackgroundScheduler) -> None:
        expect(self._service)
        runs.interrupt(self._service)
        due_us = runs.due_us(self._service, self._tasks)
        _log.info("this process leads: %s", self._host)
        for name, task in self._tasks.items():
            background.add_job(
                self.run,
                "interval",
                args=(name,),
                id=name,
                seconds=task.every.total_seconds(),
                next_run_time=max(self._service.now(), from_us(due_us[name])),
                replace_existing=True,
            )

    def _try_again(self, name: str) -> None:
        """Let a task that failed run again sooner than by its period, if that is long."""
        background = self._background
        if background is not None and self._tasks[name].every > runs.RETRY:
            with suppress(JobLookupError):
                background.modify_job(name, next_run_time=self._service.now() + runs.RETRY)

    def stop(self, within_s: float | None = None) -> bool:
        """Stop after the tasks that run now, and let another process lead.

        False when a task still ran after `within_s` [s]; its thread goes on.
        """
        finished = True
        background, self._background = self._background, None
        if background is not None:
            # Waiting itself, it would hold a lock that a task needs to plan its next run.
            background.shutdown(wait=False)
            waiting = Thread(target=self._finish, daemon=True)
            waiting.start()
            waiting.join(within_s)
            finished = not waiting.is_alive()
            if not finished:
                _log.warning("a task still runs and is left; the next leader does it again")
        self._leader.resign()
        return finished

    def _finish(self) -> None:
        for pool in self._pools.values():
            pool.shutdown(wait=True)


def _report(name: str, error: SQLAlchemyError) -> None:
    """Log a task's failure in one line; that the database is away or busy, the store logs once."""
    if not isinstance(error, UNAVAILABLE):
        _log.error("task %s failed: %s", name, failure_text(error))

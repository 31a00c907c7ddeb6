"""Scores ended jobs in the background of a serving process, so that no upload waits for it.

An upload that ends a job only hands its key over. What a process that is killed had not scored yet
is scored by the periodic task `score-pending`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Condition, Thread

from sqlalchemy.exc import SQLAlchemyError

from gramwatt.service.container import Service
from gramwatt.service.jobs.scoring import score_when_closed
from gramwatt.service.store.database import failure_text

WAITING_MOST = 10_000
"""Jobs that wait; more are left to the periodic task."""

_log = logging.getLogger("gramwatt.service")


class ScoringWorker:
    """A thread of a serving process; it ends with the process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: OrderedDict[int, None] = OrderedDict()
        self._changed = Condition()
        self._stopped = False
        self._thread = Thread(target=self._run, name="gramwatt-scoring", daemon=True)

    def start(self) -> None:
        """Start scoring in the background."""
        self._thread.start()

    def add(self, key: int) -> None:
        """Score the job of this key soon, once however often it is added before."""
        with self._changed:
            if len(self._waiting) < WAITING_MOST:
                self._waiting[key] = None
                self._changed.notify()

    def stop(self, timeout_s: float) -> bool:
        """Start no further job; whether the one under way has ended within this time."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (key := self._next()) is not None:
            try:
                score_when_closed(self._service, key)
            except SQLAlchemyError as error:
                _log.warning("%s; score-pending scores the job", failure_text(error))
            except Exception:  # one job must not end the scoring of others
                _log.exception("a job cannot be scored")

    def _next(self) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._waiting)
            return None if self._stopped else self._waiting.popitem(last=False)[0]

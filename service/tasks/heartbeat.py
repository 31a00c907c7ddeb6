"""Says for a serving process, again and again, that it listens: `operation.listening`."""

from __future__ import annotations

import logging
from threading import Event, Thread

from sqlalchemy.exc import SQLAlchemyError

from gramwatt.service.container import Service
from gramwatt.service.operation.listening import beat, beat_period
from gramwatt.service.store.database import UNAVAILABLE, failure_text

_log = logging.getLogger("gramwatt.service")


class Heartbeat:
    """A thread of a serving process; it ends with the process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="gramwatt-heartbeat", daemon=True)

    def start(self) -> None:
        """Say at once that this process listens, then periodically in the background."""
        self._try()
        self._thread.start()

    def stop(self) -> None:
        """Stop saying so."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        period_s = beat_period(self._service.config).total_seconds()
        while not self._stopped.wait(period_s):
            self._try()

    def _try(self) -> None:
        try:
            beat(self._service)
        except SQLAlchemyError as error:
            # While the database is away nothing can be stored, so the break in the beats is true;
            # the store logs that once.
            if not isinstance(error, UNAVAILABLE):
                _log.warning("%s", failure_text(error))

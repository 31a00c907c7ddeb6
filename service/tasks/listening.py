"""Since when a server listens: only that time counts when a job is silent.

While no server listens nothing can arrive, so a job that could not be heard is not lost. Servers
say again and again, in one row of the store, that they listen; downtime is not silence.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from threading import Event, Thread

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.store.database import UNAVAILABLE, failure_text
from gramwatt.service.store.models import Listening
from gramwatt.service.store.timestamps import span_us
from gramwatt.service.store.upserts import upsert

_ROW = 1


def beat_period(config: ServiceConfig) -> timedelta:
    """Return how often a server says that it listens: every 10 s, sooner for a short
    `silent_after`.
    """
    return min(timedelta(seconds=10), config.silent_after / 6)


def beat(service: Service) -> None:
    """Record that a server listens now; after two periods without a beat, that it does anew."""
    now_us = service.now_us()
    broken_us = now_us - 2 * span_us(beat_period(service.config))
    with service.store.write() as session:
        known = session.get(Listening, _ROW, with_for_update=True)
        if known is None:
            upsert(session, Listening, [{"id": _ROW, "since_us": now_us, "beat_us": now_us}])
            return
        if known.beat_us < broken_us:
            known.since_us = now_us
        known.beat_us = max(known.beat_us, now_us)


def expect(service: Service) -> None:
    """Count no silence from before now unless a server has already said that it listened."""
    now_us = service.now_us()
    with service.store.write() as session:
        upsert(session, Listening, [{"id": _ROW, "since_us": now_us, "beat_us": now_us}])


def silent_limit_us(service: Service, session: Session) -> int | None:
    """Return a running job last heard at this time or before is silent [us]; None: no job can be.

    Silence is counted up to the last beat, from the start of the present listening at the earliest.
    A store that no server or scheduler ever used has no beats, and all time counts.
    """
    known = session.get(Listening, _ROW)
    now_us, silent_us = service.now_us(), span_us(service.config.silent_after)
    if known is None:
        return now_us - silent_us
    limit_us = min(now_us, known.beat_us) - silent_us
    return limit_us if known.since_us <= limit_us else None


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

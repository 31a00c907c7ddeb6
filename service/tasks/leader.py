"""One leader among the processes that share a store, so that periodic work runs once.

The leader holds a lock that ends with its process: flock on a file beside SQLite, an advisory lock
of PostgreSQL.
"""

from __future__ import annotations

import fcntl
import logging
import os
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.store.columns import span_us, upsert
from gramwatt.service.store.database import UNAVAILABLE, Store, failure_text
from gramwatt.service.store.serving import Listening

RENEW = timedelta(seconds=2)
"""How often the leader uses its lock, and the others ask for it."""
UNHEARD_S = 6
"""After so long without a word of the leader [s] PostgreSQL ends its session, and with that the
lock: a process that was stopped, or whose machine is gone, leads no longer."""
_NUMBER = 0x6C656164
_TAKE = sa.text(
    "SELECT current_setting('transaction_read_only') = 'off' "
    f"AND pg_try_advisory_xact_lock({_NUMBER})"
)
_USE = sa.text("SELECT 1")


class Leader(Protocol):
    """The lead, which at most one process has, and which it loses with its life."""

    def leads(self) -> bool:
        """Return whether this process leads now; takes the lead when it is free."""
        ...

    def resign(self) -> None:
        """Give up the lead."""
        ...


def leader_of(store: Store) -> Leader:
    """Return the lead that fits the store."""
    if store.path is not None:
        return FileLeader(store.path.with_name(store.path.name + ".leader"))
    return SessionLeader(store.engine)


class FileLeader:
    """Holds flock on a file, which the kernel releases with the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None
        self._mutex = Lock()  # tasks of one process ask from several threads

    def leads(self) -> bool:
        """Return whether this process holds the lock; tries to acquire it."""
        with self._mutex:
            if self._held is None:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._held = descriptor
                except OSError:
                    os.close(descriptor)
            return self._held is not None

    def resign(self) -> None:
        """Release the lock."""
        with self._mutex:
            if self._held is not None:
                os.close(self._held)
                self._held = None


class SessionLeader:
    """Holds an advisory lock in a transaction that stays open, also through a pooler."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: Connection | None = None
        self._mutex = Lock()

    def leads(self) -> bool:
        """Return whether this process holds the lock; tries to acquire it."""
        with self._mutex:
            try:
                if self._held is None:
                    self._held = self._taken()
                else:
                    self._held.execute(_USE)
            except SQLAlchemyError:
                self._release()
            return self._held is not None

    def _taken(self) -> Connection | None:
        connection = self._engine.connect()
        try:
            limit = f"SET LOCAL idle_in_transaction_session_timeout = '{UNHEARD_S}s'"
            connection.exec_driver_sql(limit)
            if connection.scalar(_TAKE):
                return connection
        except SQLAlchemyError:
            connection.close()
            raise
        connection.close()
        return None

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            with suppress(SQLAlchemyError):
                held.close()

    def resign(self) -> None:
        """Release the lock."""
        with self._mutex:
            self._release()


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
        row = session.get(Listening, _ROW, with_for_update=True)
        if row is None:
            upsert(session, Listening, [{"id": _ROW, "since_us": now_us, "beat_us": now_us}])
            return
        if row.beat_us < broken_us:
            row.since_us = now_us
        row.beat_us = max(row.beat_us, now_us)


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
    row = session.get(Listening, _ROW)
    now_us, silent_us = service.now_us(), span_us(service.config.silent_after)
    if row is None:
        return now_us - silent_us
    limit_us = min(now_us, row.beat_us) - silent_us
    return limit_us if row.since_us <= limit_us else None


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

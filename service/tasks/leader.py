"""One leader among the processes that share a store, so that periodic work runs once.

The leader holds a lock that ends with its process: flock on a file beside SQLite, an advisory lock
of PostgreSQL.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from gramwatt.service.store.database import Store

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

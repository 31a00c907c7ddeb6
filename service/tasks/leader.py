"""One leader among the processes that share a store, so that periodic work runs once."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from threading import Lock
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from gramwatt.service.store.database import Store

_ADVISORY_KEY = 0x67726C6561
"""Key of the PostgreSQL lock that the leader holds ("grlea" in ASCII)."""


class Leader(Protocol):
    """A lock that at most one process holds, and that ends with the process."""

    def leads(self) -> bool:
        """Whether this process leads now; acquires the lock when it is free."""
        ...

    def resign(self) -> None:
        """Release the lock."""
        ...


def leader_of(store: Store) -> Leader:
    """The lock that fits the store: a file beside SQLite, else an advisory lock."""
    if store.path is not None:
        return FileLeader(store.path.with_name(store.path.name + ".leader"))
    return AdvisoryLeader(store)


class FileLeader:
    """Holds flock on a file; the kernel releases it with the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._mutex = Lock()  # tasks of one process ask from several threads

    def leads(self) -> bool:
        """Whether this process holds the lock; tries to acquire it."""
        with self._mutex:
            if self._descriptor is None:
                self._acquire()
            return self._descriptor is not None

    def _acquire(self) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            self._descriptor = descriptor

    def resign(self) -> None:
        """Release the lock."""
        with self._mutex:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


class AdvisoryLeader:
    """Holds an advisory lock on a separate connection; PostgreSQL frees it when that ends."""

    def __init__(self, store: Store) -> None:
        self._engine = store.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._connection: Connection | None = None
        self._mutex = Lock()

    def leads(self) -> bool:
        """Whether this process holds the lock; tries to acquire it, or to acquire it again."""
        with self._mutex:
            try:
                if self._connection is None:
                    self._acquire()
                else:
                    self._connection.execute(sa.select(1))
            except SQLAlchemyError:
                self._disconnect()
            return self._connection is not None

    def _acquire(self) -> None:
        connection = self._engine.connect()
        # Detached, so that the pool never hands the lock's connection to a request.
        connection.detach()
        if connection.scalar(sa.select(sa.func.pg_try_advisory_lock(_ADVISORY_KEY))):
            self._connection = connection
        else:
            connection.close()

    def resign(self) -> None:
        """Release the lock by closing its connection."""
        with self._mutex:
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except SQLAlchemyError:
                connection.invalidate()

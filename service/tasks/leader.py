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
    """A lock that at most one process holds, and that its death gives back."""

    def leads(self) -> bool:
        """Whether this process leads now; takes the lead when it is free."""
        ...

    def resign(self) -> None:
        """Give the lead back."""
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
        self._turn = Lock()  # tasks of one process ask from several threads

    def leads(self) -> bool:
        """Whether this process holds the lock; tries to take it."""
        with self._turn:
            return self._descriptor is not None or self._take()

    def _take(self) -> bool:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def resign(self) -> None:
        """Release the lock."""
        with self._turn:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


class AdvisoryLeader:
    """Holds an advisory lock on a connection of its own; PostgreSQL frees it when that ends."""

    def __init__(self, store: Store) -> None:
        self._engine = store.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._connection: Connection | None = None
        self._turn = Lock()

    def leads(self) -> bool:
        """Whether this process holds the lock; tries to take it, or to take it again."""
        with self._turn:
            try:
                if self._connection is not None:
                    self._connection.execute(sa.select(1))
                    return True
                return self._take()
            except SQLAlchemyError:
                self._drop()
                return False

    def _take(self) -> bool:
        connection = self._engine.connect()
        # Detached, so that the pool never hands the lock's connection to a request.
        connection.detach()
        if connection.scalar(sa.select(sa.func.pg_try_advisory_lock(_ADVISORY_KEY))):
            self._connection = connection
            return True
        connection.close()
        return False

    def resign(self) -> None:
        """Release the lock by closing its connection."""
        with self._turn:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except SQLAlchemyError:
                connection.invalidate()

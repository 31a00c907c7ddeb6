"""One leader among the processes that share a store, so that periodic work runs once."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from gramwatt.service.store.database import Store
from gramwatt.service.store.models import Lease
from gramwatt.service.store.timestamps import span_us

RENEW = timedelta(seconds=2)
"""How often the leader prolongs its lead, and the others ask for it."""
LEASE = timedelta(seconds=6)
"""A leader that was not heard for so long has lost the lead: another leads within 10 s."""
_TAKE = sa.text(
    """
    WITH clock AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us)
    INSERT INTO leases AS held (id, holder, until_us)
    SELECT 1, :holder, now_us + :span_us FROM clock
    ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, until_us = excluded.until_us
    WHERE held.holder = excluded.holder OR held.until_us < excluded.until_us - :span_us
    OR held.until_us > excluded.until_us + :span_us
    RETURNING id
    """
)
"""Takes the lease unless another holds it; one of a later time than a lease can have was taken
while the clock was ahead, and holds nobody off."""


class Leader(Protocol):
    """The lead, which at most one process has, and which it loses with its life."""

    def leads(self) -> bool:
        """Return whether this process leads now; takes the lead when it is free."""
        ...

    def resign(self) -> None:
        """Give up the lead."""
        ...


def leader_of(store: Store, holder: str = "") -> Leader:
    """Return the lead that fits the store: a lock on a file beside SQLite, else a lease in
    PostgreSQL.
    """
    if store.path is not None:
        return FileLeader(store.path.with_name(store.path.name + ".leader"))
    return LeaseLeader(store, holder)


class FileLeader:
    """Holds flock on a file, which the kernel releases with the process, and touches the file.

    A process that was stopped keeps its lock but touches nothing: another removes the file, and
    locks a new one in its place. No clock is compared with another's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._seen: tuple[int, int] | None = None
        self._seen_s = 0.0
        self._mutex = Lock()  # tasks of one process ask from several threads

    def leads(self) -> bool:
        """Return whether this process holds the lock, and says so; tries to acquire it."""
        with self._mutex:
            if self._descriptor is not None and not self._is_in_place(self._descriptor):
                self._release()
            if self._descriptor is None:
                self._descriptor = self._acquired()
            if self._descriptor is not None:
                os.utime(self._descriptor)
            return self._descriptor is not None

    def _acquired(self) -> int | None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_in_place(descriptor):
                return descriptor
        is_left = self._is_left(descriptor) and self._is_in_place(descriptor)
        os.close(descriptor)
        if not is_left:
            return None
        self._path.unlink(missing_ok=True)
        return self._acquired()

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _is_left(self, descriptor: int) -> bool:
        """Return whether the file has not been touched for as long as this process has looked."""
        found = os.fstat(descriptor)
        seen = found.st_ino, found.st_mtime_ns
        if seen != self._seen:
            self._seen, self._seen_s = seen, time.monotonic()
        return time.monotonic() - self._seen_s > LEASE.total_seconds()

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def resign(self) -> None:
        """Release the lock."""
        with self._mutex:
            self._release()


class LeaseLeader:
    """Holds a row for a while, by the database's clock, and says so again before that has passed.

    Unlike an advisory lock, a process that was stopped loses the lead though its connection stays.
    """

    def __init__(self, store: Store, holder: str) -> None:
        # Every statement commits by itself: a process stopped in between locks no row.
        self._engine = store.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._holder = f"{holder}/{uuid.uuid4().hex[:12]}"[-128:]

    def leads(self) -> bool:
        """Return whether this process holds the lease; acquires it when free, else prolongs it."""
        wanted = {"holder": self._holder, "span_us": span_us(LEASE)}
        try:
            with self._engine.connect() as connection:
                return connection.execute(_TAKE, wanted).first() is not None
        except SQLAlchemyError:
            return False

    def resign(self) -> None:
        """Release the lease."""
        with suppress(SQLAlchemyError), self._engine.connect() as connection:
            connection.execute(sa.delete(Lease).where(Lease.holder == self._holder))

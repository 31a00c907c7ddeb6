"""Threads that take turns, because they would only interrupt each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident


class Turn:
    """What one thread at a time has, and gives up while it waits for something else."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread: int | None = None

    @property
    def is_mine(self) -> bool:
        """Whether this thread has the turn."""
        return self._thread == get_ident()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the turn, waiting for it; a thread that has it keeps it."""
        if self.is_mine:
            yield
            return
        with self._lock:
            self._thread = get_ident()
            try:
                yield
            finally:
                self._thread = None

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Let another thread have the turn, and wait for it again; else nothing changes."""
        if not self.is_mine:
            yield
            return
        self._thread = None
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
            self._thread = get_ident()


UPLOADS = Turn()
"""Had by the thread that works on an upload. Only one can run Python at a time, and several that
want to would interrupt each other at each statement, which takes a fifth more."""

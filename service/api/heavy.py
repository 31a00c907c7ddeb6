"""What takes long waits in a queue of its own, so that health, uploads and lists keep threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Condition

from gramwatt.service.api.support import caller
from gramwatt.service.common.errors import BusyError

WAITING_MOST, WAITING_OF_KEY_MOST = 3, 2
"""Requests that may wait in a process, and those of one key."""
WAIT_S = 60.0
"""How long a request waits at most [s]."""


class Queue:
    """Lets one request through at a time, in the order in which they came."""

    def __init__(self) -> None:
        self._names: list[tuple[str, object]] = []  # the first has its turn, the others wait
        self._changed = Condition()

    @contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """Wait until those before have ended; raises BusyError where too many wait already."""
        mine = (name, object())
        with self._changed:
            waiting = [one for one, _ in self._names[1:]]
            full = len(waiting) >= WAITING_MOST or waiting.count(name) >= WAITING_OF_KEY_MOST
            if self._names and full:
                raise BusyError("reports, plans and comparisons of others come first; ask again")
            self._names.append(mine)
            if not self._changed.wait_for(lambda: self._names[0] is mine, WAIT_S):
                self._names.remove(mine)
                raise BusyError(f"no turn came within {WAIT_S:g} s; ask again")
        try:
            yield
        finally:
            with self._changed:
                self._names.remove(mine)
                self._changed.notify_all()


_queue = Queue()


def heavy() -> AbstractContextManager[None]:
    """Return the caller's turn in the queue of this process; entering it raises BusyError."""
    return _queue.turn(caller().name)

"""How a process of the service ends: what is under way is finished within a limit.

SIGTERM or Ctrl-C asks for that; a second signal ends the process at once.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from threading import Event
from types import FrameType

LIMIT_S = 20.0
"""How long a stopping process waits for requests and tasks [s]; Kubernetes kills after 30 s."""


def announce(event: Event) -> None:
    """Set the event at SIGTERM, before what the program around the app does then."""
    usual = signal.getsignal(signal.SIGTERM)

    def ask(number: int, frame: FrameType | None) -> None:
        event.set()
        if callable(usual):
            usual(number, frame)

    if callable(usual) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ask)


class Stop:
    """Whether this process was asked to stop, and how long it may still take."""

    def __init__(self, event: Event | None = None) -> None:
        self._asked = event or Event()
        self._until_s = 0.0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    @property
    def asked(self) -> bool:
        """Return whether a signal has come."""
        return self._asked.is_set()

    @property
    def left_s(self) -> float:
        """Return how long the process may still take [s]."""
        return max(0.0, self._until_s - time.monotonic())

    def wait(self) -> None:
        """Wait for a signal.

        The kernel may give it to another thread, which ends no wait here; and an event that the
        handler sets must not be waited for where it runs, as both take the event's lock.
        """
        while not self.asked:
            time.sleep(1)

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        if self._until_s:
            os._exit(128 + number)
        self._until_s = time.monotonic() + LIMIT_S
        self._asked.set()

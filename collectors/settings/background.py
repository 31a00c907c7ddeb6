"""Threads beside a loop that neither waits for them nor shares its signals with them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Thread

SWITCH_S = 0.0005
"""Longest that such a thread should keep the interpreter from the meter's loop [s]."""


def in_background(work: Callable[[], object]) -> Thread:
    """Start a thread that ends with the process; signals are for the thread that starts it."""

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        work()

    thread = Thread(target=run, daemon=True)
    thread.start()
    return thread

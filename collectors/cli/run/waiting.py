"""Waiting for a moment before a command starts, in sight of the user and open to signals."""

from __future__ import annotations

import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import Empty, SimpleQueue

from gramwatt.collectors.cli.exit_codes import SIGNAL_BASE, NotStarted
from gramwatt.collectors.tracking.messages import print_message, write_stderr

COUNT_S, LONGEST_S = 1.0, 30.0
"""How long one sleep is at most [s]: with a countdown, and without one; the clock may be set, and a
machine that was suspended is to notice it."""
LISTEN_S = 0.2
CLEAR_LINE = "\r\x1b[K"
QUESTION = "start now, keep waiting, or leave? [s/w/L] "
Signals = SimpleQueue[int]


def wait_until(start: datetime, why: str) -> None:
    """Print `why`, and wait until `start`, or less where the user says so; raises NotStarted.

    Standard error shows a countdown if it is a terminal. There Ctrl-C asks what to do.
    """
    counting = _is_terminal(sys.stderr)
    asking = counting and _is_terminal(sys.stdin)
    with _signals() as signals:
        print_message(why)  # who reads it may send a signal
        while (left_s := _left_s(start)) > 0:
            if counting:
                write_stderr(f"{CLEAR_LINE}gramwatt: starts in {_clock(left_s)} ")
            number = _next(signals, min(left_s, COUNT_S if counting else LONGEST_S))
            if number is None:
                continue
            if counting:
                write_stderr(CLEAR_LINE)
            if number != signal.SIGINT or not asking:
                raise _cancelled(number)
            if _starts_now(signals, start):
                return
        if counting:
            write_stderr(CLEAR_LINE)


@contextmanager
def _signals() -> Iterator[Signals]:
    """Collect SIGINT and SIGTERM meanwhile, unless they are ignored, as behind `nohup` and `&`."""
    signals: Signals = SimpleQueue()  # its put may be called in a signal handler
    numbers = (signal.SIGINT, signal.SIGTERM)
    kept = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) != signal.SIG_IGN}
    for number in kept:
        signal.signal(number, lambda came, _frame: signals.put(came))
    try:
        yield signals
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    if not signals.empty():  # it came at the last moment
        raise _cancelled(signals.get())


def _next(signals: Signals, limit_s: float) -> int | None:
    try:
        return signals.get(timeout=limit_s)
    except Empty:
        return None


def _starts_now(signals: Signals, start: datetime) -> bool:
    """Ask the user: True to start, also without an answer by `start`, False to keep waiting.

    Raises NotStarted.
    """
    write_stderr(f"gramwatt: {QUESTION}")
    while _left_s(start) > 0:
        if not signals.empty():
            write_stderr("\n")
            raise _cancelled(signals.get())
        if not select.select([sys.stdin], [], [], LISTEN_S)[0]:
            continue
        answer = sys.stdin.readline().strip().lower()
        if answer in ("", "l", "leave"):  # also at the end of the input
            raise _cancelled(signal.SIGINT)
        if answer in ("s", "start", "w", "wait"):
            return answer[0] == "s"
        write_stderr(f"gramwatt: {QUESTION}")
    write_stderr("\n")
    return True


def _left_s(start: datetime) -> float:
    return (start - datetime.now(UTC)).total_seconds()


def _clock(left_s: float) -> str:
    minutes, seconds = divmod(round(left_s), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _is_terminal(stream: object) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):  # closed, or none
        return False


def _cancelled(number: int) -> NotStarted:
    return NotStarted("cancelled while waiting; the command was not started", SIGNAL_BASE + number)

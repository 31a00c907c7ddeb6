"""Tells whether a signal to this process went to its whole process group, with the command.

The kernel names a signal's sender, not whom else it was sent to. So one more process of the group
waits with the signals blocked, and what is pending there (proc(5)) was sent to all.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gramwatt.collectors.common import files

LOOKS, PAUSE_S = 10, 0.005
"""A sender that signals the processes of a group one by one may need a moment. Looks and not a
deadline, which a busy machine lets pass between two looks."""
_WAITS = ("read line",)  # ends with its input, and so with this process


class GroupSignalProbe:
    """A process of this group in which signals stay pending. Without /proc or a shell there is
    none, and no signal is taken for one to the group.
    """

    def __init__(self, signals: Iterable[int]) -> None:
        self._signals = tuple(signals)
        self._input, self._held = os.pipe()
        self._pid = spawn_shell(_WAITS, self._input, setsigmask=self._signals)

    def has(self, number: int) -> bool:
        """Tell whether the signal that has just arrived here went to the group too."""
        for _ in range(LOOKS):
            if found := self._pending(number):
                break
            time.sleep(PAUSE_S)
        if found:
            self._renew()
            if hasattr(signal, "sigtimedwait"):  # one that went to this process and to its group
                signal.sigtimedwait({number}, 0)
        return found

    def forget(self, pid: int) -> None:
        """Take note that the process `pid` has been collected."""
        if pid == self._pid:
            self._pid = None

    def close(self) -> None:
        """End the process."""
        self._kill(self._pid)
        os.close(self._input)
        os.close(self._held)

    def _pending(self, number: int) -> bool:
        if self._pid is None:
            return False
        for line in (files.text_of(Path(f"/proc/{self._pid}/status")) or "").splitlines():
            if line.startswith("ShdPnd:"):  # a mask: bit 0 is signal 1
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
        return False

    def _renew(self) -> None:
        """Put a process without pending signals in its place."""
        before = self._pid
        self._pid = spawn_shell(_WAITS, self._input, setsigmask=self._signals)
        self._kill(before)

    def _kill(self, pid: int | None) -> None:
        if pid is not None:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def spawn_shell(words: Iterable[str], descriptor: int, **options: Any) -> int | None:
    """Start a silent shell: its script and arguments, its input; None where there is no shell."""
    nowhere = (os.devnull, os.O_WRONLY, 0)
    streams = [
        (os.POSIX_SPAWN_DUP2, descriptor, 0),
        (os.POSIX_SPAWN_OPEN, 1, *nowhere),
        (os.POSIX_SPAWN_OPEN, 2, *nowhere),
    ]
    with suppress(OSError):
        line = ["/bin/sh", "-c", *words]
        return os.posix_spawn(line[0], line, {}, file_actions=streams, **options)
    return None

"""What a story kills: meters by their system calls, and the ranks that bring them back."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any


class Death(BaseException):
    """SIGKILL: nothing in the meter may catch it."""


class Disk:
    """Stands in for `os` in the journal: can be full, and can kill whoever uses it."""

    def __init__(self, draw: Random) -> None:
        self.full = False
        self.deadly: int | None = None
        self._draw = draw
        self._dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, data: bytes) -> int:
        part = data[: self._draw.randrange(len(data))]
        if self._fatal():
            os.write(descriptor, part)
            raise Death
        if self.full and self._draw.random() < 0.5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(descriptor, part if self.full else data)

    def replace(self, source: Path, target: Path) -> None:
        fatal = self._fatal()
        if not (fatal and self._draw.random() < 0.5):
            os.replace(source, target)
        if fatal:
            raise Death

    def ftruncate(self, descriptor: int, size_b: int) -> None:
        if self._dead:  # the dead tidy nothing up
            raise Death
        os.ftruncate(descriptor, size_b)

    def arm(self, calls: int | None) -> None:
        """Kill at the system call after so many; None for no more."""
        self.deadly, self._dead = calls, False

    def _fatal(self) -> bool:
        if self.deadly is None:
            return False
        self.deadly -= 1
        self._dead = self.deadly < 0
        return self._dead


@dataclass
class Rank:
    """A process of the job whose end is the job's, dead or alive."""

    number: int
    fate: str
    start_ns: int = 0
    end_ns: int | None = None
    closed_ns: int = 0
    children: int = 0

    @property
    def pid(self) -> int:
        """Its process id."""
        return 100 + 100 * self.number

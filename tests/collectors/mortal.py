"""What a story kills: meters by their system calls, and the clients that bring them back."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from gramwatt.collectors.meter.node_meter import NodeMeter
from gramwatt.collectors.tracking.count_file import Cells, CountFile
from gramwatt.collectors.tracking.count_lines import CountLines


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
    """One client and its meter, dead or alive."""

    number: int
    mark: tuple[int, int]
    start_ns: int
    fate: str
    meter: NodeMeter | None = None
    back_at_ns: int | None = None
    doomed: int | None = None
    end_ns: int | None = None
    closed_ns: int = 0
    lines: CountLines = field(init=False)
    wire: list[dict[str, Any]] = field(default_factory=list)
    at_risk: list[tuple[int, float]] = field(default_factory=list)
    shared: CountFile | None = None
    children: list[list[float]] = field(default_factory=list)

    def count_in_child(self, amount: float, *, new: bool) -> None:
        """A child process counts, perhaps a new one: the last number in the file grows."""
        assert self.shared is not None
        if new or not self.children:
            place = self.shared.append({"cmd": "count", "unit": None, "phase": None})
            assert place is not None
            self.children.append([place, 0.0])
        self.children[-1][1] += amount
        cells = Cells(self.shared.path)
        assert cells.attach("job")
        cells.write(int(self.children[-1][0]), self.children[-1][1])

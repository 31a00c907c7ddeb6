"""Counts of one client until its meter has saved them: merged, numbered, sent again to the next.

Standard library only, as all that runs inside a training process. docs/journal.md ("Counts") says
why no amount is lost or counted twice.
"""

from __future__ import annotations

import json
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Key = tuple[str | None, str | None]
    """Unit and phase; None for the declared unit, and for no phase."""

LINES_MAX = 1_000
"""Lines that wait for the meter's word. Past that amounts are summed here until it has saved some:
it does so every 10 s, in which a tight loop of five units fills them."""
KEYS_MAX = 1_000
"""Sums of different units and phases that wait; past that the phases are given up."""


class Unsaved:
    """Amounts that no meter has saved yet, as far as this client knows.

    `add` may be called from anywhere, a signal handler included; the rest is for one caller at a
    time.
    """

    def __init__(self) -> None:
        self._amounts: list[tuple[str | None, float, str | None]] = []
        self._lines: list[tuple[int, bytes]] = []
        self._given = 0
        self._number = 0

    @property
    def unsent(self) -> bool:
        """Whether there is something that the present meter has not been given."""
        return bool(self._amounts) or self._given < len(self._lines)

    def add(self, unit: str | None, amount: float, phase: str | None) -> None:
        """Take in an amount of `unit` [R]."""
        self._amounts.append((unit, amount, phase))

    def send(self, send: Callable[[bytes], bool], *, fresh: bool, last: bool = False) -> bool:
        """Give the meter what it has not had; whether new amounts were looked at.

        `send` takes a line whole or not at all. A line never changes once it was sent. Amounts
        become lines only when `fresh` allows it, no line is in their way, and fewer than LINES_MAX
        wait for the meter's word or this is the `last` that it will hear.
        """
        self._give(send)
        if not (fresh and self._amounts):
            return False
        sums = self._summed()
        if self._given < len(self._lines) or (len(self._lines) >= LINES_MAX and not last):
            self._amounts += [(unit, amount, phase) for (unit, phase), amount in sums.items()]
            return True
        for (unit, phase), amount in sums.items():
            self._number += 1
            line = {"cmd": "count", "unit": unit, "amount": amount, "phase": phase}
            line |= {"n": self._number, "mono_ns": time.monotonic_ns()}
            text = json.dumps(line, separators=(",", ":"), default=str)
            self._lines.append((self._number, text.encode() + b"\n"))
        self._give(send)
        return True

    def saved(self, number: int) -> None:
        """The meter has saved every line up to this number."""
        gone = sum(known <= number for known, _ in self._lines)
        del self._lines[:gone]
        self._given = max(0, self._given - gone)

    def again(self) -> None:
        """Another meter is there, which has had nothing yet."""
        self._given = 0

    def _give(self, send: Callable[[bytes], bool]) -> None:
        while self._given < len(self._lines) and send(self._lines[self._given][1]):
            self._given += 1

    def _summed(self) -> dict[Key, float]:
        taken = len(self._amounts)  # a signal handler may add to it meanwhile
        sums: dict[Key, float] = {}
        for unit, amount, phase in self._amounts[:taken]:
            sums[unit, phase] = sums.get((unit, phase), 0.0) + amount
        del self._amounts[:taken]
        if len(sums) <= KEYS_MAX:
            return sums
        whole: dict[Key, float] = {}
        for (unit, _), amount in sums.items():
            whole[unit, None] = whole.get((unit, None), 0.0) + amount
        return whole

"""Running totals of what one client counted, by unit and phase; sending them again is harmless.

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

KEYS_MAX = 4_000
"""Totals of different units and phases (some 2 MB); past that, counts are added without a phase."""


class CountTotals:
    """Totals since the client's start, and which of them the present meter has not been sent.

    `add` may be called from anywhere, a signal handler included; the rest is for one caller at a
    time.
    """

    def __init__(self) -> None:
        self._amounts: list[tuple[str | None, float, str | None]] = []
        self._totals: dict[Key, float] = {}
        self._saved: dict[Key, float] = {}
        self._changed: dict[Key, None] = {}

    @property
    def unsent(self) -> bool:
        """Whether something was counted that the present meter has not been sent."""
        return bool(self._amounts or self._changed)

    def add(self, unit: str | None, amount: float, phase: str | None) -> None:
        """Remember an amount of `unit` [R]; `add_up` adds it to its total."""
        self._amounts.append((unit, amount, phase))

    def add_up(self) -> bool:
        """Add the amounts remembered so far to their totals; False when there were none."""
        number = len(self._amounts)  # a signal handler may append meanwhile
        for unit, amount, phase in self._amounts[:number]:
            key = (unit, phase)
            if key not in self._totals and len(self._totals) >= KEYS_MAX:
                key = (unit, None)
            self._totals[key] = self._totals.get(key, 0.0) + amount
            self._changed[key] = None
        del self._amounts[:number]
        return number > 0

    def send(self, send: Callable[[bytes], bool]) -> None:
        """Send the totals that have changed; `send` takes a line whole or returns False."""
        for key in list(self._changed):
            unit, phase = key
            line = {"cmd": "count", "unit": unit, "phase": phase, "total": self._totals[key]}
            line |= {"saved": self._saved.get(key, 0.0), "mono_ns": time.monotonic_ns()}
            if not send(json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n"):
                return
            del self._changed[key]

    def saved(self, unit: str | None, phase: str | None, total: float) -> None:
        """Record that a meter has saved a total: a kill cannot undo it any more."""
        self._saved[unit, phase] = total

    def reset(self) -> None:
        """Mark every total for sending: a new meter has received none."""
        self._changed = dict.fromkeys(self._totals)

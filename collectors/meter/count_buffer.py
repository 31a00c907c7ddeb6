"""The meter's side of counting: its client's count lines until they are on disk.

The client numbers its lines, so that one that arrives twice, or by way of two meters, counts once.
Lines that are not on disk yet are in the open file's state, for the recovery (docs/journal.md,
"Counts").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from gramwatt.collectors.journal.intervals import moment
from gramwatt.collectors.journal.spool import CountLine
from gramwatt.sci.journal.records import UNIT_PATTERN, CountRecord

PHASE_LENGTH = 512


class CountBuffer:
    """Count lines of one client by number. Those up to `saved` are on disk."""

    def __init__(
        self, client: str, units: tuple[str, ...], notify: Callable[[str, str], None]
    ) -> None:
        self.saved = 0
        self._writer = f"{client}-count"
        self._units = units
        self._notify = notify
        self._lines: dict[int, CountLine] = {}
        self._closed = self._put = 0

    def restore(self, lines: Iterable[CountLine]) -> None:
        """Begin with what earlier meters of this client have left; the client may send it again."""
        for line in lines:
            self._lines[line.seq] = line

    def add(self, command: dict[str, Any]) -> None:
        """Record a line of the client as it is now; one without a meaning leaves a notice."""
        unit = command.get("unit") or (self._units[0] if self._units else None)
        amount, phase = command.get("amount"), command.get("phase")
        phase = None if phase is None else str(phase)[:PHASE_LENGTH]
        seq = int(command["seq"])
        if unit is None:
            self._ignore("count() was called without a unit and none was declared")
        elif not isinstance(unit, str) or not UNIT_PATTERN.fullmatch(unit):
            self._ignore(f"{str(unit)[:40]!r} is not a unit name")
        elif not isinstance(amount, int | float) or not math.isfinite(amount) or amount < 0:
            self._ignore(f"{str(amount)[:40]!r} is not an amount of {unit}")
        elif seq > self._put:
            at_ns = int(command["at_ns"])
            self._lines[seq] = CountLine(self._writer, seq, unit, phase, amount, at_ns)
        self._closed = max(self._closed, int(command["closed"]))

    def flush(self, put: Callable[..., None], *, ended: bool = False) -> None:
        """Hand the lines that do not change any more to the journal: all where the job `ended`."""
        closed = max(self._lines, default=0) if ended else self._closed
        for seq in sorted(self._lines):
            if self._put < seq <= closed:
                fields = self._lines[seq]._asdict()
                put(CountRecord, at=moment(fields.pop("at_ns")), **fields)
        self._put = max(self._put, closed)

    def state(self) -> list[CountLine]:
        """Return the lines that are not on disk, for JSON."""
        return list(self._lines.values())

    def mark_saved(self) -> None:
        """Record that the latest state and every line handed to the journal are on disk."""
        self.saved = self._put
        self._lines = {seq: line for seq, line in self._lines.items() if seq > self.saved}

    def _ignore(self, why: str) -> None:
        self._notify("argument-ignored", f"{why}; that count is left out.")

"""The meter's side of counting: its client's count lines until they are on disk.

The client numbers its lines, so that one that arrives twice, or by way of two meters, counts once.
Those of its child processes are numbered by this meter and have a writer of their own.
Lines that are not on disk yet are in the open file's state, for the recovery (docs/journal.md,
"Counts").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from gramwatt.collectors.journal.spool import CountLine
from gramwatt.sci.journal.records import UNIT_PATTERN, CountRecord

PHASE_LENGTH = 512


class CountBuffer:
    """Count lines of one client, and of what it has started, by writer and number."""

    def __init__(
        self, client: str, units: tuple[str, ...], notify: Callable[[str, str], None]
    ) -> None:
        self._writer = f"{client}-count"
        self._units = units
        self._notify = notify
        self._lines: dict[tuple[str, int], CountLine] = {}
        self._closed: dict[str, int] = {}
        self._put: dict[str, int] = {}
        self._saved: dict[str, int] = {}

    @property
    def saved(self) -> int:
        """Number of the client's last line that is on disk."""
        return self.saved_of(self._writer)

    def saved_of(self, writer: str) -> int:
        """Return the number of a writer's last line that is on disk."""
        return self._saved.get(writer, 0)

    def restore(self, lines: Iterable[CountLine]) -> None:
        """Begin with what earlier meters of this client have left.

        The client may send its own lines again; those of its children do not grow any more.
        """
        for line in lines:
            self._lines[line.writer, line.seq] = line
            if line.writer != self._writer:
                self._closed[line.writer] = max(line.seq, self._closed.get(line.writer, 0))

    def add(self, command: dict[str, Any], writer: str | None = None) -> None:
        """Record a line as it is now, of the client unless `writer` says otherwise.

        One without a meaning leaves a notice.
        """
        writer = writer or self._writer
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
        elif seq > self._put.get(writer, 0):
            at_ns = int(command["at_ns"])
            self._lines[writer, seq] = CountLine(writer, seq, unit, phase, amount, at_ns)
        self._closed[writer] = max(self._closed.get(writer, 0), int(command["closed"]))

    def flush(self, put: Callable[..., None], *, ended: bool = False) -> None:
        """Hand the lines that do not change any more to the journal: all where the job `ended`."""
        if ended:
            for writer, seq in self._lines:
                self._closed[writer] = max(seq, self._closed.get(writer, 0))
        for (writer, seq), line in sorted(self._lines.items()):
            if self._put.get(writer, 0) < seq <= self._closed.get(writer, 0):
                put(CountRecord, **line.fields())
        self._put |= self._closed

    def state(self) -> list[CountLine]:
        """Return the lines that are not on disk, for JSON."""
        return list(self._lines.values())

    def mark_saved(self) -> None:
        """Record that the latest state and every line handed to the journal are on disk."""
        self._saved = dict(self._put)
        self._lines = {
            key: line for key, line in self._lines.items() if key[1] > self.saved_of(key[0])
        }

    def _ignore(self, why: str) -> None:
        self._notify("argument-ignored", f"{why}; that count is left out.")

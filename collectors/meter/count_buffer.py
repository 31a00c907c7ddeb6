"""Functional units counted by the job: summed here, journaled now and then, never lost.

What is not yet journaled stands in the open file's state, from where a successor or the recovery
takes it (docs/journal.md, "Counts").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.journal.intervals import Schedule, moment
from gramwatt.sci.journal.records import UNIT_PATTERN, AnyRecord, CountRecord

PHASE_LENGTH = 512
Draft = tuple[type[AnyRecord], dict[str, Any]]
"""A record that has no sequence number yet."""
Pending = tuple[str, str | None, float, int]
"""Unit, phase, amount and time of the last mark [ns]."""


class Counts:
    """Counts that wait to be journaled, one sum per unit and phase."""

    def __init__(
        self, schedule: Schedule, units: tuple[str, ...], notify: Callable[[str, str], None]
    ) -> None:
        self._schedule, self._units, self._notify = schedule, units, notify
        self._sums: dict[tuple[str, str | None], tuple[float, int]] = {}
        self._due_ns = 0
        self.taken = self.saved = 0
        """Number of the client's last line taken in, and of the last that a kill cannot undo."""

    def add(self, command: dict[str, Any], at_ns: int) -> None:
        """Take in a count line, unless a meter before this one has saved it.

        One that means nothing leaves a notice.
        """
        number = command.get("n")
        if isinstance(number, int):
            if number <= self.taken:
                return
            self.taken = number
        unit = command.get("unit") or (self._units[0] if self._units else None)
        amount, phase = command.get("amount"), command.get("phase")
        if unit is None:
            self._ignore("count() was called without a unit and none was declared")
        elif not isinstance(unit, str) or not UNIT_PATTERN.fullmatch(unit):
            self._ignore(f"{str(unit)[:40]!r} is not a unit name")
        elif not isinstance(amount, int | float) or not math.isfinite(amount) or amount < 0:
            self._ignore(f"{str(amount)[:40]!r} is not an amount of {unit}")
        else:
            self._sum(unit, None if phase is None else str(phase)[:PHASE_LENGTH], amount, at_ns)

    def restore(self, pending: Iterable[Pending]) -> None:
        """Take over what a predecessor had not journaled."""
        for unit, phase, amount, at_ns in pending:
            self._sum(unit, phase, amount, at_ns)

    def due(self, now_ns: int) -> bool:
        """Whether the pending sums are to be journaled now: as often as intervals are cut."""
        return bool(self._sums) and now_ns >= self._due_ns

    def flush(self, put: Callable[..., None]) -> None:
        """Hand every pending sum to the journal."""
        for (unit, phase), (amount, at_ns) in self._sums.items():
            put(CountRecord, at=moment(at_ns), unit=unit, amount=amount, phase=phase)
            self._due_ns = at_ns + self._schedule.step_s(at_ns) * NS_PER_S
        self._sums.clear()

    def state(self) -> list[Pending]:
        """The pending sums, JSON-ready."""
        return [(*key, *value) for key, value in self._sums.items()]

    def _sum(self, unit: str, phase: str | None, amount: float, at_ns: int) -> None:
        known, last_ns = self._sums.get((unit, phase), (0.0, 0))
        self._sums[unit, phase] = (known + amount, max(last_ns, at_ns))

    def _ignore(self, why: str) -> None:
        self._notify("argument-ignored", f"{why}; that count is left out.")


def is_amount(draft: Draft) -> bool:
    """Whether a record says what was counted: a window's line shows it once more."""
    kind, fields = draft
    return kind is CountRecord and "since" not in fields


def waiting(drafts: Sequence[Draft]) -> list[Pending]:
    """Counts that have left their sums but are not on disk yet."""
    found = [draft[1] for draft in drafts if is_amount(draft)]
    return [
        (f["unit"], f["phase"], f["amount"], round(f["at"].timestamp() * 1e6) * 1000) for f in found
    ]

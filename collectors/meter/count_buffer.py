"""The meter's side of counting: running totals of its client, journaled as differences.

The client sends totals since its start, and may send them again. Totals whose lines are not on disk
yet are in the open file's state, from where the next meter of this client or the recovery takes
them (docs/journal.md, "Counts").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.journal.counts import Counted, Key
from gramwatt.collectors.journal.intervals import Schedule, moment
from gramwatt.sci.journal.records import UNIT_PATTERN, CountRecord

PHASE_LENGTH = 512
ROUNDING = 1e-9
"""Relative difference of sums below which nothing is missing: lines are deleted all together."""


class SentKey(NamedTuple):
    """What a line of the client counts; `unit` None is the declared unit."""

    unit: str | None
    phase: str | None


class CountBuffer:
    """Totals of one client that are to be journaled, by unit and phase."""

    def __init__(
        self, schedule: Schedule, units: tuple[str, ...], notify: Callable[[str, str], None]
    ) -> None:
        self._schedule = schedule
        self._units = units
        self._notify = notify
        self._counted: dict[Key, Counted] = {}
        self._received: dict[Key, dict[SentKey, float]] = {}
        self._missing: dict[Key, float] = {}
        self._unsaved: dict[Key, None] = {}
        self._unsaved_lines: dict[SentKey, float] = {}
        self._due_ns = 0
        self.unconfirmed: dict[SentKey, float] = {}
        """Totals on disk that have not been confirmed to the client."""

    def restore(self, counted: Mapping[Key, Counted]) -> None:
        """Begin with what earlier meters of this client have journaled or left in their state."""
        self._counted = dict(counted)
        self._missing = {key: -entry.total for key, entry in counted.items()}
        self._unsaved = {key: None for key, entry in counted.items() if entry.unjournaled > 0}

    def add(self, command: dict[str, Any], at_ns: int) -> None:
        """Record a total of the client, counted until `at_ns` [ns].

        A lower one than before changes nothing; one without a meaning leaves a notice.
        """
        unit = command.get("unit") or (self._units[0] if self._units else None)
        total, phase = command.get("total"), command.get("phase")
        phase = None if phase is None else str(phase)[:PHASE_LENGTH]
        if unit is None:
            self._ignore("count() was called without a unit and none was declared")
        elif not isinstance(unit, str) or not UNIT_PATTERN.fullmatch(unit):
            self._ignore(f"{str(unit)[:40]!r} is not a unit name")
        elif not isinstance(total, int | float) or not math.isfinite(total) or total < 0:
            self._ignore(f"{str(total)[:40]!r} is not an amount of {unit}")
        else:
            sent = SentKey(command.get("unit"), phase)
            self._receive((unit, phase), sent, total, command.get("saved") or 0.0)
            self._update((unit, phase), at_ns)

    def due(self, now_ns: int) -> bool:
        """Whether differences are to be journaled now: as often as intervals are cut."""
        waiting = any(self._counted[key].unjournaled > 0 for key in self._unsaved)
        return waiting and now_ns >= self._due_ns

    def flush(self, put: Callable[..., None]) -> None:
        """Hand every difference to the journal."""
        for unit, phase in self._unsaved:
            entry = self._counted[unit, phase]
            if entry.unjournaled <= 0:
                continue
            at = moment(entry.at_ns)
            put(CountRecord, at=at, unit=unit, amount=entry.unjournaled, phase=phase)
            entry.journaled = entry.total
            self._due_ns = entry.at_ns + self._schedule.step_s(entry.at_ns) * NS_PER_S

    def state(self) -> dict[str, Any]:
        """Totals that are not in lines on disk, and parts in lines of deleted folders; for JSON."""
        unsaved = [(key, self._counted[key]) for key in self._unsaved]
        totals = [(*key, entry.total, entry.at_ns) for key, entry in unsaved]
        gone = [(*key, entry.elsewhere) for key, entry in self._counted.items() if entry.elsewhere]
        return {"totals": totals} | ({"elsewhere": gone} if gone else {})

    def saved(self) -> None:
        """Record that the latest state and every line handed to the journal are on disk."""
        late = [key for key in self._unsaved if self._counted[key].unjournaled > 0]
        self._unsaved = dict.fromkeys(late)
        self.unconfirmed |= self._unsaved_lines
        self._unsaved_lines.clear()

    def _receive(self, key: Key, sent: SentKey, total: float, saved: float) -> None:
        received = self._received.setdefault(key, {})
        if sent not in received:
            self._find_elsewhere(key, saved)
        if total > received.get(sent, 0.0):
            received[sent] = self._unsaved_lines[sent] = total

    def _find_elsewhere(self, key: Key, saved: float) -> None:
        """Take as journaled what earlier meters had saved and this folder does not hold any more.

        Only a key's first line counts: what later ones call saved, this meter has saved itself.
        """
        before = self._missing.get(key, 0.0)
        self._missing[key] = before + saved
        missing = max(0.0, before + saved) - max(0.0, before)
        if missing > ROUNDING * saved:
            entry = self._counted.setdefault(key, Counted())
            entry.journaled += missing
            entry.elsewhere += missing

    def _update(self, key: Key, at_ns: int) -> None:
        entry = self._counted.setdefault(key, Counted())
        total = sum(self._received[key].values())  # a unit may be counted by name and without
        if total > entry.total:
            entry.total, entry.at_ns = total, max(entry.at_ns, at_ns)
            self._unsaved[key] = None

    def _ignore(self, why: str) -> None:
        self._notify("argument-ignored", f"{why}; that count is left out.")

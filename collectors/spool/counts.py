"""What a job has counted so far, as lines of the journal (docs/journal.md, "Counts").

A line has the total of its counter, so that a line twice changes nothing, and what lies between
two of them was counted in the time between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.spool.intervals import moment
from gramwatt.sci.records.records import UNIT_PATTERN

if TYPE_CHECKING:
    from gramwatt.collectors.track.client import Key

    Named = tuple[str, str | None]

SHORTEST_NS, LONGEST_NS, PARTS = 10 * NS_PER_S, 300 * NS_PER_S, 60
"""A line is written after a sixtieth of the job's time so far, in 10 s to 300 s."""
EARLY_NS = NS_PER_S // 2
"""A reading so long before a cut is of that moment: servers are read just before each 5 s."""
PHASE_LENGTH = 512


class CountedSoFar:
    """The totals of one counter: the job's processes on this node, or its servers.

    `units` are the declared ones, of which the first counts what has no name.
    """

    def __init__(
        self, units: tuple[str, ...], notify: Callable[[str, str], None], start_ns: int
    ) -> None:
        self._units = units
        self._notify = notify
        self._start_ns = self._at_ns = start_ns
        self._cut_at_ns = start_ns + SHORTEST_NS
        self._totals: dict[tuple[str, str | None], float] = {}
        self._final: dict[tuple[str, str | None], float] = {}

    def update(self, totals: Mapping[Key, float] | Mapping[Named, float], at_ns: int) -> None:
        """Take the totals [R] as they were at `at_ns` [ns]."""
        self._at_ns = at_ns
        sums: dict[tuple[str, str | None], float] = {}
        for (unit, phase), amount in totals.items():
            if name := self._checked(unit):
                key = name, phase and phase[:PHASE_LENGTH]
                sums[key] = sums.get(key, 0.0) + amount
        self._totals |= sums

    def final(self, *, ended: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the fields of the lines that are due: all where the job has `ended`."""
        at_ns = self._at_ns + EARLY_NS
        if not ended and at_ns < self._cut_at_ns:
            return
        step_ns = max((self._at_ns - self._start_ns) // PARTS, SHORTEST_NS)
        boundary_ns = (at_ns // LONGEST_NS + 1) * LONGEST_NS  # a line is of one hour and day
        self._cut_at_ns = min(self._at_ns + step_ns, boundary_ns)
        yield from self.open()
        self._final |= self._totals

    def open(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of lines with what was counted since the last ones."""
        for (unit, phase), amount in self._totals.items():
            if amount > self._final.get((unit, phase), 0.0):
                yield {"at": moment(self._at_ns), "unit": unit, "amount": amount, "phase": phase}

    def _checked(self, unit: str | None) -> str | None:
        unit = self._units[0] if unit is None and self._units else unit
        if unit is None:
            self._ignore("count() was called without a unit and none was declared")
        elif not UNIT_PATTERN.fullmatch(unit):
            self._ignore(f"{unit[:40]!r} is not a unit name")
        else:
            return unit
        return None

    def _ignore(self, why: str) -> None:
        self._notify("argument-ignored", f"{why}; that count is left out.")

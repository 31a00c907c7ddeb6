"""Named windows of the job, as the client marks them: the meter's side (docs/journal.md).

The client's line at the end says all of a window, so that a meter that came in between knows it
too; the line at the beginning is there to be read at, and for a job that is killed inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gramwatt.collectors.journal.intervals import moment
from gramwatt.collectors.meter.count_buffer import PHASE_LENGTH
from gramwatt.sci.base.notices import CODES
from gramwatt.sci.journal.records import UNIT_PATTERN, WINDOW_UNIT, CountRecord

WINDOWS_MAX = 2_000
"""Windows of one writer: some 0.4 MB of journal, and as many as a job document shows."""


class Windows:
    """The open windows of one client, and the journal's lines of those that ended."""

    def __init__(
        self,
        units: tuple[str, ...],
        put: Callable[..., None],
        notify: Callable[[str, str], None],
    ) -> None:
        self._units, self._put, self._notify = units, put, notify
        self._open: dict[tuple[str, int], None] = {}
        self._ended = 0

    def take(self, command: dict[str, Any], start_ns: int, end_ns: int | None) -> None:
        """Take in a client's line: a beginning at `start_ns` [ns], or with `end_ns` the end."""
        name = str(command.get("name", ""))[:PHASE_LENGTH]
        key = (name, int(command["start_ns"]))
        if end_ns is None:
            if len(self._open) < WINDOWS_MAX:
                self._open[key] = None
            return
        self._open.pop(key, None)
        self._journal(name, start_ns, max(start_ns, end_ns), command.get("counts") or ())

    def close(self, at_mono: Callable[[int], int], end_ns: int) -> None:
        """End what is still open where the job ends [ns]; what was counted in it is not known."""
        for name, mono_ns in self._open:
            start_ns = at_mono(mono_ns)
            self._journal(name, start_ns, max(start_ns, end_ns), ())
        self._open.clear()

    def _journal(self, name: str, start_ns: int, end_ns: int, counts: Sequence[Any]) -> None:
        self._ended += 1
        if self._ended > WINDOWS_MAX:
            self._notify("windows-left-out", CODES["windows-left-out"])
            return
        sums: dict[str, float] = {}
        for unit, amount in counts:
            known = unit or (self._units[0] if self._units else None)
            if known and UNIT_PATTERN.fullmatch(known):
                sums[known] = sums.get(known, 0.0) + float(amount)
        for unit, amount in (sums or {WINDOW_UNIT: 1.0}).items():
            self._put(
                CountRecord,
                since=moment(start_ns),
                at=moment(end_ns),
                unit=unit,
                amount=amount,
                phase=name,
            )

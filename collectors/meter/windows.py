"""Named windows of the job: the meter's side (docs/journal.md, "Windows").

The client's line at the end of a window holds all of it, so that a meter started in between can
journal it; the line at the begin is for the reading there, and for a job that is killed inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gramwatt.collectors.journal.intervals import moment
from gramwatt.collectors.meter.count_buffer import PHASE_LENGTH
from gramwatt.sci.base.notices import CODES
from gramwatt.sci.journal.records import UNIT_PATTERN, WINDOW_UNIT, CountRecord

WINDOWS_MAX = 2_000
"""Windows of one writer: some 0.4 MB of journal, and as many as a job document lists."""


class WindowRecorder:
    """Remembers the open windows of one client and journals those that end."""

    def __init__(
        self,
        units: tuple[str, ...],
        put: Callable[..., None],
        notify: Callable[[str, str], None],
    ) -> None:
        self._units = units
        self._put = put
        self._notify = notify
        self._open: dict[tuple[str, int], None] = {}
        self._ended = 0

    def record(self, command: dict[str, Any], start_ns: int, end_ns: int | None) -> None:
        """Record a client's line: a window's begin at `start_ns` [ns], or with `end_ns` its end."""
        name = str(command.get("name", ""))[:PHASE_LENGTH]
        key = (name, int(command["start_ns"]))
        if end_ns is None:
            if len(self._open) < WINDOWS_MAX:
                self._open[key] = None
            return
        self._open.pop(key, None)
        self._journal(name, start_ns, max(start_ns, end_ns), command.get("counts") or ())

    def close(self, at_mono: Callable[[int], int], end_ns: int) -> None:
        """End the open windows where the job ends [ns]; their counts are not known."""
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
            counted = unit or (self._units[0] if self._units else None)
            if counted and UNIT_PATTERN.fullmatch(counted):
                sums[counted] = sums.get(counted, 0.0) + float(amount)
        for unit, amount in (sums or {WINDOW_UNIT: 1.0}).items():
            self._put(
                CountRecord,
                since=moment(start_ns),
                at=moment(end_ns),
                unit=unit,
                amount=amount,
                phase=name,
            )

"""Named windows of the job: the meter's side (docs/journal.md, "Windows").

A process's line at the end of a window holds all of it, so that a meter started in between can
journal it; the line at the begin is for the reading there, and for a job that is killed inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gramwatt.collectors.spool.counts import PHASE_LENGTH
from gramwatt.collectors.spool.intervals import moment
from gramwatt.sci.figures.notices import CODES
from gramwatt.sci.records.records import UNIT_PATTERN, WINDOW_UNIT, CountRecord

WINDOWS_MAX = 2_000
"""Windows of one process: some 0.4 MB of journal, and as many as a job document lists."""


class WindowRecorder:
    """Remembers the open windows of a job's processes and journals those that end.

    Each process has numbers of its own, in the order of its lines: what a second meter reads again
    are the same lines.
    """

    def __init__(
        self,
        units: tuple[str, ...],
        counter: str,
        put: Callable[..., None],
        notify: Callable[[str, str], None],
    ) -> None:
        """`counter` tells the processes of this run of the job from those of another."""
        self._units = units
        self._counter = counter
        self._put = put
        self._notify = notify
        self._open: dict[tuple[str, str, int], None] = {}
        self._ended: dict[str, int] = {}
        self._lines: dict[str, int] = {}

    def record(
        self, process: str, message: dict[str, Any], start_ns: int, end_ns: int | None
    ) -> None:
        """Record a line: a window's begin at `start_ns` [ns], or with `end_ns` its end."""
        name = str(message.get("name", ""))[:PHASE_LENGTH]
        key = process, name, int(message["start_ns"])
        if end_ns is None:
            if len(self._open) < WINDOWS_MAX:
                self._open[key] = None
            return
        self._open.pop(key, None)
        counts = message.get("counts") or ()
        self._journal(process, name, start_ns, max(start_ns, end_ns), counts)

    def close(self, at: Callable[[int], int], end_ns: int) -> None:
        """End the open windows where the job ends [ns]; their counts are not known."""
        for process, name, boot_ns in self._open:
            start_ns = at(boot_ns)
            self._journal(process, name, start_ns, max(start_ns, end_ns), ())
        self._open.clear()

    def _journal(
        self, process: str, name: str, start_ns: int, end_ns: int, counts: Sequence[Any]
    ) -> None:
        self._ended[process] = self._ended.get(process, 0) + 1
        if self._ended[process] > WINDOWS_MAX:
            self._notify("windows-left-out", CODES["windows-left-out"])
            return
        sums: dict[str, float] = {}
        for unit, amount in counts:
            counted = unit or (self._units[0] if self._units else None)
            if counted and UNIT_PATTERN.fullmatch(counted):
                sums[counted] = sums.get(counted, 0.0) + float(amount)
        for unit, amount in (sums or {WINDOW_UNIT: 1.0}).items():
            seq = self._lines[process] = self._lines.get(process, 0) + 1
            self._put(
                CountRecord,
                writer=f"{self._counter}.{process}",
                seq=seq,
                since=moment(start_ns),
                at=moment(end_ns),
                unit=unit,
                amount=amount,
                phase=name,
            )

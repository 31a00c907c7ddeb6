"""The client of a process that counts into the job of another: no meter, no wait, no line printed.

It has the methods of `Client` that a session uses. What it counts is in memory that it shares with
the job's meter (count_file.py), from the first count on. Standard library only.
"""

from __future__ import annotations

import threading

from gramwatt.collectors.tracking.client import WINDOWS_LEFT_OUT, WindowRate
from gramwatt.collectors.tracking.count_file import Cells, find_above, find_from
from gramwatt.collectors.tracking.count_lines import KEYS_MAX
from gramwatt.collectors.tracking.frameworks import loaded_frameworks
from gramwatt.collectors.tracking.messages import print_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gramwatt.collectors.tracking.count_lines import Key

NOTICES_MAX = 64


class Cell:
    """What this process has counted of a unit in a phase [R], and where it stands in the file."""

    __slots__ = ("amount", "place")

    def __init__(self, place: int) -> None:
        self.place = place
        self.amount = 0.0


class ChildClient:
    """This process's connection to a job's file. Nothing raises, also when the job has ended.

    `args` are those with which the job was begun; `role` says by whom, as in `Client`.
    """

    home: str | None = None
    see = ""
    closed = False

    def __init__(
        self, job_id: str, counts_path: str | None, role: str, args: Mapping[str, Any]
    ) -> None:
        self.job_id = job_id
        self.counts_path = counts_path
        self.role = role
        self.args = dict(args)
        self._lock = threading.Lock()
        self._cells: Cells | None = None
        self._amounts: list[tuple[str | None, float, str | None]] = []
        self._written: dict[Key, Cell] = {}
        self._window_rate = WindowRate()
        self._sent: set[str] = set()

    @classmethod
    def find(cls, pid: int | None = None) -> ChildClient | None:
        """Return a client for the running job of a process above this one; None without one.

        With `pid` of that process, or one above it.
        """
        file = find_above() if pid is None else find_from(pid)
        if file is None:
            return None
        first = file.first()
        file.close()
        if "job_id" not in first:
            return None
        found = cls(first["job_id"], file.path, first["role"], first["args"])
        return found if found.alive else None

    @property
    def alive(self) -> bool:
        """Return whether the job is measured, and takes what this process counts."""
        if self._cells is None:
            cells = Cells(self.counts_path) if self.counts_path else None
            if cells is None or not cells.attach(self.job_id):
                return False
            self._cells = cells
        return not self._cells.ended

    def count(self, amount: float, unit: str | None = None, phase: str | None = None) -> None:
        """Add `amount` functional units [R]; `unit` None means the declared one. Never blocks."""
        self._amounts.append((unit, amount, phase))
        # Another thread, or the code that a signal has interrupted, may hold the lock: it looks
        # once more when it has let go.
        while self._amounts and self._lock.acquire(blocking=False):
            try:
                self._add_up()
            finally:
                self._lock.release()

    def enter_window(self, name: str, start_ns: int) -> None:
        """Do nothing: the line at a window's end has all of it."""

    def leave_window(self, name: str, start_ns: int, counts: Mapping[str | None, float]) -> None:
        """Send the window that began at `start_ns` [ns] and ends now, with what it counted."""
        if line := self._window_rate.end_line(name, start_ns, counts):
            self._send(line)
        else:
            self.send_notice(WINDOWS_LEFT_OUT)

    def send_settings(self, args: Mapping[str, Any]) -> None:
        """Send the settings of a `track` in a command, and what software is loaded here."""
        line = {"cmd": "settings", "args": dict(args), "software": loaded_frameworks()}
        if (text := repr(args)) not in self._sent and len(self._sent) < NOTICES_MAX:
            self._sent.add(text)
            self._send(line)

    def send_notice(self, text: str) -> None:
        """Leave a "code: sentence" notice with the job, once."""
        if text not in self._sent and len(self._sent) < NOTICES_MAX:
            self._sent.add(text)
            self._send({"cmd": "notice", "text": text})

    def poll(self) -> None:
        """Do nothing: no meter answers here."""

    def wait_ready(self) -> bool:
        """Say whether the job takes what is counted here."""
        return self.alive

    def abandon(self) -> None:
        """Do nothing: a forked child gets a client of its own."""

    def _send(self, message: dict[str, Any]) -> None:
        if self.alive and self._cells is not None:
            self._cells.append(message)

    def _add_up(self) -> None:
        number = len(self._amounts)
        taken = self._cells is not None or self.alive
        for unit, amount, phase in self._amounts[:number] if taken else ():
            cell = self._written.get((unit, phase)) or self._new_cell(unit, phase)
            if cell is None or self._cells is None:
                taken = False
                continue
            cell.amount += amount
            self._cells.write(cell.place, cell.amount)
        del self._amounts[:number]
        # Looked at after they were written: what a meter reads at the end has all before it.
        if not taken or self._cells is None or self._cells.ended:
            text = f"job {self.job_id} has ended, does not run on this machine or has no room"
            print_message(f"{text}: what this process counts is left out [argument-ignored]")

    def _new_cell(self, unit: str | None, phase: str | None) -> Cell | None:
        if len(self._written) >= KEYS_MAX:
            phase = None
        if (unit, phase) not in self._written and self._cells is not None:
            place = self._cells.append({"cmd": "count", "unit": unit, "phase": phase})
            if place is None:
                return None
            self._written[unit, phase] = Cell(place)
        return self._written[unit, phase]

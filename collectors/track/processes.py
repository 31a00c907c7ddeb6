"""What the processes of a job have written into its folder in memory (counts.py)."""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gramwatt.collectors.settings.json_lines import decoded
from gramwatt.collectors.settings.proc import process_exists
from gramwatt.collectors.track.client import WORKER
from gramwatt.collectors.track.counts import ENDED, LINES, NUMBER_B, TOTALS, JobFolder

if TYPE_CHECKING:
    from gramwatt.collectors.track.client import Key

TOTALS_MOST_B = 1 << 20


class Process:
    """One process of the job: its first line, and what came since.

    `stop` is its line at the end. The files stay open here, so that they are read to the end where
    somebody deletes them.
    """

    def __init__(self, name: str, lines: int, totals: int, first: dict[str, Any]) -> None:
        self.name = name
        self.first = first
        self.stop: dict[str, Any] | None = None
        self.command: int | None = None
        """The process of the command that it measures."""
        self.begin_ns: int | None = None
        """When that began, by the boot clock [ns]."""
        self._lines, self._totals = lines, totals
        self._read_b = 0
        self._unread: list[dict[str, Any]] = []
        self._places: dict[int, Key] = {}

    @classmethod
    def open(cls, folder: JobFolder, name: str) -> Process | None:
        """Open a process's files; None where they are not there."""
        descriptors: list[int] = []
        try:
            for ending in (LINES, TOTALS):
                descriptors.append(os.open(folder.at(name + ending), os.O_RDWR | os.O_CLOEXEC))
        except OSError:
            for descriptor in descriptors:
                os.close(descriptor)
            return None
        process = cls(name, descriptors[0], descriptors[1], {})
        process._unread = list(process._new_lines())
        process.first = process._unread.pop(0) if process._unread else {}
        if process.first:
            return process
        process.close()
        return None

    @property
    def decides(self) -> bool:
        """Return whether how it ends says how the job ends."""
        return self.first.get("role") != WORKER

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that have come since the last call and that are for the meter."""
        lines, self._unread = [*self._unread, *self._new_lines()], []
        for line in lines:
            command = line.get("cmd")
            if command == "total":
                self._places[int(line["place"])] = line.get("unit"), line.get("phase")
            elif command == "stop":
                self.stop = line
            elif command == "begin":
                self.command, self.begin_ns = int(line["pid"]), int(line["at_ns"])
            else:
                yield line

    def totals(self) -> Iterator[tuple[Key, float]]:
        """Yield what it has counted so far of each unit in each phase [R]."""
        if not self._places:
            return
        data = os.pread(self._totals, TOTALS_MOST_B, 0)
        numbers = array("d", data[: len(data) // NUMBER_B * NUMBER_B])
        for place, key in self._places.items():
            if place < len(numbers):
                yield key, numbers[place]

    def end(self) -> None:
        """Let it know that what it writes from here on is not read."""
        with contextlib.suppress(OSError):
            os.pwrite(self._totals, array("d", [ENDED]).tobytes(), 0)

    def close(self) -> None:
        """Close the files here."""
        os.close(self._lines)
        os.close(self._totals)

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        data = os.pread(self._lines, os.fstat(self._lines).st_size - self._read_b, self._read_b)
        *lines, torn = data.split(b"\n")
        self._read_b += len(data) - len(torn)
        yield from (line for text in lines if (line := decoded(text)))


class Processes:
    """All processes of a job that have a file in its folder.

    `start_ns` says when a process began by the boot clock [ns], None for one that has ended.
    """

    def __init__(self, folder: JobFolder, start_ns: Callable[[int], int | None]) -> None:
        self._folder = folder
        self._start_ns = start_ns
        self._known: dict[str, Process] = {}

    def __iter__(self) -> Iterator[Process]:
        return iter(self._known.values())

    def enter(self) -> list[Process]:
        """Return those that have entered since the last call, in the order of their begin."""
        names = (name for name in self._folder.names() if name not in self._known)
        entered = [p for name in names if (p := Process.open(self._folder, name))]
        entered.sort(key=lambda process: int(process.first.get("at_ns") or 0))
        self._known |= {process.name: process for process in entered}
        return entered

    def deciding(self) -> list[Process]:
        """Return those whose end is the job's, the first one first; a process once."""
        last: dict[tuple[int, int], Process] = {}
        for process in self._known.values():
            if process.decides:
                last[process.first["pid"], process.first.get("began_ns") or 0] = process
        return list(last.values())

    def running(self) -> list[int]:
        """Return the processes whose end is the job's, and of those that are gone the commands that
        they have left running.
        """
        pids = []
        for process in self.deciding():
            if process.stop is not None:
                continue
            if self.lives(process):
                pids.append(int(process.first["pid"]))
            elif process.command is not None and self._start_ns(process.command) is not None:
                pids.append(process.command)
        return pids

    def lives(self, process: Process) -> bool:
        """Say whether the process itself is there; one that began later only has its number."""
        pid, began_ns = int(process.first["pid"]), process.first.get("began_ns")
        return self._start_ns(pid) == began_ns if began_ns else process_exists(pid)

    def totals(self) -> dict[Key, float]:
        """Return what all of them have counted [R]."""
        sums: dict[Key, float] = {}
        for process in self._known.values():
            for key, amount in process.totals():
                sums[key] = sums.get(key, 0.0) + amount
        return sums

    def end(self) -> None:
        """Let all know that the job has ended."""
        for process in self._known.values():
            process.end()

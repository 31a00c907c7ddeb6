"""What the processes of a job have counted and their windows, as lines of the journal.

A count's line has the total of its counter, so that a line twice changes nothing, and what lies
between two of them was counted in the time between. A process's line at the end of a window holds
all of it, so that a meter started in between can journal it; the line at the begin is for the
reading there, and for a job that is killed inside (docs/journal.md, "Counts" and "Windows").
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.settings.json_lines import decoded
from gramwatt.collectors.settings.proc import process_exists
from gramwatt.collectors.spool.intervals import moment
from gramwatt.collectors.track.client import WORKER
from gramwatt.collectors.track.counts import ENDED, GONE, LINES, NUMBER_B, TOTALS, JobFolder
from gramwatt.sci.figures.notices import CODES
from gramwatt.sci.records.records import UNIT_PATTERN, WINDOW_UNIT, CountRecord

if TYPE_CHECKING:
    from gramwatt.collectors.track.counts import Key

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
        self, units: Sequence[str], notify: Callable[[str, str], None], start_ns: int
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
        data = os.pread(self._totals, (max(self._places) + 1) * NUMBER_B, 0)
        numbers = array("d", data[: len(data) // NUMBER_B * NUMBER_B])
        for place, key in self._places.items():
            if place < len(numbers):
                yield key, numbers[place]

    def is_read(self) -> bool:
        """Say whether nothing has come since the last `messages`."""
        self._unread += self._new_lines()
        return not self._unread

    def end(self) -> None:
        """Let it know that what it writes from here on is not read."""
        with contextlib.suppress(OSError):
            os.pwrite(self._totals, array("d", [ENDED]).tobytes(), 0)

    def close(self) -> None:
        """Close the files here."""
        os.close(self._lines)
        os.close(self._totals)

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        new_b = os.fstat(self._lines).st_size - self._read_b
        if new_b <= 0:
            return
        data = os.pread(self._lines, new_b, self._read_b)
        *lines, torn = data.split(b"\n")
        self._read_b += len(data) - len(torn)
        yield from (line for text in lines if (line := decoded(text)))


class Processes:
    """All processes of a job that have a file in its folder.

    `start_ns` says when a process began by the boot clock [ns], None for one that has ended.
    """

    def __init__(self, folder: JobFolder, start_ns: Callable[[int], int | None]) -> None:
        self.folder = folder
        self._start_ns = start_ns
        self._known: dict[str, Process] = {}
        gone = folder.status(GONE)
        self._gone: dict[Key, float] = {
            (unit, phase): n for unit, phase, n in gone.get("totals", ())
        }
        """What workers that have ended had counted [R]."""
        self._gone_names: list[str] = gone.get("names", [])
        """Those of them whose files a killed meter may have left."""

    def __iter__(self) -> Iterator[Process]:
        return iter(self._known.values())

    def enter(self) -> list[Process]:
        """Return those that have entered since the last call, in the order of their begin."""
        before = self._known.keys() | self._gone_names
        names = (name for name in self.folder.names() if name not in before)
        entered = [p for name in names if (p := Process.open(self.folder, name))]
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
        return self._added(self._gone, self._known.values())

    def fold(self) -> None:
        """Put what the workers that have ended had counted into one file, and delete theirs.

        Their windows must be journaled. A pool may start a worker for each task, and memory and
        open files are for some hundreds.
        """
        ended = [p for p in self._known.values() if not p.decides and not self.lives(p)]
        ended = [process for process in ended if process.is_read()]
        if not ended:
            return
        totals = self._added(self._gone, ended)
        names = [*self._gone_names, *(process.name for process in ended)]
        try:
            rows = [[*key, amount] for key, amount in totals.items()]
            self.folder.say({"names": names, "totals": rows}, GONE)
        except OSError:  # no memory: they stay
            return
        self._gone, self._gone_names = totals, []
        for name in names:
            self.folder.forget(name)
        for process in ended:
            self._known.pop(process.name).close()

    def _added(self, sums: Mapping[Key, float], processes: Iterable[Process]) -> dict[Key, float]:
        sums = dict(sums)
        for process in processes:
            for key, amount in process.totals():
                sums[key] = sums.get(key, 0.0) + amount
        return sums

    def end(self) -> None:
        """Let all know that the job has ended."""
        for process in self._known.values():
            process.end()


WINDOWS_MAX = 2_000
"""Windows of one process: some 0.4 MB of journal, and as many as a job document lists."""


class WindowRecorder:
    """Remembers the open windows of a job's processes and journals those that end.

    Each process has numbers of its own, in the order of its lines: what a second meter reads again
    are the same lines.
    """

    def __init__(
        self,
        units: Sequence[str],
        counter: str,
        put: Callable[..., None],
        notify: Callable[[str, str], None],
    ) -> None:
        """`counter` names this run of the job: another run has processes of the same numbers."""
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

"""The meter's side of what child processes count, by way of a file in memory (docs/journal.md).

All of a client's children are one writer, `<meter>-children-count`: this meter adds up what is new
in their amounts and numbers the lines. How much of each amount earlier meters have journaled, or
have in lines of their state, stands in the state too; so a killed meter loses and doubles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gramwatt.collectors.meter.count_buffer import CountBuffer
from gramwatt.collectors.tracking.count_file import CountFile, remove_abandoned
from gramwatt.collectors.tracking.count_lines import CountLines

if TYPE_CHECKING:
    from gramwatt.collectors.tracking.count_lines import Key


class ChildCounts:
    """The amounts of one client's child processes, of which each goes into `buffer` once.

    `path` is the file's; None where the client has none. `start_ns` is when the job began [ns].
    """

    def __init__(self, path: str | None, meter: str, buffer: CountBuffer, start_ns: int) -> None:
        remove_abandoned()
        self._file = CountFile.open(path)
        if self._file is not None:
            self._file.hold()
        self._writer = f"{meter}-children-count"
        self._buffer = buffer
        self._now_ns = start_ns
        self._lines = CountLines(lambda: self._now_ns)
        self._units: dict[int, Key] = {}
        self._taken: dict[int, float] = {}
        self._unmarked: set[int] = set()
        self._handled = 0

    def resume(self, state: dict[str, Any] | None) -> None:
        """Go on from the latest state of this client's earlier meters.

        It is None without one, and where their journal was delivered meanwhile; then the file
        itself says how much was in it.
        """
        if state is not None:
            self._handled = int(state["handled"])
            self._taken = {int(place): float(amount) for place, amount in state["taken"]}

    def read(self, now_ns: int, handle: Callable[[dict[str, Any]], None]) -> None:
        """Take what is new at `now_ns` [ns]: amounts into lines, other messages to `handle`."""
        if (file := self._file) is None:
            return
        self._now_ns = now_ns
        self._look(file, handle)
        for place, (unit, phase) in self._units.items():
            amount, before = file.amount(place), self._taken[place]
            if amount is not None and amount > before:
                self._taken[place] = amount
                self._unmarked.add(place)
                self._lines.add(unit, amount - before, phase)
        self._lines.add_up()
        self._lines.send(self._put)

    def state(self) -> dict[str, Any]:
        """Return how much of the file is in lines, for JSON."""
        return {"handled": self._handled, "taken": list(self._taken.items())}

    def mark_saved(self) -> None:
        """Record that the latest state and every line of the buffer so far are on disk."""
        self._buffer.mark_saved()
        self._lines.saved(self._buffer.saved_of(self._writer))
        while self._file is not None and self._unmarked:
            place = self._unmarked.pop()
            self._file.mark_journaled(place, self._taken.get(place, 1.0))

    def end(self) -> None:
        """Let the children know that the job ends: what they count from here on is not read."""
        if self._file is not None:
            self._file.end()

    def remove(self) -> None:
        """Delete the file: all of it is journaled."""
        if self._file is not None:
            self._file.remove()

    def _look(self, file: CountFile, handle: Callable[[dict[str, Any]], None]) -> None:
        for place, message in file.new_records():
            journaled = file.journaled(place)
            if message.get("cmd") == "count":
                self._units[place] = message.get("unit"), message.get("phase")
                self._taken.setdefault(place, journaled)
            elif place > self._handled and not journaled:
                self._handled = place
                self._unmarked.add(place)
                handle(message)

    def _put(self, line: dict[str, Any]) -> bool:
        self._buffer.add(line, self._writer)
        return True

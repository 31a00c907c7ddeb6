"""The count lines of one process, numbered once, so that sending them again is harmless.

Standard library only, as all that runs inside a training process. docs/journal.md ("Counts") says
why no amount is lost or counted twice.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Key = tuple[str | None, str | None]
    """Unit and phase; None for the declared unit, and for no phase."""

KEYS_MAX = 4_000
"""Different units and phases (some 2 MB); past that, counts are added without a phase."""
NS_PER_S = 1_000_000_000
SHORTEST_NS, LONGEST_NS, PART = 10 * NS_PER_S, 300 * NS_PER_S, 60
"""A line holds what was counted in a sixtieth of the job's time so far, in 10 s to 300 s."""


class CountLine:
    """What was counted of a unit in a phase since the line before [R]; `at_ns` is the last time."""

    __slots__ = ("amount", "at_ns", "phase", "unit")

    def __init__(self, unit: str | None, phase: str | None) -> None:
        self.unit = unit
        self.phase = phase
        self.amount = 0.0
        self.at_ns = 0


class CountLines:
    """Lines by number until a meter has saved them; the newest of each unit and phase may grow.

    `add` may be called from anywhere, a signal handler included; the rest is for one caller at a
    time. `now_ns` gives Unix time on the job's timeline [ns].
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._amounts: list[tuple[str | None, float, str | None]] = []
        self._lines: dict[int, CountLine] = {}
        self._growing: dict[Key, int] = {}
        self._keys: set[Key] = set()
        self._unsent: dict[int, None] = {}
        self._last = self._closed = 0
        self._began_ns = now_ns()
        self._cut_at_ns = self._began_ns + SHORTEST_NS

    @property
    def unsent(self) -> bool:
        """Return whether something was counted that the present meter has not been sent."""
        return bool(self._amounts or self._unsent)

    def add(self, unit: str | None, amount: float, phase: str | None) -> None:
        """Remember an amount of `unit` [R]; `add_up` adds it to its line."""
        if amount:
            self._amounts.append((unit, amount, phase))

    def add_up(self) -> bool:
        """Add the amounts remembered so far to their lines; False when there were none."""
        number = len(self._amounts)  # a signal handler may append meanwhile
        if not number:
            return False
        now_ns = self._now_ns()
        if now_ns >= self._cut_at_ns and len(self._lines) < KEYS_MAX:
            self._close()
            step_ns = (now_ns - self._began_ns) // PART
            boundary_ns = (now_ns // LONGEST_NS + 1) * LONGEST_NS  # a line is of one hour and day
            self._cut_at_ns = min(now_ns + max(step_ns, SHORTEST_NS), boundary_ns)
        for unit, amount, phase in self._amounts[:number]:
            seq = self._seq_of((unit, phase))
            line = self._lines[seq]
            line.amount += amount
            line.at_ns = now_ns
            self._unsent[seq] = None
        del self._amounts[:number]
        return True

    def send(self, send: Callable[[dict[str, Any]], bool]) -> None:
        """Send the lines that have changed; `send` takes a line, or returns False.

        Lines up to `closed` never change again. They go out in the order of their numbers, so that
        this is said of none whose last amount is still to come.
        """
        for seq in sorted(self._unsent):
            line = self._lines[seq]
            message = {"cmd": "count", "seq": seq, "closed": min(seq, self._closed)}
            message |= {"unit": line.unit, "phase": line.phase}
            message |= {"amount": line.amount, "at_ns": line.at_ns}
            if not send(message):
                return
            del self._unsent[seq]

    def saved(self, seq: int) -> None:
        """Forget the lines up to number `seq`: a kill cannot undo them any more."""
        for number in [number for number in self._lines if number <= min(seq, self._closed)]:
            del self._lines[number]
            self._unsent.pop(number, None)

    def resend(self) -> None:
        """Mark every line for sending to a new meter, and let none grow that the old one knew.

        If the old meter's job was taken for dead, a line is journaled with the amount it had then.
        """
        self._close()
        self._unsent = dict.fromkeys(self._lines)

    def _close(self) -> None:
        self._closed = self._last
        self._growing.clear()

    def _seq_of(self, key: Key) -> int:
        """Return the number of the line that grows by what is counted of a unit and phase."""
        if key not in self._keys:
            if len(self._keys) >= KEYS_MAX:
                key = (key[0], None)
            self._keys.add(key)
        if key not in self._growing:
            self._last += 1
            self._growing[key] = self._last
            self._lines[self._last] = CountLine(*key)
        return self._growing[key]

"""What one client has counted, put together from the files that its meters left in a folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gramwatt.collectors.journal.spool import WriterFile

Key = tuple[str, str | None]
"""A unit, and the phase (the window) it was counted in."""


@dataclass(slots=True)
class Counted:
    """Running totals of one unit in one phase since the client's start [R].

    `journaled` is the part of `total` in count lines; `elsewhere` is the part of `journaled` whose
    lines are no longer in the folder, because a sync has delivered and deleted it meanwhile.
    """

    total: float = 0.0
    journaled: float = 0.0
    elsewhere: float = 0.0
    at_ns: int = 0
    """Time of the last count [ns]."""

    @property
    def unjournaled(self) -> float:
        """The part of the total that is in no count line [R]."""
        return self.total - self.journaled


def counted(writers: Iterable[WriterFile], client: str | None) -> dict[Key, Counted]:
    """Totals of one client by unit and phase; empty for a client that left no state.

    A meter's lines and state are its client's; the lines of a recovery are those of the client
    whose writer it closed.
    """
    known = list(writers)
    own = {item.writer for item in known if client and item.client == client}
    found: dict[Key, Counted] = {}
    for item in known:
        if item.writer not in own and item.resumes not in own:
            continue
        state = item.state or {}
        for key, amount in item.counts.items():
            found.setdefault(key, Counted()).journaled += amount
        for unit, phase, total, at_ns in state.get("totals", ()):
            entry = found.setdefault((unit, phase), Counted())
            entry.total, entry.at_ns = max(entry.total, total), max(entry.at_ns, at_ns)
        for unit, phase, amount in state.get("elsewhere", ()):
            entry = found.setdefault((unit, phase), Counted())
            entry.elsewhere = max(entry.elsewhere, amount)
    for entry in found.values():
        entry.journaled += entry.elsewhere
        entry.total = max(entry.total, entry.journaled)
    return found

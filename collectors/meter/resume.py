"""Meters of this job and node that came before: whose client this is, whose readings go on.

Two questions, two answers. A client that brings its dead meter back *resumes* that writer: same
process, same boot. Whoever gets the leader's lock *continues* the last leader's readings, if this
job was alive all the time since: itself, or a client that lived then and still does. A later job
under the same id does not pay for the time between.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.journal.recovery import pending_counts
from gramwatt.collectors.journal.spool import SpoolFolder, WriterFile

if TYPE_CHECKING:
    from gramwatt.collectors.meter.dependencies import Around

CLOCK_TICK_NS = NS_PER_S // 100
"""/proc counts a process's start in hundredths of a second."""


class Predecessors:
    """What other writers have left in a folder; looked up when asked."""

    def __init__(self, folder: Path, parent_pid: int | None, around: Around) -> None:
        self._folder, self._boot, self._parent_pid = SpoolFolder(folder), around.boot, parent_pid
        self._began_ns = around.began_ns

    def own(self, timeline: Timeline) -> WriterFile | None:
        """The dead meter of this very client; None when this is its first."""
        dead = [item for item in self._folder.unclosed() if self._same_client(item, timeline)]
        return max(dead, key=_state_time_ns, default=None)

    def counted(self, client_ns: int) -> int:
        """Number of the last count line of this very client that any meter of it has saved.

        An ended one had every line, for the stop line comes last.
        """
        found = [0]
        for item in self._folder.writers():
            state = item.state or {}
            ours = state.get("parent_pid") == self._parent_pid and self._this_boot(state)
            if item.lines and client_ns and ours and state.get("client_ns") == client_ns:
                found.append(sys.maxsize if item.ended else int(state.get("counted", 0)))
        return max(found)

    @staticmethod
    def counts(dead: WriterFile) -> list[tuple[str, str | None, float, int]]:
        """What that meter had counted and not journaled."""
        return pending_counts(dead)

    def leader_state(self, timeline: Timeline, *, relayed: bool) -> dict[str, Any] | None:
        """The last leader's state, when the readings of this job can go on from it.

        `relayed` says that this meter found another one leading before.
        """
        known = self._folder.writers()
        last = self._last_leader(known)
        if last is None or relayed:
            return last
        starts_ns = [timeline.start_ns - timeline.offset_ns]
        for item in known:
            state = item.state
            if state and self._this_boot(state) and self._client_lives(state):
                relays = item.live and not state.get("leader")
                starts_ns.append(0 if relays else _start_ns(state))
        return last if min(starts_ns) <= _saved_ns(last) else None

    def in_order(self, timeline: Timeline) -> Timeline:
        """`timeline`, or the last leader's where this one would have its readings lie in the past.

        The wall clock was set back between two processes of the job; intervals must not overlap.
        """
        last = self._last_leader(self._folder.writers())
        if last is None or timeline.start_ns >= int(last["now_ns"]):
            return timeline
        offset_ns = int(last["offset_ns"])
        start_ns = timeline.start_ns - timeline.offset_ns + offset_ns
        return Timeline(timeline.clock, offset_ns, start_ns)

    def _last_leader(self, known: list[WriterFile]) -> dict[str, Any] | None:
        gone = [
            item.state
            for item in known
            if item.state and not item.live and item.state.get("leader")
            if self._this_boot(item.state)
        ]
        return max(gone, key=_saved_ns, default=None)

    def _client_lives(self, state: dict[str, Any]) -> bool:
        """Whether another client of the job, of which this is a meter's state, still lives.

        A process that began later only has the same number.
        """
        pid = state.get("parent_pid")
        if not pid or pid == self._parent_pid:
            return False
        began_ns = self._began_ns(int(pid))
        return began_ns is not None and began_ns <= _start_ns(state) + CLOCK_TICK_NS

    def _same_client(self, item: WriterFile, timeline: Timeline) -> bool:
        state = item.state
        if not state or not self._this_boot(state) or state.get("parent_pid") != self._parent_pid:
            return False
        return _saved_ns(state) >= timeline.start_ns - timeline.offset_ns

    def _this_boot(self, state: dict[str, Any]) -> bool:
        return bool(self._boot) and state.get("boot") == self._boot


def process_began_ns(pid: int) -> int | None:
    """When a process began, by the boot clock [ns]; None when it is gone or cannot be told."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stream:
            ticks = int(stream.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    return ticks * NS_PER_S // os.sysconf("SC_CLK_TCK")


def _start_ns(state: dict[str, Any]) -> int:
    return int(state["start_ns"]) - int(state["offset_ns"])


def _saved_ns(state: dict[str, Any]) -> int:
    return int(state["now_ns"]) - int(state["offset_ns"])


def _state_time_ns(item: WriterFile) -> int:
    return _saved_ns(item.state) if item.state else 0

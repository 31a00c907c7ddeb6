"""What earlier meters of this job and node have left: counts, and readings to continue.

The meter of a client that restarts it *resumes* the dead writer: same client, same boot. The meter
that gets the leader's lock *continues* the last leader's readings, if this job was alive all the
time since: itself, or a client that was alive then and still is. A later job under the same id is
not billed for the time between.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.journal.spool import CountLine, SpoolFolder, WriterFile, open_counts

CLOCK_TICK_NS = NS_PER_S // 100
"""/proc counts a process's start in hundredths of a second."""


class EarlierMeters:
    """The other writers' files in a spool folder, read anew for each question."""

    def __init__(
        self,
        folder: Path,
        start: dict[str, Any],
        boot: str,
        process_start_ns: Callable[[int], int | None],
    ) -> None:
        self._folder = SpoolFolder(folder)
        self._boot = boot
        self._client = start.get("client")
        self._parent_pid = start.get("parent_pid")
        self._process_start_ns = process_start_ns

    def to_resume(self) -> WriterFile | None:
        """Return the last dead meter of this client that has not been closed; None without one."""
        dead = [
            item
            for item in self._folder.unclosed()
            if item.state and self._client and item.client == self._client
            if self._this_boot(item.state)
        ]
        return max(dead, key=lambda item: _saved_ns(item.state or {}), default=None)

    def open_counts(self) -> list[CountLine]:
        """Return this client's count lines that its earlier meters had not journaled."""
        return open_counts(self._folder.writers(), self._client) if self._client else []

    def latest(self, name: str) -> Any:
        """Return a field of the state of this client's latest meter; None without one.

        `child_counts` is what it had taken of its children, `servers` what it had read of servers.
        """
        states = [item.state for item in self._folder.writers() if item.client == self._client]
        latest = max((state for state in states if state), key=_saved_ns, default=None)
        return latest and latest.get(name)

    def leader_state(self, timeline: Timeline, *, relayed: bool) -> dict[str, Any] | None:
        """Return the last leader's state, when the readings of this job can continue from it.

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
        """Return `timeline`, or the last leader's where this one's readings would lie in the past.

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
        """Say whether another client of the job, of which this is a meter's state, still lives.

        A process that began later only has the same number.
        """
        pid = state.get("parent_pid")
        if not pid or pid == self._parent_pid:
            return False
        began_ns = self._process_start_ns(int(pid))
        return began_ns is not None and began_ns <= _start_ns(state) + CLOCK_TICK_NS

    def _this_boot(self, state: dict[str, Any]) -> bool:
        return bool(self._boot) and state.get("boot") == self._boot


def _start_ns(state: dict[str, Any]) -> int:
    return int(state["start_ns"]) - int(state["offset_ns"])


def _saved_ns(state: dict[str, Any]) -> int:
    return int(state["now_ns"]) - int(state["offset_ns"])

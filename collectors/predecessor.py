"""Meters of this job and node that came before: whose client this is, whose readings go on.

Two questions, two answers. A client that brings its dead meter back *resumes* that writer: same
process, same boot. Whoever gets the leader's lock *continues* the last leader's readings, if this
job's process already lived then; a later job under the same id does not pay for the time between.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gramwatt.collectors.clock import Timeline
from gramwatt.collectors.recovery import pending_counts
from gramwatt.collectors.spool import SpoolFolder, WriterFile


class Predecessors:
    """What other writers have left in a folder; looked up when asked."""

    def __init__(self, folder: Path, boot: str, parent_pid: int | None) -> None:
        self._folder, self._boot, self._parent_pid = SpoolFolder(folder), boot, parent_pid

    def own(self, timeline: Timeline) -> WriterFile | None:
        """The dead meter of this very client; None when this is its first."""
        dead = [item for item in self._folder.unclosed() if self._same_client(item, timeline)]
        return max(dead, key=_state_time_ns, default=None)

    @staticmethod
    def counts(dead: WriterFile) -> list[tuple[str, str | None, float, int]]:
        """What that meter had counted and not journaled."""
        return pending_counts(dead)

    def leader_state(self, timeline: Timeline) -> dict[str, Any] | None:
        """The last leader's state, when the readings of this job can go on from it."""
        start_ns = timeline.start_ns - timeline.offset_ns
        gone = [
            item.state
            for item in self._folder.writers()
            if item.state
            and not item.live
            and item.state.get("leader")
            and self._this_boot(item.state)
            and item.state["now_ns"] - item.state["offset_ns"] >= start_ns
        ]
        return max(gone, key=lambda state: int(state["now_ns"] - state["offset_ns"]), default=None)

    def _same_client(self, item: WriterFile, timeline: Timeline) -> bool:
        state = item.state
        if not state or not self._this_boot(state) or state.get("parent_pid") != self._parent_pid:
            return False
        start_ns = timeline.start_ns - timeline.offset_ns
        return bool(state["now_ns"] - state["offset_ns"] >= start_ns)

    def _this_boot(self, state: dict[str, Any]) -> bool:
        return bool(self._boot) and state.get("boot") == self._boot


def _state_time_ns(item: WriterFile) -> int:
    state = item.state or {}
    return int(state.get("now_ns", 0)) - int(state.get("offset_ns", 0))

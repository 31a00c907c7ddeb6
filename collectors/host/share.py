"""Whether other measured jobs run on the same host, and which part of it is then this job's.

Nobody has reserved what no cgroup limits, so jobs that are there at the same time get equal parts
of it: together they are billed the host once. Jobs of one home see each other.
"""

from __future__ import annotations

from pathlib import Path

from gramwatt.collectors.gpu.energy import Notify
from gramwatt.collectors.host.meter import Part
from gramwatt.collectors.sharing.tenancy import BoardLocks
from gramwatt.sci.base.notices import CODES


class HostShare:
    """The unlimited parts of a host among the jobs of `home` that are measured on it."""

    def __init__(self, home: Path, job_id: str, parts: tuple[Part, ...], notify: Notify) -> None:
        """A part that a cgroup limits is the job's own and left alone.

        Parts go by their device's id, which names the node: nodes may share a home.
        """
        self._locks, self._notify = BoardLocks(home, job_id), notify
        self._parts = {part.ledger.device_id: part for part in parts if part.share >= 1}
        for name in self._parts:
            self._locks.take(name)
        self.look()

    def look(self) -> None:
        """See who else is there now; what is booked from here on is divided by that."""
        for name, part in self._parts.items():
            others = self._locks.others(name)
            part.fraction = 1 / (1 + others)
            if others:
                self._notify("host-shared", CODES["host-shared"])

    def release(self) -> None:
        """The job is no longer on the host."""
        self._locks.release()

"""Which other jobs of the same home are measuring a device of this node now.

Each job holds a lock file for each device; the kernel releases the locks of a process that dies
(flock(2)). Jobs of other users and homes are not seen: a file that everybody may write could
claim a board its writer does not use.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from gramwatt.collectors.common import files
from gramwatt.collectors.common.identity import safe_id
from gramwatt.collectors.journal import spool

TRIES, PAUSE_S = 5, 0.005
"""Another job that looks whether this one lives holds the lock for a moment [s]."""


class DeviceLocks:
    """One job's lock files, `GRAMWATT_HOME/boards/<device>/<job>`."""

    def __init__(self, home: Path, job_id: str, node: str = "") -> None:
        """`node` names the job's part on this node, where each node has a lock of its own."""
        self._folder, self._job = home / "boards", safe_id(job_id)
        self.part = safe_id(f"{job_id}.{node}")
        """The name of the job's part on this node."""
        self._held: dict[Path, int] = {}

    def beside(self, device_id: str) -> Path:
        """Return the path of a file that the jobs of a device have in common."""
        return self._folder / f"{safe_id(device_id)}.json"

    def acquire(self, device_id: str, *, by_node: bool = False) -> None:
        """Lock the device's file of this job, or `by_node` of this job on this node. Where files
        cannot be locked the job holds none, and the other jobs do not see it.
        """
        path = self._folder / safe_id(device_id) / (self.part if by_node else self._job)
        for _ in range(TRIES):
            try:
                files.folder(path.parent)
                lock = spool.acquire(path)
            except OSError:
                return
            if lock is not None:
                self._held[path] = lock
                return
            time.sleep(PAUSE_S)

    def living(self, device_id: str) -> set[str]:
        """Return the names of other jobs, or parts of jobs by node, that measure the device now.

        The files of dead jobs are removed.
        """
        folder, living = self._folder / safe_id(device_id), set[str]()
        try:
            names = set(os.listdir(folder)) - {self._job, self.part}
        except OSError:
            return living
        for name in names:
            try:
                lock = spool.acquire(folder / name)
            except OSError:
                continue
            if lock is None:
                living.add(name)
            else:
                (folder / name).unlink(missing_ok=True)
                os.close(lock)
        return living

    def release(self) -> None:
        """Release and remove all lock files of this job."""
        for path, lock in self._held.items():
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(lock)
        self._held.clear()

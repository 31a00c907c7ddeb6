"""The processes that a command leaves running when it has ended."""

from __future__ import annotations

import os
from pathlib import Path

from gramwatt.collectors.common.launches import JOB_ID
from gramwatt.collectors.common.proc import environ_of, parent_of, system_text

REAPERS = frozenset({"systemd", "init", "tini", "dumb-init"})
"""Names of processes that inherit orphans without being process 1, as `systemd --user` does."""


def orphans(job_id: str) -> list[str]:
    """Return the sorted names of this user's orphaned processes that have the job's id.

    Those of another rank of the job still have their parents. Empty where there is no /proc.
    """
    mark, found = f"{JOB_ID}={job_id}", []
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    for pid in pids:
        if pid == os.getpid() or mark not in environ_of(pid) or _is_ours(pid):
            continue
        parent = parent_of(pid)
        if parent == 1 or _name_of(parent) in REAPERS:
            found.append(_name_of(pid))
    return sorted(found)


def _is_ours(pid: int) -> bool:
    """Tell whether a meter or a command of gramwatt runs here: they inherit an exported id."""
    words = system_text(f"/proc/{pid}/cmdline").split("\0")
    return "-m" in words and any(word.startswith("gramwatt") for word in words)


def _name_of(pid: int) -> str:
    return system_text(f"/proc/{pid}/comm").strip()

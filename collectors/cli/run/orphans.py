"""Processes that a command left running when it ended: daemons that forked away from it."""

from __future__ import annotations

import os
from pathlib import Path

from gramwatt.collectors.common.identity import JOB_ID

PROC = Path("/proc")
REAPERS = frozenset({"systemd", "init", "tini", "dumb-init"})
"""Names of processes that inherit orphans without being process 1, as `systemd --user` does."""


def orphans(job_id: str) -> list[str]:
    """Names of this user's orphaned processes with the job's id in their environment, sorted.

    Those of another rank of the job still have their parents. Empty where there is no /proc.
    """
    mark, own = f"{JOB_ID}={job_id}".encode(), os.getpid()
    found = []
    for folder in PROC.glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            if mark not in variables or int(folder.name) == own or _is_ours(folder):
                continue
            name, parent = _name_and_parent(folder)
            if parent == 1 or _name_and_parent(PROC / str(parent))[0] in REAPERS:
                found.append(name)
        except (OSError, ValueError):  # ended meanwhile, or another user's
            continue
    return sorted(found)


def _is_ours(folder: Path) -> bool:
    """Whether a meter or a command of gramwatt runs here: they inherit an id that was exported."""
    words = (folder / "cmdline").read_bytes().split(b"\0")
    return b"-m" in words and any(word.startswith(b"gramwatt") for word in words)


def _name_and_parent(folder: Path) -> tuple[str, int]:
    """A process's name and its parent's id (proc(5), stat); raises OSError or ValueError."""
    head, _, rest = (folder / "stat").read_text(errors="replace").rpartition(")")
    state, parent = rest.split()[:2]
    if state == "Z":
        raise ValueError("a zombie uses nothing")
    return head.partition("(")[2], int(parent)

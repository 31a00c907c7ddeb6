"""Processor time and memory of a job's processes, out of /proc: proc(5)."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gramwatt.collectors.common.launches import JOB_ID, REPORTER
from gramwatt.collectors.common.proc import environ_of, system_text

PROC = Path("/proc")


class Seen(NamedTuple):
    """A process: its parent, when it began [s since boot], and its processor time [s].

    The time holds that of the children which it has waited for, so that a sum over a tree of
    processes loses none of those that end.
    """

    parent: int
    began_s: float
    cpu_s: float


Table = Mapping[int, Seen]
Reader = Callable[[], Table]


def read_processes(proc: Path = PROC) -> Table:
    """Return all processes that can be seen here, zombies included."""
    per_s = os.sysconf("SC_CLK_TCK")
    found: dict[int, Seen] = {}
    try:
        names = [name for name in os.listdir(proc) if name.isdecimal()]
    except OSError:
        return found
    for name in names:
        try:
            descriptor = os.open(f"{proc}/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
            try:
                text = os.read(descriptor, 1024)
            finally:
                os.close(descriptor)
            cells = text[text.rindex(b")") + 2 :].split(None, 20)
            busy = int(cells[11]) + int(cells[12]) + int(cells[13]) + int(cells[14])
            found[int(name)] = Seen(int(cells[1]), int(cells[19]) / per_s, busy / per_s)
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
    return found


def used_b(pids: Iterable[int], proc: Path = PROC) -> float | None:
    """Return the memory of processes [B]: what each has alone, and the most that one shares.

    Pages that forked processes still share count for each. None where no process can be read.
    """
    own_b: list[int] = []
    shared_b = [0]
    page_b = os.sysconf("SC_PAGE_SIZE")
    for pid in pids:
        try:
            cells = (proc / str(pid) / "statm").read_bytes().split()
            resident, shared = int(cells[1]), int(cells[2])
        except (OSError, ValueError, IndexError):
            continue
        own_b.append((resident - shared) * page_b)
        shared_b.append(shared * page_b)
    return float(sum(own_b) + max(shared_b)) if own_b else None


@dataclass(slots=True)
class JobTime:
    """Processor time of one job's processes since its begin [s].

    The job's are its `roots`, what descends from them, and what did so when it was last looked at
    (`members`, by process with its begin). Those that began before the job count from `before_s`.
    """

    began_s: float
    roots: list[int]
    space: str = ""
    """The namespace that the process numbers belong to."""
    own_s: float = 0.0
    before_s: float = 0.0
    """Processor time that members had used before the job [s]."""
    gone_s: float = 0.0
    """That of members which ended without a parent to wait for them [s]."""
    members: dict[str, float] = field(default_factory=dict)

    def look(self, table: Table, used_before_s: Mapping[int, float]) -> bool:
        """Take in a table of processes.

        `used_before_s` is what roots say that they had used when the job began [s]. Returns False
        where time is missing: a process has ended that nobody has waited for, or not yet.
        """
        found = self._found(table)
        for pid in found:
            if str(pid) not in self.members and table[pid].began_s < self.began_s:
                self.before_s += used_before_s.get(pid, table[pid].cpu_s)
        own_s = sum(table[pid].cpu_s for pid in found) - self.before_s + self.gone_s
        missing_s = self.own_s - own_s
        self.members = {str(pid): table[pid].began_s for pid in found}
        if missing_s > 0:
            self.gone_s += missing_s
        self.own_s = max(self.own_s, own_s)
        return missing_s <= 0

    def _found(self, table: Table) -> set[int]:
        children: dict[int, list[int]] = defaultdict(list)
        for pid, seen in table.items():
            children[seen.parent].append(pid)
        waiting = [pid for pid in self.roots if pid in table]
        for text, began_s in self.members.items():
            pid = int(text)
            if pid in table and table[pid].began_s == began_s:
                waiting.append(pid)
        found: set[int] = set()
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting += children[pid]
        return found


class Strays:
    """Finds processes that no longer descend from a job, by its id in their environment.

    Where Slurm's Prolog has begun the measuring, also the `slurmstepd` of the job's steps, by its
    title, so that all that they start is the job's.
    """

    def __init__(self, job_id: str) -> None:
        self._sign = f"{JOB_ID}={job_id}"
        slurm_job = os.environ.get("SLURM_JOB_ID") if os.environ.get(REPORTER) else None
        # Debian's is called slurmstepd-wlm.
        title = rf"slurmstepd\S*: \[{re.escape(slurm_job)}\." if slurm_job else ""
        self._step = re.compile(title) if title else None
        self._known: set[int] = set()

    def found(self, table: Table, began_s: float) -> list[int]:
        """Return those among `table` that began after the job [s since boot], each once."""
        asked = [
            pid
            for pid, seen in table.items()
            if seen.parent == 1 and seen.began_s >= began_s and pid not in self._known
        ]
        self._known.update(asked)
        return [pid for pid in asked if self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        if self._step and self._step.match(system_text(f"/proc/{pid}/cmdline")):
            return True
        return self._sign in environ_of(pid)

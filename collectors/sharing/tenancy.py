"""Whether a board is this job's alone, and if not, which part of its energy is.

A reserved board is billed whole, whoever else is seen on it. It is taken as time-shared when
GRAMWATT_SHARED_GPU says so, or when the meter of another job holds its own lock on it: of any user
of the node where it has a folder for that (gramwatt.collectors.sharing.locks), else of this home.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from gramwatt.collectors.common import files
from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.identity import JOB_ID, safe_id
from gramwatt.collectors.devices.base import GpuUser
from gramwatt.collectors.gpu.energy import Notify
from gramwatt.collectors.journal.intervals import Ledger
from gramwatt.collectors.journal.spool import acquire
from gramwatt.collectors.sharing.attribution import Shares, Tenant, part_j, shares
from gramwatt.collectors.sharing.locks import NodeLocks

SHARED_GPU = "GRAMWATT_SHARED_GPU"
USERS_EVERY_NS = NS_PER_S
METERS_EVERY_NS = 10 * NS_PER_S
STRANGERS_EVERY_NS = 60 * NS_PER_S
OWN = "this job"


@runtime_checkable
class UsersPort(Protocol):
    """A driver that can tell who uses a board."""

    def users(self, index: int) -> tuple[GpuUser, ...]:
        """Processes with work on the board since the last call."""

    def memory_b(self, index: int) -> tuple[int, int]:
        """Device memory used and total [B]."""


class BoardLocks:
    """One lock file per board and job, held while the job's meter measures the board."""

    def __init__(self, home: Path, job_id: str, node: NodeLocks | None = None) -> None:
        self._folder, self._job = home / "boards", safe_id(job_id)
        self._held: dict[Path, int] = {}
        self._node = node

    def stay_home(self) -> None:
        """Neither tell nor ask other users, as for boards that are no hardware."""
        self._node = None

    def take(self, uuid: str) -> None:
        """Say that this job measures the board; no matter if that cannot be said here."""
        if self._node is not None:
            self._node.take(uuid)
        folder = self._folder / safe_id(uuid)
        try:
            files.folder(folder)
            lock = acquire(folder / self._job)
        except OSError:  # a home without locks: boards are then never seen to be shared
            return
        if lock is not None:
            self._held[folder / self._job] = lock

    def others(self, uuid: str) -> int:
        """Other jobs whose meters measure the board now; files of dead ones are removed."""
        folder, living = self._folder / safe_id(uuid), 0
        elsewhere = len(self._node.others(uuid)) if self._node is not None else 0
        try:
            names = [name for name in os.listdir(folder) if name != self._job]
        except OSError:
            return elsewhere
        for name in names:
            try:
                lock = acquire(folder / name)
            except OSError:
                continue
            living += lock is None
            if lock is not None:
                (folder / name).unlink(missing_ok=True)
                os.close(lock)
        return max(living, elsewhere)  # this home's jobs are among the node's

    def release(self) -> None:
        """Let go of all boards."""
        if self._node is not None:
            self._node.release()
        for path, lock in self._held.items():
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(lock)
        self._held.clear()


class Processes:
    """Tells the job's processes from others, by descent and by the job's id in the environment."""

    def __init__(
        self, roots: Callable[[], Iterable[int]], job_id: str, proc: Path = Path("/proc")
    ) -> None:
        self._roots, self._job_id, self._proc = roots, job_id, proc

    def visible(self, pid: int) -> bool:
        """Whether the process can be seen from here; in a container others often cannot."""
        return (self._proc / str(pid)).is_dir()

    def ours(self, pid: int) -> bool:
        """Whether the process is the job's: a descendant of a client, or started under its id."""
        roots, at = set(self._roots()), pid
        for _ in range(64):
            if at in roots:
                return True
            if at <= 1:
                break
            at = self._parent(at)
        return f"{JOB_ID}={self._job_id}".encode() in self._environ(pid)

    def _parent(self, pid: int) -> int:
        try:
            text = (self._proc / str(pid) / "stat").read_bytes()
            return int(text.rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return 0

    def _environ(self, pid: int) -> list[bytes]:
        try:
            return (self._proc / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return []


class Tenancy:
    """One board as this job has it: alone, or as one of several."""

    def __init__(
        self,
        port: UsersPort,
        index: int,
        names: tuple[str, str],
        around: tuple[BoardLocks, Processes, Mapping[str, str]],
        notify: Notify,
    ) -> None:
        """`names` are the board's UUID and its label; `around` the locks, who is who, and the
        environment.
        """
        self.shared = False
        self.idle_w: float | None = None
        self.whole_j = self.billed_j = self.reserved_s = self.span_s = 0.0
        self._port, self._index, self._notify = port, index, notify
        self._uuid, self._label = names
        self._locks, self._processes, environ = around
        self._declared = environ.get(SHARED_GPU, "").strip().lower() in ("1", "true", "yes", "on")
        self._part = Shares(1.0, 1.0)
        self._others = 0
        self._users_ns = self._meters_ns = self._strangers_ns = 0
        self._locks.take(self._uuid)

    @property
    def share(self) -> float:
        """The reserved part over the time so far (0 to 1]."""
        return max(1e-6, self.reserved_s / self.span_s) if self.span_s > 0 else 1.0

    def bill_j(self, start_ns: int, end_ns: int, energy_j: float) -> float:
        """The job's part of the board's energy [J] over [start, end)."""
        self._look(end_ns)
        span_s = (end_ns - start_ns) / NS_PER_S
        if span_s <= 0:
            return 0.0
        mean_w = energy_j / span_s
        self.idle_w = mean_w if self.idle_w is None else min(self.idle_w, mean_w)
        billed_j = part_j(energy_j, self.idle_w * span_s, self._part) if self.shared else energy_j
        self.whole_j += energy_j
        self.billed_j += billed_j
        self.span_s += span_s
        self.reserved_s += span_s * (self._part.idle if self.shared else 1.0)
        return billed_j

    def conclude(self) -> None:
        """Say how much of a shared board was billed."""
        if self.whole_j > 0 and self.billed_j < self.whole_j:
            share = self.billed_j / self.whole_j
            self._notify("gpu-shared", f"{self._label}: {share:.1%} of its energy is the job's.")

    def _look(self, now_ns: int) -> None:
        if now_ns >= self._meters_ns:
            self._meters_ns = now_ns + METERS_EVERY_NS
            self._others = self._locks.others(self._uuid)
            self._decide()
        if self.shared and now_ns >= self._users_ns:
            self._users_ns = now_ns + USERS_EVERY_NS
            self._part = shares(self._tenants())[OWN]
        elif not self.shared and now_ns >= self._strangers_ns:
            self._strangers_ns = now_ns + STRANGERS_EVERY_NS
            self._look_for_strangers()

    def _decide(self) -> None:
        before, self.shared = self.shared, self._declared or self._others > 0
        if self.shared and not before:
            why = f"{SHARED_GPU} is set" if self._declared else "another job measures it too"
            text = f"{self._label} is time-shared ({why}): its dynamic energy is shared by use, "
            self._notify("gpu-shared", text + "its idle energy by memory, else evenly.")

    def _tenants(self) -> list[Tenant]:
        users = self._users()
        own = [user for user in users if self._processes.ours(user.pid)]
        others = [user for user in users if user not in own]
        if not own and any(not self._processes.visible(user.pid) for user in others):
            # Process ids of another namespace: one of them is ours, nobody knows which.
            return [Tenant(OWN), *(Tenant(str(user.pid)) for user in others[1:])]
        total_b = self._total_b()
        found = [_tenant(OWN, own, total_b)]
        found += [_tenant(str(user.pid), [user], total_b) for user in others]
        missing = range(self._others - len(others))
        return found + [Tenant(f"meter {number}") for number in missing]

    def _look_for_strangers(self) -> None:
        visible = [user.pid for user in self._users() if self._processes.visible(user.pid)]
        if any(not self._processes.ours(pid) for pid in visible):
            text = f"{self._label}: other processes use it. It is billed whole, because it is "
            self._notify("gpu-shared", f"{text}reserved; set {SHARED_GPU}=1 if it is time-shared.")

    def _users(self) -> tuple[GpuUser, ...]:
        try:
            return self._port.users(self._index)
        except Exception:  # as if nobody could be told apart
            return ()

    def _total_b(self) -> float | None:
        try:
            return float(self._port.memory_b(self._index)[1])
        except Exception:
            return None


class SharedLedger(Ledger):
    """Books the job's part of a board."""

    __slots__ = ("tenancy",)
    tenancy: Tenancy

    def add(
        self, start_ns: int, end_ns: int, energy_j: float, kind: str, power_w: float | None = None
    ) -> None:
        """Book the job's part of `energy_j` [J] over [start, end)."""
        billed_j = self.tenancy.bill_j(start_ns, end_ns, energy_j)
        shared = self.tenancy.shared and kind != "estimated"
        super().add(start_ns, end_ns, billed_j, "attributed" if shared else kind, power_w)


def _tenant(name: str, users: list[GpuUser], total_b: float | None) -> Tenant:
    use = [user.sm_percent for user in users if user.sm_percent is not None]
    held_b = [user.memory_b for user in users if user.memory_b is not None]
    known = bool(users) and len(held_b) == len(users) and total_b
    reserved = min(1.0, sum(held_b) / total_b) if known and total_b else None
    return Tenant(name, sum(use) if use else None, reserved)

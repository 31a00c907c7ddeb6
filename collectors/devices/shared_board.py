"""Which part of a GPU board's energy is billed to this job.

A reserved board is billed whole, even if others use it. It counts as time-shared when
GRAMWATT_SHARED_GPU is set, or while another job of the same home measures it too. The dynamic part
of its energy, above the board's idle power, is then divided by use (time on the streaming
multiprocessors), the idle part by the memory that each tenant holds. What no one has used
or reserved stays unallocated.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gramwatt.collectors.devices.board import Billed, DevicePort, GpuUser, Notify, offered
from gramwatt.collectors.devices.visibility import SHARED_GPU
from gramwatt.collectors.settings import files, identity
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.settings.config import TRUE_WORDS
from gramwatt.collectors.settings.identity import safe_id
from gramwatt.collectors.settings.launches import has_id
from gramwatt.collectors.settings.proc import environ_of, parent_of
from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.intervals import Interval, Ledger, Schedule
from gramwatt.sci.records.records import DeviceRecord, is_unique

TRIES, PAUSE_S = 5, 0.005
"""Another job that looks whether this one lives holds the lock for a moment [s]."""
USERS_EVERY_NS = NS_PER_S
"""How often the processes on a time-shared board are read."""
JOBS_EVERY_NS = 10 * NS_PER_S
"""How often other measured jobs are counted, after 1, 2, 4 and 8 s."""
OTHER_PROCESSES_EVERY_NS = 60 * NS_PER_S
"""How often a reserved board is checked for processes of others."""
IDLE_LEAST_S = 0.5
"""A shorter span has no mean power of the board's own: a window's edge between two ticks of its
counter leaves spans with a small part of a tick's energy."""
SMALLEST_SHARE = 1e-6
OWN = "this job"


def folders(home: Path) -> tuple[Path, Path]:
    """Return where a home's lock files are, and where if it takes none, as some network disks."""
    return home / "boards", files.temporary_folder() / "boards"


def why_unlockable(folder: Path) -> str | None:
    """Return why no file can be locked in a folder, or where it will be made; None if one can."""
    from tempfile import TemporaryFile

    place = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with TemporaryFile(dir=place) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return files.why(error)
    return None


class DeviceLocks:
    """One job's lock files, `GRAMWATT_HOME/boards/<device>/<job>`."""

    def __init__(self, home: Path, job_id: str, node: str = "") -> None:
        """`node` names the job's part on this node, where each node has a lock of its own."""
        self._home, self._folder, self._job = home, folders(home)[0], safe_id(job_id)
        self.part = safe_id(f"{job_id}.{node}")
        """The name of the job's part on this node."""
        self.failure = ""
        """Why other jobs cannot be seen from here; empty where they can."""
        self._held: dict[Path, int] = {}
        self._own = {self._job, self.part}
        self._places: dict[str, str] = {}
        """The folder of each device's lock files."""

    def acquire(self, device_id: str, *, by_node: bool = False) -> None:
        """Lock the device's file of this job, or `by_node` of this job on this node.

        Where neither of the `folders` takes locks the job holds none, and `failure` says why.
        """
        own = self.part if by_node else self._job
        for folder in dict.fromkeys((self._folder, *folders(self._home))):
            try:
                self._hold(folder / safe_id(device_id) / own)
            except OSError as error:
                self.failure = (
                    self.failure or f"no file can be locked in {folder}: {files.why(error)}"
                )
                continue
            self._folder, self.failure = folder, ""
            self._places.clear()
            return

    def _hold(self, path: Path) -> None:
        for _ in range(TRIES):
            files.folder(path.parent)
            _, temporary = folders(self._home)
            if temporary in path.parents and temporary.parent.stat().st_uid != os.getuid():
                raise PermissionError(errno.EPERM, f"{temporary.parent} is another user's")
            lock = spool.acquire(path)
            if lock is not None:
                self._held[path] = lock
                return
            time.sleep(PAUSE_S)

    def living(self, device_id: str) -> set[str]:
        """Return the names of other jobs, or parts of jobs by node, that measure the device now.

        The files of dead jobs are removed.
        """
        folder = self._places.get(device_id)
        if folder is None:
            folder = self._places[device_id] = f"{self._folder}/{safe_id(device_id)}"
        try:
            names = set(os.listdir(folder)) - self._own
        except OSError:
            return set()
        living = set[str]()
        for path in (Path(folder, name) for name in names):
            try:
                lock = spool.acquire(path)
            except OSError:
                continue
            if lock is None:
                living.add(path.name)
            else:
                path.unlink(missing_ok=True)
                os.close(lock)
        return living

    def release(self) -> None:
        """Release and remove all lock files of this job."""
        for path, lock in self._held.items():
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(lock)
        self._held.clear()


class Tenant(NamedTuple):
    """One user of a board.

    `use` is in any unit, the same for all, None where the driver does not report it; `reserved`
    is the part of the board (0 to 1), None where it is not known.
    """

    name: str
    use: float | None = None
    reserved: float | None = None


class Shares(NamedTuple):
    """One tenant's parts (0 to 1) of the dynamic and of the idle energy."""

    dynamic: float
    idle: float


WHOLE = Shares(1.0, 1.0)


def shares(tenants: Sequence[Tenant]) -> dict[str, Shares]:
    """Return every tenant's parts; each sum is at most 1, and the rest is unallocated.

    Idle energy is divided by reserved parts, or evenly where any of them is unknown. Dynamic
    energy is divided by use, or like the idle energy where no use is known.
    """
    idle = _reserved(tenants)
    used = {tenant.name: tenant.use or 0.0 for tenant in tenants}
    all_used = math.fsum(used.values())
    return {
        name: Shares(used[name] / all_used if all_used > 0 else idle[name], idle[name])
        for name in used
    }


def _reserved(tenants: Sequence[Tenant]) -> dict[str, float]:
    fractions = [tenant.reserved for tenant in tenants if tenant.reserved is not None]
    if len(fractions) < len(tenants):
        return {tenant.name: 1 / len(tenants) for tenant in tenants}
    promised = max(1.0, math.fsum(fractions))  # more may be promised than there is
    return {tenant.name: (tenant.reserved or 0.0) / promised for tenant in tenants}


def part_j(energy_j: float, idle_j: float, part: Shares) -> float:
    """Return a tenant's part of `energy_j` [J], of which `idle_j` [J] is idle energy."""
    idle_j = min(max(idle_j, 0.0), energy_j)
    return (energy_j - idle_j) * part.dynamic + idle_j * part.idle


class Processes:
    """Recognises the job's processes, by descent and by the job's id in their environment."""

    def __init__(
        self, roots: Callable[[], Iterable[int]], job_id: str, proc: str = "/proc"
    ) -> None:
        self._roots, self._job_id, self._proc = roots, job_id, proc

    def visible(self, pid: int) -> bool:
        """Return whether the process can be seen from here; in a container others often cannot."""
        return os.path.isdir(f"{self._proc}/{pid}")

    def ours(self, pid: int) -> bool:
        """Return whether the process is the job's: by descent from a client, or by its id."""
        roots, at = set(self._roots()), pid
        for _ in range(64):
            if at in roots:
                return True
            if at <= 1:
                break
            at = parent_of(at, self._proc)
        return has_id(environ_of(pid, self._proc), self._job_id)


class SharedLedger(Ledger):
    """Records this job's part of one board's energy, all of it while nobody else has the board."""

    def __init__(
        self,
        port: DevicePort,
        item: Billed,
        schedule: Schedule,
        emit: Callable[[str, Interval], None],
        boards: SharedBoards,
        *,
        kind: str | None = None,
    ) -> None:
        super().__init__(item.device_id, schedule, emit, kind=kind)
        self.fields: dict[str, Any] = {}
        """Those of its device record, to write them again when the board is shared."""
        self.recorded = False
        self.whole_j = self.billed_j = 0.0
        self._port, self._board, self._boards = port, item.board, boards
        self._shared = False
        self._idle_w: float | None = None
        self._reserved_s = self._span_s = 0.0
        self._part = WHOLE
        self._other_jobs = 0
        self._users_at_ns = self._jobs_at_ns = self._processes_at_ns = self._refresh_at_ns = 0
        # Locks go by the device, and by the node where its id tells it there only.
        own = item.device_id
        self._lock = own if is_unique(own) else safe_id(f"{identity.node_id()}-{own}")
        self._share = item.share
        boards.locks.acquire(self._lock)

    @property
    def mean_share(self) -> float:
        """The reserved part of the board, mean over the time so far (0 to 1]."""
        if self._span_s <= 0:
            return self._share
        return max(SMALLEST_SHARE, self._share * self._reserved_s / self._span_s)

    def add(
        self,
        start_ns: int,
        end_ns: int,
        energy_j: float,
        kind: str,
        power_w: float | None = None,
        most_w: float | None = None,
    ) -> None:
        """Record the job's part of `energy_j` [J] over [start, end)."""
        if end_ns >= self._refresh_at_ns:
            self._refresh(end_ns)
        billed_j, span_s = energy_j, (end_ns - start_ns) / NS_PER_S
        if span_s > 0:
            mean_w = energy_j / span_s
            if span_s >= IDLE_LEAST_S:
                self.see(mean_w)
            if self._shared:
                idle_w = mean_w if self._idle_w is None else self._idle_w
                billed_j = part_j(energy_j, idle_w * span_s, self._part)
            self.whole_j += energy_j
            self.billed_j += billed_j
            self._span_s += span_s
            self._reserved_s += span_s * (self._part.idle if self._shared else 1.0)
        attributed = self._shared and kind != "estimated"
        label = "attributed" if attributed else kind
        super().add(start_ns, end_ns, billed_j, label, power_w, most_w)

    def see(self, power_w: float) -> None:
        """Take a mean power of the whole board [W]: the lowest is its idle power."""
        self._idle_w = power_w if self._idle_w is None else min(self._idle_w, power_w)

    def _refresh(self, now_ns: int) -> None:
        boards = self._boards
        if now_ns >= self._jobs_at_ns:
            age_ns = max(NS_PER_S, round(self._span_s * NS_PER_S))
            self._jobs_at_ns = now_ns + min(JOBS_EVERY_NS, age_ns)
            self._other_jobs = len(boards.locks.living(self._lock))
            self._set_shared(boards.declared or self._other_jobs > 0)
        if self._shared and now_ns >= self._users_at_ns:
            self._users_at_ns = now_ns + USERS_EVERY_NS
            self._part = shares(self._tenants())[OWN]
        elif not self._shared and now_ns >= self._processes_at_ns:
            self._processes_at_ns = now_ns + OTHER_PROCESSES_EVERY_NS
            self._report_other_processes()
        next_ns = self._users_at_ns if self._shared else self._processes_at_ns
        self._refresh_at_ns = min(self._jobs_at_ns, next_ns)

    def _set_shared(self, shared: bool) -> None:
        if shared and (self._users() is None or not self._shared):
            self._report_shared()
        self._shared = shared

    def _report_shared(self) -> None:
        boards = self._boards
        why = f"{SHARED_GPU} is set" if boards.declared else "another job measures it too"
        how = "its dynamic energy is shared by use, its idle energy by memory, else evenly"
        if self._users() is None:
            how = "the driver does not list who uses it, so it is "
            if self._other_jobs:
                how += "divided evenly among the jobs that measure it"
            else:
                how += "billed whole, with the parts of tenants that are not known"
        boards.notify("gpu-shared", f"{self._board.name} is time-shared ({why}): {how}.")

    def _tenants(self) -> list[Tenant]:
        users, processes = self._users() or (), self._boards.processes
        own = [user for user in users if processes.ours(user.pid)]
        others = [user for user in users if user not in own]
        if not own and any(not processes.visible(user.pid) for user in others):
            # Process ids of another namespace: one of them is ours, and which is not known.
            return [Tenant(OWN), *(Tenant(str(user.pid)) for user in others[1:])]
        memory_b = self._board.memory_b
        tenants = [_tenant(OWN, own, memory_b)]
        tenants += [_tenant(str(user.pid), [user], memory_b) for user in others]
        missing = range(self._other_jobs - len(others))
        return tenants + [Tenant(f"job {number}") for number in missing]

    def _report_other_processes(self) -> None:
        processes = self._boards.processes
        pids = [user.pid for user in self._users() or ()]
        visible = [pid for pid in pids if processes.visible(pid)]
        hidden, ours = len(pids) - len(visible), [pid for pid in visible if processes.ours(pid)]
        # In a container all are hidden, and one of them is most often the job's.
        if len(ours) < len(visible) or hidden > (0 if ours else 1):
            others = "other processes" if ours or visible else f"{hidden} processes, not seen here,"
            text = f"{self._board.name}: {others} use it. It is billed whole, because it is "
            text += f"reserved; set {SHARED_GPU}=1 if it is time-shared."
            self._boards.notify("gpu-shared", text)

    def _users(self) -> tuple[GpuUser, ...] | None:
        """Return the processes on the device; None where the driver does not list them."""
        if self._share < 1:  # the driver lists the processes of the whole board
            return None
        return offered(lambda: self._port.users(self._board.ordinal))


def _tenant(name: str, users: list[GpuUser], total_b: float | None) -> Tenant:
    use = [user.sm_percent for user in users if user.sm_percent is not None]
    held_b = [user.memory_b for user in users if user.memory_b is not None]
    has_memory = bool(users) and len(held_b) == len(users) and total_b
    reserved = min(1.0, sum(held_b) / total_b) if has_memory and total_b else None
    return Tenant(name, sum(use) if use else None, reserved)


class SharedBoards:
    """The ledgers of a job's boards, and the device records of those that turn out shared."""

    def __init__(
        self,
        locks: DeviceLocks,
        processes: Processes,
        environ: Mapping[str, str],
        put: Callable[..., None],
        notify: Notify,
    ) -> None:
        self.locks, self.processes, self.notify = locks, processes, notify
        self.declared = environ.get(SHARED_GPU, "").strip().lower() in TRUE_WORDS
        """True when the user says that the boards are time-shared."""
        self._put = put
        self._ledgers: list[SharedLedger] = []

    def ledger(
        self,
        port: DevicePort,
        item: Billed,
        schedule: Schedule,
        emit: Callable[[str, Interval], None],
        kind: str | None,
    ) -> Ledger:
        """Return the ledger of a billed device: of a part of it without an id of its own, such as a
        tile, that no other job has.
        """
        if item.share < 1 and item.device_id == item.board.uuid:
            return Ledger(item.device_id, schedule, emit, kind=kind)
        ledger = SharedLedger(port, item, schedule, emit, self, kind=kind)
        self._ledgers.append(ledger)
        return ledger

    def has_ours(self, port: DevicePort, index: int) -> bool | None:
        """Return whether the driver lists a process of the job on a device; None where it does not
        say, or lists processes that cannot be seen from here.
        """
        users = offered(lambda: port.users(index))
        if users is None:
            return None
        if any(self.processes.ours(user.pid) for user in users):
            return True
        return False if all(self.processes.visible(user.pid) for user in users) else None

    def record_shares(self, *, final: bool) -> None:
        """Write the device record of each board that is shared: once, and at the end again with
        the mean share.
        """
        for ledger in self._ledgers:
            if ledger.whole_j <= ledger.billed_j or (ledger.recorded and not final):
                continue
            ledger.recorded = True
            fields = {**ledger.fields, "share": ledger.mean_share, "kind": "attributed"}
            self._put(DeviceRecord, **fields)
            if final:
                text = f"{ledger.billed_j / ledger.whole_j:.1%} of its energy is the job's."
                self.notify("gpu-shared", f"{ledger.fields['name']}: {text}")

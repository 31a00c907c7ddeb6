"""Which part of a GPU board's energy is billed to this job.

A reserved board is billed whole, even if others use it. It counts as time-shared when
GRAMWATT_SHARED_GPU is set, or while another job of the same home measures it too. The dynamic part
of its energy, above the board's idle power, is then divided by use (time on the streaming
multiprocessors), the idle part by the memory that each tenant holds. What no one has used
or reserved stays unallocated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.config import TRUE_WORDS
from gramwatt.collectors.common.identity import JOB_ID
from gramwatt.collectors.devices.locks import DeviceLocks
from gramwatt.collectors.devices.port import Billed, DevicePort, GpuUser, Notify
from gramwatt.collectors.journal.intervals import Interval, Ledger, Schedule
from gramwatt.sci.journal.records import DeviceRecord

SHARED_GPU = "GRAMWATT_SHARED_GPU"
USERS_EVERY_NS = NS_PER_S
"""How often the processes on a time-shared board are read."""
JOBS_EVERY_NS = 10 * NS_PER_S
"""How often other measured jobs are counted."""
OTHER_PROCESSES_EVERY_NS = 60 * NS_PER_S
"""How often a reserved board is checked for processes of others."""
SMALLEST_SHARE = 1e-6
OWN = "this job"


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
    known = [tenant.reserved for tenant in tenants if tenant.reserved is not None]
    if len(known) < len(tenants):
        return {tenant.name: 1 / len(tenants) for tenant in tenants}
    over = max(1.0, math.fsum(known))  # more may be promised than there is
    return {tenant.name: (tenant.reserved or 0.0) / over for tenant in tenants}


def part_j(energy_j: float, idle_j: float, part: Shares) -> float:
    """Return a tenant's part of `energy_j` [J], of which `idle_j` [J] is idle energy."""
    idle_j = min(max(idle_j, 0.0), energy_j)
    return (energy_j - idle_j) * part.dynamic + idle_j * part.idle


@runtime_checkable
class UsersPort(Protocol):
    """A driver that reports who uses a board."""

    def users(self, index: int) -> tuple[GpuUser, ...]:
        """Return the processes with work on the board since the last call."""


class Processes:
    """Recognises the job's processes, by descent and by the job's id in their environment."""

    def __init__(
        self, roots: Callable[[], Iterable[int]], job_id: str, proc: Path = Path("/proc")
    ) -> None:
        self._roots, self._job_id, self._proc = roots, job_id, proc

    def visible(self, pid: int) -> bool:
        """Return whether the process can be seen from here; in a container others often cannot."""
        return (self._proc / str(pid)).is_dir()

    def ours(self, pid: int) -> bool:
        """Return whether the process is the job's: by descent from a client, or by its id."""
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


class BoardShare:
    """This job's share of one board."""

    def __init__(
        self,
        port: UsersPort,
        item: Billed,
        locks: DeviceLocks,
        processes: Processes,
        notify: Notify,
        *,
        declared: bool,
    ) -> None:
        """`declared` says that the user has declared the board time-shared."""
        self.shared = False
        self.whole_j = self.billed_j = 0.0
        self._port, self._index = port, item.board.ordinal
        self._uuid, self._label = item.board.uuid, item.board.name
        self._memory_b = item.board.memory_b
        self._locks, self._processes, self._notify = locks, processes, notify
        self._declared = declared
        self._idle_w: float | None = None
        self._reserved_s = self._span_s = 0.0
        self._part = WHOLE
        self._other_jobs = 0
        self._users_at_ns = self._jobs_at_ns = self._processes_at_ns = 0
        locks.acquire(self._uuid)

    @property
    def mean(self) -> float:
        """The reserved part of the board, mean over the time so far (0 to 1]."""
        if self._span_s <= 0:
            return 1.0
        return max(SMALLEST_SHARE, self._reserved_s / self._span_s)

    def bill_j(self, start_ns: int, end_ns: int, energy_j: float) -> float:
        """Return the job's part of the board's energy [J] over [start, end)."""
        self._refresh(end_ns)
        span_s = (end_ns - start_ns) / NS_PER_S
        if span_s <= 0:
            return 0.0
        mean_w = energy_j / span_s
        self._idle_w = mean_w if self._idle_w is None else min(self._idle_w, mean_w)
        billed_j = part_j(energy_j, self._idle_w * span_s, self._part) if self.shared else energy_j
        self.whole_j += energy_j
        self.billed_j += billed_j
        self._span_s += span_s
        self._reserved_s += span_s * (self._part.idle if self.shared else 1.0)
        return billed_j

    def report_total(self) -> None:
        """Notify how much of a shared board's energy was billed."""
        if self.billed_j < self.whole_j:
            share = self.billed_j / self.whole_j
            self._notify("gpu-shared", f"{self._label}: {share:.1%} of its energy is the job's.")

    def _refresh(self, now_ns: int) -> None:
        if now_ns >= self._jobs_at_ns:
            self._jobs_at_ns = now_ns + JOBS_EVERY_NS
            self._other_jobs = self._locks.others(self._uuid)
            self._set_shared(self._declared or self._other_jobs > 0)
        if self.shared and now_ns >= self._users_at_ns:
            self._users_at_ns = now_ns + USERS_EVERY_NS
            self._part = shares(self._tenants())[OWN]
        elif not self.shared and now_ns >= self._processes_at_ns:
            self._processes_at_ns = now_ns + OTHER_PROCESSES_EVERY_NS
            self._report_other_processes()

    def _set_shared(self, shared: bool) -> None:
        if shared and not self.shared:
            why = f"{SHARED_GPU} is set" if self._declared else "another job measures it too"
            text = f"{self._label} is time-shared ({why}): its dynamic energy is shared by use, "
            self._notify("gpu-shared", text + "its idle energy by memory, else evenly.")
        self.shared = shared

    def _tenants(self) -> list[Tenant]:
        users = self._users()
        own = [user for user in users if self._processes.ours(user.pid)]
        others = [user for user in users if user not in own]
        if not own and any(not self._processes.visible(user.pid) for user in others):
            # Process ids of another namespace: one of them is ours, and which is not known.
            return [Tenant(OWN), *(Tenant(str(user.pid)) for user in others[1:])]
        total_b = self._memory_b
        found = [_tenant(OWN, own, total_b)]
        found += [_tenant(str(user.pid), [user], total_b) for user in others]
        missing = range(self._other_jobs - len(others))
        return found + [Tenant(f"job {number}") for number in missing]

    def _report_other_processes(self) -> None:
        visible = [user.pid for user in self._users() if self._processes.visible(user.pid)]
        if any(not self._processes.ours(pid) for pid in visible):
            text = f"{self._label}: other processes use it. It is billed whole, because it is "
            self._notify("gpu-shared", f"{text}reserved; set {SHARED_GPU}=1 if it is time-shared.")

    def _users(self) -> tuple[GpuUser, ...]:
        try:
            return self._port.users(self._index)
        except Exception:  # as if the driver did not report users
            return ()


def _tenant(name: str, users: list[GpuUser], total_b: float | None) -> Tenant:
    use = [user.sm_percent for user in users if user.sm_percent is not None]
    held_b = [user.memory_b for user in users if user.memory_b is not None]
    known = bool(users) and len(held_b) == len(users) and total_b
    reserved = min(1.0, sum(held_b) / total_b) if known and total_b else None
    return Tenant(name, sum(use) if use else None, reserved)


class SharedLedger(Ledger):
    """Records the job's part of a board's energy."""

    def __init__(
        self,
        device_id: str,
        schedule: Schedule,
        emit: Callable[[str, Interval], None],
        share: BoardShare,
    ) -> None:
        super().__init__(device_id, schedule, emit)
        self._share = share

    def add(
        self, start_ns: int, end_ns: int, energy_j: float, kind: str, power_w: float | None = None
    ) -> None:
        """Record the job's part of `energy_j` [J] over [start, end)."""
        billed_j = self._share.bill_j(start_ns, end_ns, energy_j)
        shared = self._share.shared and kind != "estimated"
        super().add(start_ns, end_ns, billed_j, "attributed" if shared else kind, power_w)


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
        self._locks, self._processes = locks, processes
        self._declared = environ.get(SHARED_GPU, "").strip().lower() in TRUE_WORDS
        self._put, self._notify = put, notify
        self._shares: dict[str, BoardShare] = {}
        self._fields: dict[str, dict[str, Any]] = {}
        self._recorded: set[str] = set()

    def ledger(
        self,
        port: DevicePort,
        item: Billed,
        schedule: Schedule,
        emit: Callable[[str, Interval], None],
        kind: str | None,
    ) -> Ledger:
        """Return the ledger of a billed device. A slice's share is fixed, a board's may change."""
        if item.share < 1 or not isinstance(port, UsersPort):
            return Ledger(item.device_id, schedule, emit, kind=kind)
        share = BoardShare(
            port, item, self._locks, self._processes, self._notify, declared=self._declared
        )
        self._shares[item.device_id] = share
        return SharedLedger(item.device_id, schedule, emit, share)

    def remember(self, fields: dict[str, Any]) -> None:
        """Keep a device record's fields, to write them again when the board is shared."""
        if fields["device_id"] in self._shares:
            self._fields[fields["device_id"]] = fields

    def record_shares(self, *, final: bool) -> None:
        """Write the device record of each board that is shared: once, and at the end again with
        the mean share.
        """
        for device_id, fields in self._fields.items():
            share = self._shares[device_id]
            if share.whole_j <= share.billed_j or (device_id in self._recorded and not final):
                continue
            self._recorded.add(device_id)
            self._put(DeviceRecord, **{**fields, "share": share.mean, "kind": "attributed"})
            if final:
                share.report_total()

"""Which devices one job has on one node; a group for each vendor and the host's meter read them.

What a meter depends on stands first: clock, environment, devices, host, codecarbon; tests replace
each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import field

from gramwatt.collectors.devices.board import DevicePort, Place, ports
from gramwatt.collectors.devices.counter import LONGEST_PERIOD_NS, POLL_NS
from gramwatt.collectors.devices.library import Crashes
from gramwatt.collectors.devices.sampler import NodeJob, Sampler
from gramwatt.collectors.devices.shared_board import DeviceLocks, Processes, SharedBoards
from gramwatt.collectors.host.devices import Access, HostDevices
from gramwatt.collectors.host.share import JobProcesses
from gramwatt.collectors.serving.poll import Poller
from gramwatt.collectors.serving.presets import Server
from gramwatt.collectors.settings.clock import NEVER_NS, NS_PER_S, Clock
from gramwatt.collectors.settings.proc import boot_id, process_start_ns


class Dependencies(Access):
    """Everything outside a meter that it reads or starts; the defaults are this machine's."""

    clock: Clock = field(default_factory=Clock)
    random: random.Random = field(default_factory=random.Random)
    boot: str = field(default_factory=boot_id)
    process_start_ns: Callable[[int], int | None] = process_start_ns
    ports: Callable[[Mapping[str, str]], list[DevicePort]] = lambda env: ports(Place(environ=env))
    polls: Callable[[Sequence[Server]], Poller] = Poller


RETRY_NS = 10 * NS_PER_S
"""How long a vendor's devices, or the host, are left alone after they have raised."""
SHORTEST_NS = POLL_NS
"""An interval that has just begun waits for the next open file."""


class DeviceManager:
    """All devices of one job on one node; `put` receives their device and interval records."""

    def __init__(
        self,
        dependencies: Dependencies,
        job: NodeJob,
        folder: Path,
        crashes: Crashes,
    ) -> None:
        """`folder` is the job's spool folder of this node."""
        self.pids: set[int] = set()
        """Processes of the job's clients, as far as they run."""
        self._began_ns: dict[int, int | None] = {}
        """When each client began, by the boot clock [ns]."""
        self.used_before_s: dict[int, float] = {}
        """What they had used of the processor when the job began [s], where they say it."""
        self._dependencies = dependencies
        self._folder = folder
        self._crashes = crashes
        self._job = job
        self._job_id = job_id = folder.parent.name
        self._locks = DeviceLocks(folder.parents[2], job_id, job.node)
        processes = Processes(lambda: self.pids, job_id)
        self._boards = SharedBoards(
            self._locks, processes, dependencies.environ, job.put, job.notify
        )
        self._groups: list[Sampler] = []
        self._host: HostDevices | None = None
        self._due_ns: dict[Sampler | HostDevices | None, int] = {}
        """When each group and the host are read next [ns]; None is a host that could not begin."""
        self._failed: set[Sampler | HostDevices | None] = set()
        """Those of them that have raised, and are left alone until then."""
        self._host_begins: tuple[dict[str, Any] | None, int] = None, 0
        self._known: dict[str, Any] = {}
        self._environs: list[tuple[Mapping[str, str], int]] = []

    def begin(self, state: dict[str, Any] | None, mark_ns: int) -> None:
        """Find the devices and take their first readings.

        `state` is an earlier meter's, to continue from; without one the job's energy begins at
        `mark_ns` [ns].
        """
        self._known = (state or {}).get("devices", {})
        environ = self._dependencies.environ
        ports = self._dependencies.ports(environ)
        self._groups = [Sampler(self._job, port, self._boards, self._crashes) for port in ports]
        self.adopt(environ, mark_ns)
        if not any(group.includes_host for group in self._groups):
            self._host_begins = (state or {}).get("host"), mark_ns
            self._guarded(None, self._begin_host)
        if self._locks.failure:
            text = f"{self._locks.failure}: other jobs here are not seen, and boards and "
            text += "host that they share with this one are billed to each of them whole."
            self._job.notify("jobs-unseen", text)

    def add_client(self, first: Mapping[str, Any]) -> None:
        """Take the process of a first line as the job's, and what it had used before its block."""
        pid = int(first["pid"])
        self._began_ns[pid] = first.get("began_ns")
        if self._lives(pid):
            self.pids.add(pid)
        if first.get("role") != "command":
            self.used_before_s[pid] = float(first.get("cpu_s") or 0.0)

    def _lives(self, pid: int) -> bool:
        """Tell whether this client runs: strangers get the numbers of those that have ended."""
        began_ns = self._began_ns[pid]
        return not began_ns or self._dependencies.process_start_ns(pid) == began_ns

    def adopt(self, environ: Mapping[str, str], mark_ns: int) -> None:
        """Add the devices that `environ`, of this or another rank's meter, gives the job.

        Devices already measured are left alone; the new ones' energy begins at `mark_ns` [ns].
        """
        self._environs.append((environ, mark_ns))
        for group in self._groups:
            self._guarded(group, self._adopt, group, environ, mark_ns)

    def choose(self, environs: Sequence[Mapping[str, str]]) -> None:
        """Release the devices that none of these environments, of the job's scripts, chooses."""
        for group in self._groups:
            self._guarded(group, group.choose, environs)

    def due_ns(self) -> int:
        """Return when the next reading is due [ns]."""
        return min(self._due_ns.values(), default=NEVER_NS)

    def tick(self) -> None:
        """Take the readings that are due."""
        now_ns = self._job.timeline.now_ns()
        for part, due_ns in [*self._due_ns.items()]:
            if now_ns >= due_ns:
                self._guarded(part, self._tick_part, part, now_ns)

    def add_boundary(self, time_ns: int) -> None:
        """End open intervals at a window's edge [ns], where they can be read at once."""
        for part in self._parts():
            self._guarded(part, part.add_boundary, time_ns)

    def open_intervals(self) -> list[dict[str, Any]]:
        """Return the open intervals of all devices, as record fields for the open file."""
        self.pids.intersection_update([pid for pid in self.pids if self._lives(pid)])
        if self._host:
            self._guarded(self._host, self._host.settle)
        self._boards.record_shares(final=False)
        ledgers = (ledger for part in self._parts() for ledger in part.ledgers)
        spans = [(ledger.device_id, ledger.open) for ledger in ledgers]
        now_ns = self._job.timeline.now_ns()
        spans += [span for group in self._groups for span in group.unread_intervals(now_ns)]
        return [
            interval.fields(name)
            for name, interval in spans
            if interval and interval.end_ns - interval.start_ns >= SHORTEST_NS
        ]

    def stop(self, stop_ns: int) -> None:
        """Take the final readings; everything is recorded up to `stop_ns` [ns] afterwards."""
        self._job.schedule.end_ns = stop_ns
        self._failed.clear()  # a last time
        for part in self._parts():
            self._guarded(part, part.stop, stop_ns)
        self._boards.record_shares(final=True)
        self._locks.release()
        self._failed.clear()
        for group in self._groups:
            self._guarded(group, group.close)

    def state(self) -> dict[str, Any]:
        """Return what the next meter needs to continue, JSON-ready."""
        states = {name: state for group in self._groups for name, state in group.states()}
        return {
            "devices": {**self._known, **states},
            "host": self._host.state() if self._host else None,
        }

    def resolution_s(self) -> float:
        """Return the length of the shortest job that the slowest counter shows [s]: two of its
        periods; 0 without NVIDIA's driver, whose counters alone tick so slowly.
        """
        if not any(group.driver for group in self._groups):
            return 0.0
        devices = (device for group in self._groups for device in group.devices)
        periods_s = (device.meter.period_s or 0.0 for device in devices)
        return 2 * (max(periods_s, default=0.0) or LONGEST_PERIOD_NS / NS_PER_S)

    def _begin_host(self) -> None:
        own = JobProcesses(self._job_id, self.pids, self.used_before_s)
        host = HostDevices(self._job, self._dependencies, str(self._folder), self._locks, own)
        host.begin(*self._host_begins)
        self._host, self._due_ns[host] = host, host.due_ns() or NEVER_NS

    def _parts(self) -> list[Sampler | HostDevices]:
        return [*self._groups, *([self._host] if self._host else [])]

    def _guarded(
        self, part: Sampler | HostDevices | None, action: Callable[..., None], *arguments: Any
    ) -> None:
        """Act on one vendor's devices or the host, which may raise without harm to the others.

        What has raised is left alone for RETRY_NS.
        """
        now_ns = self._job.timeline.now_ns()
        if part in self._failed and now_ns < self._due_ns[part]:
            return
        try:
            action(*arguments)
            self._failed.discard(part)
            self._due_ns[part] = (part.due_ns() if part else None) or NEVER_NS
        except Exception as error:  # a vendor's library, or a file of the system
            self._failed.add(part)
            self._due_ns[part] = now_ns + RETRY_NS
            what = part.name if isinstance(part, Sampler) else "the processor and memory"
            text = f"measuring {what} failed: {error!r}; it is tried again."
            self._job.notify("meter-gap", text)

    def _tick_part(self, part: Sampler | HostDevices | None, now_ns: int) -> None:
        if part is None:
            self._begin_host()
            return
        if isinstance(part, Sampler) and (part in self._failed or part.wants_boards(now_ns)):
            for environ, mark_ns in self._environs:
                self._adopt(part, environ, mark_ns)
        part.tick()

    def _adopt(self, group: Sampler, environ: Mapping[str, str], mark_ns: int) -> None:
        # A machine with another vendor's devices has no NVML to miss.
        others = any(other.ledgers for other in self._groups if other is not group)
        # Most virtual machines have no GPU, and no job uses one without the kernel's driver.
        expected = not others and not self._dependencies.machine().virtual
        module = any(other.is_module for other in self._groups if other is not group)
        group.adopt(environ, self._known, mark_ns, expected=expected, beside_module=module)

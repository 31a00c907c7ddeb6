"""Which devices one job has on one node; their samplers and the host's meter read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.devices.base import Notify
from gramwatt.collectors.devices.visibility import Billed
from gramwatt.collectors.gpu.sampler import Sampler
from gramwatt.collectors.host.meter import HostMeter
from gramwatt.collectors.journal.intervals import Ledger, Schedule
from gramwatt.collectors.meter.accelerators import (
    NodeJob,
    NvidiaGpus,
    OtherVendors,
    Put,
    is_module,
)
from gramwatt.collectors.meter.dependencies import Dependencies
from gramwatt.collectors.meter.host_devices import HostDevices
from gramwatt.collectors.sharing.attribution import Processes, SharedBoards
from gramwatt.collectors.sharing.locks import DeviceLocks

IDLE_NS = 10 * NS_PER_S
"""Until when nothing is due on a node without devices."""


class DeviceManager:
    """All devices of one job on one node; `put` receives their device and interval records."""

    def __init__(
        self,
        dependencies: Dependencies,
        timeline: Timeline,
        node: str,
        put: Put,
        notify: Notify,
        folder: Path,
    ) -> None:
        """`folder` is the job's spool folder of this node."""
        self.pids: set[int] = set()
        """Processes of the job's clients."""
        self._dependencies = dependencies
        self._folder = folder
        self._job = NodeJob(
            node, timeline, Schedule(timeline.start_ns), dependencies.random, put, notify
        )
        home, job_id = folder.parents[2], folder.parent.name
        self._locks = DeviceLocks(home, job_id, node)
        processes = Processes(lambda: self.pids, job_id)
        self._boards = SharedBoards(self._locks, processes, dependencies.environ, put, notify)
        self._nvidia = NvidiaGpus(self._job, dependencies.port, self._boards)
        self._others = OtherVendors(self._job)
        self._host: HostDevices | None = None
        self._known: dict[str, Any] = {}
        self._environs: list[tuple[Mapping[str, str], int]] = []

    @property
    def schedule(self) -> Schedule:
        """Where intervals are cut."""
        return self._job.schedule

    @property
    def host(self) -> HostMeter | None:
        """The host's meter; None where a module's counter includes the host."""
        return self._host.meter if self._host else None

    @property
    def driver(self) -> str | None:
        """Version of NVIDIA's driver; None without one."""
        return self._nvidia.driver

    def begin(self, state: dict[str, Any] | None, mark_ns: int) -> None:
        """Find the devices and take their first readings.

        `state` is an earlier meter's, to continue from; without one the job's energy begins at
        `mark_ns` [ns].
        """
        self._known = (state or {}).get("devices", {})
        self._others.open(self._dependencies.vendors(self._dependencies.environ))
        billed = self.adopt(self._dependencies.environ, mark_ns)
        modules = any(is_module(item.board) for item in billed)
        if not modules and not self._others.includes_host:
            self._host = HostDevices(self._job, self._dependencies, str(self._folder), self._locks)
            self._host.begin((state or {}).get("host"), mark_ns)

    def adopt(self, environ: Mapping[str, str], mark_ns: int) -> tuple[Billed, ...]:
        """Add the devices that `environ`, of this or another rank's meter, gives the job.

        Devices already measured are left alone; the new ones' energy begins at `mark_ns` [ns].
        Returns the NVIDIA GPUs that it gives.
        """
        self._environs.append((environ, mark_ns))
        self._others.adopt(environ, self._known, mark_ns)
        return self._adopt_nvidia(environ, mark_ns)

    def due_ns(self) -> int:
        """When the next reading is due [ns]."""
        dues = [sampler.due_ns() for sampler in self._samplers() if sampler.devices]
        host_ns = self._host.meter.due_ns() if self._host else None
        dues += [due_ns for due_ns in (self._nvidia.retry_at_ns, host_ns) if due_ns]
        return min(dues) if dues else self._job.timeline.now_ns() + IDLE_NS

    def tick(self) -> None:
        """Take the readings that are due."""
        if self._nvidia.retry_at_ns and self._job.timeline.now_ns() >= self._nvidia.retry_at_ns:
            for environ, mark_ns in self._environs:
                self._adopt_nvidia(environ, mark_ns)
        for sampler in self._samplers():
            sampler.tick()
        self._nvidia.put_periods()
        if self._host:
            self._host.meter.tick()

    @property
    def awaits_start(self) -> bool:
        """Whether the first readings still wait for the counters' ticks."""
        return self._nvidia.sampler is not None and self._nvidia.sampler.awaits_start

    def add_boundary(self, time_ns: int) -> None:
        """A window's edge [ns]: open intervals end there, where they can be read at once."""
        for sampler in self._samplers():
            sampler.add_boundary(time_ns)
        if self._host:
            self._host.meter.mark(time_ns)

    def open_intervals(self) -> list[dict[str, Any]]:
        """The open intervals of all devices, as record fields for the open file."""
        if self._host:
            self._host.settle()
        self._boards.record_shares(final=False)
        spans = [(ledger.device_id, ledger.open) for ledger in self._ledgers()]
        return [iv.fields(name) for name, iv in spans if iv and iv.end_ns > iv.start_ns]

    def stop(self, stop_ns: int) -> None:
        """The final readings; everything is recorded up to `stop_ns` [ns] afterwards."""
        self.schedule.end_ns = stop_ns
        for sampler in self._samplers():
            sampler.stop(stop_ns)
        self._boards.record_shares(final=True)
        self._nvidia.put_unread()
        if self._host:
            self._host.stop(stop_ns)
        self._locks.release()
        self._nvidia.close()
        self._others.close()

    def state(self) -> dict[str, Any]:
        """What the next meter needs to continue, JSON-ready."""
        meters = [device.gpu for sampler in self._samplers() for device in sampler.devices]
        return {
            "devices": {**self._known, **{gpu.ledger.device_id: gpu.state() for gpu in meters}},
            "host": self._host.meter.state() if self._host else None,
        }

    def coarsest_period_s(self) -> float | None:
        """The slowest counter's update period [s], None where none was seen."""
        devices = [device for sampler in self._samplers() for device in sampler.devices]
        return max((d.gpu.period_s for d in devices if d.gpu.period_s), default=None)

    def _adopt_nvidia(self, environ: Mapping[str, str], mark_ns: int) -> tuple[Billed, ...]:
        # Another vendor's machine has no NVML to miss.
        expected = not self._others.ledgers
        return self._nvidia.adopt(environ, self._known, mark_ns, expected=expected)

    def _samplers(self) -> list[Sampler]:
        nvidia = self._nvidia.sampler
        return [nvidia, *self._others.samplers] if nvidia else self._others.samplers

    def _ledgers(self) -> list[Ledger]:
        host = self._host.meter.ledgers if self._host else ()
        return [*self._nvidia.ledgers, *host, *self._others.ledgers]

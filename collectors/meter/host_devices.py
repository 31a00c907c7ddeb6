"""CPU and memory of the job's host: their meter, the part of them that is billed, their records."""

from __future__ import annotations

from typing import Any

from gramwatt.collectors.devices.group import NodeJob
from gramwatt.collectors.devices.locks import DeviceLocks
from gramwatt.collectors.host.meter import HostMeter, host_meter
from gramwatt.collectors.host.parts import CPU, RAM, HostShare, Part
from gramwatt.collectors.host.rapl import Counters
from gramwatt.collectors.meter.dependencies import Dependencies, rapl_counters, starter
from gramwatt.sci.journal.records import DeviceRecord


class HostDevices:
    """The host's CPU and memory as devices of the job."""

    def __init__(
        self, job: NodeJob, dependencies: Dependencies, folder: str, locks: DeviceLocks
    ) -> None:
        """`folder` is the job's spool folder, where codecarbon's process may leave files."""
        self._job = job
        self._machine = dependencies.machine()
        spawn, counters = starter(dependencies, folder), rapl_counters(dependencies)
        if not (counters and counters.usable):
            self._report_estimated(dependencies, counters, by_codecarbon=spawn is not None)
        machine = self._machine
        self._parts = (
            Part(f"{job.node}-cpu", machine.cpu_share, job.schedule, job.emit),
            Part(f"{job.node}-ram", machine.memory_share, job.schedule, job.emit),
        )
        self._share = HostShare(locks, self._parts, job.notify)
        parts = dict(zip((CPU, RAM), self._parts, strict=True))
        self.meter: HostMeter = host_meter(
            job.timeline, machine, parts, job.notify, spawn, counters
        )
        self._recorded: object = None

    def begin(self, state: dict[str, Any] | None, mark_ns: int) -> None:
        """Continue an earlier meter's `state`, or begin at `mark_ns` [ns]."""
        if state:
            self.meter.resume(state)
        else:
            self.meter.start_at(mark_ns)
        self._put_records()

    def settle(self) -> None:
        """Bring meter, shares and records up to date."""
        self.meter.settle()
        self._share.refresh_share()
        self._put_records()

    def stop(self, stop_ns: int) -> None:
        """The final readings, up to `stop_ns` [ns]."""
        self.meter.stop(stop_ns)
        if any(part.mean_share != part.share for part in self._parts):
            self._recorded = None  # once more, with the part of the host that it was
        self._put_records()

    def _report_estimated(
        self, dependencies: Dependencies, found: Counters | None, *, by_codecarbon: bool
    ) -> None:
        text = "no counter of processor and memory is read here; a model estimates their energy."
        if found and found.denied:
            text = (
                f"RAPL counters of {len(found.denied)} processor package(s) cannot be read "
                "(`gramwatt doctor` has the fix); a model estimates the processor's energy."
            )
        elif by_codecarbon and dependencies.rapl():
            return
        self._job.notify("meter-source-absent", text)

    def _put_records(self) -> None:
        """Device records of CPU and memory, again whenever their meter has changed."""
        machine, sources = self._machine, self.meter.sources
        if sources == self._recorded:
            return
        self._recorded = (cpu_meter, cpu_kind), (ram_meter, ram_kind) = sources
        cpu_share, ram_share = (part.mean_share for part in self._parts)
        self._job.put(
            DeviceRecord,
            device_id=f"{self._job.node}-cpu",
            device_class="cpu",
            name=machine.cpu_name or "unknown CPU",
            meter=cpu_meter,
            kind=_kind_of_share(cpu_kind, cpu_share),
            share=cpu_share,
            units=machine.threads,
            units_total=machine.threads_total,
        )
        self._job.put(
            DeviceRecord,
            device_id=f"{self._job.node}-ram",
            device_class="ram",
            name="memory",
            meter=ram_meter,
            kind=_kind_of_share(ram_kind, ram_share),
            share=ram_share,
            memory_b=machine.memory_b,
        )


def _kind_of_share(kind: str, share: float) -> str:
    """The kind of a reading of which only a share is billed."""
    return "attributed" if share < 1 and kind == "measured" else kind

"""Processor and memory of the job's host as devices of the job: what reads them, and their records.

A RAPL counter where there is one, else codecarbon where that reads one, else the model.
"""

from __future__ import annotations

from typing import Any

from gramwatt.collectors.common import identity
from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.devices.sampler import NodeJob
from gramwatt.collectors.devices.shared_board import DeviceLocks
from gramwatt.collectors.host.codecarbon import Codecarbon, CodecarbonSource, reads_more
from gramwatt.collectors.host.components import HostComponent
from gramwatt.collectors.host.division import CpuDivision, Divided, Division, RamDivision, Whose
from gramwatt.collectors.host.model import CpuModel, ModelSource, RamModel
from gramwatt.collectors.host.rapl import NO_COUNTERS, Counters, RaplSource
from gramwatt.collectors.host.source import CPU, RAM, HostSource
from gramwatt.collectors.journal.intervals import Ledger
from gramwatt.collectors.meter.dependencies import HOST_SOURCE, Dependencies
from gramwatt.sci.base.notices import CODES
from gramwatt.sci.journal.records import DeviceRecord

LOOK_AT_S = (1, 2, 4, 8)
"""Ages of the meter at which it looks at the job's processes, before it does so at every save: so
that the memory of a short command is seen."""


class HostDevices:
    """The host's processor and memory as devices of the job.

    What no cgroup reserves for one job is divided among those that use it (`host/division.py`).
    """

    def __init__(
        self,
        job: NodeJob,
        dependencies: Dependencies,
        folder: str,
        locks: DeviceLocks,
        whose: Whose,
    ) -> None:
        """`folder` is the job's spool folder, where codecarbon's process may leave files."""
        self._job = job
        self._machine = machine = dependencies.machine()
        setting = dependencies.environ.get(HOST_SOURCE)
        found = NO_COUNTERS if setting == "model" else dependencies.counters()
        own = NO_COUNTERS if setting == "codecarbon" else found
        start = None if setting == "model" else dependencies.codecarbon
        self._codecarbon: Codecarbon | None = None
        if start and reads_more(setting, found.usable) and not (own.of(CPU) and own.of(RAM)):
            self._codecarbon = Codecarbon(lambda: start(folder), job.timeline, self._use_model)
        # A virtual machine has no counters, and its user nothing to do about it.
        absent = found.denied or not machine.virtual
        if (not found.usable and absent) or (setting == "codecarbon" and not self._codecarbon):
            self._report_estimated(found)
        self._recorded: dict[str, object] = {}
        # Locks go by the machine, since several machines may share a home, and by job and node:
        # containers of one machine are nodes of their own.
        lock = f"{identity.kernel_id()}-cpu{machine.pool}"
        locks.acquire(lock, by_node=True)
        load = CpuModel(machine)
        division = Division(
            locks.beside(lock),
            locks.part,
            whose,
            lambda: {*locks.living(lock), locks.part},
            dependencies.processes,
            job.timeline.clock.now_ns,
            load.busy_s,
        )
        self._division = division
        self._looks_ns: list[int] = []
        of_cpu, of_ram = CpuDivision(division, machine, load), RamDivision(division, machine)
        self._components = {
            CPU: self._component(CPU, machine.cpu_share, load, own, of_cpu),
            RAM: self._component(RAM, machine.memory_share, RamModel(machine), own, of_ram),
        }

    @property
    def ledgers(self) -> list[Ledger]:
        """The ledgers of CPU and RAM."""
        return [component.ledger for component in self._components.values()]

    def begin(self, state: dict[str, Any] | None, mark_ns: int) -> None:
        """Continue an earlier meter's `state`, or begin at `mark_ns` [ns]."""
        for name, component in self._components.items():
            component.begin((state or {}).get(name), mark_ns)
        began_ns = mark_ns - self._job.timeline.offset_ns
        self._division.join(began_ns, (state or {}).get("division"))
        if self._division.now.own_s is not None:
            now_ns = self._job.timeline.now_ns()
            self._looks_ns = [now_ns + age_s * NS_PER_S for age_s in LOOK_AT_S]
        self._report_sharing()
        self._put_records()

    def state(self) -> dict[str, Any]:
        """Return what the next meter needs to continue, JSON-ready."""
        states = {name: component.state() for name, component in self._components.items()}
        return {**states, "division": self._division.state()}

    def due_ns(self) -> int | None:
        """Return when counters or codecarbon are due [ns]; None when nothing is due by itself."""
        dues = [component.source.due_ns() for component in self._components.values()]
        dues += [self._codecarbon.due_ns()] if self._codecarbon else []
        dues += self._looks_ns[:1]
        return min((due_ns for due_ns in dues if due_ns is not None), default=None)

    def tick(self) -> None:
        """Read the counters that are due, and what codecarbon has written."""
        now_ns = self._job.timeline.now_ns()
        if self._codecarbon:
            self._codecarbon.poll()
        for component in self._components.values():
            due_ns = component.source.due_ns()
            if due_ns is not None and now_ns >= due_ns:
                self._division.look()
                component.settle(now_ns)
        if self._looks_ns and now_ns >= self._looks_ns[0]:
            self._looks_ns = [due_ns for due_ns in self._looks_ns if due_ns > now_ns]
            self._division.look()

    def mark(self, mark_ns: int) -> None:
        """Record what can be recorded, and end the intervals at a window's boundary [ns]."""
        now_ns = self._job.timeline.now_ns()
        self._division.look()
        for component in self._components.values():
            component.cut(mark_ns, now_ns)

    def settle(self) -> None:
        """Record what can be recorded now, and bring shares and records up to date."""
        now_ns = self._job.timeline.now_ns()
        if self._codecarbon:
            self._codecarbon.poll()
        self._division.look()
        for component in self._components.values():
            component.settle(now_ns)
        self._report_sharing()
        self._put_records()

    def stop(self, stop_ns: int) -> None:
        """Record everything up to `stop_ns` [ns] and end codecarbon, without waiting for it."""
        now_ns = self._job.timeline.now_ns()
        if self._codecarbon and self._codecarbon.process:
            self._codecarbon.poll()
        self._division.look()
        for component in self._components.values():
            component.stop(now_ns, stop_ns)
        self._division.leave()
        self._put_records(final=True)
        if self._codecarbon:
            self._codecarbon.end()

    def _component(
        self, name: str, share: float, model: ModelSource, counters: Counters, divided: Divided
    ) -> HostComponent:
        source: HostSource = model
        if domains := counters.of(name):
            source = RaplSource(domains, self._job.timeline.now_ns(), self._job.notify)
        elif self._codecarbon:
            source = CodecarbonSource(name, self._codecarbon, model)
        ledger = Ledger(f"{self._job.node}-{name}", self._job.schedule, self._job.emit)
        return HostComponent(share, ledger, model, source, divided)

    def _report_sharing(self) -> None:
        if self._division.others:
            self._job.notify("host-shared", CODES["host-shared"])

    def _report_estimated(self, found: Counters) -> None:
        text = "no counter of processor and memory is read here; a model estimates their energy."
        if found.denied:
            text = (
                f"RAPL counters of {len(found.denied)} processor package(s) cannot be read "
                "(`gramwatt doctor` has the fix); a model estimates the processor's energy."
            )
        self._job.notify("meter-unreadable" if found.denied else "meter-source-absent", text)

    def _use_model(self, why: str) -> None:
        self._job.notify("meter-source-absent", f"{why}; the host's energy is the model's.")

    def _put_records(self, *, final: bool = False) -> None:
        """Put the device records of CPU and memory, again whenever what they say has changed.

        The share that other jobs left of it is known at the end.
        """
        for name, component in self._components.items():
            meter, kind = component.source.meter, component.source.kind
            share = component.mean_share if final else component.share
            known = meter, kind, share
            if self._recorded.get(name) == known:
                continue
            self._recorded[name] = known
            self._job.put(
                DeviceRecord,
                device_id=component.ledger.device_id,
                device_class=name,
                meter=meter,
                kind="attributed" if share < 1 and kind == "measured" else kind,
                share=share,
                **self._machine.facts(name),
            )

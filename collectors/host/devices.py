"""Processor and memory of the job's host as devices of the job: their sources, records and share.

A RAPL counter where there is one, else codecarbon where that reads one, else the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from gramwatt.collectors.devices.sampler import NodeJob
from gramwatt.collectors.devices.shared_board import DeviceLocks
from gramwatt.collectors.host.codecarbon import (
    HOST_SOURCE,
    Codecarbon,
    CodecarbonSource,
    PipedProcess,
    reads_more,
)
from gramwatt.collectors.host.machine import CPU, RAM, Machine, this_machine
from gramwatt.collectors.host.model import CpuModel, HostSource, RamModel
from gramwatt.collectors.host.rapl import NO_COUNTERS, Counters, RaplSource, find_counters
from gramwatt.collectors.host.share import WHOLE, JobProcesses, ProcessReader, Reader, Share
from gramwatt.collectors.settings import identity
from gramwatt.collectors.settings.clock import NS_PER_S, suspended_between
from gramwatt.collectors.spool.intervals import Interval, Ledger
from gramwatt.sci.figures.host_model import CPU_MODEL_UNLIKE, STANDS_IN
from gramwatt.sci.figures.notices import CODES
from gramwatt.sci.records.records import DeviceRecord

LOOK_AT_S = (1, 2, 4, 8)
"""Ages of the meter at which it looks at the job's processes, before it does so at every save: so
that the memory of a short command is seen."""
SMALLEST_SHARE = 1e-6
Model = CpuModel | RamModel


class Access(Struct):
    """What of the machine the host's meter reads or starts; the defaults are this machine's."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    machine: Callable[[], Machine] = this_machine
    counters: Callable[[], Counters] = find_counters
    processes: Reader = field(default_factory=ProcessReader)
    codecarbon: Callable[[str], PipedProcess] | None = None
    """Starts codecarbon in a folder; None when it is not installed."""


class HostComponent:
    """Processor or memory of the host: its source, its ledger, and the part of it that is billed.

    `share` (0 to 1] is what limits leave to the job; of that it is billed the fraction that
    `job_share` has for the time since energy was last recorded.
    """

    def __init__(
        self,
        name: str,
        share: float,
        job: NodeJob,
        model: Model,
        source: HostSource,
        job_share: Share,
    ) -> None:
        """`model` stands in where `source`, which may be the model itself, tells nothing."""
        self.share = share
        self.ledger = Ledger(f"{job.node}-{name}", job.schedule, job.emit)
        self.model, self.source = model, source
        self.stood_in = False
        """Whether the model gave energy in place of a counter."""
        self._suspended_ns, self._job_share = job.timeline.suspended_ns, job_share
        self._since, self._fraction = job_share.start, WHOLE
        self._slept_ns, self._awake = self._suspended_ns(), 1.0
        self._recorded_ns = 0
        """Until when energy is recorded [ns]."""
        self._counted_w: float | None = None
        """Power of the counter's last reading [W]; None where it is not known."""
        self._whole_s = self._idle_s = 0.0

    @property
    def meter(self) -> str:
        """The name of what gives its energy, and of the model where that stood in."""
        meter = self.source.meter
        stood_in = self.stood_in and meter != self.model.meter
        return f"{meter}{STANDS_IN}{self.model.meter}" if stood_in else meter

    @property
    def mean_share(self) -> float:
        """The share of what is idle so far, weighted by time."""
        if self._whole_s <= 0:
            return self.share
        return max(SMALLEST_SHARE, round(self._idle_s / self._whole_s, 9))

    def begin(self, state: dict[str, Any] | None, mark_ns: int) -> None:
        """Continue from another meter's `state`, or record from `mark_ns` [ns] on."""
        self._recorded_ns, self._since = mark_ns, self._job_share.start
        if state:
            self._recorded_ns, self._slept_ns = int(state["since_ns"]), int(state["slept_ns"])
            self.ledger.open = Interval.restored(state["open"])
            self.source.resume(state["source"])

    def state(self) -> dict[str, Any]:
        """Return what the next meter needs to continue, for JSON."""
        return {
            "since_ns": self._recorded_ns,
            "slept_ns": self._slept_ns,
            "open": self.ledger.open,
            "source": self.source.state(),
        }

    def settle(self, now_ns: int) -> None:
        """Record what is known up to now [ns], and the load meanwhile."""
        self.model.look()
        self.model.observe(self.ledger, self._job_share.memory_b)
        self._record(now_ns, now_ns)

    def cut(self, mark_ns: int, now_ns: int) -> None:
        """End the open interval at a window's boundary [ns], or now, where the source allows it."""
        until_ns = self.source.cut_ns(mark_ns, now_ns)
        if until_ns is not None:
            self.model.look()
            self._record(now_ns, until_ns, last=True)
            self.ledger.close()

    def stop(self, now_ns: int, until_ns: int) -> None:
        """Record everything up to `until_ns` [ns]: what its counter has not told is estimated."""
        self.model.look()
        self._record(now_ns, until_ns, last=True)
        self._fraction = self._job_share.of(self.model, self._since) or self._fraction
        self._estimate(until_ns, self._counted_w, self._awake)
        self.ledger.close()
        # A meter that was brought back has recorded up to its begin, which the journal cuts off
        # here.
        self._recorded_ns = min(self._recorded_ns, until_ns)

    def _record(self, now_ns: int, until_ns: int, *, last: bool = False) -> None:
        before_ns, slept_ns = self._recorded_ns, self._suspended_ns()
        self._fraction = self._job_share.of(self.model, self._since) or self._fraction
        asleep_ns = suspended_between(self._slept_ns, slept_ns)
        self._awake = max(0.0, 1 - asleep_ns / max(1, now_ns - before_ns))
        for span in self.source.read(before_ns, now_ns, until_ns, last=last):
            end_ns = min(span.end_ns, until_ns)
            self._estimate(min(span.start_ns, until_ns), self._counted_w, self._awake)
            awake = self._awake if span.awake is None else span.awake
            if span.power_w is None:
                self._estimate(end_ns, None, awake)
            else:
                self._add(end_ns, span.power_w, span.kind, awake, self._fraction.counted)
            if span.power_w is None or span.kind != "estimated":
                self._counted_w = span.power_w
        if self._recorded_ns > before_ns:
            self._since, self._slept_ns = self._job_share.now, slept_ns
            self.model.restart()

    def _estimate(self, until_ns: int, power_w: float | None, awake: float) -> None:
        """Record the time up to `until_ns` [ns] at this power [W], or at the model's."""
        if until_ns <= self._recorded_ns:
            return
        part = self._fraction.counted
        if power_w is None:
            power_w, part, self.stood_in = self.model.power_w(), self._fraction.own, True
        if power_w is None:
            self.ledger.close()  # unknown, and so no interval: the engine says unmeasured
            self._recorded_ns = until_ns
        else:
            self._add(until_ns, power_w, "estimated", awake, part)

    def _add(self, end_ns: int, power_w: float, kind: str, awake: float, part: float) -> None:
        """Record the time up to `end_ns` [ns] with the job's `part` of what its limit leaves it."""
        if end_ns <= self._recorded_ns:
            return
        span_s, part = (end_ns - self._recorded_ns) / NS_PER_S, self.share * part
        own_w = power_w * part
        label = "attributed" if part < 1 and kind == "measured" else kind
        self.ledger.add(self._recorded_ns, end_ns, own_w * span_s * awake, label, round(own_w, 3))
        self._whole_s += span_s
        self._idle_s += span_s * self.share * self._fraction.idle
        self._recorded_ns = end_ns


class HostDevices:
    """The host's processor and memory as devices of the job."""

    def __init__(
        self, job: NodeJob, access: Access, folder: str, locks: DeviceLocks, own: JobProcesses
    ) -> None:
        """`folder` is the job's spool folder, where codecarbon's process may leave files."""
        self._job = job
        self._machine = machine = access.machine()
        self._slept_ns = job.timeline.suspended_ns()
        setting = access.environ.get(HOST_SOURCE)
        readable = NO_COUNTERS if setting == "model" else access.counters()
        counters = NO_COUNTERS if setting == "codecarbon" else readable
        start = None if setting == "model" else access.codecarbon
        self._codecarbon: Codecarbon | None = None
        if (
            start
            and reads_more(setting, readable.usable)
            and not (counters.of(CPU) and counters.of(RAM))
        ):
            self._codecarbon = Codecarbon(lambda: start(folder), job.timeline, self._use_model)
        # Locks go by the machine, since several machines may share a home, and by job and node:
        # containers of one machine are nodes of their own.
        lock = f"{identity.kernel_id()}-cpu{machine.pool}"
        locks.acquire(lock, by_node=True)
        self._share = Share(
            machine, own, lambda: len(locks.living(lock)), access.processes, job.timeline
        )
        cpu, ram = CpuModel(machine), RamModel(machine)
        self._components = {
            CPU: self._component(CPU, machine.cpu_share, cpu, counters),
            RAM: self._component(RAM, machine.memory_share, ram, counters),
        }
        if not self._codecarbon:
            self._report_estimated(counters if readable.usable else readable, cpu.meter)
        self._recorded: dict[str, object] = {}
        self._looks_ns: list[int] = []

    @property
    def ledgers(self) -> list[Ledger]:
        """The ledgers of CPU and RAM."""
        return [component.ledger for component in self._components.values()]

    def begin(self, state: dict[str, Any] | None, mark_ns: int) -> None:
        """Continue an earlier meter's `state`, or begin at `mark_ns` [ns]."""
        self._share.begin(mark_ns, (state or {}).get("share"))
        for name, component in self._components.items():
            component.begin((state or {}).get(name), mark_ns)
        if self._share.now.own_s is not None:
            now_ns = self._job.timeline.now_ns()
            self._looks_ns = [now_ns + age_s * NS_PER_S for age_s in LOOK_AT_S]
        self._report()

    def state(self) -> dict[str, Any]:
        """Return what the next meter needs to continue, JSON-ready."""
        states = {name: component.state() for name, component in self._components.items()}
        return {**states, "share": self._share.state()}

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
        due = [
            component
            for component in self._components.values()
            if (due_ns := component.source.due_ns()) is not None and now_ns >= due_ns
        ]
        if due or (self._looks_ns and now_ns >= self._looks_ns[0]):
            self._looks_ns = [due_ns for due_ns in self._looks_ns if due_ns > now_ns]
            self._share.look()
        for component in due:
            component.settle(now_ns)

    def add_boundary(self, time_ns: int) -> None:
        """Record what can be recorded, and end the intervals at a window's edge [ns]."""
        now_ns = self._job.timeline.now_ns()
        self._share.look()
        for component in self._components.values():
            component.cut(time_ns, now_ns)

    def settle(self) -> None:
        """Record what can be recorded now, and bring shares and records up to date."""
        now_ns = self._job.timeline.now_ns()
        if self._codecarbon:
            self._codecarbon.poll()
        self._share.look()
        for component in self._components.values():
            component.settle(now_ns)
        self._report()

    def stop(self, stop_ns: int) -> None:
        """Record everything up to `stop_ns` [ns] and end codecarbon, without waiting for it."""
        now_ns = self._job.timeline.now_ns()
        if self._codecarbon and self._codecarbon.process:
            self._codecarbon.poll()
        self._share.look(last=True)
        for component in self._components.values():
            component.stop(now_ns, stop_ns)
        self._report(final=True)
        if self._codecarbon:
            self._codecarbon.end()

    def _component(
        self, name: str, share: float, model: Model, counters: Counters
    ) -> HostComponent:
        source: HostSource = model
        if domains := counters.of(name):
            source = RaplSource(domains, self._job.timeline, self._job.notify)
        elif self._codecarbon:
            source = CodecarbonSource(name, self._codecarbon, model)
        return HostComponent(name, share, self._job, model, source, self._share)

    def _report_estimated(self, counters: Counters, model: str) -> None:
        """Say which counters cannot be read. A virtual machine has none, and its user nothing to do
        about it.
        """
        doubts = ""
        if model == CPU_MODEL_UNLIKE and not counters.usable:
            doubts += " This processor is unlike those of its evidence, so its range is wider."
        if self._machine.graphics and not counters.usable:
            doubts += " It does not see work on the graphics inside the processor."
        denied = next((name for name in (CPU, RAM) if counters.denied_of(name)), None)
        if denied:
            part = "the memory's" if denied == RAM else "the processor's"
            text = f"{counters.denied_text(denied)} (`gramwatt doctor` has the fix); a model "
            self._job.notify("meter-unreadable", f"{text}estimates {part} energy.{doubts}")
        elif not counters.usable and not self._machine.virtual:
            text = "no counter of processor and memory is read here; a model estimates their energy"
            self._job.notify("meter-source-absent", f"{text}.{doubts}")

    def _use_model(self, why: str) -> None:
        self._job.notify("meter-source-absent", f"{why}; the host's energy is the model's.")

    def _report(self, *, final: bool = False) -> None:
        """Say who else is here, and put device records again whenever what they say has changed.

        The share that other jobs left is known at the end.
        """
        if self._share.other_jobs:
            self._job.notify("host-shared", CODES["host-shared"])
        if suspended_between(self._slept_ns, self._job.timeline.suspended_ns()):
            self._job.notify("machine-suspended", CODES["machine-suspended"])
        for name, component in self._components.items():
            meter, kind = component.meter, component.source.kind
            share = component.mean_share if final else component.share
            facts = meter, kind, share
            if self._recorded.get(name) == facts:
                continue
            self._recorded[name] = facts
            self._job.put(
                DeviceRecord,
                device_id=component.ledger.device_id,
                device_class=name,
                meter=meter,
                kind="attributed" if share < 1 and kind == "measured" else kind,
                share=share,
                **self._machine.facts(name),
            )

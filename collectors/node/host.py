"""Processor and memory of the node, whole, divided among its jobs.

A job bears the dynamic part of the processor by the time of its cgroup, and of what is idle (the
rest of the processor, and the memory) its part of the node's boards: who holds two of eight boards
bears a quarter. What no job bears is the node's rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.devices.group import NodeJob
from gramwatt.collectors.devices.sharing import Shares
from gramwatt.collectors.host.components import HostComponent
from gramwatt.collectors.host.model import CpuModel, ModelSource, RamModel, cgroup_load
from gramwatt.collectors.host.rapl import NO_COUNTERS, Counters, RaplSource
from gramwatt.collectors.host.source import CPU, RAM, HostSource
from gramwatt.collectors.meter.dependencies import HOST_SOURCE, Dependencies
from gramwatt.collectors.node.division import Books, HostLedger, WholeHost
from gramwatt.collectors.node.owners import Owner
from gramwatt.sci.base.host_model import FULL_W_PER_THREAD, IDLE_W_PER_THREAD
from gramwatt.sci.journal.records import DeviceRecord

CGROUP = Path("/sys/fs/cgroup")


class NodeHost:
    """The host's components: RAPL where every package can be read, else the model."""

    def __init__(
        self, job: NodeJob, dependencies: Dependencies, books: Books, cgroup: Path = CGROUP
    ) -> None:
        found = dependencies.machine()
        # The agent's own limits say nothing of the node.
        self._machine = machine = replace(
            found, threads=found.threads_total, memory_b=found.memory_total_b, usage=None
        )
        self._job, self._cgroup = job, cgroup
        own = dependencies.environ.get(HOST_SOURCE) == "model"
        counters = NO_COUNTERS if own else dependencies.counters()
        self._cpu = CpuModel(machine)
        self.ledgers = {
            name: HostLedger(f"{job.node}-{name}", job.schedule, books) for name in (CPU, RAM)
        }
        self._components = {
            CPU: self._component(CPU, self._cpu, counters),
            RAM: self._component(RAM, RamModel(machine), counters),
        }
        self._used_s: dict[str, float] = {}
        self._busy_s: float | None = None
        self._looked_ns = 0

    def begin(self, state: Mapping[str, Any] | None, mark_ns: int) -> None:
        """Continue an earlier agent's `state`, or begin at `mark_ns` [ns]."""
        for name, component in self._components.items():
            component.begin((state or {}).get(name), mark_ns)
            self._describe(name, component)
        self._busy_s, self._looked_ns = self._cpu.busy_s(), mark_ns

    def state(self) -> dict[str, Any]:
        """Return what the next agent needs to continue, JSON-ready."""
        return {name: component.state() for name, component in self._components.items()}

    def due_ns(self) -> int | None:
        """Return when a counter must be read [ns]; None where none does."""
        dues = [component.source.due_ns() for component in self._components.values()]
        return min((due_ns for due_ns in dues if due_ns is not None), default=None)

    def settle(self, now_ns: int, held: Mapping[Owner, float], groups: Mapping[str, str]) -> None:
        """Record up to now [ns], divided by what each job holds of the boards (0 to 1).

        `groups` are the cgroups of jobs, by job.
        """
        self._divide(now_ns, held, groups)
        for component in self._components.values():
            component.settle(now_ns)

    def stop(self, now_ns: int) -> None:
        """Record everything up to now [ns], what no counter has told by its last power."""
        for component in self._components.values():
            component.stop(now_ns, now_ns)

    def _divide(self, now_ns: int, held: Mapping[Owner, float], groups: Mapping[str, str]) -> None:
        span_s = (now_ns - self._looked_ns) / NS_PER_S
        busy_s, threads = self._cpu.busy_s(), self._machine.threads_total or 0.0
        used_s = self._spent_s(held, groups)
        if span_s <= 0:
            return
        all_s = 0.0 if busy_s is None or self._busy_s is None else max(0.0, busy_s - self._busy_s)
        all_s = max(all_s, sum(used_s.values()))
        idle_j = IDLE_W_PER_THREAD * threads * span_s
        dynamic_j = (FULL_W_PER_THREAD - IDLE_W_PER_THREAD) * all_s
        whole_j = idle_j + dynamic_j
        dynamic = dynamic_j / whole_j if whole_j > 0 else 0.0
        self.ledgers[CPU].parts = {
            owner: Shares(
                (1 - dynamic) * part + (dynamic * used_s[owner] / all_s if all_s > 0 else 0.0), part
            )
            for owner, part in held.items()
        }
        self.ledgers[RAM].parts = {owner: Shares(part, part) for owner, part in held.items()}
        self._busy_s, self._looked_ns = busy_s, now_ns

    def _spent_s(self, owners: Iterable[Owner], groups: Mapping[str, str]) -> dict[Owner, float]:
        """Return the processor time of each job's cgroup since the last look [s]; 0 if unknown."""
        spent: dict[Owner, float] = {}
        now_s: dict[str, float] = {}
        for owner in owners:
            path = groups.get(owner.job_id, "").replace("/..", "").strip("/")
            folders = [self._cgroup / path, self._cgroup / "cpuacct" / path] if path else []
            loads = (cgroup_load(folder, 1.0) for folder in folders)
            load = next((found for found in loads if found), None)
            before_s = self._used_s.get(owner.job_id)
            spent[owner] = 0.0
            if load is not None:
                now_s[owner.job_id] = load.busy
                spent[owner] = max(0.0, load.busy - (load.busy if before_s is None else before_s))
        self._used_s = now_s
        return spent

    def _component(self, name: str, model: ModelSource, counters: Counters) -> HostComponent:
        source: HostSource = model
        if domains := counters.of(name):
            source = RaplSource(domains, self._job.timeline.now_ns(), self._job.notify)
        return HostComponent(1.0, self.ledgers[name], model, source, WholeHost())

    def _describe(self, name: str, component: HostComponent) -> None:
        self._job.put(
            DeviceRecord,
            device_id=component.ledger.device_id,
            device_class=name,
            meter=component.source.meter,
            kind=component.source.kind,
            share=1.0,
            **self._machine.facts(name),
        )

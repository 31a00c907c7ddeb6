"""A node on a virtual clock with a synthetic NVML: what its journals say against the counters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.config import Config
from gramwatt.collectors.devices.port import DevicePort
from gramwatt.collectors.host.rapl import NO_COUNTERS
from gramwatt.collectors.journal import spool
from gramwatt.collectors.meter.dependencies import Dependencies
from gramwatt.collectors.node.agent import NodeAgent
from gramwatt.collectors.node.owners import Owner
from gramwatt.collectors.node.pods import Reservation
from gramwatt.collectors.sources.nvml import Nvml
from gramwatt.collectors.sources.synthetic import SyntheticNvml
from gramwatt.sci.journal.merge import MergedJob, merge
from gramwatt.sci.journal.records import decode
from tests.collectors.rig import MACHINE
from tests.collectors.virtual_clock import VirtualClock


class Told:
    """Whose things are, as a test says it."""

    def __init__(self) -> None:
        self.held: list[Reservation] = []
        self.pids: dict[int, Owner] = {}

    def reservations(self, now_ns: int) -> Sequence[Reservation]:
        return self.held

    def of(self, pid: int) -> Owner | None:
        return self.pids.get(pid)

    def describe(self, owner: Owner) -> Owner:
        return owner


class NodeRig:
    """One machine: a clock, a GPU driver, a home, and agents started on it."""

    def __init__(self, home: Path, *gpus: dict[str, Any], **spec: Any) -> None:
        self.home, self.clock, self.told = home, VirtualClock(), Told()
        spec.setdefault("origin_s", self.clock.now_ns() / NS_PER_S)
        self.nvml = SyntheticNvml({"gpus": list(gpus), **spec}, self.clock)
        self.boot, self.environ = "boot-1", {"GRAMWATT_HOST_SOURCE": "model"}
        self.said: list[str] = []
        self.begun_ns = self.clock.now_ns()
        self._ended_ns = 0

    def ports(self, environ: Any) -> list[DevicePort]:
        return [Nvml(self.nvml)]

    def start(self) -> NodeAgent:
        dependencies = Dependencies(
            environ=self.environ,
            clock=self.clock,
            random=Random(1),
            boot=self.boot,
            machine=lambda: MACHINE,
            counters=lambda: NO_COUNTERS,
            ports=self.ports,
        )
        config = Config(home=self.home)
        agent = NodeAgent(
            dependencies,
            config,
            self.home,
            self.told,
            say=self.said.append,
            cgroup=self.home / "cgroup",
        )
        agent.start()
        return agent

    def run(self, duration_s: float, agent: NodeAgent, *, least_s: float = 0.0) -> None:
        """Let time pass as the loop would; `least_s` is the shortest pause, for long times."""
        end_ns = self.clock.now_ns() + round(duration_s * NS_PER_S)
        while True:
            wait_ns = agent.due_ns() - agent.timeline.now_ns()
            wait_ns = max(wait_ns, 1000, round(least_s * NS_PER_S))
            if self.clock.now_ns() + wait_ns >= end_ns:
                self.clock.advance_ns(end_ns - self.clock.now_ns())
                return
            self.clock.advance_ns(wait_ns)
            agent.tick()

    def stop(self, agent: NodeAgent) -> None:
        """As SIGTERM."""
        self._ended_ns = self.clock.now_ns()
        agent.stop()
        agent.release()

    def kill(self, agent: NodeAgent) -> None:
        """As SIGKILL: nothing more is written, the kernel lets go of the locks."""
        agent.release()

    def jobs(self) -> dict[str, MergedJob]:
        """Every job as a reader of its journal has it, open intervals included."""
        found = {}
        for folder in spool.folders(self.home):
            found[folder.job_id] = merge([decode(line) for line in folder.lines()])
        return found

    def truth_j(self, place: int = 0) -> float:
        """Exact energy of a board from the rig's begin to the last stop [J]."""
        span = self.begun_ns / NS_PER_S, self._ended_ns / NS_PER_S
        return self.nvml.gpus[place].truth_j(*span)


def energies(jobs: dict[str, MergedJob], *device_ids: str) -> dict[str, float]:
    """Energy of these devices by job [J]."""
    return {
        name: sum(
            interval.energy_j
            for device in job.devices
            if device.record.device_id in device_ids
            for interval in device.intervals
        )
        for name, job in jobs.items()
    }

"""A meter on a virtual clock with a synthetic NVML: what its journal says against the truth."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.config import Config
from gramwatt.collectors.devices.nvml import Nvml
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.rapl import NO_COUNTERS
from gramwatt.collectors.journal.spool import SpoolFolder
from gramwatt.collectors.meter.dependencies import Dependencies
from gramwatt.collectors.meter.node_meter import NodeMeter
from gramwatt.collectors.serving.polling import Poller, Polls
from gramwatt.collectors.serving.servers import Server
from gramwatt.collectors.tracking.count_lines import CountLines
from gramwatt.sci.journal.merge import MergedJob, merge
from gramwatt.sci.journal.records import AnyRecord, IntervalRecord, decode
from tests.collectors.doubles.synthetic import SyntheticNvml
from tests.collectors.virtual_clock import VirtualClock

MACHINE = Machine("Test Xeon", 8.0, 8.0, 64.0 * 2**30, 64.0 * 2**30)
CONSTANT = {"type": "constant", "power_w": 250.0}


def gpu(waveform: dict[str, Any] = CONSTANT, **more: Any) -> dict[str, Any]:
    return {"waveform": waveform, **more}


class Rig:
    """One machine: a clock, a GPU driver, a home, and meters started on it."""

    def __init__(
        self, home: Path, *gpus: dict[str, Any], clock: VirtualClock | None = None, **spec: Any
    ) -> None:
        self.home, self.clock = home, clock or VirtualClock()
        spec.setdefault("origin_s", self.clock.now_ns() / NS_PER_S)
        self.nvml = SyntheticNvml({"gpus": list(gpus), **spec}, self.clock)
        self.boot = "boot-1"
        self.clients: dict[int, int] = {}  # processes that live, and when they began [ns]
        self.mark = (self.clock.mono_ns(), self.clock.wall_ns())
        self._lines: dict[str, CountLines] = {}
        self._counting: dict[str, NodeMeter] = {}
        self.polls: Callable[[Sequence[Server]], Polls] = Poller
        """What reads the servers of a job; a test gives one on the virtual clock."""

    def start(
        self, *, pid: int = 100, environ: dict[str, str] | None = None, **more: Any
    ) -> NodeMeter:
        """A meter that has replied ready; `mark` in `more` overrides the job's start."""
        mono_ns, wall_ns = more.pop("mark", None) or self.mark
        dependencies = Dependencies(
            environ=environ or {},
            clock=self.clock,
            random=Random(1),
            boot=self.boot,
            process_start_ns=self.clients.get,
            machine=lambda: MACHINE,
            counters=lambda: NO_COUNTERS,
            ports=lambda _: [Nvml(self.nvml)],
            processes=dict,
            polls=self.polls,
        )
        config = Config(home=self.home, units=("image",), **more.pop("config", {}))
        start = {"cmd": "start", "job_id": "job", "role": "command", "parent_pid": pid}
        client = start["client"] = f"c{pid}-{mono_ns}-{wall_ns}"
        if client in self._lines:
            more.setdefault("restart", 1)
        lines = CountLines(lambda: wall_ns + self.clock.mono_ns() - mono_ns)
        self._lines.setdefault(client, lines)
        meter = NodeMeter(
            dependencies, config, {**start, "mono_ns": mono_ns, "wall_ns": wall_ns, **more}
        )
        meter.start()
        return meter

    def count(self, meter: NodeMeter, amount: float, *key: str | None) -> None:
        """The meter's client counts; `key` is unit and phase."""
        unit, phase = (*key, None, None)[:2]
        self._lines_of(meter).add(unit, amount, phase)
        self.send_counts(meter)

    def send_counts(self, meter: NodeMeter) -> None:
        """The client sends what has changed, to a new meter everything."""
        lines, client = self._lines_of(meter), meter.start_line["client"]
        if self._counting.get(client) is not meter:
            lines.resend()
        self._counting[client] = meter
        lines.add_up()
        lines.send(lambda line: meter.handle(line) is None)

    def confirm_counts(self, meter: NodeMeter) -> None:
        """The meter's replies reach the client."""
        self._lines_of(meter).saved(meter.counts.saved)

    def _lines_of(self, meter: NodeMeter) -> CountLines:
        return self._lines[meter.start_line["client"]]

    def now(self) -> int:
        self.mark = (self.clock.mono_ns(), self.clock.wall_ns())
        return self.clock.now_ns()

    def run(self, duration_s: float, *meters: NodeMeter) -> None:
        """Let time pass as the loop would: everybody's next due moment, then a tick."""
        end_ns = self.clock.now_ns() + round(duration_s * NS_PER_S)
        while True:
            waits = [meter.due_ns() - meter.timeline.now_ns() for meter in meters]
            wait_ns = max(min(waits, default=10**15), 1000)
            if self.clock.now_ns() + wait_ns >= end_ns:
                self.clock.advance_ns(end_ns - self.clock.now_ns())
                return
            self.clock.advance_ns(wait_ns)
            for meter in meters:
                meter.tick()

    def stop(self, meter: NodeMeter, state: str = "completed", **more: Any) -> None:
        meter.close({"cmd": "stop", "state": state, "mono_ns": self.clock.mono_ns(), **more})
        meter.release()

    def kill(self, meter: NodeMeter) -> None:
        """As SIGKILL: nothing more is written, the kernel lets go of the locks."""
        meter.release()

    def folder(self) -> SpoolFolder:
        return SpoolFolder(next((self.home / "spool" / "job").iterdir()))

    def records(self) -> list[AnyRecord]:
        return [decode(line) for line in self.folder().lines()]

    def merged(self) -> MergedJob:
        return merge(self.records())

    def gpu_intervals(self, place: int = 0) -> list[IntervalRecord]:
        uuid = self.nvml.gpus[place].uuid
        found = [d for d in self.merged().devices if d.record.device_id == uuid]
        return list(found[0].intervals) if found else []

    def truth_j(self, start_ns: int, end_ns: int, place: int = 0) -> float:
        """Exact energy between two boot times [ns]."""
        return self.nvml.gpus[place].truth_j(start_ns / NS_PER_S, end_ns / NS_PER_S)


def energy_j(intervals: Iterable[IntervalRecord], *kinds: str) -> float:
    return sum(i.energy_j for i in intervals if not kinds or i.kind in kinds)


def by_type(records: Iterable[AnyRecord], kind: type[Any]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def states(folder: SpoolFolder) -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted(folder.path.glob("*.open")):
        found[path.stem] = json.loads(path.read_text().splitlines()[0])["state"]
    return found

"""A meter on a virtual clock that reads an NVIDIA H100 as it answered on 2026-11-22.

The traces are in tests/data/traces: one NVIDIA H100 80GB HBM3, driver 580.159.04, limit 700 W,
passed through to a virtual machine. `waves` is idle with a process, then matrix products without a
pause and half of each 0.05 to 10 s; `training` a small transformer, a ramp down, and two processes;
`locked` waves of a fixed phase, whose number of products is in the header.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import Any

from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.sci.records.records import IntervalRecord
from tests.collectors.doubles.replay import Call, ReplayNvml, read_trace
from tests.collectors.rig import Rig

TRACES = Path(__file__).parents[1] / "data" / "traces"


@cache
def trace(name: str) -> tuple[dict[str, Any], list[Call]]:
    """Header and calls of a recording."""
    return read_trace(TRACES / f"h100-{name}.jsonl.gz")


def loads(name: str, load: str) -> list[dict[str, Any]]:
    """The loads of this kind in a recording."""
    return [item for item in trace(name)[0]["loads"] if item["load"] == load]


@cache
def ticks(name: str) -> tuple[list[float], list[float]]:
    """When the recorded counter changed [s], and what it said from then on [J].

    A tick is seen some ms late, at the first call after it; these calls took 2 to 105 ms.
    """
    times, joules = [], []
    for call in trace(name)[1]:
        if call.call == "fields" and (not joules or call.value[0] / 1000 != joules[-1]):
            times.append(call.mono_ns / NS_PER_S)
            joules.append(call.value[0] / 1000)
    return times, joules


def counted_j(name: str, start_s: float, end_s: float) -> float:
    """Energy between two moments of a recording [J], linear between the counter's ticks."""
    times, joules = ticks(name)

    def at(moment_s: float) -> float:
        after = bisect_right(times, moment_s)
        part = (moment_s - times[after - 1]) / (times[after] - times[after - 1])
        return joules[after - 1] + part * (joules[after] - joules[after - 1])

    return at(end_s) - at(start_s)


class RecordedRig(Rig):
    """A machine whose GPU is a recording; `moment_s` is where the recording stands [s]."""

    def __init__(self, home: Path, name: str, port: type[ReplayNvml] = ReplayNvml) -> None:
        super().__init__(home)
        header, calls = trace(name)
        self.nvml: Any = port(header, calls, self.clock)
        self._shift_ns = self.clock.now_ns() - calls[0].mono_ns

    @property
    def moment_s(self) -> float:
        return (self.clock.now_ns() - self._shift_ns) / NS_PER_S

    def billed(self, duration_s: float) -> tuple[float, float]:
        """Measure a job of that length [s] here; where it began and ended in the recording [s]."""
        start_s = self.moment_s
        meter = self.start()
        self.run(duration_s, meter)
        end_s = self.moment_s
        self.stop(meter)
        return start_s, end_s

    def forward(self, moment_s: float) -> None:
        """Go to a moment of the recording [s], and begin the next job there."""
        self.clock.sleep(moment_s - self.moment_s)
        self.now()

    def recorded_intervals(self) -> list[IntervalRecord]:
        """The intervals of the recorded GPU."""
        uuid = self.nvml.ask("uuid", 0)
        found = [d for d in self.merged().devices if d.record.device_id == uuid]
        return list(found[0].intervals)

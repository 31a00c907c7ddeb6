"""`python -m tests.collectors.doubles.record FILE`: record this machine's NVML as a trace.

Reads every GPU for the given time, its counter at up to 1 kHz to find the update period and then
all at the given rate, keeps the answers that differ from the one before, and prints the counter's
energy. Run a load meanwhile. A FILE that ends in `.gz` is compressed.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gramwatt.collectors.devices.board import SourceError
from gramwatt.collectors.devices.nvml import FAST_FIELDS, PROFILE, Nvml, Pynvml
from gramwatt.collectors.settings.clock import NS_PER_S, Clock
from gramwatt.sci.figures.units import MJ_PER_J
from tests.collectors.doubles.replay import Call, write_trace

DENSE_S, DENSE_STEP_S = 10.0, 0.001
SLOW_EVERY = 50


class Recorder:
    """Calls NVML and keeps every answer."""

    def __init__(self, nvml: Nvml, clock: Clock) -> None:
        self.calls: list[Call] = []
        self._nvml, self._clock = nvml, clock

    def fast(self, gpu: int) -> None:
        """Record counter and power in one call, and each by its own."""
        self._keep(gpu, "fields", list(FAST_FIELDS), lambda: self._nvml.fields(gpu, FAST_FIELDS))
        self.ask(gpu, "energy_mj")
        self.ask(gpu, "power_mw")

    def slow(self, gpu: int) -> None:
        """Record the profile."""
        self._keep(gpu, "power_samples", [], lambda: self._nvml.power_samples(gpu, 0))
        for call in PROFILE:
            self.ask(gpu, call)

    def ask(self, gpu: int, call: str) -> None:
        """Record one call without arguments."""
        self._keep(gpu, call, [], lambda: self._nvml.ask(call, gpu))

    def _keep(self, gpu: int, call: str, args: list[Any], ask: Callable[[], Any]) -> None:
        before_ns, wall_ns = self._clock.now_ns(), self._clock.wall_ns()
        try:
            ret, value = "ok", ask()
            value = list(value) if isinstance(value, tuple) else value
        except SourceError as error:
            ret, value = type(error).__name__, None
        took_us = (self._clock.now_ns() - before_ns) / 1000
        self.calls.append(Call(before_ns, wall_ns, gpu, call, args, ret, value, took_us))


def record(nvml: Nvml, clock: Clock, duration_s: float, rate_hz: float) -> Recorder:
    """Record every GPU of an open NVML: its counter at 1 kHz, then all at `rate_hz` [1/s]."""
    recorder = Recorder(nvml, clock)
    gpus = range(nvml.count())
    start_ns, rounds = clock.now_ns(), 0
    dense_ns = int(min(DENSE_S, duration_s / 2) * NS_PER_S)
    while (age_ns := clock.now_ns() - start_ns) < duration_s * NS_PER_S:
        due = age_ns * rate_hz / NS_PER_S >= rounds
        for gpu in gpus:
            if due:
                recorder.fast(gpu)
            else:
                recorder.ask(gpu, "energy_mj")
            if due and rounds % SLOW_EVERY == 0:
                recorder.slow(gpu)
        rounds += due
        clock.sleep(DENSE_STEP_S if age_ns < dense_ns else 1 / rate_hz)
    return recorder


def changes(calls: list[Call]) -> list[Call]:
    """Return the calls without those that repeat the answer before: a replay answers the same."""
    answers: dict[tuple[int, str], tuple[str, Any]] = {}
    found = []
    for call in calls:
        if answers.get((call.gpu, call.call)) != (call.ret, call.value):
            answers[call.gpu, call.call] = (call.ret, call.value)
            found.append(call)
    return found


def header(nvml: Nvml, calls: list[Call]) -> dict[str, Any]:
    """Return the trace's header: what was recorded, UUIDs hashed, update periods as found [s]."""
    gpus = []
    for gpu in range(nvml.count()):
        digest = hashlib.sha256(nvml.ask("uuid", gpu).encode()).hexdigest()
        uuid = f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
        period_s = update_period_s([call for call in calls if call.gpu == gpu])
        gpus.append({"uuid": uuid, "name": nvml.ask("name", gpu), "update_period_s": period_s})
    return {"gpus": gpus, "driver": nvml.driver()}


def update_period_s(calls: list[Call]) -> float | None:
    """Return the median time between changes of the counter [s]; None with fewer than two."""
    counters = [call for call in calls if call.call == "energy_mj" and call.ret == "ok"]
    pairs = zip(counters, counters[1:], strict=False)
    changes = [after.mono_ns for before, after in pairs if after.value != before.value]
    gaps = sorted(later - earlier for earlier, later in zip(changes, changes[1:], strict=False))
    return gaps[len(gaps) // 2] / NS_PER_S if gaps else None


def main(arguments: list[str] | None = None) -> int:
    """Record to a file; exit code 1 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m tests.collectors.doubles.record")
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=50.0, help="readings per second")
    given = parser.parse_args(arguments)
    nvml, clock = Pynvml(), Clock()
    try:
        nvml.open()
    except SourceError as error:
        print(f"nothing to record: {error.message}", file=sys.stderr)
        return 1
    recorder = record(nvml, clock, given.seconds, given.rate)
    write_trace(given.file, header(nvml, recorder.calls), changes(recorder.calls))
    for gpu in range(nvml.count()):
        counted = [
            c.value for c in recorder.calls if (c.gpu, c.call, c.ret) == (gpu, "energy_mj", "ok")
        ]
        if counted:
            print(f"GPU {gpu}: the counter moved by {(counted[-1] - counted[0]) / MJ_PER_J:.1f} J")
    print(f"{len(recorder.calls)} calls in {given.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

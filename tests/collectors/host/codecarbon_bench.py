"""A host without RAPL counters on a virtual clock, and the codecarbon that its meter starts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gramwatt.collectors.host import rapl
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.host.bench import HostBench
from tests.collectors.rig import MACHINE

PACKAGE = rapl.Domain("package-0", "cpu", Path("/p0/energy_uj"), 262_143_328_850)


class FakeProcess:
    """A codecarbon that says what the test tells it to."""

    def __init__(self) -> None:
        self.fd, self.writer = os.pipe()
        os.set_blocking(self.fd, False)
        self.killed = False

    def say(self, **message: Any) -> None:
        os.write(self.writer, json.dumps(message).encode() + b"\n")

    def end(self) -> None:
        os.close(self.writer)

    def kill(self) -> None:
        self.killed = True


class Bench(HostBench):
    """A host without RAPL counters, and the codecarbon that its meter starts.

    With `counts` the counters that can be read are left to codecarbon.
    """

    def __init__(
        self, machine: Machine = MACHINE, *, installed: bool = True, counts: bool = True
    ) -> None:
        super().__init__(machine)
        self.process = FakeProcess()
        self.started = 0
        counters = rapl.Counters((PACKAGE,), {}) if counts else rapl.NO_COUNTERS
        spawn = self._spawn if installed else None
        self.meter = self.begin(counters, spawn, GRAMWATT_HOST_SOURCE="codecarbon")

    def _spawn(self) -> FakeProcess:
        self.started += 1
        return self.process

    def boot_ns(self, age_s: float) -> int:
        return self.start_ns - self.timeline.offset_ns + round(age_s * NS_PER_S)

    def to_age(self, age_s: float) -> None:
        self.clock.advance_ns(self.boot_ns(age_s) - self.clock.now_ns())
        self.meter.tick()

    def say(self, from_s: float, to_s: float, cpu_w: float, ram_w: float | None = None) -> None:
        """A reading of RAPL, or with `ram_w` of a Raspberry Pi 5's power controller."""
        ends = {"from_ns": self.boot_ns(from_s), "to_ns": self.boot_ns(to_s)}
        rapl, pmic = ("codecarbon-rapl", "measured"), ("codecarbon-pmic", "integrated")
        counters = {"cpu": (*(rapl if ram_w is None else pmic), cpu_w * (to_s - from_s))}
        if ram_w is not None:
            counters["ram"] = (*pmic, ram_w * (to_s - from_s))
        self.process.say(**ends, counters=counters)

    def reading(self, from_s: float, to_s: float, cpu_w: float, ram_w: float | None = None) -> None:
        self.say(from_s, to_s, cpu_w, ram_w)
        self.to_age(to_s)
        self.meter.settle()

    def stop(self, age_s: float) -> None:
        self.to_age(age_s)
        self.meter.stop(self.timeline.now_ns())

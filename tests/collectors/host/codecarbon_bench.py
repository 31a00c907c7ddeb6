"""A host without RAPL counters on a virtual clock, and the codecarbon that its meter starts."""

from __future__ import annotations

import json
import os
from typing import Any
from unittest import mock

from gramwatt.collectors.host import devices
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.host.bench import HostBench
from tests.collectors.rig import MACHINE


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
    """A host without RAPL counters, and the codecarbon that its meter starts if that `counts`."""

    def __init__(
        self, machine: Machine = MACHINE, *, installed: bool = True, counts: bool = True
    ) -> None:
        super().__init__(machine)
        self.process = FakeProcess()
        self.started = 0
        with mock.patch.object(devices, "reads_more", return_value=counts):
            self.meter = self.begin(spawn=self._spawn if installed else None)

    def _spawn(self) -> FakeProcess:
        self.started += 1
        return self.process

    def boot_ns(self, age_s: float) -> int:
        return self.start_ns - self.timeline.offset_ns + round(age_s * NS_PER_S)

    def to_age(self, age_s: float) -> None:
        self.clock.advance_ns(self.boot_ns(age_s) - self.clock.now_ns())
        self.meter.tick()

    def say(self, from_s: float, to_s: float, cpu_w: float, ram_w: float | None = None) -> None:
        """A reading of a Raspberry Pi 5's power controller."""
        ends = {"from_ns": self.boot_ns(from_s), "to_ns": self.boot_ns(to_s)}
        energy_j = {"cpu": cpu_w * (to_s - from_s)}
        if ram_w is not None:
            energy_j["ram"] = ram_w * (to_s - from_s)
        self.process.say(**ends, energy_j=energy_j)

    def reading(self, from_s: float, to_s: float, cpu_w: float, ram_w: float | None = None) -> None:
        self.say(from_s, to_s, cpu_w, ram_w)
        self.to_age(to_s)
        self.meter.settle()

    def stop(self, age_s: float) -> None:
        self.to_age(age_s)
        self.meter.stop(self.timeline.now_ns())

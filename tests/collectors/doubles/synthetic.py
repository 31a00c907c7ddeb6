"""A synthetic NVML at the function boundary: known waveforms, a ticking counter, faults.

A specification is JSON:

    {"gpus": [{"uuid": "GPU-...", "name": "...", "waveform": {"type": "constant", "power_w": 300},
               "update_period_s": 0.1, "limit_w": 700, "memory_b": 85899345920,
               "power": "instant" | "mean" | "part", "fields": true, "counter": true,
               "counter_gain": 1.0, "samples": {"period_s": 0.02, "length": 120},
               "utilisation_percent": 100, "memory_percent": 40, "encoder_percent": 0,
               "temperature_c": 60, "clock_reasons": 0,
               "slices": [["MIG-...", 0.5]], "faults": [{"type": "reset", "at_s": 5}],
               "processes": [{"pid": 1234, "sm_percent": 60, "memory_b": 8589934592}]}],
     "faults": [...], "origin_s": 0}

`power` is what the sensor reports: the power of the moment, or at each update its mean over the
last second, or its mean over the last quarter of the last update period. Only the second kind
offers the field that is a mean (185). `samples` is the driver's own buffer of the sensor's
readings; without it the board offers none. `counter_gain` is what the counter counts of each joule.
A profile value that is null is a call that the board does not offer.

A process is on the board from `at_s` until `until_s`, as faults are; without `sm_percent` or
`memory_b` the driver does not report it.

Fault times count from `origin_s`, seconds since boot. Types: `reset` (the counter starts at 0),
`backward` (loses `joules`), `frozen` (`at_s` to `until_s`; the standstill's energy is lost unless
`"catches_up": true`), `spike` (gains `joules` until `until_s`), `unsupported`, `failing` and `lost`
(`at_s` to `until_s`, for one `call` or for all): a call is named by the first word of its name in
`nvml_calls`, such as energy, power, fields, samples or utilisation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gramwatt.collectors.devices.board import (
    DeviceLost,
    GpuUser,
    MigSlice,
    NotSupported,
    ReadFailed,
    SourceAbsent,
)
from gramwatt.collectors.devices.nvml import (
    POWER_AVERAGE_FIELD,
    POWER_INSTANT_FIELD,
    TOTAL_ENERGY_FIELD,
    Nvml,
)
from gramwatt.collectors.settings.clock import NS_PER_S, Clock
from gramwatt.sci.figures.units import MJ_PER_J, MW_PER_W
from tests.collectors.doubles.waveforms import waveform

_ERRORS = {"unsupported": NotSupported, "failing": ReadFailed, "lost": DeviceLost}
FOR_EVER_S = math.inf
_PROFILE = {
    "utilisation_percent": 100,
    "memory_percent": 40,
    "encoder_percent": 0,
    "minor": None,
    "temperature_c": 60,
    "clock_reasons": 0,
}
_DRIVER_ORIGIN_US = 1_700_000_000_000_000
"""Where the driver's clock stood at boot: not where any clock of the meter does."""


def _driver_us(at_s: float) -> int:
    return _DRIVER_ORIGIN_US + round(at_s * 1e6)


class SyntheticGpu:
    """One board: its wave, its counter and its faults."""

    def __init__(self, spec: Mapping[str, Any], place: int, origin_s: float) -> None:
        self.wave = waveform(spec["waveform"])
        self.uuid = str(spec.get("uuid", f"GPU-00000000-0000-4000-8000-{place:012d}"))
        self.name = str(spec.get("name", "Synthetic GPU"))
        self.memory_b = int(spec.get("memory_b", 80 * 2**30))
        self.profile = {**_PROFILE, **{k: v for k, v in spec.items() if k in _PROFILE}}
        limit_w = spec.get("limit_w", 700.0)
        self.profile["limit_mw"] = None if limit_w is None else round(limit_w * MW_PER_W)
        self.samples = spec.get("samples")
        self._gain = float(spec.get("counter_gain", 1.0))
        self.slices = tuple(MigSlice(*item) for item in spec.get("slices", ()))
        self.faults = list(spec.get("faults", ()))
        self.processes = list(spec.get("processes", ()))
        self.period_s = float(spec.get("update_period_s", 0.1))
        self.has_fields = bool(spec.get("fields", True))
        self.has_counter = bool(spec.get("counter", True))
        self._sensor = str(spec.get("power", "instant"))
        self._origin_s = origin_s

    def truth_j(self, start_s: float, end_s: float) -> float:
        """Return the exact energy between two moments since boot [J]."""
        return self.wave.energy_j(end_s) - self.wave.energy_j(start_s)

    def power_w(self, at_s: float) -> float:
        """Return the power sensor's reading [W]: the wave now, or a mean, as described above."""
        tick_s, part_s = self._tick_s(at_s), self.period_s / 4
        if self._sensor == "mean":
            return self.truth_j(tick_s - 1.0, tick_s)
        if self._sensor == "part":
            return self.truth_j(tick_s - part_s, tick_s) / part_s
        return self.wave.power_w(at_s)

    def mean_w(self, at_s: float) -> float | None:
        """Return the mean power of the second before the last update [W]; None if not offered."""
        tick_s = self._tick_s(at_s)
        return self.truth_j(tick_s - 1.0, tick_s) if self._sensor == "mean" else None

    def buffered(self, at_s: float, since_us: int) -> list[tuple[int, int]]:
        """Return the driver's samples after a time on its own clock: (time [us], power [mW])."""
        if self.samples is None:
            raise NotSupported("synthetic: no sample buffer")
        period_s, length = float(self.samples["period_s"]), int(self.samples["length"])
        last = math.floor(at_s / period_s + 1e-9)
        moments_s = [number * period_s for number in range(last - length + 1, last + 1)]
        found = [(_driver_us(time_s), self.power_w(time_s)) for time_s in moments_s]
        return [(time_us, round(w * MW_PER_W)) for time_us, w in found if time_us > since_us]

    def counter_mj(self, at_s: float) -> int:
        """Return the counter [mJ]; raises NotSupported without one."""
        if not self.has_counter:
            raise NotSupported("synthetic: no counter")
        return round(self.counter_j(at_s) * MJ_PER_J)

    def answer(self, call: str) -> Any:
        """Return what does not change with time: name, id, profile and limit."""
        if call in ("name", "uuid"):
            return getattr(self, call)
        if call == "memory_b":  # half of it used
            return self.memory_b // 2, self.memory_b
        if call == "utilisation_percents":
            return self._offered("utilisation_percent"), self._offered("memory_percent")
        return self._offered(call)

    def counter_j(self, at_s: float) -> float:
        """Return the counter [J]: the wave's integral at its last update, faults included."""
        tick_s = self._tick_s(at_s)
        counted_j = self.wave.energy_j(tick_s) * self._gain
        for fault in self.faults:
            from_s = self._origin_s + fault.get("at_s", 0.0)
            until_s = self._origin_s + fault.get("until_s", FOR_EVER_S)
            if tick_s >= from_s:
                counted_j -= self._missing_j(fault, tick_s, from_s, until_s)
        return counted_j

    def raise_fault(self, call: str, at_s: float, faults: list[dict[str, Any]]) -> None:
        """Raise the error that a fault puts on this call now, if any does."""
        for fault in (*self.faults, *faults):
            error = _ERRORS.get(fault["type"])
            since_s = at_s - self._origin_s
            inside = fault.get("at_s", -FOR_EVER_S) <= since_s < fault.get("until_s", FOR_EVER_S)
            if error and inside and fault.get("call", call) == call:
                raise error(f"synthetic fault: {fault['type']}")

    def users(self, at_s: float) -> tuple[GpuUser, ...]:
        """Return the processes that are on the board at a moment since boot."""
        since_s = at_s - self._origin_s
        return tuple(
            GpuUser(int(item["pid"]), item.get("sm_percent"), item.get("memory_b"))
            for item in self.processes
            if item.get("at_s", -FOR_EVER_S) <= since_s < item.get("until_s", FOR_EVER_S)
        )

    def _offered(self, name: str) -> int:
        value = self.profile[name]
        if value is None:
            raise NotSupported(f"synthetic: no {name}")
        return int(value)

    def _tick_s(self, at_s: float) -> float:
        return math.floor(at_s / self.period_s + 1e-9) * self.period_s

    def _missing_j(
        self, fault: Mapping[str, Any], tick_s: float, from_s: float, until_s: float
    ) -> float:
        kind = fault["type"]
        if kind == "reset":
            return self.wave.energy_j(from_s)
        if kind == "backward":
            return float(fault["joules"])
        if kind == "spike":
            return -float(fault["joules"]) if tick_s < until_s else 0.0
        if kind == "frozen" and not (fault.get("catches_up") and tick_s >= until_s):
            return self.truth_j(from_s, min(tick_s, until_s))
        return 0.0


class SyntheticNvml(Nvml):
    """NVML whose truth is known."""

    meter = "nvml-synthetic"

    def __init__(self, spec: Mapping[str, Any], clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        origin_s = float(spec.get("origin_s", 0.0))
        self._faults = list(spec.get("faults", ()))
        self.gpus = [SyntheticGpu(gpu, i, origin_s) for i, gpu in enumerate(spec["gpus"])]
        self._absent = spec.get("absent")
        self.calls = 0

    @classmethod
    def from_file(cls, path: Path, clock: Clock) -> SyntheticNvml:
        """Return the NVML of a JSON file; raises OSError, ValueError, KeyError or TypeError."""
        return cls(json.loads(path.read_text(encoding="utf-8")), clock)

    def open(self) -> None:
        """Raise SourceAbsent when the specification says `absent`."""
        if self._absent:
            raise SourceAbsent(str(self._absent))

    def driver(self) -> str:
        """Return a version."""
        return "synthetic"

    def count(self) -> int:
        """Return the number of boards."""
        if self.gpus:
            self._asked(0, "count")
        return len(self.gpus)

    def ask(self, call: str, index: int) -> Any:
        """Return what a board answers to a call now."""
        gpu, at_s = self._asked(index, call.partition("_")[0])
        if call == "energy_mj":
            return gpu.counter_mj(at_s)
        if call == "power_mw":
            return round(gpu.power_w(at_s) * MW_PER_W)
        return gpu.answer(call)

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Return field values in one call, None for what a board does not offer."""
        gpu, at_s = self._asked(index, "fields")
        if not gpu.has_fields:
            raise NotSupported("synthetic: no field values")
        offered = {POWER_INSTANT_FIELD: round(gpu.power_w(at_s) * MW_PER_W)}
        if gpu.has_counter:
            offered[TOTAL_ENERGY_FIELD] = gpu.counter_mj(at_s)
        mean_w = gpu.mean_w(at_s)
        if mean_w is not None:
            offered[POWER_AVERAGE_FIELD] = round(mean_w * MW_PER_W)
        return tuple(offered.get(field) for field in ids)

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """Return the driver's power samples after `since_us`."""
        gpu, at_s = self._asked(index, "samples")
        return gpu.buffered(at_s, since_us)

    def slices(self, index: int) -> tuple[MigSlice, ...]:
        """Return the MIG devices."""
        return self._asked(index, "slices")[0].slices

    def users(self, index: int) -> tuple[GpuUser, ...]:
        """Return the processes on the board."""
        gpu, at_s = self._asked(index, "users")
        return gpu.users(at_s)

    def _asked(self, index: int, call: str) -> tuple[SyntheticGpu, float]:
        self.calls += 1
        gpu, at_s = self.gpus[index], self._clock.now_ns() / NS_PER_S
        gpu.raise_fault(call, at_s, self._faults)
        return gpu, at_s

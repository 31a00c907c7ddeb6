"""A recorded trace played back at the function boundary, on whatever clock the test gives.

Each call answers what the last recorded call of its kind had answered by then; before the first,
what the first answered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from pathlib import Path
from typing import Any

from gramwatt.collectors.common.clock import Clock
from gramwatt.collectors.devices.base import MigSlice, NotSupported, SourceAbsent
from gramwatt.collectors.testing.trace import ERRORS, Call, read_trace


class ReplayNvml:
    """NVML as it once answered; the trace begins at the clock's first reading."""

    meter = "nvml-replay"

    def __init__(self, header: dict[str, Any], calls: list[Call], clock: Clock) -> None:
        self._header, self._clock = header, clock
        self._series: dict[tuple[int, str], tuple[list[int], list[Call]]] = defaultdict(
            lambda: ([], [])
        )
        for call in sorted(calls, key=lambda item: item.mono_ns):
            times, items = self._series[call.gpu, call.call]
            times.append(call.mono_ns)
            items.append(call)
        self._shift_ns = clock.now_ns() - min((call.mono_ns for call in calls), default=0)

    @classmethod
    def from_file(cls, path: Path, clock: Clock) -> ReplayNvml:
        """The trace in a file; raises OSError or ValueError."""
        return cls(*read_trace(path), clock)

    def open(self) -> None:
        """Raises SourceAbsent for a trace without GPUs."""
        if not self._header.get("gpus"):
            raise SourceAbsent("the trace holds no GPU")

    def close(self) -> None:
        """Nothing to release."""

    def driver(self) -> str:
        """The recorded driver's version."""
        return str(self._header.get("driver", ""))

    def count(self) -> int:
        """Recorded boards."""
        return len(self._header["gpus"])

    def name(self, index: int) -> str:
        """Board name."""
        return str(self._header["gpus"][index]["name"])

    def uuid(self, index: int) -> str:
        """Board UUID, as hashed by the recorder."""
        return str(self._header["gpus"][index]["uuid"])

    def energy_mj(self, index: int) -> int:
        """Energy counter [mJ]."""
        return int(self._answer(index, "energy_mj"))

    def power_mw(self, index: int) -> int:
        """Board power [mW]."""
        return int(self._answer(index, "power_mw"))

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Field values as they were recorded, None for any that were not."""
        call = self._last(index, "fields")
        known = dict(zip(call.args, call.value, strict=True))
        return tuple(known.get(field) for field in ids)

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """The driver's power samples after `since_us`, as they had been recorded by then."""
        found = (tuple(item) for item in self._answer(index, "power_samples"))
        return [(time_us, power_mw) for time_us, power_mw in found if time_us > since_us]

    def utilisation_percents(self, index: int) -> tuple[int, int]:
        """Utilisation of the GPU and of its memory controller [%]."""
        kernels, memory = self._answer(index, "utilisation_percents")
        return int(kernels), int(memory)

    def encoder_percent(self, index: int) -> int:
        """Utilisation of the encoder [%]."""
        return int(self._answer(index, "encoder_percent"))

    def temperature_c(self, index: int) -> int:
        """Temperature [degC]."""
        return int(self._answer(index, "temperature_c"))

    def clock_reasons(self, index: int) -> int:
        """Why clocks are what they are, a bit mask."""
        return int(self._answer(index, "clock_reasons"))

    def memory_b(self, index: int) -> tuple[int, int]:
        """Memory used and total [B]."""
        used, total = self._answer(index, "memory_b")
        return int(used), int(total)

    def limit_mw(self, index: int) -> int:
        """Power limit [mW]."""
        return int(self._answer(index, "limit_mw"))

    def slices(self, index: int) -> tuple[MigSlice, ...]:
        """Recorded traces hold no MIG."""
        return ()

    def _answer(self, index: int, name: str) -> Any:
        return self._last(index, name).value

    def _last(self, index: int, name: str) -> Call:
        times, calls = self._series[index, name]
        if not calls:
            raise NotSupported(f"{name} was not recorded")
        place = bisect_right(times, self._clock.now_ns() - self._shift_ns)
        call = calls[max(0, place - 1)]
        if call.ret != "ok":
            raise ERRORS.get(call.ret, NotSupported)(f"recorded {call.ret}")
        return call

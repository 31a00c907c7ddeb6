"""Recorded NVML calls as JSON lines, and their playback on whatever clock the reader gives.

    {"trace": 1, "gpus": [{"uuid", "name", "limit_mw", "memory_b"}], "driver", "update_period_s"}
    {"t_mono_ns", "t_wall_ns", "gpu", "call", "args", "ret", "value", "dur_us"}

`ret` is "ok" or the class of the error; the UUID is hashed by the recorder. A file whose name ends
in `.gz` is compressed. Each call answers what the last recorded call of its kind had answered by
then; before the first, what the first answered.
"""

from __future__ import annotations

import gzip
import io
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from gramwatt.collectors.devices.board import (
    DeviceLost,
    NotSupported,
    ReadFailed,
    SourceAbsent,
    SourceError,
)
from gramwatt.collectors.devices.nvml import Nvml
from gramwatt.collectors.settings.clock import Clock

VERSION = 1
ERRORS: dict[str, type[SourceError]] = {
    cls.__name__: cls for cls in (NotSupported, DeviceLost, ReadFailed)
}
NAMES = ("t_mono_ns", "t_wall_ns", "gpu", "call", "args", "ret", "value", "dur_us")


class Call(NamedTuple):
    """One recorded call: when it began [ns], on which GPU, what, and what came of it."""

    mono_ns: int
    wall_ns: int
    gpu: int
    call: str
    args: list[Any]
    ret: str
    value: Any
    duration_us: float


def write_trace(path: Path, header: Mapping[str, Any], calls: Iterable[Call]) -> None:
    """Write a trace file; raises OSError."""
    with _open(path, "w") as stream:
        stream.write(json.dumps({"trace": VERSION, **header}) + "\n")
        for call in calls:
            stream.write(json.dumps(dict(zip(NAMES, call, strict=True))) + "\n")


def read_trace(path: Path) -> tuple[dict[str, Any], list[Call]]:
    """Return header and calls of a trace file; raises OSError, or ValueError for another format."""
    with _open(path, "r") as stream:
        lines = (json.loads(line) for line in stream)
        header: dict[str, Any] = next(lines, {})
        if header.get("trace") != VERSION:
            raise ValueError(f"{path} is not a trace of version {VERSION}")
        return header, [Call(*(document[name] for name in NAMES)) for document in lines]


def _open(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path, mode), encoding="utf-8")
    return path.open(mode, encoding="utf-8")


class ReplayNvml(Nvml):
    """NVML as it once answered; the trace begins at the clock's first reading."""

    meter = "nvml-synthetic"

    def __init__(self, header: dict[str, Any], calls: list[Call], clock: Clock) -> None:
        super().__init__()
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
        """Return the trace in a file; raises OSError or ValueError."""
        return cls(*read_trace(path), clock)

    def open(self) -> None:
        """Raise SourceAbsent for a trace without GPUs."""
        if not self._header.get("gpus"):
            raise SourceAbsent("the trace holds no GPU")

    def driver(self) -> str:
        """Return the recorded driver's version."""
        return str(self._header.get("driver", ""))

    def count(self) -> int:
        """Return the number of recorded boards."""
        return len(self._header["gpus"])

    def ask(self, call: str, index: int) -> Any:
        """Return what a board had answered to a call by then."""
        if call in ("name", "uuid"):
            return str(self._header["gpus"][index][call])
        value = self._last(index, call).value
        return tuple(value) if isinstance(value, list) else value

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Return field values as they were recorded, None for any that were not."""
        call = self._last(index, "fields")
        known = dict(zip(call.args, call.value, strict=True))
        return tuple(known.get(field) for field in ids)

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """Return the driver's power samples after `since_us`, as they had been recorded by then."""
        found = (tuple(item) for item in self.ask("power_samples", index))
        return [(time_us, power_mw) for time_us, power_mw in found if time_us > since_us]

    def _last(self, index: int, name: str) -> Call:
        times, calls = self._series[index, name]
        if not calls:
            raise NotSupported(f"{name} was not recorded")
        place = bisect_right(times, self._clock.now_ns() - self._shift_ns)
        call = calls[max(0, place - 1)]
        if call.ret != "ok":
            raise ERRORS.get(call.ret, NotSupported)(f"recorded {call.ret}")
        return call

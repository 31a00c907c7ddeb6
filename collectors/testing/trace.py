"""Recorded NVML calls as JSON lines: a header, then one line per call.

    {"trace": 1, "gpus": [{"uuid", "name", "limit_mw", "memory_b"}], "driver", "update_period_s"}
    {"t_mono_ns", "t_wall_ns", "gpu", "call", "args", "ret", "value", "dur_us"}

`ret` is "ok" or the class of the error; the UUID is hashed by the recorder. A file whose name ends
in `.gz` is compressed.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from gramwatt.collectors.devices.base import DeviceLost, NotSupported, ReadFailed, SourceError

VERSION = 1
ERRORS: dict[str, type[SourceError]] = {
    cls.__name__: cls for cls in (NotSupported, DeviceLost, ReadFailed)
}


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
            names = ("t_mono_ns", "t_wall_ns", "gpu", "call", "args", "ret", "value", "dur_us")
            stream.write(json.dumps(dict(zip(names, call, strict=True))) + "\n")


def read_trace(path: Path) -> tuple[dict[str, Any], list[Call]]:
    """Header and calls of a trace file; raises OSError, or ValueError for another format."""
    lines = _documents(path)
    header = next(lines, {})
    if header.get("trace") != VERSION:
        raise ValueError(f"{path} is not a trace of version {VERSION}")
    return header, [_call(document) for document in lines]


def _open(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path, mode), encoding="utf-8")
    return path.open(mode, encoding="utf-8")


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    with _open(path, "r") as stream:
        for line in stream:
            yield json.loads(line)


def _call(document: Mapping[str, Any]) -> Call:
    names = ("t_mono_ns", "t_wall_ns", "gpu", "call", "args", "ret", "value", "dur_us")
    return Call(*(document[name] for name in names))

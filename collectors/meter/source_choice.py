"""Which NVML the meter reads: the machine's own, or a synthetic or recorded one for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gramwatt.collectors.common.clock import Clock
from gramwatt.collectors.common.files import why
from gramwatt.collectors.devices.base import DevicePort, SourceAbsent

VARIABLE = "GRAMWATT_NVML"


def nvml_port(environ: Mapping[str, str], clock: Clock) -> DevicePort:
    """The port to read, not yet open: `synthetic:FILE.json`, `replay:FILE.jsonl` or the real one.

    Raises SourceAbsent when the variable names something that cannot be used; the real NVML is
    never used instead.
    """
    choice, _, path = environ.get(VARIABLE, "").partition(":")
    if not choice:
        from gramwatt.collectors.sources.nvml import Pynvml

        return Pynvml()
    try:
        if choice == "synthetic":
            from gramwatt.collectors.testing.synthetic import SyntheticNvml

            return SyntheticNvml.from_file(Path(path), clock)
        if choice == "replay":
            from gramwatt.collectors.testing.replay import ReplayNvml

            return ReplayNvml.from_file(Path(path), clock)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceAbsent(f"{VARIABLE}={choice}:{path} cannot be used: {why(error)}") from None
    raise SourceAbsent(f"{VARIABLE} names {choice!r}; it takes synthetic:FILE or replay:FILE")

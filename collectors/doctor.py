"""`gramwatt doctor`: what can be measured here, what is missing, and the exact fix."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from gramwatt.collectors.clock import SystemClock
from gramwatt.collectors.config import Config
from gramwatt.collectors.sources.base import NvmlPort, SourceAbsent, SourceError
from gramwatt.collectors.sources.choose import nvml_port

State = Literal["ok", "limited", "missing", "off"]
POWERCAP = Path("/sys/class/powercap")
CALLS = ("energy_mj", "power_mw", "utilisation_percent", "memory_b", "limit_mw")
"""The calls of a GPU that measuring uses, best source of energy first."""
CODECARBON = (
    "codecarbon",
    "codecarbon",
    "host energy is estimated",
    "pip install 'gramwatt[host]'",
)
SERVICE = (
    "service extra",
    "sqlalchemy",
    "jobs are spooled but not scored here",
    "pip install 'gramwatt[service]', or set GRAMWATT_SERVER",
)
GPU_FIX = (
    "install the NVIDIA driver; in a container run with `--gpus all` and "
    "NVIDIA_DRIVER_CAPABILITIES=utility"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: its state, what was seen, and how to mend it."""

    what: str
    state: State
    detail: str
    fix: str | None = None

    def to_doc(self) -> dict[str, Any]:
        """This finding as JSON-ready data."""
        return {"what": self.what, "state": self.state, "detail": self.detail, "fix": self.fix}


def examine(config: Config, port: NvmlPort | None = None) -> list[Finding]:
    """Look at every source and place that measuring needs; never raises, changes nothing."""
    looks: list[Callable[[], list[Finding]]] = [
        lambda: [_switch(config)],
        lambda: nvidia(port),
        lambda: [rapl()],
        lambda: [_package(*CODECARBON)],
        lambda: [_spool(config.home)],
        lambda: [_package(*SERVICE)],
        lambda: [_place(config)],
    ]
    return [finding for look in looks for finding in _guarded(look)]


def nvidia(port: NvmlPort | None = None) -> list[Finding]:
    """NVIDIA GPUs and, per device, which calls answer."""
    try:
        nvml = port or nvml_port(os.environ, SystemClock())
        nvml.open()
    except SourceAbsent as error:
        return [Finding("NVML", "missing", str(error), GPU_FIX)]
    try:
        count = nvml.count()
        if count == 0:
            return [Finding("NVML", "missing", "the driver answers but lists no GPU", GPU_FIX)]
        return [_gpu(nvml, index) for index in range(count)]
    finally:
        nvml.close()


def _gpu(nvml: NvmlPort, index: int) -> Finding:
    silent: list[str] = []
    for call in CALLS:
        try:
            getattr(nvml, call)(index)
        except SourceError as error:
            silent.append(f"{call} ({error.code})")
    what = f"GPU {index}"
    name = f"{nvml.name(index)} {nvml.uuid(index)}"
    if not silent:
        return Finding(what, "ok", f"{name}: energy counter and every other call answer")
    counted = not any(text.startswith("energy_mj") for text in silent)
    source = "energy counter" if counted else "no counter, sampled power is integrated"
    return Finding(what, "limited", f"{name}: {source}; no answer from {', '.join(silent)}")


def rapl(root: Path = POWERCAP) -> Finding:
    """The processor's energy counters under powercap, and whether they may be read."""
    counters = sorted(root.glob("*/energy_uj"))
    if not counters:
        return Finding("RAPL", "missing", "no energy counters of the CPU; its power is estimated")
    denied = [path for path in counters if not os.access(path, os.R_OK)]
    if denied:
        return Finding(
            "RAPL",
            "limited",
            f"{len(denied)} of {len(counters)} counters may not be read; CPU power is estimated",
            f"sudo chmod -R a+r {root}/*/energy_uj   (until the next boot)",
        )
    return Finding("RAPL", "ok", f"{len(counters)} counters readable")


def _guarded(look: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return look()
    except Exception as error:
        return [Finding("check", "missing", f"this check itself failed: {error!r}")]


def _switch(config: Config) -> Finding:
    if config.off:
        origin = config.origins.get("off", "default")
        return Finding("measuring", "off", f"switched off by {origin}", "unset GRAMWATT_OFF")
    return Finding("measuring", "ok", "switched on")


def _package(what: str, module: str, loss: str, fix: str) -> Finding:
    if find_spec(module) is None:
        return Finding(what, "missing", f"not installed: {loss}", fix)
    return Finding(what, "ok", "installed")


def _spool(home: Path) -> Finding:
    place = next(path for path in (home, *home.parents) if path.exists())
    if os.access(place, os.W_OK | os.X_OK):
        return Finding("spool", "ok", f"{home} can be written")
    return Finding(
        "spool",
        "limited",
        f"{home} cannot be written; a folder under the temporary directory is used",
        "set GRAMWATT_HOME to a folder that survives the job",
    )


def _place(config: Config) -> Finding:
    if config.zone or config.region:
        return Finding("grid zone", "ok", str(config.zone or config.region))
    return Finding(
        "grid zone",
        "missing",
        "not set: the world average is used and scores are not-sci",
        "set GRAMWATT_ZONE, for example FR, or GRAMWATT_REGION, for example aws:eu-west-1",
    )

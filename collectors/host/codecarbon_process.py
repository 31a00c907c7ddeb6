"""codecarbon in a separate process: CPU and RAM energy as JSON lines on stdout.

The only file that imports codecarbon. It is used through its public output handler, with every
argument given, because anything left out is taken from the user's environment or files; a PUE
there would multiply our energy. Its own durations are not used: the first holds its start-up.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from importlib.metadata import version
from typing import Any

from gramwatt.collectors.host.model import mean_load, read_load
from gramwatt.collectors.host.parts import CPU, RAM
from gramwatt.collectors.host.rapl import find_counters
from gramwatt.sci.base.units import j_from_kwh

MEASURE_EVERY_S = 2
SKIPPED = 2
"""Intervals left out at the start: the first holds milliseconds of energy over seconds of loading,
the second the energy of some 0.2 s more than the time between its calls (seen with 3.3.2)."""
FOREIGN = ("CODECARBON_", "codecarbon_", "SLURM_")
"""Variables removed from its environment: its own settings, and Slurm's, with which it calls a
program that containers lack and then measures nothing."""


def environment(environ: dict[str, str]) -> dict[str, str]:
    """The environment codecarbon is given."""
    return {key: value for key, value in environ.items() if not key.startswith(FOREIGN)}


def main(every_s: float = MEASURE_EVERY_S) -> int:
    """Measure every `every_s` [s] until the reader of stdout is gone.

    Exit code 1 when codecarbon cannot be used.
    """
    _die_with_parent()
    sys.modules["pynvml"] = None  # type: ignore[assignment]  # the meter reads the GPUs, once
    try:
        tracker, counters, release = _tracker(every_s)
    except Exception as error:
        _write({"absent": f"codecarbon cannot be used: {type(error).__name__}: {error}"})
        return 1
    _write({"started": True, "counters": counters, "version": release})
    tracker.start()
    while True:
        time.sleep(3600)


def _tracker(every_s: float) -> tuple[Any, dict[str, tuple[str, str]], str]:
    os.environ["HOME"] = os.environ["USERPROFILE"] = os.devnull  # no ~/.codecarbon.config
    from codecarbon import OfflineEmissionsTracker
    from codecarbon.core import cpu

    if (
        not find_counters().usable
    ):  # it would take the packages that can be read for the whole processor
        cpu.is_rapl_available = lambda *_: False
    tracker = OfflineEmissionsTracker(
        project_name="gramwatt",
        measure_power_secs=every_s,
        api_call_interval=1,
        output_methods=[],
        output_handlers=[_output_handler()],
        output_dir=".",
        tracking_mode="machine",
        gpu_ids=[],
        pue=1.0,
        wue=0.0,
        force_carbon_intensity_g_co2e_kwh=0.0,
        force_cpu_power=None,
        force_ram_power=None,
        force_mode_cpu_load=False,
        rapl_include_dram=False,
        rapl_prefer_psys=False,
        allow_multiple_runs=True,
        emissions_endpoint=None,
        electricitymaps_api_token=None,
        country_iso_code=None,
        region=None,
        cloud_provider=None,
        cloud_region=None,
        log_level="critical",
    )
    return tracker, _counters(cpu), version("codecarbon")


def _counters(cpu: Any) -> dict[str, tuple[str, str]]:
    """The parts it reads from hardware, with meter and kind, in the order in which it chooses.

    It models the rest: 5 W for each memory module it supposes, TDP x (0.1 + 0.9 load^3).
    """
    if cpu.is_rapl_available():
        return {CPU: ("codecarbon-rapl", "measured")}
    if cpu.is_raspberry():  # currents and voltages of the board's rails
        return dict.fromkeys((CPU, RAM), ("codecarbon-pmic", "integrated"))
    return {}


def _output_handler() -> Any:
    from codecarbon.output_methods.base_output import BaseOutput

    class Handler(BaseOutput):
        """Writes each interval's energy. Never raises: that would stop the tracker for good."""

        def __init__(self) -> None:
            self._since_ns, self._load = _now_ns(), read_load()
            self._calls = 0

        def live_out(self, total: Any, delta: Any) -> None:
            """Write one interval: from the previous call to now [ns], CPU and RAM energy [J], and
            the host's load meanwhile.
            """
            try:
                now_ns, since_ns = _now_ns(), self._since_ns
                load = mean_load(self._load, now := read_load())
                energy = {
                    "cpu_j": j_from_kwh(delta.cpu_energy),
                    "ram_j": j_from_kwh(delta.ram_energy),
                }
                self._since_ns, self._load, self._calls = now_ns, now, self._calls + 1
                if self._calls > SKIPPED:
                    _write({"from_ns": since_ns, "to_ns": now_ns, **energy, "load": load})
            except Exception:  # the meter estimates the interval that is lost
                self._since_ns = _now_ns()

        def out(self, total: Any, delta: Any) -> None:
            """Nothing: the meter does not wait for the end."""

    return Handler()


def _now_ns() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _write(message: dict[str, Any]) -> None:
    try:
        os.write(1, json.dumps(message).encode() + b"\n")
    except OSError:  # the meter has ended
        os._exit(0)


def _die_with_parent() -> None:
    """Ask the kernel to end this process with the meter, which may be killed at any moment."""
    parent = os.getppid()
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, prctl(2)
    except (OSError, AttributeError, ImportError):
        return
    if os.getppid() != parent:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:2])))

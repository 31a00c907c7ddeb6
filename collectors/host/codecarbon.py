"""codecarbon as a source of energy: a counter that gramwatt does not read itself, or on request.

It runs in a process of its own, which this file starts (`Codecarbon`) and is (`main`): it takes 2
to 7 s and 90 MB to start and reads seconds late, and the meter never waits for it. The only file
that imports codecarbon, through its public output handler and with every argument given, because
anything left out is taken from the user's environment or files; a PUE there would multiply our
energy. Its own durations are not used: the first holds its start-up.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gramwatt.collectors.host.machine import CPU, RAM
from gramwatt.collectors.host.model import WAIT_NS, HostSource, ModelSource, Span
from gramwatt.collectors.host.rapl import find_counters
from gramwatt.collectors.settings.clock import NS_PER_S, Clock, Timeline
from gramwatt.collectors.settings.json_lines import encoded
from gramwatt.sci.figures.units import j_from_kwh

HOST_SOURCE = "GRAMWATT_HOST_SOURCE"
"""Set to `model`, neither counters nor codecarbon are used, for machines where its 90 MB matter and
for tests; set to `codecarbon`, the counters are left to it."""
START_AFTER_NS = 5 * NS_PER_S
"""Age of the job at which it is started: its start takes 1.9 s of processor time."""
GIVE_UP_NS = 60 * NS_PER_S
"""Without a reading by then it has failed."""
LONGEST_NS = 3_600 * NS_PER_S
"""A reading over more is none: one comes every 2 s."""
READ_B = 65_536
NICENESS = 10
"""It gives way to the job: it is late rather than in the way."""
VCGENCMD = "usr/bin/vcgencmd"
"""The program by which it reads the power controller of a Raspberry Pi 5, below the root."""
MEASURE_EVERY_S = 2
SKIPPED = 2
"""Intervals left out at the start: the first holds milliseconds of energy over seconds of loading,
the second the energy of some 0.2 s more than the time between its calls (seen with 3.3.2)."""
FOREIGN = ("CODECARBON_", "codecarbon_", "SLURM_")
"""Variables removed from its environment: its own settings, and Slurm's, with which it calls a
program that containers lack and then measures nothing."""


class PipedProcess:
    """codecarbon's process, its output on a pipe that never blocks the reader."""

    def __init__(self, command: list[str], environ: Mapping[str, str], folder: str) -> None:
        """Start it in `folder`; raises OSError."""
        from subprocess import DEVNULL, PIPE, Popen  # most jobs never need it

        own = {name: text for name, text in environ.items() if not name.startswith(FOREIGN)}
        where = folder if os.path.isdir(folder) else "/"
        self._process = Popen(
            command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=own, cwd=where
        )
        assert self._process.stdout is not None
        self._stdout = self._process.stdout
        self.fd = self._stdout.fileno()
        os.set_blocking(self.fd, False)
        os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)

    def kill(self) -> None:
        """End it and collect it; its CPU time then counts as the meter's."""
        self._process.kill()
        self._stdout.close()
        self._process.wait(timeout=1)


def reads_more(setting: str | None, usable: bool, root: Path = Path("/")) -> bool:
    """Tell whether it may read a counter that gramwatt does not.

    That is RAPL where the `setting` leaves it to codecarbon and all packages are `usable`, or a
    Raspberry Pi's power controller.
    """
    return (setting == "codecarbon" and usable) or (root / VCGENCMD).exists()


def starter(environ: Mapping[str, str]) -> Callable[[str], PipedProcess] | None:
    """Return what starts codecarbon's process in a folder; None where it is not installed."""
    try:
        installed = find_spec("codecarbon") is not None  # without importing it
    except (ImportError, ValueError):
        installed = False
    command = [sys.executable, "-P", "-m", __name__]
    return (lambda folder: PipedProcess(command, environ, folder)) if installed else None


class Codecarbon:
    """One codecarbon process of a job, started when the job is old enough."""

    def __init__(
        self, spawn: Callable[[], PipedProcess], timeline: Timeline, fail: Callable[[str], None]
    ) -> None:
        """`fail` is told why it is of no use, once it is."""
        self.process: PipedProcess | None = None
        self.ended = False
        self._spawn, self._timeline, self._fail = spawn, timeline, fail
        self._start_ns = timeline.start_ns + START_AFTER_NS
        self._has_read = False
        self._buffer = b""
        self._readings: dict[str, list[tuple[str, Span]]] = {}

    def due_ns(self) -> int | None:
        """Return when it is to be started [ns]; None when it has been."""
        return None if self.process or self.ended else self._start_ns

    def take(self, component: str) -> list[tuple[str, Span]]:
        """Return what it has read of a component since the last call, each with its meter."""
        return self._readings.pop(component, [])

    def end(self, why: str = "") -> None:
        """End the process, if there is one, for good, and say why where it failed."""
        if why and not self.ended:
            self._fail(why)
        process, self.process, self.ended = self.process, None, True
        if process is not None:
            with contextlib.suppress(Exception):
                process.kill()

    def poll(self) -> None:
        """Start it when that is due, and read what it has written."""
        now_ns = self._timeline.now_ns()
        if self.process is None:
            if not self.ended and now_ns >= self._start_ns:
                try:
                    self.process = self._spawn()
                except OSError as error:
                    self.end(f"codecarbon could not be started ({error})")
            return
        for line in self._lines(self.process.fd):
            with contextlib.suppress(Exception):  # what it or one of its libraries prints
                self._act_on(json.loads(line))
        if not self._has_read and now_ns >= self._start_ns + GIVE_UP_NS:
            self.end("codecarbon gave no reading within a minute")

    def _lines(self, fd: int) -> list[bytes]:
        """Return the lines that have arrived. At the end of its output it has failed."""
        try:
            data = os.read(fd, READ_B)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.end("codecarbon ended")
        *lines, torn = (self._buffer + data).split(b"\n")
        self._buffer = torn[-READ_B:]
        return lines

    def _act_on(self, message: dict[str, Any]) -> None:
        """Take why it cannot be used, or energy [J] over a span of boot time [ns]."""
        if "absent" in message:
            self.end(str(message["absent"])[:200])
            return
        ends = (int(message[edge]) + self._timeline.offset_ns for edge in ("from_ns", "to_ns"))
        start_ns, end_ns = (end // 1000 * 1000 for end in ends)  # as all of the timeline
        if not 0 < end_ns - start_ns <= LONGEST_NS:
            return
        for name, (meter, kind, energy_j) in message["counters"].items():
            power_w = energy_j / (end_ns - start_ns) * NS_PER_S
            # A counter that stands still is none.
            if kind in ("measured", "integrated") and 0 < power_w < math.inf:
                self._has_read = True
                span = Span(start_ns, end_ns, power_w, kind, awake=1.0)
                self._readings.setdefault(name, []).append((str(meter), span))


class CodecarbonSource(HostSource):
    """One component by codecarbon's counter, from its first reading on; by the model without."""

    def __init__(self, name: str, codecarbon: Codecarbon, model: ModelSource) -> None:
        """`model` is the component's."""
        self._name, self._codecarbon, self._model = name, codecarbon, model
        self.meter, self.kind = model.meter, model.kind

    @property
    def _counts(self) -> bool:
        return self.meter != self._model.meter and not self._codecarbon.ended

    def read(self, since_ns: int, now_ns: int, until_ns: int, *, last: bool) -> list[Span]:
        """Return its new readings, and the model's power before the first and after silence."""
        readings = self._codecarbon.take(self._name)
        if readings:
            self.meter, self.kind = readings[-1][0], readings[-1][1].kind
            return [span for _, span in readings]
        if self._counts and now_ns - since_ns < WAIT_NS:
            return []
        return self._model.read(since_ns, now_ns, until_ns, last=last)

    def cut_ns(self, mark_ns: int, now_ns: int) -> int | None:
        """Return None where it reads a counter: its next reading spans the boundary."""
        return None if self._counts else self._model.cut_ns(mark_ns, now_ns)


def main(every_s: float = MEASURE_EVERY_S) -> int:
    """Measure every `every_s` [s] until the reader of stdout is gone: codecarbon's own process.

    Exit code 1 when codecarbon cannot be used.
    """
    sys.modules["pynvml"] = None  # type: ignore[assignment]  # the meter reads the GPUs, once
    os.environ["HOME"] = os.environ["USERPROFILE"] = os.devnull  # no ~/.codecarbon.config
    try:
        from codecarbon.core import cpu

        counters = _counters(cpu)
        if not counters:
            _write({"absent": "codecarbon reads no counter here"})
            return 1
        _tracker(every_s, counters).start()
    except Exception as error:
        _write({"absent": f"codecarbon cannot be used: {type(error).__name__}: {error}"})
        return 1
    while True:
        time.sleep(3600)


def _tracker(every_s: float, counters: Mapping[str, tuple[str, str]]) -> Any:
    from codecarbon import OfflineEmissionsTracker

    unset = dict.fromkeys(
        ("force_cpu_power", "force_ram_power", "emissions_endpoint", "electricitymaps_api_token")
        + ("country_iso_code", "region", "cloud_provider", "cloud_region")
    )
    return OfflineEmissionsTracker(
        project_name="gramwatt",
        measure_power_secs=every_s,
        api_call_interval=1,
        output_methods=[],
        output_handlers=[_output_handler(every_s, counters)],
        output_dir=".",
        tracking_mode="machine",
        gpu_ids=[],
        pue=1.0,
        wue=0.0,
        force_carbon_intensity_g_co2e_kwh=0.0,
        allow_multiple_runs=True,
        log_level="critical",
        force_mode_cpu_load=False,
        rapl_include_dram=False,
        rapl_prefer_psys=False,
        **unset,
    )


def _counters(cpu: Any) -> dict[str, tuple[str, str]]:
    """Return meter and kind of what it reads from hardware, in the order in which it chooses.

    It models the rest. Of packages of which only some can be read it takes those for the whole
    processor: that is no counter of it.
    """
    if sys.platform == "linux" and cpu.is_rapl_available():
        return {CPU: ("codecarbon-rapl", "measured")} if find_counters().usable else {}
    if cpu.is_raspberry():  # currents and voltages of the board's rails
        return dict.fromkeys((CPU, RAM), ("codecarbon-pmic", "integrated"))
    return {}


def _output_handler(every_s: float, counters: Mapping[str, tuple[str, str]]) -> Any:
    from codecarbon.output_methods.base_output import BaseOutput

    clock = Clock()

    class Handler(BaseOutput):
        """Writes each interval's energy. Never raises: that would stop the tracker for good."""

        def __init__(self) -> None:
            self._since_ns, self._calls = clock.now_ns(), 0
            self._kwh = {CPU: 0.0, RAM: 0.0}

        def live_out(self, total: Any, delta: Any) -> None:
            """Write one interval: from the previous one to now [ns], energy of each counter [J].

            Calls that were held up come together, all energy in the first: one for all of them.
            """
            with contextlib.suppress(Exception):  # the next interval holds this one too
                now_ns, since_ns = clock.now_ns(), self._since_ns
                if now_ns - since_ns < every_s * NS_PER_S / 2:
                    return
                before, self._kwh = self._kwh, {CPU: total.cpu_energy, RAM: total.ram_energy}
                self._since_ns, self._calls = now_ns, self._calls + 1
                if self._calls > SKIPPED:
                    step_j = {name: j_from_kwh(self._kwh[name] - before[name]) for name in counters}
                    read = {name: [*counter, step_j[name]] for name, counter in counters.items()}
                    _write({"from_ns": since_ns, "to_ns": now_ns, "counters": read})

        def out(self, total: Any, delta: Any) -> None:
            """Ignore the end: the meter does not wait for it."""

    return Handler()


def _write(message: dict[str, Any]) -> None:
    try:
        os.write(1, encoded(message))
    except OSError:  # the meter has ended
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:2])))

"""codecarbon as a source of energy, where it reads a counter that gramwatt does not.

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

from gramwatt.collectors.common.clock import NS_PER_S, SystemClock, Timeline
from gramwatt.collectors.common.json_lines import encoded
from gramwatt.collectors.host.model import ModelSource
from gramwatt.collectors.host.rapl import find_counters
from gramwatt.collectors.host.source import CPU, RAM, WAIT_NS, Span
from gramwatt.sci.base.units import j_from_kwh

COUNTER_AFTER_NS = 5 * NS_PER_S
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
NOT_OURS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a line that codecarbon or one of its libraries prints may raise when it is read."""

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
        import subprocess  # most jobs never need it

        self.fd, writer = os.pipe()
        try:
            self._process = subprocess.Popen(  # gramwatt's interpreter and module
                command,
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=subprocess.DEVNULL,
                env={k: text for k, text in environ.items() if not k.startswith(FOREIGN)},
                cwd=folder if os.path.isdir(folder) else "/",
            )
        except OSError:
            os.close(self.fd)
            raise
        finally:
            os.close(writer)
        os.set_blocking(self.fd, False)
        os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)

    def kill(self) -> None:
        """End it and collect it; its CPU time then counts as the meter's."""
        self._process.kill()
        os.close(self.fd)
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
        self.counters: dict[str, tuple[str, str]] = {}
        """Meter and kind of the components of which it reads a counter, as it says at its start."""
        self._spawn, self._timeline, self._fail = spawn, timeline, fail
        self._start_ns = timeline.start_ns + COUNTER_AFTER_NS
        self._ended = self._has_read = False
        self._buffer = b""
        self._spans: dict[str, list[Span]] = {}

    def due_ns(self) -> int | None:
        """Return when it is to be started [ns]; None when it has been."""
        return None if self.process or self._ended else self._start_ns

    def take(self, component: str) -> list[Span]:
        """Return what has been read of its counter of a component since the last call."""
        return self._spans.pop(component, [])

    def end(self) -> None:
        """End the process, if there is one, for good: it counts nothing from now on."""
        process, self.process, self._ended = self.process, None, True
        self.counters = {}
        if process is not None:
            with contextlib.suppress(Exception):
                process.kill()

    def poll(self) -> None:
        """Start it when that is due, and read what it has written."""
        now_ns = self._timeline.now_ns()
        if self.process is None:
            if not self._ended and now_ns >= self._start_ns:
                try:
                    self.process = self._spawn()
                except OSError as error:
                    self._give_up(f"codecarbon could not be started ({error})")
            return
        for line in self._lines(self.process.fd):
            self._parse(line)
        if not self._has_read and now_ns >= self._start_ns + GIVE_UP_NS:
            self._give_up("codecarbon gave no reading within a minute")

    def _lines(self, fd: int) -> list[bytes]:
        """Return the lines that have arrived. At the end of its output it has failed."""
        try:
            data = os.read(fd, READ_B)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._give_up("codecarbon ended")
        *lines, rest = (self._buffer + data).split(b"\n")
        self._buffer = rest[-READ_B:]
        return lines

    def _give_up(self, why: str) -> None:
        if not self._ended:
            self.end()
            self._fail(why)

    def _parse(self, line: bytes) -> None:
        """Act on a line; another message, and what is none of ours, is ignored."""
        try:
            message = json.loads(line)
            if "absent" in message:
                self._give_up(str(message["absent"])[:200])
            elif "started" in message:
                for name in (CPU, RAM):
                    meter, kind = message["counters"].get(name, ("", ""))
                    if kind in ("measured", "integrated"):
                        self.counters[name] = str(meter), kind
                if not self.counters:
                    self._give_up("codecarbon reads no counter here")
            else:
                self._add(message)
        except NOT_OURS:
            return

    def _add(self, message: dict[str, Any]) -> None:
        """Take a reading: energy [J] of the whole host's components over a span of boot time."""
        # A boot time on the job's timeline, exact to the microsecond.
        offset_ns = self._timeline.offset_ns
        start_ns, end_ns = (
            (int(message[edge]) + offset_ns) // 1000 * 1000 for edge in ("from_ns", "to_ns")
        )
        if self._ended or not 0 < end_ns - start_ns <= LONGEST_NS:
            return
        span_s = (end_ns - start_ns) / NS_PER_S
        power_w = {name: float(message[f"{name}_j"]) / span_s for name in (CPU, RAM)}
        if not all(0 <= watts < math.inf for watts in power_w.values()):
            return
        self._has_read = True
        for name, (_, kind) in self.counters.items():
            if power_w[name] > 0:  # a counter that stands still is none
                span = Span(start_ns, end_ns, power_w[name], kind)
                self._spans.setdefault(name, []).append(span)


class CodecarbonSource:
    """One component by codecarbon's counter, from its first reading on; by the model without."""

    def __init__(self, name: str, codecarbon: Codecarbon, model: ModelSource) -> None:
        """`model` is the component's."""
        self._name, self._codecarbon, self._model = name, codecarbon, model
        self._power_w: float | None = None
        """Power of its last reading [W]; None before the first."""

    @property
    def _counter(self) -> tuple[str, str] | None:
        return self._codecarbon.counters.get(self._name) if self._power_w else None

    @property
    def meter(self) -> str:
        """The name of codecarbon's counter, or of the model."""
        return self._counter[0] if self._counter else self._model.meter

    @property
    def kind(self) -> str:
        """Return how the counter's energy is known, or the model's."""
        return self._counter[1] if self._counter else self._model.kind

    def due_ns(self) -> None:
        """Return None: codecarbon writes when it will."""

    def read(self, since_ns: int, now_ns: int, until_ns: int) -> list[Span]:
        """Return its new readings, and the model's power before the first.

        After a minute of silence its last power.
        """
        spans = self._codecarbon.take(self._name)
        if spans:
            self._power_w = spans[-1].power_w
        elif self._counter is None:
            return self._model.read(since_ns, now_ns, until_ns)
        elif now_ns - since_ns >= WAIT_NS:
            return [Span(since_ns, now_ns, self._power_w, "estimated")]
        return spans

    def cut_ns(self, mark_ns: int, now_ns: int) -> int | None:
        """Return None where it reads a counter: its next reading spans the boundary."""
        return None if self._counter else self._model.cut_ns(mark_ns, now_ns)

    def state(self) -> dict[str, Any]:
        """Return nothing: the next meter starts a codecarbon of its own."""
        return {}

    def resume(self, state: dict[str, Any]) -> None:
        """Ignore the state of whatever source there was."""


def main(every_s: float = MEASURE_EVERY_S) -> int:
    """Measure every `every_s` [s] until the reader of stdout is gone: codecarbon's own process.

    Exit code 1 when codecarbon cannot be used.
    """
    _die_with_parent()
    sys.modules["pynvml"] = None  # type: ignore[assignment]  # the meter reads the GPUs, once
    try:
        tracker, counters = _tracker(every_s)
    except Exception as error:
        _write({"absent": f"codecarbon cannot be used: {type(error).__name__}: {error}"})
        return 1
    _write({"started": True, "counters": counters})
    tracker.start()
    while True:
        time.sleep(3600)


def _tracker(every_s: float) -> tuple[Any, dict[str, tuple[str, str]]]:
    os.environ["HOME"] = os.environ["USERPROFILE"] = os.devnull  # no ~/.codecarbon.config
    from codecarbon import OfflineEmissionsTracker
    from codecarbon.core import cpu

    tracker = OfflineEmissionsTracker(
        project_name="gramwatt",
        measure_power_secs=every_s,
        api_call_interval=1,
        output_methods=[],
        output_handlers=[_output_handler(every_s)],
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
    return tracker, _counters(cpu)


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


def _output_handler(every_s: float) -> Any:
    from codecarbon.output_methods.base_output import BaseOutput

    clock = SystemClock()

    class Handler(BaseOutput):
        """Writes each interval's energy. Never raises: that would stop the tracker for good."""

        def __init__(self) -> None:
            self._since_ns = clock.now_ns()
            self._cpu_kwh = self._ram_kwh = 0.0
            self._calls = 0

        def live_out(self, total: Any, delta: Any) -> None:
            """Write one interval: from the previous one to now [ns], CPU and RAM energy [J].

            Calls that were held up come together, all energy in the first: one for all of them.
            """
            try:
                now_ns, since_ns = clock.now_ns(), self._since_ns
                if now_ns - since_ns < every_s * NS_PER_S / 2:
                    return
                energy = {
                    "cpu_j": j_from_kwh(total.cpu_energy - self._cpu_kwh),
                    "ram_j": j_from_kwh(total.ram_energy - self._ram_kwh),
                }
                self._cpu_kwh, self._ram_kwh = total.cpu_energy, total.ram_energy
                self._since_ns, self._calls = now_ns, self._calls + 1
                if self._calls > SKIPPED:
                    _write({"from_ns": since_ns, "to_ns": now_ns, **energy})
            except Exception:  # the next interval holds this one too
                return

        def out(self, total: Any, delta: Any) -> None:
            """Ignore the end: the meter does not wait for it."""

    return Handler()


def _write(message: dict[str, Any]) -> None:
    try:
        os.write(1, encoded(message))
    except OSError:  # the meter has ended
        os._exit(0)


def _die_with_parent() -> None:
    """Ask the kernel to end this process with the meter, which may be killed at any moment."""
    parent = os.getppid()
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: prctl(2)
    except (OSError, AttributeError, ImportError):
        return
    if os.getppid() != parent:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:2])))

"""One micro-benchmark: idle power, then rate and power of each kind of work, on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot
from statistics import fmean, linear_regression, median
from typing import Protocol

from gramwatt.collectors.common.clock import NS_PER_S, Clock
from gramwatt.collectors.devices.port import DevicePort, SourceError, Values
from gramwatt.sci.advice.prediction.device_rows import COPY, MATMUL, Load
from gramwatt.sci.base.quantity import Kind, Quantity
from gramwatt.sci.base.uncertainty import energy, percentile
from gramwatt.sci.base.units import MJ_PER_J, MW_PER_W

IDLE_SHARE = 0.1
"""Share of the whole time in which the device idles, once without and once with a process."""
WARMING = 0.2
"""First share of a phase that is not counted: clocks and power settle."""
BATCH_S = 0.05
"""Length of a batch of launches that is aimed at [s]: long beside a launch, short beside
`PERIOD_S`."""
PERIOD_S = 0.1
"""Time between updates of NVML's energy counter and power sensor [s]: 0.02 to 0.1."""
LAUNCHES_MOST = 10_000
POLL_S = 0.02
"""Pause between readings of an idle device [s]."""


class Workbench(Protocol):
    """What does the work on the device; `launch` of each kind of work returns when it is done."""

    software: str

    def open(self) -> None:
        """Put a process on the device, without work."""

    def prepare(self, work: str, precision: str | None) -> float:
        """Get ready for a kind of work; returns the amount of one launch [flop, or byte]."""

    def launch(self, times: int) -> None:
        """Do the prepared work so many times."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Idle power without and with a process on the device, and each kind of work."""

    idle: Quantity | None
    held: Quantity | None
    loads: tuple[Load, ...]
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Measures one device of a port; `progress` is told each step in words."""

    port: DevicePort
    index: int
    clock: Clock
    progress: Callable[[str], None]

    def run(self, bench: Workbench, precisions: Sequence[str], seconds: float) -> Measured:
        """Measure for about so long [s]; work that fails is left out and named."""
        idle_s = seconds * IDLE_SHARE
        self.progress(f"idle, {idle_s:.0f} s")
        idle = self._idle(idle_s)
        bench.open()
        self.progress(f"idle with a process, {idle_s:.0f} s")
        held = self._idle(idle_s)
        kinds = [*((MATMUL, name) for name in precisions), (COPY, None)]
        phase_s = (seconds - 2 * idle_s) / len(kinds)
        loads, failures = [], []
        for work, precision in kinds:
            name = f"{work} {precision}" if precision else work
            self.progress(f"{name}, {phase_s:.0f} s")
            try:
                loads.append(self._load(bench, work, precision, phase_s))
            except Exception as error:  # a driver or build without this kind of work
                failures.append(f"{name} was not measured: {error}")
        return Measured(idle, held, tuple(loads), tuple(failures))

    def _idle(self, seconds: float) -> Quantity | None:
        readings = _Readings(self.port, self.index, self.clock)
        end_ns = self.clock.now_ns() + round(seconds * NS_PER_S)
        while self.clock.now_ns() < end_ns:
            readings.add()
            self.clock.sleep(POLL_S)
        return readings.power()

    def _load(self, bench: Workbench, work: str, precision: str | None, seconds: float) -> Load:
        amount = bench.prepare(work, precision)
        start_ns = self.clock.now_ns()
        end_ns = start_ns + round(seconds * NS_PER_S)
        counted_ns = start_ns + round(seconds * WARMING * NS_PER_S)
        launches, rates = 1, []
        readings = _Readings(self.port, self.index, self.clock)
        while self.clock.now_ns() < end_ns:
            before_ns = self.clock.now_ns()
            if before_ns >= counted_ns:
                readings.add()
            begun_ns = self.clock.now_ns()
            bench.launch(launches)
            took_s = max(1e-9, (self.clock.now_ns() - begun_ns) / NS_PER_S)
            if before_ns >= counted_ns:
                rates.append(amount * launches / took_s)
            launches = _next_batch(launches, took_s)
        readings.add()
        if not rates:
            raise SourceError(f"one launch takes longer than {seconds:.0f} s")
        return Load(
            work=work,
            precision=precision,
            rate=_rate(rates, work, bench.software),
            power=readings.power(),
        )


class _Readings:
    """Readings of power and counter over a phase of constant work."""

    def __init__(self, port: DevicePort, index: int, clock: Clock) -> None:
        self._port, self._index, self._clock = port, index, clock
        self._found: list[tuple[float, Values]] = []

    def add(self) -> None:
        """Read once; a reading that fails is left out."""
        try:
            values = self._port.read(self._index)
        except SourceError:
            return
        self._found.append((self._clock.now_ns() / NS_PER_S, values))

    def power(self) -> Quantity | None:
        """Mean power [W]: the counter's slope over time, else the mean of sampled power."""
        counted = [
            (at_s, one.counter_mj / MJ_PER_J)
            for at_s, one in self._found
            if one.counter_mj is not None
        ]
        if len({joules for _, joules in counted}) > 1:
            times, joules = zip(*counted, strict=True)
            return self._figure(linear_regression(times, joules).slope, "measured")
        sampled = [one.power_mw / MW_PER_W for _, one in self._found if one.power_mw is not None]
        return self._figure(fmean(sampled), "integrated") if sampled else None

    def _figure(self, watts: float, kind: Kind) -> Quantity | None:
        if watts <= 0:
            return None
        # A counter that moves every 0.1 s gives the ends of a phase no better than that.
        spread = hypot(1 - energy(1.0, kind, self._port.meter).low, PERIOD_S / self._span_s())
        text = f"{self._port.meter}, mean power of the phase"
        return Quantity.around(watts, spread, "W", kind, text)

    def _span_s(self) -> float:
        return max(PERIOD_S, self._found[-1][0] - self._found[0][0])


def _next_batch(launches: int, took_s: float) -> int:
    """Launches of the next batch, so that it takes about `BATCH_S`."""
    wanted = launches * BATCH_S / took_s
    return max(1, min(LAUNCHES_MOST, 4 * launches, round(wanted)))


def _rate(rates: Sequence[float], work: str, software: str) -> Quantity:
    """Return the median rate with the range of eight batches in ten [Tflop/s, or GB/s for
    copies].
    """
    ordered = sorted(rates)
    scale, unit = (1e-12, "Tflop/s") if work == MATMUL else (1e-9, "GB/s")
    ends = (median(ordered), percentile(ordered, 0.1), percentile(ordered, 0.9))
    value, low, high = (end * scale for end in ends)
    return Quantity(value, low, high, unit, "measured", f"{software}, {len(rates)} batches")

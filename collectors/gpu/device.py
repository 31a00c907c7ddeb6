"""One billed device: its readings, and the boundaries that wait for its counter's ticks.

`sampler` decides when to read; what is called here is done at once.
"""

from __future__ import annotations

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.devices.base import (
    POWER_AVERAGE_FIELD,
    POWER_INSTANT_FIELD,
    DevicePort,
    Notify,
)
from gramwatt.collectors.gpu.boundaries import SLOW_PERIOD_S, Boundary, counter_at
from gramwatt.collectors.gpu.cross_check import CrossCheck
from gramwatt.collectors.gpu.energy import GpuMeter
from gramwatt.collectors.gpu.reader import Read, Reader, Reading
from gramwatt.collectors.gpu.sample_buffer import SampleBuffer
from gramwatt.collectors.gpu.telemetry import Profiler
from gramwatt.sci.base.units import w_from_mw

CUTS_MAX = 20_000
"""Intervals of one device that windows may cut, some 5 MB of journal; later ones are left whole."""
BUFFER_REACH_NS = 2_000_000_000
"""A driver's buffer that reaches back this far may be read once a second."""

COSTLY_EVERY_NS = 5_000_000_000
"""How often a counter is read that is costly to read. Intervals begin and end on such seconds; a
meter and job that are killed together lose so much."""

_OVERRUN = "the driver's buffer of power samples was read too late; what it lost is estimated."


class Device:
    """A billed device: how it is read, and the meter that its readings are recorded on."""

    __slots__ = (
        "_cuts",
        "_final",
        "_notify",
        "_port",
        "_timeline",
        "boundary",
        "buffer",
        "check",
        "gpu",
        "index",
        "profiler",
        "reader",
        "resumed",
    )

    def __init__(
        self,
        port: DevicePort,
        index: int,
        gpu: GpuMeter,
        read: Read,
        check: CrossCheck,
        timeline: Timeline,
        notify: Notify,
    ) -> None:
        """`check` is of the device's board: slices of one board share it."""
        self.index = index
        self.gpu = gpu
        self.check = check
        self.reader = Reader(read, timeline, gpu.label, notify, gpu.lose)
        self.profiler = Profiler(port, index)
        self.buffer: SampleBuffer | None = None
        self.boundary: Boundary | None = None
        self.resumed = gpu.end_ns is not None
        self._port = port
        self._timeline = timeline
        self._notify = notify
        self._cuts = 0
        self._final: Boundary | None = None

    @property
    def needs_dense_power(self) -> bool:
        """Whether its power must be read many times a second."""
        if not self.gpu.needs_power or self.reader.lost:
            return False
        return self.buffer is None or self.buffer.reach_ns < BUFFER_REACH_NS

    @property
    def needs_check(self) -> bool:
        """Whether power at random moments is wanted, to compare the counter with."""
        return not (self.check.has_means or self.gpu.needs_power or self.reader.lost)

    def rests(self, time_ns: int) -> bool:
        """Whether a counter that is costly to read is left alone on this whole second [ns].

        Only where the driver gives the means of the seconds between, and all is well.
        """
        if not self.reader.costly or time_ns % COSTLY_EVERY_NS < NS_PER_S:
            return False
        return self.check.has_means and not self.gpu.needs_power and self.gpu.fault is None

    def rest(self, time_ns: int) -> None:
        """Read the power alone on a whole second [ns]: for its peak, and to compare its mean."""
        try:
            powers = self._port.fields(self.index, (POWER_INSTANT_FIELD, POWER_AVERAGE_FIELD))
        except Exception:  # a second whose mean is missing is not compared
            return
        instant_mw, mean_mw = powers
        if mean_mw is not None:
            self.check.add_mean(time_ns, mean_mw)
            self.gpu.see_power(w_from_mw(mean_mw if instant_mw is None else instant_mw))

    def start(self) -> None:
        """Take the first reading, and wait for the counter's ticks after it."""
        self.gpu.limit_w = self.profiler.limit_w()
        reading = self.reader.read()
        if reading is None:
            return
        if not self.resumed:  # else the first second's reading spans the gap
            self.gpu.add_reading(reading)
        if reading.counter_mj is None:
            self.buffer = self._open_buffer()
        elif self.gpu.period_s is None:
            self.boundary = Boundary.at_start(reading)

    def add_boundary(self, time_ns: int) -> None:
        """End the open interval at a window's edge [ns], once the counter's value there is known.

        Edges beyond CUTS_MAX and those of a lost device are left out.
        """
        self._cuts += 1
        if self._cuts <= CUTS_MAX and not self.reader.lost:
            self._wait_for(time_ns)

    def poll(self) -> None:
        """Read again while a boundary waits, and record it when its ticks are seen or are late."""
        boundary = self.boundary
        if boundary is None:
            return
        reading = self.reader.read()
        if self.reader.lost:
            self.boundary = None
            return
        if reading is not None:
            boundary.poll(reading)
        if boundary.complete or self._timeline.now_ns() >= boundary.deadline_ns:
            self.boundary = None
            if boundary.is_start:
                self._end_start(boundary, reading)
            else:
                self._record(boundary)
                if reading is not None:
                    self.gpu.add_reading(reading)

    def add_reading(self, reading: Reading) -> None:
        """Record a whole second's reading, of this device or of another slice of its board."""
        gpu, counter_mj = self.gpu, reading.counter_mj
        if self.buffer is None or counter_mj is not None:  # else buffered samples would be too late
            gpu.add_reading(reading)
        if counter_mj is not None and not gpu.needs_power:
            trusted = gpu.fault is None or gpu.fault == "late"
            self.check.add_reading(reading.time_ns, counter_mj, reading.mean_mw, trusted=trusted)

    def add_power(self) -> None:
        """Record the power of this moment, or the driver's buffered samples."""
        if self.drain():
            return
        try:
            power_mw = self._port.power_mw(self.index)
        except Exception:  # the next sample spans this one
            return
        self.gpu.add_power(self._timeline.now_ns(), power_mw)

    def add_check(self) -> None:
        """Read the power of this moment for the comparison with the counter."""
        try:
            self.check.add_power(self._port.power_mw(self.index))
        except Exception:  # one moment less
            return

    def compare(self, *, final: bool = False) -> None:
        """Report a counter and a power sensor that differ."""
        text = self.check.finding(self.gpu.limit_w, final=final)
        if text:
            self._notify("meter-cross-check", f"{self.gpu.label}: {text}")

    def drain(self) -> bool:
        """Record what the driver has sampled since; False without a buffer that still answers."""
        if self.buffer is None:
            return False
        try:
            samples = self.buffer.drain(self._timeline.now_ns())
        except Exception:  # power is read often from here on
            self.buffer = None
            return False
        lost = self.buffer.overrun
        if lost and samples:
            self._notify("meter-gap", f"{self.gpu.label}: {_OVERRUN}")
        for time_ns, power_mw in samples:
            self.gpu.add_power(time_ns, power_mw, after_gap=lost)
            lost = False
        if self.buffer.silent:
            self.buffer = None
        return self.buffer is not None

    def begin_stop(self) -> bool:
        """Take the final reading; whether the counter's tick after it is worth waiting for."""
        boundary = self.boundary
        if boundary is not None and boundary.is_start:
            boundary = None  # too short a job to see two ticks: the plain reading stands
        self.drain()
        reading = None if self.reader.lost else self.reader.read()
        if reading is None:
            return False
        if boundary is not None:
            boundary.poll(reading)
            if boundary.complete:
                self._record(boundary)
                boundary = None
        self.boundary = boundary
        self._final = Boundary.after_start(reading, self.gpu.period_s)
        return reading.counter_mj is not None and (self.gpu.period_s or 0.0) > SLOW_PERIOD_S

    def poll_stop(self) -> bool:
        """Read again after the final reading; whether the wait for its tick goes on."""
        reading, final = self.reader.read(), self._final
        if reading is None or final is None:
            return False
        final.poll(reading)
        return not final.complete and reading.time_ns < final.deadline_ns

    def end_stop(self, stop_ns: int) -> None:
        """Record everything up to the stop [ns] and close the last interval."""
        final = self._final
        if final is not None:
            if self.boundary is not None:
                self.boundary.ticks = final.ticks
                self._record(self.boundary)
            points, power_mw = final.points(self.gpu.period_s), final.reading.power_mw
            if points:
                self.gpu.add_boundary(stop_ns, points, power_mw, cut=False)
            else:
                time_ns = min(final.reading.time_ns, stop_ns)
                self.gpu.add_reading(Reading(time_ns, None, power_mw))
        self.gpu.settle()
        self.profiler.record(self.gpu.ledger)
        self.gpu.ledger.close()
        self.compare(final=True)

    def _wait_for(self, time_ns: int) -> None:
        if self.boundary is not None:
            self.boundary.times_ns.append(time_ns)
        elif (reading := self.reader.read()) is None:
            return
        elif self.gpu.needs_power:  # there is no tick to wait for
            self.gpu.add_reading(reading)
            self.gpu.cut()
        else:
            self.boundary = Boundary.after_start(reading, self.gpu.period_s)
            self.boundary.times_ns.append(time_ns)

    def _end_start(self, boundary: Boundary, reading: Reading | None) -> None:
        if not boundary.complete:  # the plain first reading stands: one update period off at most
            for time_ns in boundary.times_ns:
                self._wait_for(time_ns)
            return
        self.gpu.period_s = boundary.period_s
        if not self.resumed:  # else its counter is that of the meter before
            points = boundary.points(boundary.period_s)
            self.gpu.set_start_counter(counter_at(boundary.reading.time_ns, points))
        power_mw = reading.power_mw if reading else None
        for time_ns in sorted(boundary.times_ns):
            self.gpu.add_boundary(time_ns, boundary.ticks, power_mw)

    def _record(self, boundary: Boundary) -> None:
        """Record the energy up to each edge that waited, and end the open interval there."""
        points = boundary.points(self.gpu.period_s)
        for time_ns in sorted(boundary.times_ns):
            self.gpu.add_boundary(time_ns, points, boundary.reading.power_mw)

    def _open_buffer(self) -> SampleBuffer | None:
        """The driver's own samples of a board without a counter, where it keeps any."""
        port, index = self._port, self.index
        try:
            buffer = SampleBuffer(
                lambda since_us: port.power_samples(index, since_us), self._timeline.now_ns()
            )
        except Exception:  # not offered: power is read often instead
            return None
        return buffer if buffer.reach_ns else None

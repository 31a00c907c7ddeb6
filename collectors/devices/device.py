"""One billed device: its readings, and the boundaries that wait for its counter's ticks.

`sampler` decides when to read; what is called here is done at once.
"""

from __future__ import annotations

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.devices.boundaries import Boundary, counter_at
from gramwatt.collectors.devices.cross_check import CrossCheck
from gramwatt.collectors.devices.energy import EnergyMeter
from gramwatt.collectors.devices.port import DevicePort, Notify
from gramwatt.collectors.devices.reader import Reader, Reading
from gramwatt.collectors.devices.sample_buffer import SampleBuffer
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

    def __init__(
        self,
        port: DevicePort,
        index: int,
        meter: EnergyMeter,
        check: CrossCheck,
        timeline: Timeline,
        notify: Notify,
    ) -> None:
        """`check` is of the device's board: slices of one board share it."""
        self.index = index
        self.meter = meter
        self.check = check
        self.reader = Reader(port, index, timeline, meter.label, notify, meter.discard_pending)
        self.buffer: SampleBuffer | None = None
        self.boundary: Boundary | None = None
        """What waits for the counter's ticks now."""
        self.resumed = meter.end_ns is not None
        self._port = port
        self._timeline = timeline
        self._notify = notify
        self._cuts = 0
        self._stop_ns: int | None = None

    @property
    def needs_dense_power(self) -> bool:
        """True when its power must be read many times a second."""
        if not self.meter.needs_power or self.reader.lost:
            return False
        return self.buffer is None or self.buffer.reach_ns < BUFFER_REACH_NS

    @property
    def needs_check(self) -> bool:
        """True when power at random moments is wanted, to compare the counter with."""
        return not (self.check.has_means or self.meter.needs_power or self.reader.lost)

    def start(self) -> None:
        """Take the first reading, and wait for the counter's ticks after it."""
        self.read_limit()
        reading = self.reader.read()
        if reading is None:
            return
        if not self.resumed:  # else the first second's reading spans the gap
            self.meter.add_reading(reading)
        if reading.counter_mj is None:
            self.buffer = self._open_buffer()
        elif self.meter.period_s is None:
            self.boundary = Boundary.at_start(reading)

    def skips_counter(self, time_ns: int) -> bool:
        """Return whether a counter that is costly to read is left alone on this whole second [ns].

        Only where the driver gives the means of the seconds between, and all is well.
        """
        if not self.reader.costly or time_ns % COSTLY_EVERY_NS < NS_PER_S:
            return False
        return self.check.has_means and not self.meter.needs_power and self.meter.fault is None

    def read_power_only(self, time_ns: int) -> None:
        """Read the power alone on a whole second [ns]: for its peak, and to compare its mean."""
        try:
            _, power_mw, mean_mw = self._port.read_power(self.index)
        except Exception:  # a second whose mean is missing is not compared
            return
        if mean_mw is not None and power_mw is not None:
            self.check.add_mean(time_ns, mean_mw)
            self.meter.record_power(w_from_mw(power_mw))

    def add_reading(self, reading: Reading) -> None:
        """Record a whole second's reading, of this device or of another slice of its board."""
        meter, counter_mj = self.meter, reading.counter_mj
        if self.buffer is None or counter_mj is not None:  # else buffered samples would be too late
            meter.add_reading(reading)
        if counter_mj is not None and not meter.needs_power:
            trusted = meter.fault is None or meter.fault == "late"
            self.check.add_reading(reading.time_ns, counter_mj, reading.mean_mw, trusted=trusted)

    def add_power(self) -> None:
        """Record the power of this moment, or the driver's buffered samples."""
        if self.drain():
            return
        try:
            _, power_mw, mean_mw = self._port.read_power(self.index)
        except Exception:  # the next sample spans this one
            return
        self.meter.add_power(self._timeline.now_ns(), power_mw if mean_mw is None else mean_mw)

    def add_check(self) -> None:
        """Read the power of this moment for the comparison with the counter."""
        try:
            power_mw = self._port.read_power(self.index).power_mw
        except Exception:  # one moment less
            return
        if power_mw is not None:
            self.check.add_power(power_mw)

    def add_profile(self, *, full: bool) -> None:
        """Record how the device runs; energy does not depend on it."""
        try:
            found = self._port.profile(self.index, full=full)
        except Exception:  # one look less
            return
        self.meter.ledger.observe(found.utilisation, found.memory_b)
        self.meter.ledger.note(found.telemetry)

    def read_limit(self) -> None:
        """Read the power limit in force, which limits are plausible steps of the counter."""
        try:
            limit_w = self._port.limit_w(self.index)
        except Exception:  # the last one known stands
            return
        self.meter.limit_w = limit_w or self.meter.limit_w

    def compare(self, *, final: bool = False) -> None:
        """Report a counter and a power sensor that differ."""
        text = self.check.finding(self.meter.limit_w, final=final)
        if text:
            self._notify("meter-cross-check", f"{self.meter.label}: {text}")

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
            self._notify("meter-gap", f"{self.meter.label}: {_OVERRUN}")
        for time_ns, power_mw in samples:
            self.meter.add_power(time_ns, power_mw, after_gap=lost)
            lost = False
        if self.buffer.silent:
            self.buffer = None
        return self.buffer is not None

    def add_boundary(self, time_ns: int) -> None:
        """End the open interval at a window's edge [ns], once the counter's value there is known.

        Edges beyond CUTS_MAX and those of a lost device are left out.
        """
        self._cuts += 1
        if self._cuts <= CUTS_MAX:
            self._wait_for(time_ns)

    def begin_stop(self, stop_ns: int) -> None:
        """Wait for the counter's value at the stop [ns] as at a window's edge."""
        if self.boundary is not None and self.boundary.is_start:
            self._finish(self.boundary, None)  # too short a job to see two ticks
        self.drain()
        self._stop_ns = stop_ns
        self._wait_for(stop_ns)

    def poll(self) -> None:
        """Read again while a boundary waits, and record it when its ticks are seen or are late."""
        boundary = self.boundary
        if boundary is None:
            return
        reading = self.reader.read()
        if reading is not None:
            boundary.poll(reading)
        late = self._timeline.now_ns() >= boundary.deadline_ns
        if boundary.complete or late or self.reader.lost:
            self._finish(boundary, reading)

    def end(self) -> None:
        """Record what still waits and close the last interval, after the boundary at the stop."""
        self.meter.settle()
        self.add_profile(full=True)
        self.meter.ledger.close()
        self.compare(final=True)

    def _wait_for(self, time_ns: int) -> None:
        """Record the energy up to a boundary [ns], at the counter's next tick if there is one to
        wait for.
        """
        if self.reader.lost:
            return
        if self.boundary is not None:
            self.boundary.times_ns.append(time_ns)
            return
        reading = self.reader.read()
        if reading is None:
            return
        boundary = Boundary.after_start(reading, self.meter.period_s)
        boundary.times_ns.append(time_ns)
        if self.meter.needs_power or boundary.deadline_ns <= reading.time_ns:
            self._record(boundary)
        else:
            self.boundary = boundary

    def _finish(self, boundary: Boundary, reading: Reading | None) -> None:
        self.boundary = None
        if boundary.is_start:
            self._end_start(boundary, reading)
            return
        self._record(boundary)
        if reading is not None and self._stop_ns is None:
            self.meter.add_reading(reading)

    def _end_start(self, boundary: Boundary, reading: Reading | None) -> None:
        if not boundary.complete:  # the plain first reading stands: one update period off at most
            for time_ns in boundary.times_ns:
                self._wait_for(time_ns)
            return
        self.meter.period_s = boundary.period_s
        if not self.resumed:  # else its counter is that of the meter before
            points = boundary.points(boundary.period_s)
            self.meter.set_start_counter(counter_at(boundary.reading.time_ns, points))
        power_mw = reading.power_mw if reading else None
        for time_ns in sorted(boundary.times_ns):
            self.meter.add_boundary(time_ns, boundary.ticks, power_mw)

    def _record(self, boundary: Boundary) -> None:
        """Record the energy up to each moment that waited; an interval ends at a window's edge."""
        reading, points = boundary.reading, boundary.points(self.meter.period_s)
        for time_ns in sorted(boundary.times_ns):
            if not points:
                self.meter.add_reading(reading._replace(time_ns=min(reading.time_ns, time_ns)))
            cut = time_ns != self._stop_ns
            self.meter.add_boundary(time_ns, points, reading.power_mw, cut=cut)

    def _open_buffer(self) -> SampleBuffer | None:
        """Return the driver's own samples of a board without a counter, where it keeps any."""
        port, index = self._port, self.index
        try:
            buffer = SampleBuffer(
                lambda since_us: port.power_samples(index, since_us), self._timeline.now_ns()
            )
        except Exception:  # not offered: power is read often instead
            return None
        return buffer if buffer.reach_ns else None

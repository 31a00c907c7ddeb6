"""When the billed devices are read: counter and power once a second, on whole seconds.

A counter that is costly to read is read every 5 s, and the power alone in the seconds between.
While a boundary waits for the counter's tick, its device is read every 10 ms instead. A device
without a working counter has its power sampled 10 to 15 times a second, at jittered moments so that
no periodic load can lock to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.common.identity import safe_id
from gramwatt.collectors.devices.board import (
    Billed,
    Board,
    DeviceLost,
    DevicePort,
    Notify,
    NotSupported,
    SourceAbsent,
)
from gramwatt.collectors.devices.counter import (
    POLL_NS,
    Boundary,
    CrossCheck,
    EnergyMeter,
    Reading,
    counter_at,
)
from gramwatt.collectors.devices.shared_board import SharedBoards, SharedLedger
from gramwatt.collectors.journal.intervals import Interval, Ledger, Schedule
from gramwatt.sci.base.units import w_from_mw
from gramwatt.sci.journal.records import SYNTHETIC_METERS, DeviceRecord, IntervalRecord

INTERRUPTED_NS, INTERRUPTED_FACTOR = NS_PER_S // 200, 4
"""A reading that took longer, and so many times longer than the quickest, was interrupted by other
work: it is repeated once, because its value may belong to any moment of the call."""
COSTLY_NS = NS_PER_S // 1000
"""A reading whose quickest took longer is costly. On an H100 the counter takes 2 to 20 ms of the
processor, in the driver; power takes 0.02 ms (docs/measuring.md, "On a real board")."""
RETRY_MIN_NS, RETRY_MAX_NS = 10 * NS_PER_S, 300 * NS_PER_S
"""Pause before a lost device is read again; it doubles with each failure."""


class Reader:
    """Reads one device, and reads a lost one less and less often."""

    def __init__(
        self,
        port: DevicePort,
        index: int,
        timeline: Timeline,
        label: str,
        notify: Notify,
        on_lost: Callable[[], None],
    ) -> None:
        """`label` names the device in notices; `on_lost` is called when it stops answering."""
        self._port, self._index, self._timeline = port, index, timeline
        self._label, self._notify, self._on_lost = label, notify, on_lost
        self._quickest_ns = NS_PER_S
        self.retry_at_ns = 0
        """When a lost device may be read again [ns]; 0 while it answers."""
        self._pause_ns = RETRY_MIN_NS

    @property
    def lost(self) -> bool:
        """True while the device does not answer."""
        return self.retry_at_ns > 0

    @property
    def costly(self) -> bool:
        """True when even the quickest reading took long."""
        return self._quickest_ns > COSTLY_NS

    def read(self) -> Reading | None:
        """Return a reading of now; None when it failed."""
        clock = self._timeline.clock
        try:
            before_ns = clock.now_ns()
            values = self._port.read(self._index)
            took_ns = clock.now_ns() - before_ns
            if took_ns > INTERRUPTED_NS and took_ns > INTERRUPTED_FACTOR * self._quickest_ns:
                again_ns = clock.now_ns()
                again = self._port.read(self._index)
                again_took_ns = clock.now_ns() - again_ns
                if again_took_ns < took_ns:
                    before_ns, values, took_ns = again_ns, again, again_took_ns
        except DeviceLost as error:
            self._report_lost(error)
            return None
        except Exception as error:
            self._notify("meter-gap", f"{self._label}: a reading failed ({error}).")
            return None
        self._quickest_ns = min(self._quickest_ns, took_ns)
        if self.retry_at_ns:
            self.retry_at_ns, self._pause_ns = 0, RETRY_MIN_NS
        # The value belongs to some moment within the call; its middle is off by half of it.
        time_ns = before_ns + took_ns // 2 + self._timeline.offset_ns
        return Reading(time_ns - time_ns % 1000, *values)

    def _report_lost(self, error: DeviceLost) -> None:
        if not self.retry_at_ns:
            self._on_lost()
            self._notify("meter-gap", f"{self._label}: the device was lost ({error}).")
        self.retry_at_ns = self._timeline.now_ns() + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)


Ask = Callable[[int], list[tuple[int, int]]]
"""Samples after a timestamp [us]: (timestamp [us], power [mW])."""

NS_PER_US = 1_000
LEAK = 1e-4
"""How much faster the offset between the two clocks may grow than it is measured: ten times the
100 ppm at most that a clock's discipline slews, kept small against a sample's age."""
SILENT_NS = 3_000_000_000
"""A buffer that gave nothing for so long has another clock by now, or is gone."""
OVERRUN_PERIODS = 5
"""Samples may be late by themselves; so many missing in a row were overwritten."""


class SampleBuffer:
    """One board's samples, each handed out once, in order, on the job's timeline.

    `reach_ns` is how far the buffer goes back at its first reading [ns]: it must be read more often
    than that. `silent` is True when nothing came for SILENT_NS and from the start neither.
    `overrun` is True when samples between the last reading and this one had been overwritten.
    """

    def __init__(self, ask: Ask, now_ns: int) -> None:
        """Read the buffer once; raises what `ask` raises."""
        self._ask = ask
        self._since_us = 0
        self._offset_ns: float | None = None
        self._at_ns = now_ns
        self._answered_ns = now_ns
        self.silent = False
        self.overrun = False
        self._period_us = 0.0
        times_us = [time_us for time_us, _ in self._fresh(now_ns)]
        self.reach_ns = (max(times_us) - min(times_us)) * NS_PER_US if times_us else 0
        self._period_us = self.reach_ns / NS_PER_US / max(1, len(times_us) - 1)

    def drain(self, now_ns: int) -> list[tuple[int, int]]:
        """Return new samples: (time on the timeline [ns], power [mW]); raises what `ask` does."""
        fresh = self._fresh(now_ns)
        offset_ns = self._offset_ns or 0.0
        return [(round(time_us * NS_PER_US + offset_ns), power) for time_us, power in fresh]

    def _fresh(self, now_ns: int) -> list[tuple[int, int]]:
        found = {time_us: power for time_us, power in self._ask(self._since_us)}
        fresh = sorted(item for item in found.items() if item[0] > self._since_us)
        if not fresh:
            self._miss(now_ns)
            return []
        step_us = fresh[0][0] - self._since_us if self._since_us else 0
        self.overrun = step_us > OVERRUN_PERIODS * self._period_us > 0
        self._since_us, self._answered_ns = fresh[-1][0], now_ns
        offset_ns = float(now_ns - self._since_us * NS_PER_US)
        if self._offset_ns is not None:  # the least delayed reading so far is the best
            offset_ns = min(offset_ns, self._offset_ns + LEAK * (now_ns - self._at_ns))
        self._offset_ns, self._at_ns = offset_ns, now_ns
        return fresh

    def _miss(self, now_ns: int) -> None:
        if now_ns - self._answered_ns < SILENT_NS:
            return
        self.silent = self._since_us == 0
        self._since_us, self._offset_ns, self._answered_ns = 0, None, now_ns


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


TICK_NS = NS_PER_S
FAST_MIN_S, FAST_MAX_S = 1 / 15, 1 / 10
PROFILE_TICKS, SLOW_TICKS, LIMIT_TICKS = 5, 10, 60
"""Ticks for each profile, for each with what changes slowly (in the middle of intervals of 10 s),
and for each look at the limit."""
CHECK_TICKS = 2
"""Ticks for each reading of power at a random moment, where no mean over the second is offered."""


class Sampler:
    """Reads the billed devices of one port."""

    def __init__(
        self, port: DevicePort, timeline: Timeline, notify: Notify, random: Random
    ) -> None:
        self.devices: list[Device] = []
        self.awaits_start = False
        """True while the first readings still wait for the counter's ticks."""
        self._port = port
        self._timeline = timeline
        self._notify = notify
        self._random = random
        self._ticks = 0
        self._due_ns = 0
        self._next_ns = 0
        self._next_fast_ns = 0
        self._next_check_ns = 0

    def add(self, index: int, meter: EnergyMeter) -> bool:
        """Take on a device and its first reading; False when its energy cannot be read at all."""
        try:
            self._port.read(index)
        except NotSupported as error:
            self._notify("energy-unmeasured", f"{meter.label}: {error.message}.")
            return False
        except Exception:  # noqa: S110  # a passing reason: the first reading reports it
            pass
        check = next((d.check for d in self.devices if d.index == index), CrossCheck())
        device = Device(self._port, index, meter, check, self._timeline, self._notify)
        self.devices.append(device)
        device.start()
        self._schedule(self._timeline.now_ns())
        if not self._ticks and any(device.resumed for device in self.devices):
            self._next_ns = self._timeline.now_ns()
        self._plan()
        return True

    def add_boundary(self, time_ns: int) -> None:
        """End the open intervals at a window's edge [ns]."""
        for device in self.devices:
            device.add_boundary(time_ns)
        self._plan()

    def due_ns(self) -> int:
        """Return when the next reading is due on the timeline [ns]."""
        return self._due_ns

    def tick(self) -> None:
        """Take the readings that are due."""
        now_ns = self._timeline.now_ns()
        if now_ns < self._due_ns:
            return
        for device in self.devices:
            device.poll()
        if now_ns >= self._next_ns:
            self._tick_second(now_ns)
        else:
            self._tick_between(now_ns)
        self._plan()

    def stop(self, stop_ns: int) -> None:
        """Take the final readings, up to the stop [ns]."""
        for device in self.devices:
            device.begin_stop(stop_ns)
        while any(device.boundary for device in self.devices):
            self._timeline.clock.sleep(POLL_NS / NS_PER_S)
            for device in self.devices:
                device.poll()
        for device in self.devices:
            device.end()

    def _tick_second(self, now_ns: int) -> None:
        self._ticks += 1
        boards: dict[int, Reading] = {}  # slices of one board have one counter
        seen: list[Device] = []
        for device in self.devices:
            if device.boundary is not None or now_ns < device.reader.retry_at_ns:
                continue
            if device.skips_counter(now_ns):
                device.read_power_only(now_ns)
                seen.append(device)
                continue
            if device.buffer is not None:
                device.drain()
            reading = boards.get(device.index) or device.reader.read()
            if reading is not None:
                boards[device.index] = reading
                device.add_reading(reading)
                seen.append(device)
        if self._ticks % PROFILE_TICKS == 0:
            for device in seen:
                self._profile(device)
        self._schedule(now_ns)

    def _tick_between(self, now_ns: int) -> None:
        if now_ns >= self._next_fast_ns:
            for device in self.devices:
                if device.needs_dense_power:
                    device.add_power()
            self._schedule_fast(now_ns)
        if now_ns >= self._next_check_ns:
            checked = {device.index: device for device in self.devices if device.needs_check}
            for device in checked.values():
                device.add_check()
            self._next_check_ns = now_ns + CHECK_TICKS * TICK_NS  # the next tick draws another

    def _profile(self, device: Device) -> None:
        device.add_profile(full=self._ticks % SLOW_TICKS == PROFILE_TICKS)
        if self._ticks % LIMIT_TICKS == 0:
            device.read_limit()
        device.compare()

    def _schedule(self, now_ns: int) -> None:
        self._next_ns = (now_ns // TICK_NS + 1) * TICK_NS
        if self._ticks % CHECK_TICKS == 0:
            self._next_check_ns = now_ns + int(self._random.uniform(0, CHECK_TICKS) * TICK_NS)
        self._schedule_fast(now_ns)

    def _schedule_fast(self, now_ns: int) -> None:
        self._next_fast_ns = now_ns + int(self._random.uniform(FAST_MIN_S, FAST_MAX_S) * NS_PER_S)

    def _plan(self) -> None:
        """Set when the next reading is due."""
        due_ns, self.awaits_start = self._next_ns, False
        for device in self.devices:
            if device.boundary is not None:
                self.awaits_start = self.awaits_start or device.boundary.is_start
                due_ns = min(due_ns, self._timeline.now_ns() + POLL_NS)
            elif device.needs_dense_power:
                due_ns = min(due_ns, self._next_fast_ns)
            elif device.needs_check:
                due_ns = min(due_ns, self._next_check_ns)
        self._due_ns = due_ns


Put = Callable[..., None]
"""Takes a record's type and fields, as Journal.put does."""
Known = Mapping[str, dict[str, Any]]
"""An earlier meter's states by device id."""


@dataclass(frozen=True, slots=True)
class NodeJob:
    """What all devices of one job on one node have in common."""

    node: str
    timeline: Timeline
    schedule: Schedule
    random: Random
    put: Put
    notify: Notify

    def emit(self, device_id: str, interval: Interval) -> None:
        """Journal a finished interval."""
        self.put(IntervalRecord, **interval.fields(device_id))


class DeviceGroup:
    """The job's devices of one port.

    A driver or device that does not answer, as after a reset, is asked again later.
    """

    def __init__(self, job: NodeJob, port: DevicePort, shared: SharedBoards) -> None:
        self.sampler = Sampler(port, job.timeline, job.notify, job.random)
        self.ledgers: list[Ledger] = []
        self.includes_host = False
        """True when a device's energy holds the host's processor and memory."""
        self.driver: str | None = None
        self.retry_at_ns: int | None = 0
        """When a driver or device that did not answer is asked again [ns]; 0 before the first
        time, None when all have answered."""
        self._job = job
        self._port = port
        self._shared = shared
        self._boards: list[Board] | None = None
        self._open = self._unread = False
        self._pause_ns = RETRY_MIN_NS
        self._without_period: list[tuple[EnergyMeter, dict[str, Any]]] = []

    def adopt(
        self, environ: Mapping[str, str], known: Known, mark_ns: int, *, expected: bool
    ) -> None:
        """Add the devices that `environ` gives the job and that are not measured yet.

        `known` are an earlier meter's states by device; the energy of others begins at `mark_ns`
        [ns]. `expected`: a source that is absent is worth a notice.
        """
        if self._port.wants_none(environ):
            return
        boards = self._find(keep_asking=bool(known), expected=expected)
        if boards is None:
            return
        found = self._port.visible(environ, boards)
        for remark in found.remarks:
            self._job.notify("device-visibility", self._port.remark_text(remark))
        measured = {ledger.device_id for ledger in self.ledgers}
        for item in found.billed:
            self.includes_host = self.includes_host or item.board.includes_host
            if item.device_id not in measured:
                self._add(item, known.get(item.device_id), mark_ns, len(boards))

    @property
    def name(self) -> str:
        """Return the vendor's name."""
        return self._port.vendor

    def due_ns(self) -> int | None:
        """Return when it is read next, or its driver asked again [ns]; None where it never is."""
        dues = [self.sampler.due_ns()] if self.sampler.devices else []
        dues += [self.retry_at_ns] if self.retry_at_ns else []
        return min(dues, default=None)

    def tick(self) -> None:
        """Take the readings that are due."""
        self.sampler.tick()
        self._put_periods()

    def stop(self, stop_ns: int) -> None:
        """Take the final readings, up to the stop [ns]."""
        self.sampler.stop(stop_ns)
        self._put_unread()

    def close(self) -> None:
        """Close the port."""
        if self._open:
            self._port.close()

    def _find(self, *, keep_asking: bool, expected: bool) -> list[Board] | None:
        """Return the port's devices; None where it cannot be used, or not yet."""
        retry_at_ns, now_ns = self.retry_at_ns, self._job.timeline.now_ns()
        if retry_at_ns is None or now_ns < retry_at_ns:
            return self._boards
        self.retry_at_ns = now_ns + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)
        try:
            if not self._open:
                self._port.open()
                self._open = True
            boards = [self._board(index) for index in range(self._port.count())]
        except SourceAbsent as error:
            self._unread = self._unread or self._port.exists()
            if expected or self._port.exists():
                self._report_absent(" ".join(error.message.rstrip(".").split()))
            if not keep_asking:
                self.retry_at_ns = None
                self._put_unread()
            return None
        except Exception as error:  # whatever a driver does, the job continues
            self._report_absent(f"{self._port.library or self._port.meter} failed ({error})")
            self._unread = self._boards is None
            return None
        if None not in boards:
            self.retry_at_ns = None
        if self._boards is None:
            self._describe()
        self._boards = [board for board in boards if board is not None]
        return self._boards

    def _board(self, index: int) -> Board | None:
        """Return a device that the driver lists; None for one whose id or name cannot be read."""
        try:
            board = self._port.board(index)
        except Exception:
            return None
        return board._replace(uuid=safe_id(board.uuid))

    def _describe(self) -> None:
        self._unread = False
        self.driver = self._port.driver()
        if self._port.meter in SYNTHETIC_METERS:
            text = f"GPU readings come from {self._port.meter}, not from hardware."
            self._job.notify("meter-synthetic", text)

    def _add(self, item: Billed, known: dict[str, Any] | None, mark_ns: int, boards: int) -> None:
        job, port, board = self._job, self._port, item.board
        derived = port.sampled_kind == "derived"
        ledger = self._shared.ledger(
            port, item, job.schedule, job.emit, kind="derived" if derived else None
        )
        share = board.share * item.share
        meter = EnergyMeter(board.name, ledger, job.notify, share, mark_ns, dense_power=not derived)
        if known:
            meter.resume(known if port.counter_survives else {**known, "counter_mj": None})
        readable = self.sampler.add(board.ordinal, meter)
        self.ledgers.append(ledger)
        kind = "measured" if meter.has_counter else port.sampled_kind
        kind = "attributed" if share < 1 and not derived else kind
        fields = {
            "device_id": item.device_id,
            "device_class": port.device_class,
            "name": board.name,
            "meter": port.meter,
            "kind": kind if readable else "estimated",
            "share": item.share,
            "memory_b": board.memory_b * item.share if board.memory_b else None,
            "power_limit_w": meter.limit_w,
            "units": 1.0,
            "units_total": float(boards),
            "includes_host": board.includes_host,
            "update_period_s": meter.period_s,
        }
        job.put(DeviceRecord, **fields)
        if isinstance(ledger, SharedLedger):
            ledger.fields = fields
        if meter.period_s is None and self.driver is not None:
            self._without_period.append((meter, fields))

    def _put_periods(self) -> None:
        """Write device records again, once the counters' update periods are known."""
        if not self._without_period or self.sampler.awaits_start:
            return
        for meter, fields in self._without_period:
            if meter.period_s:
                period_s = round(meter.period_s, 6)
                self._job.put(DeviceRecord, **{**fields, "update_period_s": period_s})
        self._without_period.clear()

    def _report_absent(self, why: str) -> None:
        code = "meter-unreadable" if self._port.is_expected() else "meter-source-absent"
        self._job.notify(code, self._port.absence_text(why))

    def _put_unread(self) -> None:
        """Record devices that exist and never answered as one of unknown energy."""
        if not self._unread:
            return
        self._unread, port = False, self._port
        self._job.put(
            DeviceRecord,
            device_id=f"{self._job.node}-{port.meter}",
            device_class=port.device_class,
            name=f"{port.vendor}, not readable",
            meter=port.meter,
            kind="estimated",
        )

"""The devices of one vendor that one job has on one node: found, read at their times, recorded.

Counter and power are read once a second, on whole seconds. Of a board that gives its mean power of
each second the counter is read every 10 s, and that mean alone in the seconds between. While a
boundary waits for the counter's tick, its device is read every 10 ms instead. A device without a
working counter has its power sampled 10 to 15 times a second, at jittered moments so that no
periodic load can lock to them.

A device that the job has and that cannot be described or read is in the journal all the same. It is
asked again, and without an answer its energy stays unknown instead of too small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from msgspec import Struct

from gramwatt.collectors.devices.board import (
    Billed,
    Board,
    DeviceLost,
    DevicePort,
    Notify,
    NotSupported,
    SourceAbsent,
    billed_of,
    boards_of,
    counted,
    offered,
)
from gramwatt.collectors.devices.counter import (
    POLL_NS,
    Boundary,
    CrossCheck,
    EnergyMeter,
    Reading,
    SampleBuffer,
    counter_at,
)
from gramwatt.collectors.devices.library import LIMIT_S, Crashes, Opening
from gramwatt.collectors.devices.shared_board import SharedBoards, SharedLedger
from gramwatt.collectors.settings.clock import NEVER_NS, NS_PER_S, Timeline, suspended_between
from gramwatt.collectors.spool.intervals import FINE_S, Interval, Ledger, Schedule
from gramwatt.sci.figures.notices import CODES
from gramwatt.sci.records.records import SYNTHETIC_METERS, DeviceRecord, IntervalRecord

TICK_NS = NS_PER_S
FAST_MIN_S, FAST_MAX_S = 1 / 15, 1 / 10
PROFILE_TICKS, SLOW_TICKS, LIMIT_TICKS = 5, 10, 60
"""Ticks for each profile, for each with what changes slowly (in the middle of intervals of 10 s),
and for each look at the limit."""
CHECK_TICKS = 2
"""Ticks for each reading of power at a random moment, where no mean over the second is offered."""
INTERRUPTED_NS, INTERRUPTED_FACTOR = NS_PER_S // 200, 4
"""A reading that took longer, and so many times longer than the quickest, was interrupted by other
work: it is repeated once, because its value may belong to any moment of the call."""
COUNTER_EVERY_NS = FINE_S * NS_PER_S
"""How often the counter is read of a board that gives its mean power of each second: where
intervals end, just before they are journaled. On an H100 the counter takes 2 to 20 ms of the
processor, in the driver, power 0.02 ms (docs/measuring.md, "On a real board")."""
RETRY_MIN_NS, RETRY_MAX_NS = 10 * NS_PER_S, 300 * NS_PER_S
"""Pause before a driver or device that does not answer is asked again; it doubles each time."""
CUTS_MAX = 20_000
"""Intervals of one device that windows may cut, some 5 MB of journal; later ones are left whole."""
BUFFER_REACH_NS = 2 * NS_PER_S
"""A driver's buffer that reaches back this far may be read once a second."""
UNUSED_LOOKS, UNUSED_LOOKS_AT_END = 12, 2
"""So many looks at its use, one each 5 s, show that the job leaves a device alone."""

_OVERRUN = "the driver's buffer of power samples was read too late; what it lost is estimated."

Put = Callable[..., None]
"""Takes a record's type and fields, as Journal.put does."""
States = Mapping[str, dict[str, Any]]
"""An earlier meter's states by device id."""


class NodeJob(Struct, frozen=True):
    """What all devices of one job on one node have in common."""

    node: str
    timeline: Timeline
    schedule: Schedule
    random: Random
    put: Put
    notify: Notify
    save_soon: Callable[[], None] = lambda: None
    """Journals everything, once the first readings are better known."""

    def emit(self, device_id: str, interval: Interval) -> None:
        """Journal a finished interval."""
        self.put(IntervalRecord, **interval.fields(device_id))


class Device:
    """A billed device: how it is read, and the meter that its readings are recorded on.

    A device that does not answer is asked less and less often. `answered` is True once it did.
    """

    def __init__(
        self, job: NodeJob, port: DevicePort, index: int, meter: EnergyMeter, check: CrossCheck
    ) -> None:
        """`check` is of the device's board: slices of one board share it."""
        self.index, self.meter, self.check = index, meter, check
        self.fields: dict[str, Any] = {}
        """What its record says; empty for one that cannot be asked any more."""
        self.buffer: SampleBuffer | None = None
        self.boundary: Boundary | None = None
        """What waits for the counter's ticks now."""
        self.resumed = meter.end_ns is not None
        self.answered = False
        self.retry_at_ns = 0
        """When one that does not answer may be read again [ns]; 0 while it answers."""
        self.looks = 0
        self.top_use = 0.0
        """How often its use was looked at, and the highest that was seen (0 to 1)."""
        self._timeline, self._notify = job.timeline, job.notify
        self._port = port
        self._means_mw: list[float] = []
        self._mean_ns = 0
        """Means of the seconds since the last reading [mW], and when the last one ended [ns]."""
        self._quickest_ns = NS_PER_S
        self._pause_ns = RETRY_MIN_NS
        self._cuts = 0
        self._stop_ns: int | None = None

    @property
    def lost(self) -> bool:
        """True while the device does not answer."""
        return self.retry_at_ns > 0

    @property
    def needs_dense_power(self) -> bool:
        """True when its power must be read many times a second."""
        if not self.meter.needs_power or self.lost:
            return False
        return self.buffer is None or self.buffer.reach_ns < BUFFER_REACH_NS

    @property
    def needs_check(self) -> bool:
        """True when power at random moments is wanted, to compare the counter with."""
        return not (self.check.has_means or self.meter.needs_power or self.lost)

    def give_up(self) -> None:
        """Read it no more: its driver cannot be asked."""
        self.retry_at_ns = NEVER_NS

    def start(self) -> None:
        """Take the first reading, and wait for the counter's ticks after it."""
        reading = self.read()
        if reading is not None:
            self._begin(reading)

    def read(self) -> Reading | None:
        """Return a reading of now; None when it failed, which leaves a notice."""
        clock = self._timeline.clock
        self._record_means()
        try:
            before_ns = clock.now_ns()
            values = self._port.read(self.index)
            took_ns = clock.now_ns() - before_ns
            if took_ns > INTERRUPTED_NS and took_ns > INTERRUPTED_FACTOR * self._quickest_ns:
                again_ns = clock.now_ns()
                again = self._port.read(self.index)
                again_took_ns = clock.now_ns() - again_ns
                if again_took_ns < took_ns:
                    before_ns, values, took_ns = again_ns, again, again_took_ns
        except DeviceLost as error:
            self._pause(f"the device was lost ({error}).")
            return None
        except NotSupported as error:
            self._pause(f"{error.message}.")
            return None
        except Exception as error:
            self._notify("meter-gap", f"{self.meter.label}: a reading failed ({error}).")
            return None
        self._quickest_ns = min(self._quickest_ns, took_ns)
        self.retry_at_ns, self._pause_ns = 0, RETRY_MIN_NS
        self._look_at_clocks()
        # The value belongs to some moment within the call; its middle is off by half of it.
        time_ns = before_ns + took_ns // 2 + self._timeline.offset_ns
        reading = Reading(time_ns - time_ns % 1000, *values)
        if self.check.disproved:
            reading = reading._replace(counter_mj=None)
        return self.meter.plausible(reading)

    @property
    def spares_counter(self) -> bool:
        """True when most seconds may do without the counter: the driver gives the means of them,
        and all is well.
        """
        is_well = self.boundary is None and not self.lost and self.meter.fault is None
        return is_well and self.check.has_means and not self.meter.needs_power

    def add_mean(self, time_ns: int) -> bool:
        """Read the mean power of the second before a whole one [ns]; the next reading records it.

        Most wake-ups of a meter do this and no more, for each board. Returns False where it cannot
        be read.
        """
        try:
            self._means_mw.append(self._port.read_power(self.index))
        except Exception:  # a reading tells why
            return False
        self._mean_ns = time_ns
        return True

    def add_reading(self, reading: Reading) -> None:
        """Record a whole second's reading, of this device or of another slice of its board."""
        if not self.answered:
            self._begin(reading)
            return
        self._record_means()
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
        power_mw = self._power_mw()  # where there is none the next sample spans this one
        self.meter.add_power(self._timeline.now_ns(), power_mw)

    def add_check(self) -> None:
        """Read the power of this moment for the comparison with the counter."""
        power_mw = self._power_mw()
        if power_mw is not None:
            self.check.add_power(power_mw)

    def add_profile(self, *, full: bool) -> None:
        """Record how the device runs; energy does not depend on it."""
        profile = offered(lambda: self._port.profile(self.index, full=full))
        if profile is None:
            return
        self.meter.ledger.observe(profile.utilisation, profile.memory_b)
        self.meter.ledger.note(profile.telemetry)
        if profile.utilisation is not None:
            self.looks += 1
            self.top_use = max(self.top_use, profile.utilisation)

    def compare(self, *, final: bool = False) -> None:
        """Report a counter and a power sensor that differ."""
        text = self.check.finding(self.meter.limit_w, final=final)
        if text:
            self._notify("meter-cross-check", f"{self.meter.label}: {text}")
        if self.check.disproved:
            self.meter.forget_counter()

    def drain(self) -> bool:
        """Record what the driver has sampled since; False without a buffer that still answers."""
        self._look_at_clocks()
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
            self.meter.add_power(time_ns, self.meter.plausible_mw(power_mw), after_gap=lost)
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
        reading = self.read()
        if reading is not None:
            boundary.poll(reading)
        late = self._timeline.now_ns() >= boundary.deadline_ns
        if boundary.complete or late or self.lost:
            self._finish(boundary, reading)

    def end(self) -> None:
        """Record what still waits and close the last interval, after the boundary at the stop."""
        if self.meter.end_ns is None and not self.lost:
            text = "it gave no reading, so its energy is not known"
            self._notify("energy-unmeasured", f"{self.meter.label}: {text}.")
        self.meter.settle(self._stop_ns or self._timeline.now_ns())
        self.add_profile(full=True)
        self.meter.ledger.close()
        self.compare(final=True)

    def _begin(self, reading: Reading) -> None:
        """Record the first reading, and wait for the counter's ticks after it."""
        self.answered = True
        self.meter.look_at_limit()
        reading = self.meter.plausible(reading)  # it was read when no limit was known
        if not self.resumed:  # else the first second's reading spans the gap
            self.meter.add_reading(reading)
        if reading.counter_mj is None:
            self.buffer = self._open_buffer()
        elif self.meter.period_s is None and self._stop_ns is None:
            self.boundary = Boundary.at_start(reading)

    def _look_at_clocks(self) -> None:
        """Note whether the machine was suspended since the last reading."""
        meter, suspended_ns = self.meter, self._timeline.suspended_ns()
        if self.answered and suspended_between(meter.suspended_ns, suspended_ns):
            self._notify("machine-suspended", CODES["machine-suspended"])
            if self.buffer is not None:  # its clock may have stood still
                self.buffer = self._open_buffer()
        meter.suspended_ns = suspended_ns

    def _record_means(self) -> None:
        """Record the means of the seconds since the last reading."""
        if self._means_mw:
            means_w = self.meter.record_means(self._mean_ns, self._means_mw)
            self.check.add_means(self._mean_ns, means_w)
            self._means_mw = []

    def _power_mw(self) -> float | None:
        """Return the power without the counter [mW]; None where unknown."""
        return self.meter.plausible_mw(offered(lambda: self._port.read_power(self.index)))

    def _pause(self, why: str) -> None:
        """Leave the device alone for a while."""
        if not self.retry_at_ns:
            self.meter.ledger.close()
            code = "meter-gap" if self.answered else "energy-unmeasured"
            self._notify(code, f"{self.meter.label}: {why}")
        self.retry_at_ns = self._timeline.now_ns() + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)

    def _wait_for(self, time_ns: int) -> None:
        """Record the energy up to a boundary [ns], at the counter's next tick if there is one to
        wait for.
        """
        if self.lost:
            return
        if self.boundary is not None:
            self.boundary.times_ns.append(time_ns)
            return
        reading = self.read()
        if reading is None:
            return
        if not self.answered:
            self._begin(reading)
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


class Sampler:
    """The job's devices of one port: which they are, and when they are read."""

    def __init__(
        self, job: NodeJob, port: DevicePort, shared: SharedBoards, crashes: Crashes
    ) -> None:
        self.devices: list[Device] = []
        self.includes_host = False
        """True when a device's energy holds the host's processor and memory."""
        self.awaits_start = False
        """True while the first readings still wait for the counter's ticks."""
        self.driver: str | None = None
        self._job, self._port, self._shared = job, port, shared
        self._crashes = crashes
        self._opening: Opening | None = None
        self._boards: list[Board] | None = None
        self._chosen: Sequence[Mapping[str, str]] = ()
        self._states: States = {}
        self._looked_ns = job.timeline.now_ns()
        """When boards that are not billed were last looked at for the job's processes [ns]."""
        self._open = self._unread = self._unused_reported = False
        self._find_at_ns: int | None = 0
        """When a driver that lists no device, or one that could not be described, is asked again
        [ns]; 0 before the first time, None when all have answered."""
        self._find_pause_ns = RETRY_MIN_NS
        self._ids: dict[int, str] = {}
        """Ids of devices whose own could not be read when they were added, by ordinal."""
        self._ticks = self._counted = 0
        self._spares_counters = False
        """Whether all devices do without the counter, but each COUNTER_EVERY_NS."""
        self._due_ns = self._next_ns = self._next_fast_ns = self._next_check_ns = 0

    @property
    def name(self) -> str:
        """The vendor's name."""
        return self._port.vendor

    @property
    def is_module(self) -> bool:
        """True for the sensors of a module, which hold its processor and graphics."""
        return self._port.device_class == "module"

    @property
    def ledgers(self) -> list[Ledger]:
        """The ledgers of the devices."""
        return [device.meter.ledger for device in self.devices]

    @property
    def _recorded(self) -> list[Device]:
        return [device for device in self.devices if device.fields]

    def adopt(
        self,
        environ: Mapping[str, str],
        states: States,
        mark_ns: int,
        *,
        expected: bool,
        beside_module: bool = False,
    ) -> None:
        """Add the devices that `environ` gives the job and that are not measured yet.

        `states` are an earlier meter's by device; the energy of others begins at `mark_ns` [ns].
        `expected`: a source that is absent is worth a notice. `beside_module`: a module's sensors
        are read, which hold what is part of it.
        """
        if self._port.wants_none(environ):
            return
        for name in self._port.hidden(environ):
            self._put_unknown(f"{self._job.node}-{name}")
            text = f"a process of the job may open /dev/{name} and its meter may not, as where a "
            text += "scheduler gives each task its own; its energy is not known. With Slurm, "
            text += "--gpu-bind=none beside --gpus-per-node gives each task all GPUs of the job."
            self._job.notify("energy-unmeasured", f"{self._port.vendor}: {text}")
        boards = self._find(keep_asking=bool(states), expected=expected)
        if boards is None:
            self._continue_unasked(states, mark_ns)
            return
        self.devices = [device for device in self.devices if device.index >= 0]
        self._states = states
        visible = self._port.visible(environ, boards)
        for remark in visible.remarks:
            self._job.notify("device-visibility", f"{self._port.vendor}: {remark}")
        measured = {ledger.device_id for ledger in self.ledgers}
        for item in counted(visible.billed, beside_module=beside_module):
            board = item.board
            self.includes_host = self.includes_host or board.includes_host
            if not board.described:
                self._ids[board.ordinal] = board.uuid
            device_id = self._ids.get(board.ordinal, item.device_id)
            if device_id not in measured:
                state = states.get(device_id)
                self._add(item._replace(device_id=device_id), state, mark_ns, len(boards))
            elif device_id != item.device_id and board.described:
                self._name(device_id, board)

    def choose(self, environs: Sequence[Mapping[str, str]]) -> None:
        """Release the devices that the job's scripts do not choose, each by its own variables, and
        that the job does not use; all are measured to the end, as one may still be chosen.
        """
        self._chosen = environs
        self._release()

    def due_ns(self) -> int | None:
        """Return when it is read next, or its driver asked again [ns]; None where it never is."""
        if not (self.devices and self._find_at_ns):
            return self._due_ns if self.devices else self._find_at_ns
        return min(self._due_ns, self._find_at_ns)

    def wants_boards(self, now_ns: int) -> bool:
        """Return whether it is time to ask for devices that could not be described."""
        return bool(self._find_at_ns and now_ns >= self._find_at_ns)

    def add_boundary(self, time_ns: int) -> None:
        """End the open intervals at a window's edge [ns]."""
        for device in self.devices:
            device.add_boundary(time_ns)
        self._plan()

    def tick(self) -> None:
        """Take the readings that are due."""
        now_ns = self._job.timeline.now_ns()
        if now_ns < self._due_ns or not self.devices:
            return
        if self._spares_counters and now_ns // COUNTER_EVERY_NS == self._counted:
            self._tick_means(now_ns)
            return
        for device in self.devices:
            device.poll()
        if now_ns >= self._next_ns:
            self._tick_second(now_ns)
        else:
            self._tick_between(now_ns)
        awaited = self.awaits_start
        self._plan()
        if awaited and not self.awaits_start:
            self._put_changes()
            self._job.save_soon()

    def stop(self, stop_ns: int) -> None:
        """Take the final readings, up to the stop [ns]."""
        for device in self.devices:
            device.begin_stop(stop_ns)
        while any(device.boundary for device in self.devices):
            self._job.timeline.clock.sleep(POLL_NS / NS_PER_S)
            for device in self.devices:
                device.poll()
        for device in self.devices:
            device.end()
        self._report_unused(UNUSED_LOOKS_AT_END)
        self._put_changes()
        self._put_unread()

    def unread_intervals(self, now_ns: int) -> list[tuple[str, Interval]]:
        """Return what is estimated for devices that do not answer now, by device: should this meter
        be killed, it stands.
        """
        intervals: list[tuple[str, Interval]] = []
        for device in self.devices:
            if device.meter.is_silent(now_ns):
                ledger = Ledger(
                    device.meter.ledger.device_id,
                    self._job.schedule,
                    lambda name, interval: intervals.append((name, interval)),
                )
                device.meter.fill(ledger, now_ns)
                ledger.close()
        return intervals

    def states(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what the next meter needs to continue, by device id, JSON-ready."""
        meters = [device.meter for device in self.devices]
        source = {"meter": self._port.meter}
        return [(meter.ledger.device_id, {**meter.state(), **source}) for meter in meters]

    def close(self) -> None:
        """Close the port."""
        if self._open:
            self._port.close()

    def _find(self, *, keep_asking: bool, expected: bool) -> list[Board] | None:
        """Return the port's devices; None where it cannot be used, or not yet."""
        now_ns = self._job.timeline.now_ns()
        if self._find_at_ns is None or now_ns < self._find_at_ns:
            return self._boards
        self._find_at_ns = now_ns + self._find_pause_ns
        self._find_pause_ns = min(2 * self._find_pause_ns, RETRY_MAX_NS)
        try:
            if not (self._open or self._opens()):
                self._find_at_ns = now_ns + TICK_NS
                return None
            boards = boards_of(self._port, self._job.node)
        except SourceAbsent as error:
            exists = error.seen or self._port.exists()
            self._unread = self._unread or exists
            self._opening = None
            if expected or exists:
                self._report_absent(error.reason, seen=error.seen)
            if not keep_asking:
                self._find_at_ns = None
                self._put_unread()
            return None
        except Exception as error:  # whatever a driver does, the job continues
            self._report_absent(f"{self._port.library or self._port.meter} failed ({error})")
            self._unread = self._boards is None
            self._opening = None
            return None
        if boards and all(board.described for board in boards):
            self._find_at_ns = None  # else it is asked again: a driver may list them later
        if self._boards is None:
            self._describe()
        self._boards = boards
        return boards

    def _opens(self) -> bool:
        """Return whether the port is open now; raises what opening it raises."""
        if self._opening is None:
            self._opening = Opening(self._port, self._crashes)
        self._open = self._opening.done
        if not self._open and not self._unread:
            self._unread = True
            text = f"{self._port.library} has not answered within {LIMIT_S:.0f} s; its devices "
            text += "are measured from when it does."
            self._job.notify("meter-unreadable", text)
        return self._open

    def _describe(self) -> None:
        self._unread = False
        self.driver = self._port.driver()
        for remark in self._port.remarks():
            self._job.notify("meter-source-absent", remark)
        if self._port.meter in SYNTHETIC_METERS:
            text = f"GPU readings come from {self._port.meter}, not from hardware."
            self._job.notify("meter-synthetic", text)

    def _add(self, item: Billed, state: dict[str, Any] | None, mark_ns: int, boards: int) -> None:
        job, port, board = self._job, self._port, item.board
        derived = port.sampled_kind == "derived"
        ledger = self._shared.ledger(
            port, item, job.schedule, job.emit, kind="derived" if derived else None
        )
        share = board.share * item.share
        label = board.name if boards == 1 else f"{board.name}, device {board.ordinal}"
        meter = EnergyMeter(
            label,
            ledger,
            job.notify,
            share,
            mark_ns,
            dense_power=not derived,
            read_limit=lambda: offered(lambda: port.limit_w(board.ordinal)),
        )
        if state:
            meter.resume(state if port.counter_survives else {**state, "counter_mj": None})
        same = (device.check for device in self.devices if device.index == board.ordinal)
        device = Device(job, port, board.ordinal, meter, next(same, CrossCheck()))
        self.devices.append(device)
        device.start()
        device.fields.update(
            device_id=item.device_id,
            device_class=port.device_class,
            name=board.name,
            meter=port.meter,
            kind="estimated",
            share=item.share,
            memory_b=board.memory_b * item.share if board.memory_b else None,
            power_limit_w=meter.limit_w,
            units=1.0,
            units_total=float(boards),
            includes_host=board.includes_host,
            update_period_s=None,
            released=False,
        )
        self._put(device, self._news(device))
        if isinstance(ledger, SharedLedger):
            ledger.fields = device.fields
        now_ns = job.timeline.now_ns()
        self._schedule(now_ns)
        if not self._ticks and any(device.resumed for device in self.devices):
            self._next_ns = now_ns
        self._plan()

    def _adopt_used(self) -> None:
        """Bill the boards that the job's processes use though no variable gives it them: a script
        may set another one, and CUDA may count in another order.
        """
        measured = {device.index for device in self.devices}
        boards = self._boards or ()
        for board in boards:
            if board.ordinal in measured or not self._shared.has_ours(self._port, board.ordinal):
                continue
            text = f"{self._port.title} {board.ordinal}: a process of the job uses it, although no "
            text += "variable gives it to the job; it is billed from here on."
            self._job.notify("device-visibility", text)
            for item in counted(billed_of(board), beside_module=False):
                self._add(item, self._states.get(item.device_id), self._looked_ns, len(boards))
        self._looked_ns = self._job.timeline.now_ns()

    def _name(self, device_id: str, board: Board) -> None:
        """Write the record of a device again that could not be described when it was added."""
        for device in self._recorded:
            if device.fields["device_id"] == device_id and device.fields["name"] != board.name:
                device.meter.label = board.name
                self._put(device, {"name": board.name, "memory_b": board.memory_b})

    def _release(self) -> None:
        visible = [self._port.visible(environ, self._boards or ()) for environ in self._chosen]
        billed = [item for items in visible for item in items.billed]
        chosen = {self._ids.get(item.board.ordinal, item.device_id) for item in billed}
        for device in self._recorded if chosen else ():
            ours = self._shared.has_ours(self._port, device.index)
            is_used = device.top_use > 0 if ours is None else ours
            released = device.fields["device_id"] not in chosen and not is_used
            if released != device.fields["released"]:
                self._put(device, {"released": released})

    def _put(self, device: Device, changes: Mapping[str, Any]) -> None:
        """Write a device's record with these changes."""
        device.fields.update(changes)
        self._job.put(DeviceRecord, **device.fields)

    def _news(self, device: Device) -> dict[str, Any]:
        """Return what a device's readings tell that its record does not say yet."""
        meter, fields, news = device.meter, device.fields, dict[str, Any]()
        if device.answered and fields["kind"] == "estimated":
            derived = self._port.sampled_kind == "derived"
            kind = "measured" if meter.has_counter else self._port.sampled_kind
            news["kind"] = "attributed" if meter.share < 1 and not derived else kind
            news["power_limit_w"] = meter.limit_w
        if meter.period_s and not fields["update_period_s"] and self.driver is not None:
            news["update_period_s"] = round(meter.period_s, 6)
        return news

    def _put_changes(self) -> None:
        """Write the records of devices again that have answered, or shown their counter's period,
        since.
        """
        if self.awaits_start:
            return
        for device in self._recorded:
            if news := self._news(device):
                self._put(device, news)

    def _continue_unasked(self, states: States, mark_ns: int) -> None:
        """Go on with what an earlier meter measured of a driver that cannot be asked any more: it
        is estimated from there.
        """
        measured = {ledger.device_id for ledger in self.ledgers}
        for device_id, state in states.items():
            if state.get("meter") == self._port.meter and device_id not in measured:
                ledger = Ledger(device_id, self._job.schedule, self._job.emit)
                meter = EnergyMeter(
                    state["label"], ledger, self._job.notify, state["share"], mark_ns
                )
                meter.resume(state)
                device = Device(self._job, self._port, -1, meter, CrossCheck())
                device.give_up()
                self.devices.append(device)

    def _tick_means(self, now_ns: int) -> None:
        self._ticks += 1
        for device in self.devices:
            if not device.add_mean(now_ns):
                self._counted = 0  # the next tick reads all of it
        self._due_ns = self._next_ns = (now_ns // TICK_NS + 1) * TICK_NS
        if self._ticks % PROFILE_TICKS == 0:
            self._look_closer(self.devices)
            self._plan()

    def _tick_second(self, now_ns: int) -> None:
        self._ticks += 1
        boards: dict[int, Reading] = {}  # slices of one board have one counter
        seen: list[Device] = []
        # Not by the second: a tick may be late.
        before, self._counted = self._counted, now_ns // COUNTER_EVERY_NS
        counts = self._counted > before
        for device in self.devices:
            if device.boundary is not None or now_ns < device.retry_at_ns:
                continue
            if not counts and device.spares_counter:
                device.add_mean(now_ns)
                seen.append(device)
                continue
            if device.buffer is not None:
                device.drain()
            reading = boards.get(device.index) or device.read()
            if reading is not None:
                boards[device.index] = reading
                device.add_reading(reading)
                seen.append(device)
        if self._ticks % PROFILE_TICKS == 0:
            self._look_closer(seen)
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

    def _look_closer(self, devices: Sequence[Device]) -> None:
        """Look at how devices run and, more rarely, at what seldom changes."""
        full = self._ticks % SLOW_TICKS == PROFILE_TICKS
        for device in devices:
            device.add_profile(full=full)
        if not full:
            return
        for device in devices:
            if self._ticks % LIMIT_TICKS == PROFILE_TICKS:
                device.meter.look_at_limit()
            device.compare()
        if self._ticks < LIMIT_TICKS or self._ticks % LIMIT_TICKS == PROFILE_TICKS:
            self._adopt_used()
        self._release()
        self._report_unused(UNUSED_LOOKS)
        self._put_changes()

    def _report_unused(self, looks: int) -> None:
        """Report devices that the job leaves alone while it uses others, once."""
        if self._unused_reported or not any(device.top_use for device in self.devices):
            return
        billed = [device for device in self._recorded if not device.fields["released"]]
        unused = [device for device in billed if device.looks >= looks and not device.top_use]
        unused = [d for d in unused if not self._shared.has_ours(self._port, d.index)]
        if not unused:
            return
        self._unused_reported = True
        names = ", ".join(str(device.index) for device in unused)
        text = f"{self._port.title} {names}: no use was seen, and it is billed"
        if self._port.variables:
            text += ", because it is reserved for the job; a script that chooses its devices names "
            text += f"them in {self._port.variables[0]} before it starts, or before its `track`"
        text += "."
        self._job.notify("device-visibility", text)

    def _schedule(self, now_ns: int) -> None:
        self._next_ns = (now_ns // TICK_NS + 1) * TICK_NS
        if self._ticks % CHECK_TICKS == 0:
            self._next_check_ns = now_ns + int(self._job.random.uniform(0, CHECK_TICKS) * TICK_NS)
        self._schedule_fast(now_ns)

    def _schedule_fast(self, now_ns: int) -> None:
        pause_s = self._job.random.uniform(FAST_MIN_S, FAST_MAX_S)
        self._next_fast_ns = now_ns + int(pause_s * NS_PER_S)

    def _plan(self) -> None:
        """Set when the next reading is due."""
        due_ns, self.awaits_start = self._next_ns, False
        self._spares_counters = all(device.spares_counter for device in self.devices)
        for device in () if self._spares_counters else self.devices:
            if device.boundary is not None:
                self.awaits_start = self.awaits_start or device.boundary.is_start
                due_ns = min(due_ns, self._job.timeline.now_ns() + POLL_NS)
            elif device.needs_dense_power:
                due_ns = min(due_ns, self._next_fast_ns)
            elif device.needs_check:
                due_ns = min(due_ns, self._next_check_ns)
        self._due_ns = due_ns

    def _report_absent(self, why: str, *, seen: bool = False) -> None:
        expected = self._port.is_expected()
        code = "meter-unreadable" if seen or expected else "meter-source-absent"
        fix = "; `gramwatt doctor` shows what to do" if expected else ""
        self._job.notify(code, f"no {self._port.title} is measured: {why}{fix}.")

    def _put_unread(self) -> None:
        """Record devices that exist and never answered as one of unknown energy."""
        if not self._unread or self.devices:  # those that an earlier meter measured are estimated
            return
        self._unread = False
        self._put_unknown(f"{self._job.node}-{self._port.meter}")

    def _put_unknown(self, device_id: str) -> None:
        port = self._port
        self._job.put(
            DeviceRecord,
            device_id=device_id,
            device_class=port.device_class,
            name=f"{port.vendor}, not readable",
            meter=port.meter,
            kind="estimated",
        )

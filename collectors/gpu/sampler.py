"""When and how the billed GPUs are read: one counter reading a second, aligned to whole seconds.

The first and the last moments are read every 10 ms until the counter ticks, so that the job's edges
lie between known ticks instead of up to one update period off. A device without a working counter
has its power sampled 10 to 15 times a second, jittered so that no periodic load can lock to it.
"""

from __future__ import annotations

from random import Random

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.devices.base import DeviceLost, NvmlPort
from gramwatt.collectors.gpu.boundaries import EDGE_NS, EDGE_WORTH_S, Edge, at_stop, stop_wait_ns
from gramwatt.collectors.gpu.cross_check import CrossCheck
from gramwatt.collectors.gpu.crossing import CUTS_MAX, Crossing, book_edges, cut
from gramwatt.collectors.gpu.energy import GpuMeter, Notify, Reading
from gramwatt.collectors.gpu.reader import Read, best_read
from gramwatt.collectors.gpu.sample_buffer import SampleBuffer
from gramwatt.collectors.gpu.telemetry import Profiler

TICK_NS = NS_PER_S
FAST_MIN_S, FAST_MAX_S = 1 / 15, 1 / 10
PROFILE_TICKS, LIMIT_TICKS = 5, 60
CHECK_TICKS = 2
"""Ticks for each reading of power at a random moment, where no mean over the second is offered."""
BUFFER_LEAST_NS = 2 * NS_PER_S
"""A buffer that reaches back this far may be read once a second."""
RETRY_MIN_NS, RETRY_MAX_NS = 10 * NS_PER_S, 300 * NS_PER_S


INTERRUPTED_NS, INTERRUPTED_FACTOR = NS_PER_S // 200, 4
"""A reading that took longer, and so many times longer than the quickest, was interrupted by other
work: it is taken once more, as nobody knows where in the call its value belongs."""

_OVERRUN = "the driver's buffer of power samples was read too late; what it lost is estimated."

_Timed = tuple[int, Reading, float | None]


def _length_ns(timed: _Timed) -> int:
    return timed[0]


class Device:
    """A billed device: how it is read, and what its readings are booked on."""

    __slots__ = (
        *("buffer", "check", "crossing", "cuts", "edge", "fresh", "gpu", "index"),
        *("mean_mw", "pause_ns", "profiler", "quickest_ns", "read", "retry_at_ns"),
    )

    def __init__(self, index: int, gpu: GpuMeter, read: Read, profiler: Profiler) -> None:
        self.index, self.gpu, self.read, self.profiler = index, gpu, read, profiler
        self.check = CrossCheck()  # of its board: slices of one share it
        self.mean_mw: float | None = None
        self.buffer: SampleBuffer | None = None
        self.edge: Edge | None = None
        self.crossing: Crossing | None = None
        self.cuts = 0
        self.fresh = gpu.end_ns is None
        self.retry_at_ns: int | None = None
        self.pause_ns = RETRY_MIN_NS
        self.quickest_ns = NS_PER_S

    @property
    def is_dense(self) -> bool:
        """Whether its power must be asked for many times a second."""
        slow = self.buffer is not None and self.buffer.reach_ns >= BUFFER_LEAST_NS
        return self.gpu.needs_power and not slow


class Sampler:
    """Reads the billed devices of one NVML port."""

    def __init__(self, port: NvmlPort, timeline: Timeline, notify: Notify, random: Random) -> None:
        self.devices: list[Device] = []
        self._port, self._timeline, self._notify, self._random = port, timeline, notify, random
        self._board: dict[int, Reading] = {}
        self._ticks = 0
        self._next_ns = self._next_fast_ns = self._next_check_ns = 0

    def add(self, index: int, gpu: GpuMeter) -> bool:
        """Take on a device, with its first reading; whether its energy can be read at all."""
        read = best_read(self._port, index)
        if read is None:
            self._notify(
                "energy-unmeasured", f"{gpu.label}: neither counter nor power is readable."
            )
            return False
        device = Device(index, gpu, read, Profiler(self._port, index))
        device.check = next((d.check for d in self.devices if d.index == index), device.check)
        self.devices.append(device)
        gpu.limit_w = device.profiler.limit_w()
        reading = self._read(device)
        if reading is not None:
            if device.fresh:  # else the first tick's reading, or the last one, spans the gap
                gpu.take(reading)
            unknown = reading[1] is not None and gpu.period_s is None
            device.edge = Edge(reading) if unknown else None
            device.buffer = self._buffer(index) if reading[1] is None else None
        self._schedule(self._timeline.now_ns())
        if not self._ticks and not all(device.fresh for device in self.devices):
            self._next_ns = self._timeline.now_ns()
        return True

    @property
    def at_edge(self) -> bool:
        """Whether the counter's ticks are still being looked for."""
        return any(device.edge for device in self.devices)

    def mark(self, mark_ns: int) -> None:
        """A window's edge at `mark_ns` [ns]: read the counter around it, and cut there."""
        for device in self.devices:
            device.cuts += 1
            if device.cuts <= CUTS_MAX and device.retry_at_ns is None:
                self._mark(device, mark_ns)

    def due_ns(self) -> int:
        """When the next reading is due on the timeline [ns]."""
        if self.at_edge or any(device.crossing for device in self.devices):
            return min(self._next_ns, self._timeline.now_ns() + EDGE_NS)
        dues = [self._next_ns]
        dues += [self._next_fast_ns] if any(d.is_dense for d in self.devices) else []
        dues += [self._next_check_ns] if any(map(_is_checked, self.devices)) else []
        return min(dues)

    def tick(self) -> None:
        """Do the readings that are due."""
        now_ns = self._timeline.now_ns()
        self._poll()
        if now_ns >= self._next_ns:
            self._ticks += 1
            self._board = {}
            for device in self.devices:
                self._sample(device)
            self._schedule(now_ns)
            return
        if now_ns >= self._next_fast_ns:
            for device in self.devices:
                if device.is_dense and device.retry_at_ns is None:
                    self._sample_power(device)
            self._schedule_fast(now_ns)
        if now_ns >= self._next_check_ns:
            checked = {device.index: device for device in filter(_is_checked, self.devices)}
            for device in checked.values():
                self._sample_check(device)
            self._next_check_ns = now_ns + CHECK_TICKS * TICK_NS  # the next tick draws another

    def stop(self, stop_ns: int) -> None:
        """The final reading, at the stop mark between the counter's ticks around it."""
        for device in self.devices:
            device.edge = None  # too short a job to see two ticks: the plain reading stands
        for device in self.devices:
            if device.buffer:
                self._drain(device)
        finals = {id(d): self._read(d) for d in self.devices if d.retry_at_ns is None}
        after = self._ticks_after(finals)
        for device in self.devices:
            reading = finals.get(id(device))
            if reading is not None:
                if device.crossing:
                    device.crossing.end(reading, after.get(id(device)), device.gpu)
                device.gpu.take(at_stop(reading, after.get(id(device)), stop_ns, device.gpu))
            device.gpu.settle()
            device.profiler.add(device.gpu.ledger)
            device.gpu.ledger.close()
            self._compare(device, final=True)

    def _ticks_after(self, finals: dict[int, Reading | None]) -> dict[int, Reading]:
        """The first counter tick after the final reading of each device that has slow ticks."""
        found: dict[int, Reading] = {}
        waiting = [
            (d, reading[1])
            for d in self.devices
            if (d.gpu.period_s or 0.0) > EDGE_WORTH_S
            and (reading := finals.get(id(d))) is not None
            and reading[1] is not None
        ]
        longest_s = max((d.gpu.period_s or 0.0 for d, _ in waiting), default=0.0)
        deadline_ns = self._timeline.now_ns() + stop_wait_ns(longest_s)
        before_ns = self._timeline.now_ns()
        while waiting and before_ns < deadline_ns:
            self._timeline.clock.sleep(EDGE_NS / NS_PER_S)
            for item in list(waiting):
                reading = self._read(item[0])
                if reading is None or reading[1] != item[1]:
                    waiting.remove(item)
                if reading is not None and reading[1] is not None and reading[1] != item[1]:
                    found[id(item[0])] = ((before_ns + reading[0]) // 2, reading[1], reading[2])
            before_ns = self._timeline.now_ns()
        return found

    def _poll(self) -> None:
        for device in self.devices:
            if device.edge:
                self._poll_edge(device, device.edge)
            elif device.crossing:
                self._poll_crossing(device, device.crossing)

    def _poll_edge(self, device: Device, edge: Edge) -> None:
        reading = self._read(device)
        known = edge.poll(reading) if reading else None
        if known:
            device.gpu.period_s, start_mj = known
            if device.fresh:  # else its base is the reading of the meter before
                device.gpu.rebase(start_mj)
            device.edge = None
            points = [point for point in (edge.first, edge.second) if point]
            book_edges(device.gpu, edge.marks_ns, points, reading[2] if reading else None)
        elif self._timeline.now_ns() >= edge.deadline_ns:
            device.edge = None  # the plain first reading stands: at most one update period off
            for mark_ns in edge.marks_ns:
                self._mark(device, mark_ns)

    def _mark(self, device: Device, mark_ns: int) -> None:
        waiting = device.edge or device.crossing
        if waiting:
            waiting.marks_ns.append(mark_ns)
        elif (reading := self._read(device)) is None:
            return
        elif device.gpu.needs_power:  # there is no tick to wait for
            device.gpu.take(reading)
            cut(device.gpu)
        else:
            device.crossing = Crossing(mark_ns, reading, device.gpu.period_s)

    def _poll_crossing(self, device: Device, crossing: Crossing) -> None:
        reading = self._read(device)
        lost = reading is None and device.retry_at_ns is not None
        if lost or (reading is not None and crossing.poll(reading, device.gpu)):
            device.crossing = None

    def _sample(self, device: Device) -> None:
        if device.retry_at_ns is not None and self._timeline.now_ns() < device.retry_at_ns:
            return
        if device.edge or device.crossing:
            return
        buffered = device.buffer is not None and self._drain(device)
        # Slices of one board have one counter, and so one reading.
        reading = self._board.get(device.index) or self._read(device)
        if reading is None:
            return
        self._board[device.index] = reading
        if not buffered or reading[1] is not None:  # else later samples would come too late
            device.gpu.take(reading)
        if reading[1] is not None and not device.gpu.needs_power:
            believed = device.gpu.fault in (None, "late")
            device.check.take(reading[0], reading[1], device.mean_mw, believed=believed)
        if (self._ticks + device.index) % PROFILE_TICKS == 0:
            self._look(device)

    def _look(self, device: Device) -> None:
        device.profiler.add(device.gpu.ledger)
        if self._ticks % LIMIT_TICKS < PROFILE_TICKS:
            device.gpu.limit_w = device.profiler.limit_w() or device.gpu.limit_w
        self._compare(device, final=False)

    def _compare(self, device: Device, *, final: bool) -> None:
        text = device.check.finding(device.gpu.limit_w, final=final)
        if text:
            self._notify("meter-cross-check", f"{device.gpu.label}: {text}")

    def _sample_check(self, device: Device) -> None:
        try:
            device.check.sample(self._port.power_mw(device.index))
        except Exception:  # one moment less
            return

    def _buffer(self, index: int) -> SampleBuffer | None:
        """The driver's own samples of a board without a counter, where it keeps any."""
        port = self._port
        try:
            ask = SampleBuffer(
                lambda since_us: port.power_samples(index, since_us), self._timeline.now_ns()
            )
        except Exception:  # not offered: power is asked for often instead
            return None
        return ask if ask.reach_ns else None

    def _drain(self, device: Device) -> bool:
        """Book what the driver has sampled since; False when its buffer is no use any more."""
        assert device.buffer is not None  # the caller has looked
        try:
            samples = device.buffer.drain(self._timeline.now_ns())
        except Exception:  # power is asked for often from here on
            device.buffer = None
            return False
        lost = device.buffer.overrun
        if lost and samples:
            self._notify("meter-gap", f"{device.gpu.label}: {_OVERRUN}")
        for time_ns, power_mw in samples:
            device.gpu.take_power(time_ns, power_mw, after_gap=lost)
            lost = False
        if device.buffer.silent:
            device.buffer = None
        return device.buffer is not None

    def _sample_power(self, device: Device) -> None:
        if device.buffer is not None and self._drain(device):
            return
        try:
            power_mw = self._port.power_mw(device.index)
        except Exception:  # the next sample spans this one
            return
        device.gpu.take_power(self._timeline.now_ns(), power_mw)

    def _read(self, device: Device) -> Reading | None:
        try:
            timed = self._timed(device)
            if timed[0] > max(INTERRUPTED_NS, INTERRUPTED_FACTOR * device.quickest_ns):
                timed = min(timed, self._timed(device), key=_length_ns)
        except DeviceLost as error:
            self._lose(device, error)
            return None
        except Exception as error:
            self._notify("meter-gap", f"{device.gpu.label}: a reading failed ({error}).")
            return None
        if device.retry_at_ns is not None:
            device.retry_at_ns, device.pause_ns = None, RETRY_MIN_NS
        took_ns, reading, device.mean_mw = timed
        device.quickest_ns = min(device.quickest_ns, took_ns)
        return reading

    def _timed(self, device: Device) -> _Timed:
        """How long a reading took [ns], the reading, and the mean over its second [mW]."""
        before_ns = self._timeline.now_ns()
        counter_mj, power_mw, mean_mw = device.read()
        after_ns = self._timeline.now_ns()
        # The value belongs to somewhere within the call; its middle is off by half the call.
        middle_ns = (before_ns + after_ns) // 2
        return after_ns - before_ns, (middle_ns - middle_ns % 1000, counter_mj, power_mw), mean_mw

    def _lose(self, device: Device, error: Exception) -> None:
        if device.retry_at_ns is None:
            device.gpu.lose()
            self._notify("meter-gap", f"{device.gpu.label}: the device was lost ({error}).")
        device.retry_at_ns = self._timeline.now_ns() + device.pause_ns
        device.pause_ns = min(2 * device.pause_ns, RETRY_MAX_NS)

    def _schedule(self, now_ns: int) -> None:
        self._next_ns = (now_ns // TICK_NS + 1) * TICK_NS
        if self._ticks % CHECK_TICKS == 0:
            self._next_check_ns = now_ns + int(self._random.uniform(0, CHECK_TICKS) * TICK_NS)
        self._schedule_fast(now_ns)

    def _schedule_fast(self, now_ns: int) -> None:
        self._next_fast_ns = now_ns + int(self._random.uniform(FAST_MIN_S, FAST_MAX_S) * NS_PER_S)


def _is_checked(device: Device) -> bool:
    """Whether power at random moments is wanted, to compare the counter with."""
    counts = not device.gpu.needs_power and device.retry_at_ns is None
    return counts and not device.check.has_means

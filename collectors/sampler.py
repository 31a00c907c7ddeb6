"""When and how the billed GPUs are read: one counter reading a second, aligned to whole seconds.

The first and the last moments are read every 10 ms until the counter ticks, so that the job's edges
lie between known ticks instead of up to one update period off. A device without a working counter
has its power sampled 10 to 15 times a second, jittered so that no periodic load can lock to it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from gramwatt.collectors.clock import NS_PER_S, Timeline
from gramwatt.collectors.crossing import CUTS_MAX, Crossing, book_edges, cut
from gramwatt.collectors.edges import EDGE_NS, EDGE_WORTH_S, Edge, at_stop, stop_wait_ns
from gramwatt.collectors.gpu import GpuMeter, Notify, Reading
from gramwatt.collectors.probe import Read, best_read
from gramwatt.collectors.sources.base import DeviceLost, NotSupported, NvmlPort
from gramwatt.sci.units import w_from_mw

TICK_NS = NS_PER_S
FAST_MIN_S, FAST_MAX_S = 1 / 15, 1 / 10
PROFILE_TICKS, LIMIT_TICKS = 5, 60
RETRY_MIN_NS, RETRY_MAX_NS = 10 * NS_PER_S, 300 * NS_PER_S


class Device:
    """A billed device: how it is read, and what its readings are booked on."""

    __slots__ = (
        *("crossing", "cuts", "edge", "fresh", "gpu", "index"),
        *("pause_ns", "read", "retry_at_ns", "slow"),
    )

    def __init__(self, index: int, gpu: GpuMeter, read: Read) -> None:
        self.index, self.gpu, self.read = index, gpu, read
        self.edge: Edge | None = None
        self.crossing: Crossing | None = None
        self.cuts = 0
        self.fresh = gpu.end_ns is None
        self.retry_at_ns: int | None = None
        self.pause_ns = RETRY_MIN_NS
        self.slow: set[str] = {"utilisation", "memory", "limit"}


class Sampler:
    """Reads the billed devices of one NVML port."""

    def __init__(self, port: NvmlPort, timeline: Timeline, notify: Notify, random: Random) -> None:
        self.devices: list[Device] = []
        self._port, self._timeline, self._notify, self._random = port, timeline, notify, random
        self._board: dict[int, Reading] = {}
        self._ticks = 0
        self._next_ns = self._next_fast_ns = 0

    def add(self, index: int, gpu: GpuMeter) -> bool:
        """Take on a device, with its first reading; whether its energy can be read at all."""
        read = best_read(self._port, index)
        if read is None:
            self._notify(
                "energy-unmeasured", f"{gpu.label}: neither counter nor power is readable."
            )
            return False
        device = Device(index, gpu, read)
        self.devices.append(device)
        self._profile(device, limit=True)
        reading = self._read(device)
        if reading is not None:
            if device.fresh:  # else the first tick's reading, or the last one, spans the gap
                gpu.take(reading)
            unknown = reading[1] is not None and gpu.period_s is None
            device.edge = Edge(reading) if unknown else None
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
        fast = any(d.gpu.needs_power for d in self.devices)
        return min(self._next_ns, self._next_fast_ns) if fast else self._next_ns

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
        elif now_ns >= self._next_fast_ns:
            for device in self.devices:
                if device.gpu.needs_power and device.retry_at_ns is None:
                    self._sample_power(device)
            self._schedule_fast(now_ns)

    def stop(self, stop_ns: int) -> None:
        """The final reading, at the stop mark between the counter's ticks around it."""
        for device in self.devices:
            device.edge = None  # too short a job to see two ticks: the plain reading stands
        finals = {id(d): self._read(d) for d in self.devices if d.retry_at_ns is None}
        after = self._ticks_after(finals)
        for device in self.devices:
            reading = finals.get(id(device))
            if reading is not None:
                if device.crossing:
                    device.crossing.end(reading, after.get(id(device)), device.gpu)
                device.gpu.take(at_stop(reading, after.get(id(device)), stop_ns, device.gpu))
            device.gpu.settle()
            self._profile(device, limit=False)
            device.gpu.ledger.close()

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
        # Slices of one board have one counter, and so one reading.
        reading = self._board.get(device.index) or self._read(device)
        if reading is None:
            return
        self._board[device.index] = reading
        device.gpu.take(reading)
        if (self._ticks + device.index) % PROFILE_TICKS == 0:
            self._profile(device, limit=self._ticks % LIMIT_TICKS < PROFILE_TICKS)

    def _sample_power(self, device: Device) -> None:
        try:
            power_mw = self._port.power_mw(device.index)
        except Exception:  # the next sample spans this one
            return
        device.gpu.take_power(self._timeline.now_ns(), power_mw)

    def _read(self, device: Device) -> Reading | None:
        before_ns = self._timeline.now_ns()
        try:
            counter_mj, power_mw = device.read()
        except DeviceLost as error:
            self._lose(device, error)
            return None
        except Exception as error:
            self._notify("meter-gap", f"{device.gpu.label}: a reading failed ({error}).")
            return None
        if device.retry_at_ns is not None:
            device.retry_at_ns, device.pause_ns = None, RETRY_MIN_NS
        # The value belongs to somewhere within the call; its middle is off by half the call.
        middle_ns = (before_ns + self._timeline.now_ns()) // 2
        return middle_ns - middle_ns % 1000, counter_mj, power_mw

    def _lose(self, device: Device, error: Exception) -> None:
        if device.retry_at_ns is None:
            device.gpu.lose()
            self._notify("meter-gap", f"{device.gpu.label}: the device was lost ({error}).")
        device.retry_at_ns = self._timeline.now_ns() + device.pause_ns
        device.pause_ns = min(2 * device.pause_ns, RETRY_MAX_NS)

    def _profile(self, device: Device, *, limit: bool) -> None:
        port, index = self._port, device.index
        share = self._slow(device, "utilisation", lambda: port.utilisation_percent(index) / 100)
        used_b = self._slow(device, "memory", lambda: port.memory_b(index)[0])
        device.gpu.ledger.observe(share, used_b)
        if limit:
            limit_w = self._slow(device, "limit", lambda: w_from_mw(port.limit_mw(index)))
            device.gpu.limit_w = limit_w or device.gpu.limit_w

    @staticmethod
    def _slow(device: Device, name: str, call: Callable[[], float]) -> float | None:
        if name not in device.slow:
            return None
        try:
            return call()
        except NotSupported:
            device.slow.discard(name)
        except Exception:  # the profile is a courtesy; the energy goes on without it
            return None
        return None

    def _schedule(self, now_ns: int) -> None:
        self._next_ns = (now_ns // TICK_NS + 1) * TICK_NS
        self._schedule_fast(now_ns)

    def _schedule_fast(self, now_ns: int) -> None:
        self._next_fast_ns = now_ns + int(self._random.uniform(FAST_MIN_S, FAST_MAX_S) * NS_PER_S)

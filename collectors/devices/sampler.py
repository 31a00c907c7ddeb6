"""When the billed devices are read: counter and power once a second, on whole seconds.

A counter that is costly to read is read every 5 s, and the power alone in the seconds between.
While a boundary waits for the counter's tick, its device is read every 10 ms instead. A device
without a working counter has its power sampled 10 to 15 times a second, at jittered moments so that
no periodic load can lock to them.
"""

from __future__ import annotations

from random import Random

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.devices.boundaries import POLL_NS
from gramwatt.collectors.devices.cross_check import CrossCheck
from gramwatt.collectors.devices.device import Device
from gramwatt.collectors.devices.energy import EnergyMeter
from gramwatt.collectors.devices.port import DevicePort, Notify, NotSupported
from gramwatt.collectors.devices.reader import Reading

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

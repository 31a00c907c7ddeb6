"""Clocks of the meter, and the timeline of all its readings and of the client's marks.

Durations come from CLOCK_BOOTTIME (CLOCK_MONOTONIC plus time spent suspended); wall time is its
value at the job's start plus the elapsed duration, so that a clock that jumps changes nothing.
"""

from __future__ import annotations

import time

NS_PER_S = 1_000_000_000
NEVER_NS = 2**63
"""After every moment of a timeline."""
SUSPENDED_LEAST_NS = NS_PER_S // 10
"""A shorter difference is the time between the readings of two clocks."""
_BOOT = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 0))  # Windows has neither


class Clock:
    """This machine's clocks; tests give virtual ones."""

    def now_ns(self) -> int:
        """Return time since boot, suspended time included [ns]."""
        return time.clock_gettime_ns(_BOOT)

    def mono_ns(self) -> int:
        """Return CLOCK_MONOTONIC, as in the client's marks [ns]."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """Return Unix time [ns]."""
        return time.time_ns()

    def sleep(self, duration_s: float) -> None:
        """Wait [s]."""
        time.sleep(duration_s)


class Timeline:
    """The job's own time: Unix time at its start mark, running on with the boot clock.

    All times of the meter are on it, in nanoseconds that are whole microseconds, as journal lines
    carry no more.
    """

    __slots__ = ("clock", "offset_ns", "start_ns")

    def __init__(self, clock: Clock, offset_ns: int, start_ns: int) -> None:
        self.clock = clock
        self.offset_ns = offset_ns
        self.start_ns = start_ns

    @classmethod
    def from_mark(cls, clock: Clock, boot_ns: int, wall_ns: int) -> Timeline:
        """Return the timeline on which the moment `boot_ns` of the boot clock is `wall_ns` [ns]."""
        return cls(clock, wall_ns - boot_ns, _whole(wall_ns))

    def now_ns(self) -> int:
        """Return this moment [ns]."""
        time_ns = self.clock.now_ns() + self.offset_ns  # asked a dozen times a second
        return time_ns - time_ns % 1000

    def suspended_ns(self) -> int:
        """Return for how long the machine has been suspended since its boot [ns]."""
        return self.clock.now_ns() - self.clock.mono_ns()

    def at_boot(self, boot_ns: int) -> int:
        """Return a moment by the boot clock on this timeline [ns]."""
        return _whole(boot_ns + self.offset_ns)

    def at_mono(self, mono_ns: int) -> int:
        """Return a client's mark on this timeline [ns]; never later than now."""
        now = self.clock.now_ns()
        return _whole(min(now, mono_ns + now - self.clock.mono_ns()) + self.offset_ns)


def suspended_between(before_ns: int, after_ns: int) -> int:
    """Return for how long the machine was suspended between two `Timeline.suspended_ns` [ns]."""
    span_ns = after_ns - before_ns
    return span_ns if span_ns >= SUSPENDED_LEAST_NS else 0


def _whole(time_ns: int) -> int:
    return time_ns - time_ns % 1000

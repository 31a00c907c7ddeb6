"""The counter's value at a boundary: the job's start and stop, and the edges of its windows.

A counter is updated every U seconds, so a plain difference is off by up to U times the power at
each boundary. Here the counter is taken as linear between the tick before and the tick after it
(docs/measuring.md, "Start and stop").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.devices.reader import Reading

POLL_NS = NS_PER_S // 100
"""How often the counter is read while a boundary waits for its tick."""
LONGEST_PERIOD_NS = NS_PER_S // 4
"""Update period of a counter whose ticks were not seen: 20 to 100 ms are reported, and this is two
and a half times the longest."""
START_LIMIT_NS = 5 * NS_PER_S // 2
"""How long the start looks for two ticks, ten times what reported periods need: the job runs
meanwhile, and a counter that ticks more slowly has the most to gain."""
STOP_LIMIT_NS = NS_PER_S // 2
"""The longest wait for the tick after the stop: the job's end waits with it."""
SLOW_PERIOD_S = 0.02
"""A counter that ticks faster than this is as good as continuous."""


class Point(NamedTuple):
    """A moment [ns] and the counter's value then [mJ]."""

    time_ns: float
    counter_mj: float


def counter_at(time_ns: float, points: Sequence[Point]) -> float:
    """Return the counter's value at a moment [mJ], linear between the points around it.

    `points` are in time order, at least one of them; outside of them the value is the nearest's.
    """
    before = points[0]
    for after in points[1:]:
        if time_ns <= after.time_ns and after.time_ns > before.time_ns:
            part = (time_ns - before.time_ns) / (after.time_ns - before.time_ns)
            return before.counter_mj + (after.counter_mj - before.counter_mj) * max(0.0, part)
        before = after
    return before.counter_mj


class Boundary:
    """Moments of one device that wait for the counter's next ticks: its start, the edges of windows
    and its stop.

    The start waits for two ticks, which give the update period; the others wait for one, and those
    that come meanwhile wait with it.
    """

    def __init__(self, reading: Reading, wanted: int, limit_ns: int) -> None:
        """`reading` is the first one after the boundary; `wanted` ticks end the wait, or
        `limit_ns`.
        """
        self.reading = self._polled = reading
        self.deadline_ns = reading.time_ns + limit_ns
        self.times_ns: list[int] = []
        self.ticks: list[Point] = []
        self._wanted = wanted

    @classmethod
    def at_start(cls, reading: Reading) -> Boundary:
        """Return the job's start: `reading` is the first one, the update period is unknown."""
        return cls(reading, 2, START_LIMIT_NS)

    @classmethod
    def after_start(cls, reading: Reading, period_s: float | None) -> Boundary:
        """Return a later boundary: it waits one update period [s], where that is worth it."""
        slow = period_s is not None and period_s > SLOW_PERIOD_S
        wait_ns = round(1.25 * (period_s or 0.0) * NS_PER_S) + 2 * POLL_NS
        return cls(reading, 1, min(STOP_LIMIT_NS, wait_ns) if slow else 0)

    @property
    def is_start(self) -> bool:
        """True for the job's start."""
        return self._wanted > 1

    @property
    def complete(self) -> bool:
        """True when it has seen the ticks that it waits for."""
        return len(self.ticks) >= self._wanted

    @property
    def period_s(self) -> float:
        """The counter's update period [s]: the time between the start's two ticks."""
        return (self.ticks[1].time_ns - self.ticks[0].time_ns) / NS_PER_S

    def poll(self, reading: Reading) -> None:
        """Note a later reading: a changed counter has ticked between it and the one before."""
        before, self._polled = self._polled, reading
        if reading.counter_mj is None:
            self._polled = before._replace(time_ns=reading.time_ns)
        elif reading.counter_mj != before.counter_mj:
            middle_ns = (before.time_ns + reading.time_ns) / 2
            self.ticks.append(Point(middle_ns, reading.counter_mj))

    def points(self, period_s: float | None) -> list[Point]:
        """Return the counter around the boundary: its tick before, by the update period [s], and
        those after it.

        Without ticks or period the reading itself; empty for a device without a counter.
        """
        counter_mj = self.reading.counter_mj
        if counter_mj is None:
            return []
        if not self.ticks or period_s is None:
            return [Point(self.reading.time_ns, counter_mj)]
        return [Point(self.ticks[0].time_ns - period_s * NS_PER_S, counter_mj), *self.ticks]

"""The job's edges: a counter that ticks every U seconds, read between two ticks.

A plain difference is off by up to U times the power at each edge. Here the counter is taken as
linear between the tick before and the tick after the edge (docs/measuring.md, "Edges").
"""

from __future__ import annotations

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.gpu.energy import GpuMeter, Reading

EDGE_NS = NS_PER_S // 100
EDGE_LIMIT_NS = NS_PER_S // 4
"""Counter update periods of 20 to 100 ms are reported: two and a half of the longest. A job shorter
than twice this has hardly an edge to look for."""
START_LIMIT_NS = 5 * NS_PER_S // 2
"""How long the start looks for two ticks, ten times what reported periods need: the job runs
meanwhile, and a counter that ticks more slowly has the most to gain."""
STOP_LIMIT_NS = NS_PER_S // 2
"""The longest wait for the tick after the stop mark: the job's end waits with it."""
EDGE_WORTH_S = 0.02
"""A counter that ticks faster than this is as good as continuous."""


class Edge:
    """The search for the first two counter ticks after the first reading."""

    __slots__ = ("counter_mj", "deadline_ns", "first", "marks_ns", "polled_ns", "second", "start")

    def __init__(self, start: Reading) -> None:
        self.start = start
        self.polled_ns, self.counter_mj = start[0], start[1]
        self.deadline_ns = start[0] + START_LIMIT_NS
        self.first: tuple[float, float] | None = None
        self.second: tuple[float, float] | None = None
        self.marks_ns: list[int] = []  # edges of windows that began meanwhile

    def poll(self, reading: Reading) -> tuple[float, float] | None:
        """Take a reading; once two ticks are seen, (update period [s], counter at start [mJ])."""
        time_ns, counter_mj, _ = reading
        before_ns, self.polled_ns = self.polled_ns, time_ns
        if counter_mj is None or counter_mj == self.counter_mj:
            return None
        tick_ns, before_mj = (before_ns + time_ns) / 2, self.counter_mj
        self.counter_mj = counter_mj
        if self.first is None:
            self.first = (tick_ns, counter_mj)
            return None
        self.second = (tick_ns, counter_mj)
        period_ns = tick_ns - self.first[0]
        start_ns, start_mj = self.start[0], self.start[1] or 0.0
        past = min(1.0, max(0.0, 1 - (self.first[0] - start_ns) / period_ns))
        step_mj = self.first[1] - start_mj
        assert before_mj is not None  # the first tick has set it
        return period_ns / NS_PER_S, start_mj + step_mj * past


def stop_wait_ns(period_s: float) -> int:
    """How long the tick after the stop is worth waiting for [ns]: one period and a little."""
    return min(STOP_LIMIT_NS, round(1.25 * period_s * NS_PER_S) + 2 * EDGE_NS)


def at_stop(final: Reading, tick: Reading | None, stop_ns: int, gpu: GpuMeter) -> Reading:
    """The reading at the stop mark: the counter between the ticks before and after it.

    `final` was read after the mark, `tick` is the first counter change after `final`.
    """
    time_ns, counter_mj, power_mw = final
    end_ns = max(stop_ns, gpu.end_ns or stop_ns)
    if counter_mj is None:
        return min(time_ns, end_ns), None, power_mw
    return end_ns, gpu.counter_at(end_ns, known_points(final, tick, gpu)), power_mw


def known_points(final: Reading, tick: Reading | None, gpu: GpuMeter) -> list[tuple[float, float]]:
    """Points (time [ns], counter [mJ]) around a mark: the ticks before and after it, where known.

    `final` was read after the mark, `tick` is the first counter change after `final`. Empty for a
    device without a counter.
    """
    time_ns, counter_mj, _ = final
    if counter_mj is None:
        return []
    if tick is None or tick[1] is None or gpu.period_s is None:
        return [(time_ns, counter_mj)]
    return [(tick[0] - gpu.period_s * NS_PER_S, counter_mj), (tick[0], tick[1])]

"""Edges of windows inside a job: the counter at each, between the ticks before and after it.

As at the job's own edges (edges.py), only that here several edges may wait for one tick, and the
readings of every second wait with them.
"""

from __future__ import annotations

from gramwatt.collectors.gpu.boundaries import EDGE_NS, EDGE_WORTH_S, known_points, stop_wait_ns
from gramwatt.collectors.gpu.energy import GpuMeter, Reading

CUTS_MAX = 20_000
"""Intervals of one device that windows may cut, some 5 MB of journal; later ones are left whole."""


class Crossing:
    """Edges of windows that wait for the counter's next tick."""

    __slots__ = ("before_ns", "deadline_ns", "final", "marks_ns")

    def __init__(self, mark_ns: int, final: Reading, period_s: float | None) -> None:
        """`final` is the reading right after the first edge, `mark_ns` [ns]."""
        self.marks_ns = [mark_ns]
        self.final = final
        self.before_ns = final[0]
        slow = period_s is not None and period_s > EDGE_WORTH_S
        self.deadline_ns = final[0] + (stop_wait_ns(period_s or 0.0) if slow else 0)

    def poll(self, reading: Reading, gpu: GpuMeter) -> bool:
        """Take a reading; True when the edges are booked with it, on a tick or at the last moment.

        The reading itself is booked too, so that the next second's begins there.
        """
        time_ns, counter_mj, power_mw = reading
        ticked = counter_mj is not None and counter_mj != self.final[1]
        if not ticked and time_ns < self.deadline_ns:
            self.before_ns = time_ns
            return False
        tick = ((self.before_ns + time_ns) // 2, counter_mj, power_mw) if ticked else None
        self.book(gpu, tick)
        gpu.take(reading)
        return True

    def end(self, final: Reading, tick: Reading | None, gpu: GpuMeter) -> None:
        """Book the edges at the job's end: `final` was read there, `tick` is the next after it."""
        if final[1] != self.final[1]:
            tick = ((self.before_ns + final[0]) // 2, final[1], final[2])
        self.book(gpu, tick)

    def book(self, gpu: GpuMeter, tick: Reading | None) -> None:
        """Book the energy up to each edge, and cut the open interval there."""
        book_edges(gpu, self.marks_ns, known_points(self.final, tick, gpu), self.final[2])


def book_edges(
    gpu: GpuMeter,
    marks_ns: list[int],
    known: list[tuple[float, float]],
    power_mw: float | None,
) -> None:
    """Book the energy up to each edge [ns] by the `known` points of the counter (edges.py)."""
    for mark_ns in sorted(marks_ns):
        if known:
            gpu.take((mark_ns, gpu.counter_at(mark_ns, known), power_mw))
        cut(gpu)


def cut(gpu: GpuMeter) -> None:
    """End the open interval where it stands, unless it has just begun."""
    interval = gpu.ledger.open
    if interval is not None and interval.end_ns - interval.start_ns >= EDGE_NS:
        gpu.ledger.close()

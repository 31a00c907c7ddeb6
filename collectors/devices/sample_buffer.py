"""The driver's own buffer of power samples, for a board that has no energy counter.

It holds more moments than polling could see, at one call a second. Its timestamps are of a clock
that the header does not name, so the newest of them, which is at most one sample old when it is
read, places the others on the job's timeline.
"""

from __future__ import annotations

from collections.abc import Callable

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
        samples = {time_us: power for time_us, power in self._ask(self._since_us)}
        fresh = sorted(item for item in samples.items() if item[0] > self._since_us)
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

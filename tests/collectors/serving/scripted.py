"""llama.cpp's counters on a virtual clock: a server that works for a part of each hour, and dies.

Readings are 100 s apart instead of 5 s, and several come at once, so that a month takes seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from gramwatt.collectors.serving.poll import EARLY_NS, Reading
from gramwatt.collectors.serving.presets import Series
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.virtual_clock import VirtualClock

EVERY_NS = 100 * NS_PER_S
PERIOD_S, WORKS_S = 3_600.0, 1_200.0
"""It works for the first 20 minutes of each hour."""
PROMPT_PER_S, PREDICTED_PER_S = 10.0, 30.0
PREFILL_SHARE = 0.1
STARTS_S = 60.0


def worked_s(until_s: float) -> float:
    """Time since the begin of the job in which there was work [s]."""
    hours, rest = divmod(max(until_s, 0.0), PERIOD_S)
    return hours * WORKS_S + min(rest, WORKS_S)


class ScriptedServer:
    """Its processes die at `deaths_s` [s of the job] and are up again `down_s` later."""

    def __init__(self, clock: VirtualClock, deaths_s: Sequence[float], down_s: float) -> None:
        self._clock = clock
        self._began_ns = self._read_until_ns = clock.wall_ns()
        self._begins = [STARTS_S, *(death + down_s for death in deaths_s)]
        self._ends = [*deaths_s, float("inf")]

    def work_s(self, until_s: float) -> float:
        """Time for which its processes worked until a second of the job [s]."""
        return sum(
            worked_s(min(end, until_s)) - worked_s(begin)
            for begin, end in zip(self._begins, self._ends, strict=True)
            if begin < until_s
        )

    def take(self) -> list[Reading]:
        """Return the readings since the last call."""
        found = []
        while self._read_until_ns + EVERY_NS - EARLY_NS <= self._clock.wall_ns():
            self._read_until_ns += EVERY_NS
            found.append(self._reading(self._read_until_ns - EARLY_NS))
        return found

    def last(self) -> list[Reading]:
        """Return those, and one of this moment."""
        return [*self.take(), self._reading(self._clock.wall_ns())]

    def skip(self) -> None:
        """Let what was not read while no meter lived be unread."""
        self._read_until_ns = self._clock.wall_ns() // EVERY_NS * EVERY_NS

    def _reading(self, wall_ns: int) -> Reading:
        mono_ns = self._clock.mono_ns() - (self._clock.wall_ns() - wall_ns)
        at_s = (wall_ns - self._began_ns) / NS_PER_S
        life = max(bisect_right(self._begins, at_s) - 1, 0)
        if not self._begins[life] <= at_s < self._ends[life]:
            return Reading(0, mono_ns, None, down=True, problem="nobody listens there")
        done_s = worked_s(at_s) - worked_s(self._begins[life])
        values = {
            "prompt_tokens_total": PROMPT_PER_S * done_s,
            "tokens_predicted_total": PREDICTED_PER_S * done_s,
            "prompt_seconds_total": PREFILL_SHARE * done_s,
            "tokens_predicted_seconds_total": (1 - PREFILL_SHARE) * done_s,
        }
        samples = {Series(f"llamacpp:{name}"): value for name, value in values.items()}
        return Reading(0, mono_ns, samples)

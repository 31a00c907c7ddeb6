"""Whether a board's energy counter and its power sensor agree.

The counter is what is billed; power is only compared with it. Where the driver gives the mean over
each second, those means cover the time without a gap and are added up. Where it gives single
moments, they are read at random times, because what is read on whole seconds would lock onto a
periodic load, and the difference has to exceed what chance can do (empirical Bernstein bound:
Maurer and Pontil, COLT 2009, theorem 4).
"""

from __future__ import annotations

import math

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.sci.base.units import j_from_mj, w_from_mw

TOLERANCE = 0.10
"""Part of the counter's energy by which power may differ before it is reported."""
MEANS_LEAST_S = 60.0
EDGE_S = 4.0
"""Means are up to one second old at both ends, and a reading may be up to one second late."""
REGULAR_S = (0.8, 1.2)
"""A mean is that of its second; a span of another length is left out of both sums."""
SAMPLES_LEAST = 32
LOG_ODDS = math.log(2 / 1e-6)
"""A false notice in one of a million comparisons; one is made at each doubling of the samples."""
LIMIT_SLACK, UNKNOWN_LIMIT_W = 1.5, 1500.0
"""Power of a moment exceeds the limit for short: as much as the glitch rule allows (energy.py).
Without a limit, one and a half times the rating of the largest board sold (1 000 W, B200)."""


class CrossCheck:
    """One board's sums of counter and power; `finding` is the sentence when they differ."""

    def __init__(self) -> None:
        self.has_means = False
        self._base_ns = 0
        self._base_mj: float | None = None
        self._counter_j = 0.0
        self._mean_j = 0.0
        self._between_w: list[float] = []
        self._until_ns = 0
        self._span_s = 0.0
        self._top_w = 0.0
        self._samples = 0
        self._due = SAMPLES_LEAST
        self._sum_w = 0.0
        self._squares = 0.0
        self._waiting_w: list[float] = []
        self._reported = False

    def add_reading(
        self, time_ns: int, counter_mj: float, mean_mw: float | None, *, trusted: bool
    ) -> None:
        """Add a reading on a whole second [ns]: the counter [mJ] and the second's mean power [mW].

        A step that is not `trusted` is not billed, and so not compared.
        """
        base_ns, base_mj = self._base_ns, self._base_mj
        self._base_ns, self._base_mj = time_ns, counter_mj
        between_w, self._between_w = self._between_w, []
        waiting_w = self._waiting_w
        if waiting_w:
            self._waiting_w = []
        if mean_mw is not None:
            self.has_means = True
        span_s = (time_ns - base_ns) / NS_PER_S
        if not trusted or base_mj is None or counter_mj < base_mj:
            return
        seconds = len(between_w) + 1
        if not REGULAR_S[0] <= span_s / seconds <= REGULAR_S[1]:
            return
        if self.has_means:
            if mean_mw is None:
                return
            means_w = [*between_w, w_from_mw(mean_mw)]
            self._mean_j += math.fsum(means_w) * span_s / seconds
            self._top_w = max(self._top_w, *means_w)
        self._counter_j += j_from_mj(counter_mj - base_mj)
        self._span_s += span_s
        for power_w in waiting_w:
            self._samples += 1
            self._sum_w += power_w
            self._squares += power_w * power_w

    def add_mean(self, time_ns: int, mean_mw: float) -> None:
        """Add a second's mean power [mW], read on a whole second [ns] without the counter.

        It is compared when the counter is read next; what slices of a board add twice counts once.
        """
        if time_ns > self._until_ns:
            self._until_ns = time_ns
            self._between_w.append(w_from_mw(mean_mw))

    def add_power(self, power_mw: float) -> None:
        """Add power at a random moment [mW]; it counts if the counter's step around it does."""
        self._waiting_w.append(w_from_mw(power_mw))

    def finding(self, limit_w: float | None, *, final: bool = False) -> str | None:
        """Return the sentence to report, once; None while the two agree or too little is known."""
        if self._reported or self._span_s <= 0:
            return None
        counter_w = self._counter_j / self._span_s
        power_w = (
            self._by_means(counter_w)
            if self.has_means
            else self._by_chance(counter_w, limit_w, final=final)
        )
        if power_w is None:
            return None
        self._reported = True
        return (
            f"over {self._span_s:.0f} s the energy counter says {counter_w:.0f} W on average, "
            f"the power sensor {power_w:.0f} W; the counter is used."
        )

    def _by_means(self, counter_w: float) -> float | None:
        """Return the mean power by the seconds' means [W], where the edges do not explain it."""
        power_w, edge_w = self._mean_j / self._span_s, EDGE_S * self._top_w / self._span_s
        known = self._span_s >= MEANS_LEAST_S
        return power_w if known and _exceeds(power_w, counter_w, edge_w) else None

    def _by_chance(self, counter_w: float, limit_w: float | None, *, final: bool) -> float | None:
        """Return the mean power by random moments [W], when it differs by more than chance can."""
        count = self._samples
        if count < SAMPLES_LEAST or (count < self._due and not final):
            return None
        self._due = max(self._due, 2 * count)
        power_w = self._sum_w / count
        variance = max(0.0, self._squares - count * power_w * power_w) / (count - 1)
        range_w = LIMIT_SLACK * limit_w if limit_w else UNKNOWN_LIMIT_W
        chance_w = math.sqrt(2 * variance * LOG_ODDS / count)
        chance_w += 7 * range_w * LOG_ODDS / (3 * (count - 1))
        return power_w if _exceeds(power_w, counter_w, chance_w) else None


def _exceeds(power_w: float, counter_w: float, slack_w: float) -> bool:
    return abs(power_w - counter_w) > TOLERANCE * counter_w + slack_w

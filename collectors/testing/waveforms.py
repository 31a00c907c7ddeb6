"""Power over time with its exact integral: the truth that measurements are held against.

Time is seconds since the machine's boot; every wave goes on for ever in both directions.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol


class Waveform(Protocol):
    """Power [W] as a function of time, and its integral [J]."""

    def power_w(self, at_s: float) -> float:
        """Power [W] at a moment [s]."""

    def energy_j(self, until_s: float) -> float:
        """Energy [J] from 0 to a moment [s], exact up to rounding."""


class Constant:
    """The same power always."""

    def __init__(self, power_w: float) -> None:
        self._power_w = power_w

    def power_w(self, at_s: float) -> float:
        """Power [W]."""
        return self._power_w

    def energy_j(self, until_s: float) -> float:
        """Energy [J] since 0."""
        return self._power_w * until_s


class Square:
    """`high_w` for the first `duty` of each period, `low_w` for the rest."""

    def __init__(
        self, low_w: float, high_w: float, period_s: float, duty: float = 0.5, phase_s: float = 0.0
    ) -> None:
        self._low_w, self._high_w, self._period_s = low_w, high_w, period_s
        self._high_s, self._phase_s = duty * period_s, phase_s

    def power_w(self, at_s: float) -> float:
        """Power [W]."""
        return (
            self._high_w if (at_s + self._phase_s) % self._period_s < self._high_s else self._low_w
        )

    def energy_j(self, until_s: float) -> float:
        """Energy [J] since 0."""
        return self._since_edge(until_s + self._phase_s) - self._since_edge(self._phase_s)

    def _since_edge(self, at_s: float) -> float:
        periods, rest_s = divmod(at_s, self._period_s)
        high_s = periods * self._high_s + min(rest_s, self._high_s)
        return self._low_w * at_s + (self._high_w - self._low_w) * high_s


class Sine:
    """`mean_w` plus a sine of `amplitude_w`."""

    def __init__(
        self, mean_w: float, amplitude_w: float, period_s: float, phase_s: float = 0.0
    ) -> None:
        self._mean_w, self._amplitude_w = mean_w, amplitude_w
        self._rate, self._phase_s = 2 * math.pi / period_s, phase_s

    def power_w(self, at_s: float) -> float:
        """Power [W]."""
        return self._mean_w + self._amplitude_w * math.sin(self._rate * (at_s + self._phase_s))

    def energy_j(self, until_s: float) -> float:
        """Energy [J] since 0."""
        swing = math.cos(self._rate * self._phase_s) - math.cos(
            self._rate * (until_s + self._phase_s)
        )
        return self._mean_w * until_s + self._amplitude_w / self._rate * swing


class Ramp:
    """From `low_w` up to `high_w` over each period, then down at once."""

    def __init__(self, low_w: float, high_w: float, period_s: float) -> None:
        self._low_w, self._rise, self._period_s = low_w, (high_w - low_w) / period_s, period_s

    def power_w(self, at_s: float) -> float:
        """Power [W]."""
        return self._low_w + self._rise * (at_s % self._period_s)

    def energy_j(self, until_s: float) -> float:
        """Energy [J] since 0."""
        periods, rest_s = divmod(until_s, self._period_s)
        ramps_s2 = periods * self._period_s**2 + rest_s**2
        return self._low_w * until_s + self._rise * ramps_s2 / 2


class Steps:
    """Random levels between `low_w` and `high_w`, `step_s` each, drawn from a seed, repeating."""

    def __init__(
        self, low_w: float, high_w: float, step_s: float, seed: int, count: int = 997
    ) -> None:
        draw = random.Random(seed)  # a reproducible load, no secret
        self._levels_w = [draw.uniform(low_w, high_w) for _ in range(count)]
        self._step_s = step_s
        self._sums_j = [0.0]
        for level_w in self._levels_w:
            self._sums_j.append(self._sums_j[-1] + level_w * step_s)

    def power_w(self, at_s: float) -> float:
        """Power [W]."""
        return self._levels_w[int(at_s // self._step_s) % len(self._levels_w)]

    def energy_j(self, until_s: float) -> float:
        """Energy [J] since 0."""
        steps, rest_s = divmod(until_s, self._step_s)
        rounds, place = divmod(int(steps), len(self._levels_w))
        whole_j = rounds * self._sums_j[-1] + self._sums_j[place]
        return whole_j + self._levels_w[place] * rest_s


class Pieces:
    """Straight pieces of power, each (duration [s], power at its start [W], at its end), repeating.

    What a stand-in in another language can be given as well, with the same integral.
    """

    def __init__(self, pieces: Sequence[tuple[float, float, float]], phase_s: float = 0.0) -> None:
        self._pieces = [(float(span), float(low), float(high)) for span, low, high in pieces]
        self._starts_s = list(accumulate((span for span, _, _ in self._pieces), initial=0.0))
        whole_j = ((low + high) / 2 * span for span, low, high in self._pieces)
        self._sums_j = list(accumulate(whole_j, initial=0.0))
        self._phase_s = phase_s

    def power_w(self, at_s: float) -> float:
        """Power [W]."""
        _, place, past_s = self._place(at_s + self._phase_s)
        span_s, start_w, end_w = self._pieces[place]
        return start_w + (end_w - start_w) * past_s / span_s

    def energy_j(self, until_s: float) -> float:
        """Energy [J] since 0."""
        return self._since_edge(until_s + self._phase_s) - self._since_edge(self._phase_s)

    def _since_edge(self, at_s: float) -> float:
        rounds, place, past_s = self._place(at_s)
        span_s, start_w, end_w = self._pieces[place]
        mean_w = start_w + (end_w - start_w) * past_s / span_s / 2
        return rounds * self._sums_j[-1] + self._sums_j[place] + mean_w * past_s

    def _place(self, at_s: float) -> tuple[float, int, float]:
        rounds, past_s = divmod(at_s, self._starts_s[-1])
        place = min(bisect_right(self._starts_s, past_s), len(self._pieces)) - 1
        return rounds, place, past_s - self._starts_s[place]


KINDS: dict[str, Any] = {
    "constant": Constant,
    "square": Square,
    "sine": Sine,
    "ramp": Ramp,
    "steps": Steps,
    "pieces": Pieces,
}


def waveform(spec: Mapping[str, Any]) -> Waveform:
    """The wave a specification means: `{"type": "square", "low_w": 100, "high_w": 700, ...}`.

    Raises KeyError or TypeError for an unknown type or argument.
    """
    arguments = dict(spec)
    made: Waveform = KINDS[arguments.pop("type")](**arguments)
    return made

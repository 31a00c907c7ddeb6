"""Power over time with its exact integral: the truth that measurements are held against.

Time is seconds since the machine's boot; every wave goes on for ever in both directions.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol


class Waveform(Protocol):
    """Power [W] as a function of time, and its integral [J]."""

    def power_w(self, at_s: float) -> float:
        """Return the power [W] at a moment [s]."""

    def energy_j(self, until_s: float) -> float:
        """Return the energy [J] from 0 to a moment [s], exact up to rounding."""


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
        """Return the power [W]."""
        _, place, past_s = self._place(at_s + self._phase_s)
        span_s, start_w, end_w = self._pieces[place]
        return start_w + (end_w - start_w) * past_s / span_s

    def energy_j(self, until_s: float) -> float:
        """Return the energy [J] since 0."""
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


class Sine:
    """`mean_w` plus a sine of `amplitude_w`."""

    def __init__(
        self, mean_w: float, amplitude_w: float, period_s: float, phase_s: float = 0.0
    ) -> None:
        self._mean_w, self._amplitude_w = mean_w, amplitude_w
        self._rate, self._phase_s = 2 * math.pi / period_s, phase_s

    def power_w(self, at_s: float) -> float:
        """Return the power [W]."""
        return self._mean_w + self._amplitude_w * math.sin(self._rate * (at_s + self._phase_s))

    def energy_j(self, until_s: float) -> float:
        """Return the energy [J] since 0."""
        swing = math.cos(self._rate * self._phase_s) - math.cos(
            self._rate * (until_s + self._phase_s)
        )
        return self._mean_w * until_s + self._amplitude_w / self._rate * swing


def constant(power_w: float) -> Pieces:
    """Return the same power always."""
    return Pieces([(1.0, power_w, power_w)])


def square(
    low_w: float, high_w: float, period_s: float, duty: float = 0.5, phase_s: float = 0.0
) -> Pieces:
    """Return `high_w` for the first `duty` of each period, `low_w` for the rest."""
    high_s = duty * period_s
    return Pieces([(high_s, high_w, high_w), (period_s - high_s, low_w, low_w)], phase_s)


def ramp(low_w: float, high_w: float, period_s: float) -> Pieces:
    """Return a rise from `low_w` to `high_w` over each period, with a drop at its end."""
    return Pieces([(period_s, low_w, high_w)])


def steps(low_w: float, high_w: float, step_s: float, seed: int, count: int = 997) -> Pieces:
    """Return random levels between `low_w` and `high_w`, `step_s` each, drawn from a seed."""
    draw = random.Random(seed)  # a reproducible load, no secret
    levels_w = [draw.uniform(low_w, high_w) for _ in range(count)]
    return Pieces([(step_s, level_w, level_w) for level_w in levels_w])


KINDS: Mapping[str, Callable[..., Waveform]] = {
    "constant": constant,
    "square": square,
    "sine": Sine,
    "ramp": ramp,
    "steps": steps,
    "pieces": Pieces,
}


def waveform(spec: Mapping[str, Any]) -> Waveform:
    """Return the wave of a specification: `{"type": "square", "low_w": 100, "high_w": 700, ...}`.

    Raises KeyError or TypeError for an unknown type or argument.
    """
    arguments = dict(spec)
    return KINDS[arguments.pop("type")](**arguments)

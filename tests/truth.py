"""Known truths: random values of inputs by their ranges, drawn without the product's arithmetic."""

import math
import random
from collections.abc import Iterable

_END = 1.2815515655446004
"""Nine tenths of a normal distribution lie below so many standard deviations."""


def draws(seed: int = 1) -> "Inputs":
    return Inputs(random.Random(seed))


class Inputs:
    """Draws of inputs with low <= value <= high, of which eight in ten lie within the range."""

    def __init__(self, source: random.Random) -> None:
        self._random = source

    def one(self, value: float, low: float, high: float) -> float:
        """A value whose logarithm is half normal below and above the stated one, its median."""
        below, above = math.log(value / low), math.log(high / value)
        if below + above == 0:
            return value
        z = abs(self._random.gauss(0, 1)) / _END
        down = self._random.random() < 0.5 if below and above else below > 0
        return value * math.exp(-below * z if down else above * z)


def coverage(low: float, high: float, truths: Iterable[float]) -> float:
    """Share of truths in [low, high]."""
    found = [low <= truth <= high for truth in truths]
    return sum(found) / len(found)

"""Where a month will end, from its own whole days: their mean goes on.

The range is the prediction interval of a sum of independent days of one distribution (Student's t):
it holds both how days differ and what so few of them say of their mean. It knows no trend and no
plans. On simulated months of which 7 to 25 days are known it holds 76 to 83 % of the ends where
days differ as a lognormal of spread 0.6 with idle days, and 66 to 83 % where a few days have most
of the sum (tests/service/usecases/test_budgets.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from gramwatt.sci.base.quantity import Quantity

DAYS_LEAST = 7
"""A whole week: of fewer days none may have been a weekend."""
Z = 1.2815515655446004
"""The 90th percentile of the normal distribution; 8 in 10 lie between it and its negative."""


def month_end(spent: Quantity, days: Sequence[float], rest_days: float) -> Quantity:
    """What the month will emit [unit of `spent`], out of what its whole days emitted.

    `rest_days` are left of the month. The range is that of the days to come, and that of `spent`
    for the whole. Raises ValueError for fewer than DAYS_LEAST days.
    """
    number = len(days)
    if number < DAYS_LEAST:
        raise ValueError(f"too few days: {number} of {DAYS_LEAST}")
    rest = fmean(days) * rest_days
    spread = stdev(days) * math.sqrt(rest_days + rest_days**2 / number)
    width = _t90(number - 1) * spread
    value = spent.value + rest
    # The figures of the days to come are as uncertain as those of the past, in the same direction.
    scale = value / spent.value if spent.value > 0 else 1.0
    below = math.hypot((spent.value - spent.low) * scale, min(width, rest))
    above = math.hypot((spent.high - spent.value) * scale, width)
    source = f"mean of {number} days of this month; {spent.source}"
    return Quantity(value, max(0.0, value - below), value + above, spent.unit, "estimated", source)


def _t90(degrees: int) -> float:
    """The 90th percentile of Student's t, to 0.1 % from 6 degrees of freedom on.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    first = (Z**3 + Z) / 4
    second = (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    return Z + first / degrees + second / degrees**2

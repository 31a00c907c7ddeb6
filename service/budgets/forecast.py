"""Where a month will end, from its own whole days: their mean continues.

The range is the prediction interval of a sum of days that are alike as far as neighbours among the
known ones are (a first-order autoregressive process, Student's t): it holds how days differ, what
so few of them say of their mean, and that busy weeks follow busy days. It knows no trend, no
weekends and no plans. What it held of simulated months stands in docs/budgets.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, pvariance

from gramwatt.sci.figures.quantity import Quantity

DAYS_LEAST = 7
"""A whole week: of fewer days none may have been a weekend."""
DEGREES_LEAST = 3
"""Of fewer degrees of freedom Student's t has ends that say nothing."""
LIKENESS_MOST = 0.9
"""Days that are more alike are a trend, which so few of them do not tell from chance."""
Z = 1.2815515655446004
"""The 90th percentile of the normal distribution; 8 in 10 lie between it and its negative."""


def month_end(spent: Quantity, days: Sequence[float], rest_days: float) -> Quantity:
    """Return what the month will emit [unit of `spent`], out of what its whole days emitted.

    `rest_days` are left of the month. The range is that of the days to come, and that of `spent`
    for the whole. Raises ValueError for fewer than DAYS_LEAST days.
    """
    number = len(days)
    if number < DAYS_LEAST:
        raise ValueError(f"too few days: {number} of {DAYS_LEAST}")
    rest, likeness = fmean(days) * rest_days, _likeness(days)
    width = _t90(max(DEGREES_LEAST, _independent(number, likeness) - 1)) * math.sqrt(
        _variance(days, likeness) * _spread(number, rest_days, likeness)
    )
    value = spent.value + rest
    # The figures of the days to come are as uncertain as those of the past, in the same direction.
    scale = value / spent.value if spent.value > 0 else 1.0
    below = math.hypot((spent.value - spent.low) * scale, min(width, rest))
    above = math.hypot((spent.high - spent.value) * scale, width)
    source = f"mean of {number} days of this month; {spent.source}"
    return Quantity(value, max(0.0, value - below), value + above, spent.unit, "estimated", source)


def _likeness(days: Sequence[float]) -> float:
    """Return how alike a day and the next are, 0 to LIKENESS_MOST: their autocorrelation.

    Of independent days the estimate is -1/n in the mean, which is added back.
    """
    mean, number = fmean(days), len(days)
    whole = sum((day - mean) ** 2 for day in days)
    if whole <= 0:
        return 0.0
    after = sum((one - mean) * (other - mean) for one, other in pairwise(days)) / whole
    return min(max(0.0, after + 1 / number), LIKENESS_MOST)


def _independent(number: float, likeness: float) -> float:
    """Return how many independent days say as much of the mean as so many days that are alike."""
    return number * (1 - likeness) / (1 + likeness)


def _of_sum(number: float, likeness: float) -> float:
    """Return the variance of the sum of so many days in a row [that of one day]."""
    tail = 2 * likeness * (1 - math.pow(likeness, number)) / (1 - likeness) ** 2
    return number * (1 + likeness) / (1 - likeness) - tail


def _variance(days: Sequence[float], likeness: float) -> float:
    """Return the variance of a day: days that are alike differ less among themselves."""
    number = len(days)
    return pvariance(days) / (1 - _of_sum(number, likeness) / number**2)


def _spread(number: int, rest_days: float, likeness: float) -> float:
    """Return the variance of the sum of the days to come around that which the known foretell."""
    share = rest_days / number
    both = (
        likeness
        * (1 - math.pow(likeness, number))
        * (1 - math.pow(likeness, rest_days))
        / (1 - likeness) ** 2
    )
    known, rest = (_of_sum(days, likeness) for days in (number, rest_days))
    return max(0.0, rest + share**2 * known - 2 * share * both)


def _t90(degrees: float) -> float:
    """Return the 90th percentile of Student's t, to 1 % from 3 degrees of freedom on.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    first = (Z**3 + Z) / 4
    second = (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    return Z + first / degrees + second / degrees**2

"""Forecasts as they were issued: the newest of a provider, and those of the past for its record.

A forecast is judged by what came: its error and bias, how often its range held what came, whether
it ranks the hours of a day as they came, and by how much a job planned with it would have emitted
more than in the best hours. A provider whose plans proved worse than ours is not preferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.planning.forecast import HORIZON_H
from gramwatt.sci.planning.hours import DAY_H, LEAST, WEEK_H, Floats, Hours, Positions

FRESH_H = DAY_H
"""An older forecast of a provider is not used [h]."""
LEAST_MOMENTS = 60
"""Forecasts, 5 h from each other (12 days), from which on a range is made of their errors."""
LEAST_WEEKS = 4
"""Below this no provider is called worse, and no record of plans is one."""
WORSE_SHARE = 0.75
"""Of the weeks, in how many a provider's plans must have been worse than ours."""
JOB_H = 4
"""Length of the job whose plans over a day are compared [h]."""
_AHEAD_H = (0, 6, 12, 24, 48, 96, HORIZON_H)
"""Hours ahead within which errors are alike."""


@dataclass(frozen=True, slots=True, eq=False)
class ForecastArchive:
    """What was expected at several moments of the hours after each.

    `moments` are whole hours since 1970 in order; `values` [gCO2e/kWh] has a row of `HORIZON_H`
    hours for each, NaN where nothing was said.
    """

    moments: Positions
    values: Floats

    def truth(self, history: Hours) -> Floats:
        """Return what came in the same hours, NaN where it is not known."""
        at = self.moments[:, None] + np.arange(HORIZON_H) - history.first
        known = (at >= 0) & (at < len(history.values))
        found: Floats = np.where(known, history.values[np.where(known, at, 0)], np.nan)
        return found


@dataclass(frozen=True, slots=True)
class Issued:
    """A provider's forecast: equal steps of `step_h` from the hour `first`, NaN where it has none.

    `past` has earlier forecasts of the same provider.
    """

    provider: str
    source: str
    first: int
    step_h: float
    values: Floats
    past: ForecastArchive


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How a provider's forecasts of the next 24 h compare with what came, as shares.

    Each has the mean over the forecasts, and the range that holds eight in ten of them. `error` is
    the mean absolute percentage error, `bias` the difference of the means over the mean that came,
    `rank` the rank correlation (Spearman) of the hours, `regret` what a job of 4 h planned with it
    emitted beyond the best hours. `coverage` is how often the range of 80 % held what came; None
    where there are too few.
    """

    moments: int
    error: Quantity
    bias: Quantity
    rank: Quantity
    regret: Quantity
    coverage: Quantity | None


def accuracy(past: ForecastArchive, history: Hours, source: str) -> Accuracy | None:
    """Compare forecasts with what came; None where no day of them is known."""
    rows, foreseen, truth = _days(past, history)
    if not len(rows):
        return None
    mean = np.maximum(truth.mean(1), LEAST)
    inside = _coverage(past, history)
    figures = {
        "error": (abs(foreseen - truth) / np.maximum(truth, LEAST)).mean(1),
        "bias": (foreseen.mean(1) - truth.mean(1)) / mean,
        "rank": _rank_correlations(foreseen, truth),
        "regret": _regrets(foreseen, truth),
    }
    text = f"{len(rows)} forecasts of {source}, against what came"
    found = {name: mean_of(values, "share", text) for name, values in figures.items()}
    covered = None if inside is None else mean_of(inside, "share", text)
    return Accuracy(len(rows), **found, coverage=covered)


def mean_of(values: Floats, unit: str, source: str) -> Quantity:
    """Return the mean of some figures, with the range that holds eight in ten of them."""
    value, (low, high) = float(values.mean()), np.quantile(values, (0.1, 0.9))
    ends = min(float(low), value), max(float(high), value)
    return Quantity(value, *ends, unit, "estimated", source)


def is_worse(theirs: ForecastArchive, ours: ForecastArchive, history: Hours) -> bool:
    """Return whether plans by their forecasts proved worse than by ours, made at the same moments.

    Proved: the mean regret is higher, and that of at least three in four of four weeks or more.
    """
    (their_rows, *their_days), (our_rows, *our_days) = _days(theirs, history), _days(ours, history)
    moments = np.intersect1d(theirs.moments[their_rows], ours.moments[our_rows])
    if not len(moments):
        return False
    regrets = [
        _regrets(foreseen, truth)[np.isin(archive.moments[rows], moments)]
        for archive, rows, (foreseen, truth) in (
            (theirs, their_rows, their_days),
            (ours, our_rows, our_days),
        )
    ]
    more = regrets[0] - regrets[1]
    weeks = (moments - moments[0]) // WEEK_H
    counts = np.bincount(weeks)
    weekly = np.bincount(weeks, weights=more)[counts > 0] / counts[counts > 0]
    if len(weekly) < LEAST_WEEKS:
        return False
    return bool(more.mean() > 0 and (weekly > 0).mean() >= WORSE_SHARE)


def error_ranges(past: ForecastArchive, history: Hours) -> Floats:
    """Return the 10 % and 90 % quantiles of errors of logarithms by hour ahead; NaN for too few."""
    missed = _logs(past.truth(history)) - _logs(past.values)
    found = np.full((2, HORIZON_H), np.nan)
    for left, right in pairwise(_AHEAD_H):
        part = missed[:, left:right]
        known = np.isfinite(part)
        if known.any(1).sum() >= LEAST_MOMENTS:
            found[:, left:right] = np.quantile(part[known], (0.1, 0.9))[:, None]
    return found


def _days(past: ForecastArchive, history: Hours) -> tuple[Positions, Floats, Floats]:
    """Return the rows whose first day is forecast and known as a whole, with forecast and truth."""
    foreseen, truth = past.values[:, :DAY_H], past.truth(history)[:, :DAY_H]
    rows = np.flatnonzero(np.isfinite(foreseen).all(1) & np.isfinite(truth).all(1))
    return rows, foreseen[rows], truth[rows]


def _regrets(foreseen: Floats, truth: Floats) -> Floats:
    """Return what the window that looks best came to beyond the best one, as a share, by row."""
    chosen, best = (
        np.take_along_axis(truth, window_hours(values, JOB_H), 1).mean(1)
        for values in (foreseen, truth)
    )
    found: Floats = chosen / np.maximum(best, LEAST) - 1.0
    return found


def window_hours(values: Floats, hours: int) -> Positions:
    """Return the hours of the best window of each row, as positions in it."""
    means = np.lib.stride_tricks.sliding_window_view(values, hours, axis=1).mean(2)
    found: Positions = means.argmin(1)[:, None] + np.arange(hours)
    return found


def _rank_correlations(foreseen: Floats, truth: Floats) -> Floats:
    """Return Spearman's rank correlation by row; equal values share the mean of their ranks."""
    left, right = (
        np.apply_along_axis(_ranks, 1, values) - (DAY_H - 1) / 2 for values in (foreseen, truth)
    )
    scale = np.sqrt((left**2).sum(1) * (right**2).sum(1))
    found: Floats = np.divide(
        (left * right).sum(1), scale, out=np.zeros(len(scale)), where=scale > 0
    )
    return found


def _ranks(values: Floats) -> Floats:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    found: Floats = (np.cumsum(counts) - (counts + 1) / 2)[place]
    return found


def _coverage(past: ForecastArchive, history: Hours) -> Floats | None:
    """Return how often ranges by the older half's errors hold what came in the newer, by forecast.

    Forecasts of the day before the newer half are left out: what came was not known then.
    """
    middle = len(past.moments) // 2
    known = past.moments <= past.moments[middle] - DAY_H
    older = ForecastArchive(past.moments[known], past.values[known])
    ranges = error_ranges(older, history)[:, :DAY_H]
    newer = ForecastArchive(past.moments[middle:], past.values[middle:])
    rows, foreseen, truth = _days(newer, history)
    if len(rows) < LEAST_MOMENTS // 2 or not np.isfinite(ranges).all():
        return None
    missed = _logs(truth) - _logs(foreseen)
    found: Floats = ((ranges[0] <= missed) & (missed <= ranges[1])).mean(1)
    return found


def _logs(values: Floats) -> Floats:
    found: Floats = np.log(np.maximum(values, LEAST))
    return found

"""Forecasts of a zone's intensity from its own history.

Intensity has a daily shape that changes slowly, and weather moves it for two or three days. So the
forecast is the usual shape (the mean of each hour of the day over 28 days, of the logarithm) times
what a ridge regression (Hoerl and Kennard 1970) predicts for each hour ahead from the last two
days, the last week's shape, the weekday and the season. With too little history to fit, it is the
usual shape alone. `python -m benchmarks.planning` shows how far both lie off on real grids.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from typing import Literal

import numpy as np
from msgspec import Struct

from gramwatt.sci.planning.hours import DAY_H, WEEK_H, Floats, Hours, Positions

HORIZON_H = WEEK_H
"""How far ahead forecasts reach [h]."""
SHAPE_DAYS = 28
"""Days whose mean is the usual shape: long enough to average weather, short against seasons."""
LEAST_DAYS = 7
"""Below this there is no usual shape yet."""
FIT_DAYS = 120
"""History from which on the regression is fitted [d]."""
RECENT_DAYS = 28
"""Whose errors say how wide ranges are now."""
CACHE_SIZE = 64
"""Forecasters that are kept in memory, of the zones asked about last."""
_EVERY_H, _JUDGED_H, _TINY = 5, 96, 1e-6
_WIDENING = 0.5, 3.0
"""Ranges are at least half and at most three times as wide as those of the whole history."""
_LAGS_H = 2 * DAY_H
_PENALTY = 300.0
_FOLDS = 5

Method = Literal["forecast", "history-profile"]


class Forecast(Struct, frozen=True):
    """Intensity [gCO2e/kWh] of the hours from `first`, with ranges that hold eight in ten."""

    first: int
    mean: Floats
    low: Floats
    high: Floats
    method: Method


class Forecaster:
    """Predicts the hours after any moment, from the history until then."""

    def __init__(self, weights: Floats | None, scale: Floats | None, errors: Floats) -> None:
        """Use `fit`. `errors` are the 10 % and 90 % quantiles by hour ahead, of logarithms."""
        self._weights, self._scale, self.errors = weights, scale, errors

    @property
    def method(self) -> Method:
        """Return what `predict` uses."""
        return "history-profile" if self._weights is None else "forecast"

    @classmethod
    def fit(cls, history: Hours) -> Forecaster | None:
        """Fit to the history of a zone; None for less than `LEAST_DAYS` of it."""
        hours = history.filled()
        logs: Floats = np.log(hours.values)
        if len(logs) < LEAST_DAYS * DAY_H:
            return None
        issues = np.arange(SHAPE_DAYS * DAY_H, len(logs) - HORIZON_H)
        if len(logs) < FIT_DAYS * DAY_H:
            return cls(None, None, _profile_errors(logs, issues))
        inputs, shape = _inputs(logs, issues, hours.first)
        targets = logs[issues[:, None] + np.arange(HORIZON_H)] - _repeated(shape)
        scale = np.stack([inputs[:, 1:].mean(0), inputs[:, 1:].std(0) + 1e-9])
        inputs[:, 1:] = (inputs[:, 1:] - scale[0]) / scale[1]
        products = inputs.T @ inputs, inputs.T @ targets
        # Quantiles of errors that the fit has not seen: each fold is predicted by the others.
        missed = np.empty_like(targets)
        for fold in np.array_split(np.arange(len(issues)), _FOLDS):
            # Hours within the horizon of the fold are in its outcomes too.
            near = slice(max(0, fold[0] - HORIZON_H), fold[-1] + HORIZON_H)
            own = inputs[near].T @ inputs[near], inputs[near].T @ targets[near]
            weights = _solve(products[0] - own[0], products[1] - own[1])
            missed[fold] = targets[fold] - inputs[fold] @ weights
        return cls(_solve(*products), scale, np.quantile(missed, (0.1, 0.9), axis=0))

    def predict(self, history: Hours, hours: int = HORIZON_H) -> Forecast:
        """Return the intensity of the hours after the history's end, at most `HORIZON_H` of them.

        Raises ValueError for less than `LEAST_DAYS` of history.
        """
        filled = history.filled()
        if len(filled.values) < LEAST_DAYS * DAY_H:
            raise ValueError(f"less than {LEAST_DAYS} days of history")
        issue = np.array([len(filled.values)])
        logs = self.predict_logs(filled, issue)[0]
        low, high = logs + self._widening(filled) * self.errors
        mean, low, high = (np.exp(item[:hours]) for item in (logs, low, high))
        return Forecast(filled.after, mean, low, high, self.method)

    def _widening(self, filled: Hours) -> float:
        """Return how wide the last 28 days' ranges had to be to hold eight in ten, over `errors`.

        Weather is harder to foresee in some seasons than over the year.
        """
        count = len(filled.values)
        issues = np.arange(count - RECENT_DAYS * DAY_H, count, _EVERY_H)
        if issues[0] < SHAPE_DAYS * DAY_H:
            return 1.0
        at = issues[:, None] + np.arange(_JUDGED_H)
        in_range = at < count
        came = np.log(filled.values)[np.minimum(at, count - 1)]
        missed = (came - self.predict_logs(filled, issues)[:, :_JUDGED_H])[in_range]
        low, high = (np.broadcast_to(ends[:_JUDGED_H], at.shape)[in_range] for ends in self.errors)
        wide = np.where(
            missed > 0, missed / np.maximum(high, _TINY), missed / np.minimum(low, -_TINY)
        )
        return float(np.clip(np.quantile(wide, 0.8), *_WIDENING))

    def predict_logs(self, filled: Hours, issues: Positions) -> Floats:
        """Return logarithms of the hours after several moments, as positions in the history.

        What lies at or after a moment is not used for its row.
        """
        logs: Floats = np.log(filled.values)
        if self._weights is None or self._scale is None or issues.min() < SHAPE_DAYS * DAY_H:
            return _repeated(_shape(logs, issues))
        inputs, shape = _inputs(logs, issues, filled.first)
        inputs[:, 1:] = (inputs[:, 1:] - self._scale[0]) / self._scale[1]
        predicted: Floats = _repeated(shape) + inputs @ self._weights
        return predicted


_FITTED: OrderedDict[bytes, Forecaster] = OrderedDict()
"""By the digest of what each was fitted to, so that no history is kept for its forecaster."""


def fitted(past: Hours) -> Forecaster | None:
    """Return a forecaster for a history; a long one is fitted once a week, up to its start."""
    if len(past.values) >= (FIT_DAYS + 7) * DAY_H:
        past = past.until(past.after - past.after % WEEK_H)
    digest = sha256(past.values.tobytes() + str(past.first).encode()).digest()
    forecaster = _FITTED.pop(digest, None) or Forecaster.fit(past)
    if forecaster is not None:
        _FITTED[digest] = forecaster  # the last one asked for; threads may fit the same twice
        if len(_FITTED) > CACHE_SIZE:
            _FITTED.popitem(last=False)
    return forecaster


def _solve(squares: Floats, products: Floats) -> Floats:
    """Return weights of least squares with the penalty; the constant, the first, is free."""
    penalty = _PENALTY * np.eye(len(squares))
    penalty[0, 0] = 0.0
    return np.asarray(np.linalg.solve(squares + penalty, products), dtype=np.float64)


def _shape(logs: Floats, issues: Positions, days: int = SHAPE_DAYS) -> Floats:
    """Return the mean of each of 24 hours after a moment over the days before it."""
    days = min(days, int(issues.min()) // DAY_H)
    by_day = np.concatenate([logs, np.zeros(-len(logs) % DAY_H)]).reshape(-1, DAY_H)
    # The sum of each hour of the day over the days before it.
    sums = np.concatenate([np.zeros((1, DAY_H)), by_day.cumsum(0)]).ravel()
    after = issues[:, None] + np.arange(DAY_H)
    mean: Floats = (sums[after] - sums[after - days * DAY_H]) / days
    return mean


def _repeated(shape: Floats) -> Floats:
    repeated: Floats = np.tile(shape, (1, HORIZON_H // DAY_H))
    return repeated


def _inputs(logs: Floats, issues: Positions, first: int) -> tuple[Floats, Floats]:
    """Return the regression's inputs at each moment, and the usual shape after it."""
    shape = _shape(logs, issues)
    week = _shape(logs, issues, 7)
    lags = np.arange(1, _LAGS_H + 1)
    recent = logs[issues[:, None] - lags] - shape[:, -lags % DAY_H]
    hour = issues + first
    weekday = np.eye(7)[(hour // DAY_H + 3) % 7][:, :6]  # 1970 began on a Thursday
    angles = [hour / (365.25 * DAY_H), hour / DAY_H, 2 * hour / DAY_H]
    waves = [wave(2 * np.pi * angle) for angle in angles for wave in (np.sin, np.cos)]
    levels = [(week - shape).mean(1), recent[:, :DAY_H].mean(1), recent.mean(1)]
    columns = [np.ones(len(issues)), *waves, *levels]
    return np.column_stack([columns[0], recent, week - shape, weekday, *columns[1:]]), shape


def _profile_errors(logs: Floats, issues: Positions) -> Floats:
    """Return quantiles of the usual shape's errors by hour ahead, or of a short history."""
    if len(issues) < WEEK_H:
        spread = np.quantile(logs - logs.mean(), (0.1, 0.9))
        return np.tile(spread[:, None], (1, HORIZON_H))
    missed = logs[issues[:, None] + np.arange(HORIZON_H)] - _repeated(_shape(logs, issues))
    ends: Floats = np.quantile(missed, (0.1, 0.9), axis=0)
    return ends

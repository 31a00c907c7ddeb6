"""What plans of the past would have saved: the forecast's own record on a zone.

For moments of the last weeks, the hours that a forecast made at that moment would have chosen are
compared with starting at once, by the intensity that came. So a saving is promised only where the
same method has earned it on the same grid, for jobs of that length and slack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramwatt.sci.planning.forecast import FIT_DAYS, HORIZON_H, SHAPE_DAYS, Forecaster, fitted
from gramwatt.sci.planning.hours import DAY_H, LEAST, WEEK_H, Floats, Hours
from gramwatt.sci.planning.issued import LEAST_WEEKS, ForecastArchive, window_hours

WEEKS = 13
"""How many weeks are replayed: a season, so that the record is of the same kind of weather."""
EVERY_H = 5
"""Between two moments [h]: no divisor of a day, so that every hour of the day has its turn."""
POSITIVE_SHARE = 0.95
"""Of the weeks, how many must have a saving for it to be called reliable; the promise is 0.9."""
MISSED = (0.1, 0.5, 0.97)
"""Quantiles of the errors of past plans that make the range of a saving, and its value. What the
next weeks miss is more than what the last ones did: by `python -m benchmarks.planning` this range
holds eight in ten of the savings that are stated; up to the quantile 0.9 it was seven in ten."""
MISSED_LONG = (0.01, 0.5, 0.99)
"""The same of a job of a day or more, of which a record has few independent plans."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Plans of the past, by the hour they were made in: mean intensity at once and as planned.

    `at_once` and `planned` are what came, `best` is what perfect foresight would have had;
    `foreseen` is the saving that the forecast promised.
    """

    hours: np.ndarray
    at_once: Floats
    planned: Floats
    best: Floats
    foreseen: Floats

    @property
    def savings(self) -> Floats:
        """Return the share saved against starting at once, by plan."""
        found: Floats = 1.0 - self.planned / self.at_once
        return found

    @property
    def regrets(self) -> Floats:
        """Return the share emitted beyond what perfect foresight would have, by plan."""
        found: Floats = self.planned / self.best - 1.0
        return found

    def missed(self, hours: float) -> tuple[float, float, float]:
        """Return low, value and high of what savings of such plans came to beyond the foreseen."""
        shares = MISSED if hours < DAY_H else MISSED_LONG
        low, value, high = np.quantile(self.savings - self.foreseen, shares)
        return float(low), float(value), float(high)

    def weekly(self) -> Floats:
        """Return the share saved in each week."""
        weeks = (self.hours - self.hours.min()) // WEEK_H
        came, at_once = (np.bincount(weeks, weights=item) for item in (self.planned, self.at_once))
        found: Floats = 1.0 - came[at_once > 0] / at_once[at_once > 0]
        return found

    @property
    def reliable(self) -> bool:
        """Return whether the weeks of this record had a saving as good as always."""
        weekly = self.weekly()
        enough = len(weekly) >= LEAST_WEEKS
        return bool(enough and (weekly > 0).mean() >= POSITIVE_SHARE and weekly.mean() > 0.01)


def replay(
    history: Hours,
    hours: int,
    slack: int,
    *,
    interruptible: bool = False,
    issued: ForecastArchive | None = None,
) -> Outcome | None:
    """Plan jobs of whole hours with whole hours of slack over the last weeks of a history.

    The forecast is fitted to what lies before these weeks. Where a provider's forecasts of
    `LEAST_WEEKS` are kept, plans are made with those, and ours for the hours that they leave out.
    None with too little history.
    """
    filled = history.filled()
    span = hours + slack
    if span > HORIZON_H:
        return None
    days = len(filled.values) // DAY_H
    weeks = min(WEEKS, (days - (FIT_DAYS if days > FIT_DAYS + 60 else SHAPE_DAYS)) // 7)
    if weeks < LEAST_WEEKS:
        return None
    start = len(filled.values) - weeks * WEEK_H
    forecaster = fitted(filled.until(filled.first + start))
    if forecaster is None:
        return None
    last = len(filled.values) - span
    issues, given = np.arange(start, last + 1, EVERY_H), None
    if issued is not None:
        at = issued.moments - filled.first
        rows = (at >= start) & (at <= last) & np.isfinite(issued.values[:, 0])
        if rows.any() and np.ptp(at[rows]) >= LEAST_WEEKS * WEEK_H - DAY_H:
            issues, given = at[rows], issued.values[rows]
    return judge(forecaster, filled, issues, hours, slack, interruptible=interruptible, given=given)


def judge(
    forecaster: Forecaster,
    filled: Hours,
    issues: np.ndarray,
    hours: int,
    slack: int,
    *,
    interruptible: bool = False,
    given: Floats | None = None,
) -> Outcome:
    """Return what plans made at each of `issues`, positions in the history, would have come to.

    `given` has what a provider forecast then, NaN where it did not.
    """
    span = hours + slack
    truth = filled.values[issues[:, None] + np.arange(span)]
    foreseen = np.exp(forecaster.predict_logs(filled, issues)[:, :span])
    if given is not None:
        theirs = np.maximum(given[:, :span], LEAST)
        foreseen = np.where(np.isfinite(theirs), theirs, foreseen)
    choose = _cheapest if interruptible else window_hours
    chosen, best = choose(foreseen, hours), choose(truth, hours)
    promised, planned, perfect = (
        np.take_along_axis(data, which, 1).mean(1)
        for data, which in ((foreseen, chosen), (truth, chosen), (truth, best))
    )
    saving = 1.0 - promised / foreseen[:, :hours].mean(1)
    return Outcome(filled.first + issues, truth[:, :hours].mean(1), planned, perfect, saving)


def _cheapest(values: Floats, hours: int) -> np.ndarray:
    """Return the cheapest hours in each row."""
    found: np.ndarray = np.argsort(values, axis=1, kind="stable")[:, :hours]
    return found

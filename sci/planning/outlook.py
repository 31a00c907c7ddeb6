"""What is expected of a zone's grid: a provider's forecast, our own, or the annual value.

A provider's forecast counts for the hours that it covers, our own for the others. Its range comes
from its own past errors; where there are too few of them yet, from those of our method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.grid.zones import EXPECTED_SPREADS, UNIT, ZoneIntensity
from gramwatt.sci.planning.forecast import CACHE_SIZE, HORIZON_H, Forecaster, fitted
from gramwatt.sci.planning.hours import (
    DAY_H,
    LEAST,
    Floats,
    Hours,
    exact_hour,
    hour_of,
)
from gramwatt.sci.planning.issued import ForecastArchive, Issued, error_ranges
from gramwatt.sci.planning.windows import Grid

Method = Literal["forecast", "history-profile", "annual"]
OLD_H = 2 * DAY_H
"""A history that ended longer ago says too little about today [h]."""
HELD_H = 2
"""A forecast that begins so much after now has its first value until then [h]."""


@dataclass(frozen=True, slots=True, eq=False)
class ZoneData:
    """What is known of a zone at some moment: its annual value, its past, and a forecast if any.

    `history` has what was measured until then, of `source`; `issued` what a provider forecast.
    """

    annual: ZoneIntensity
    history: Hours | None = None
    source: str = ""
    issued: Issued | None = None


class Segment(NamedTuple):
    """What the steps from `start` [h] on are made of."""

    start: float
    method: Method
    source: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """Expected intensity of a zone, and the range of each step."""

    zone: str
    grid: Grid
    low: Floats
    high: Floats
    method: Method
    segments: Sequence[Segment]
    past: Hours | None = None
    """What its own forecast was made of, for the replay."""
    issued: ForecastArchive | None = None
    """Earlier forecasts of the provider that is used, for the replay."""
    notices: Sequence[Notice] = ()

    @property
    def end(self) -> float:
        """Return where it ends [h]."""
        return float(self.grid.edges[-1])

    def at(self, hour: float) -> Segment:
        """Return what the step that holds a moment [h] is made of."""
        before = [segment for segment in self.segments if segment.start <= hour]
        return before[-1] if before else self.segments[0]

    def source(self, start: float, end: float) -> str:
        """Return the sources of what is expected over [start, end), joined."""
        within = [segment for segment in self.segments if start < segment.start < end]
        return "; ".join(dict.fromkeys(part.source for part in (self.at(start), *within)))

    def figure(self, value: float, low: float, high: float, start: float, end: float) -> Quantity:
        """Return an expected intensity [gCO2e/kWh] over [start, end) from that of each end.

        The errors of a forecast's hours count as one error, which errs on the wide side.
        """
        ends = min(low, value), max(high, value)
        return Quantity(value, *ends, UNIT, "estimated", self.source(start, end))


def outlook(data: ZoneData, now: datetime, until: datetime, hours: float) -> Outlook:
    """Return the best that is known: from `now` until a moment, or as far as the forecasts go."""
    own, forecaster = _own(data, hour_of(now))
    provided = _provided(data, own, forecaster, now) if data.issued else None
    return provided or own or _annual(data.annual, now, until, hours)


@lru_cache(CACHE_SIZE)
def _own(data: ZoneData, hour: int) -> tuple[Outlook | None, Forecaster | None]:
    """Return our own forecast and what made it; None without a recent history."""
    past = data.history.until(hour).filled() if data.history else None
    if past is None or past.after < hour - OLD_H:
        return None, None
    forecaster = fitted(past)
    if forecaster is None:
        return None, None
    found = forecaster.predict(past)
    zone = data.annual.zone
    kind = "ridge regression" if found.method == "forecast" else "mean by hour of the day"
    source = f"forecast for {zone} from {len(past.values) // DAY_H} days of {data.source}: {kind}"
    edges = np.arange(found.first, found.first + len(found.mean) + 1, dtype=float)
    segments = (Segment(float(found.first), found.method, source),)
    grid = Grid(edges, found.mean)
    own = Outlook(zone, grid, found.low, found.high, found.method, segments, past)
    return own, forecaster


def _provided(
    data: ZoneData, own: Outlook | None, forecaster: Forecaster | None, now: datetime
) -> Outlook | None:
    """Return a provider's forecast, filled with our own; None where it does not reach now."""
    issued = data.issued
    assert issued is not None
    per_hour = round(1 / issued.step_h)
    edges = issued.first + issued.step_h * np.arange(HORIZON_H * per_hour + 1, dtype=np.float64)
    theirs = np.full(HORIZON_H * per_hour, np.nan)
    theirs[: len(issued.values)] = np.maximum(issued.values[: len(theirs)], LEAST)
    low, high = (
        theirs * np.repeat(factor, per_hour) for factor in _factors(data, issued, forecaster)
    )
    by_us = np.zeros(len(theirs), dtype=bool)
    values = theirs.copy()
    if own is not None:
        by_us = ~np.isfinite(theirs) & (edges[:-1] >= own.grid.edges[0]) & (edges[:-1] < own.end)
        for mine, all_ in ((own.grid.values, values), (own.low, low), (own.high, high)):
            all_[by_us] = own.grid.with_values(mine).at(edges[:-1][by_us])
    start = int((exact_hour(now) - issued.first) * per_hour)
    known = np.flatnonzero(np.isfinite(values[start:])) + start
    if not len(known) or known[0] - start > HELD_H * per_hour or not np.isfinite(theirs).any():
        return None
    for item in (values, low, high):
        item[start : known[0]] = item[known[0]]
    unknown = np.flatnonzero(~np.isfinite(values[start:]))
    end = start + int(unknown[0]) if len(unknown) else len(values)
    shown = slice(start, end)
    grid = Grid(edges[start : end + 1], values[shown])
    segments = _segments(issued.source, own, edges[shown], by_us[shown])
    past = own.past if own else None
    zone = data.annual.zone
    return Outlook(
        zone, grid, low[shown], high[shown], segments[0].method, segments, past, issued.past
    )


def _segments(
    source: str, own: Outlook | None, starts: Floats, by_us: np.ndarray
) -> Sequence[Segment]:
    """Return which steps are the provider's and which are ours."""
    changes = [0, *(np.flatnonzero(np.diff(by_us)) + 1).tolist()]
    return tuple(
        Segment(float(starts[at]), own.method, own.segments[0].source)
        if own and by_us[at]
        else Segment(float(starts[at]), "forecast", source)
        for at in changes
    )


def _factors(data: ZoneData, issued: Issued, forecaster: Forecaster | None) -> Floats:
    """Return ends of the range of each hour ahead, as multiples of a provider's value."""
    spread = EXPECTED_SPREADS["forecast"]
    found = np.full((2, HORIZON_H), np.log([[1 - spread], [1 + spread]]))
    if forecaster is not None:
        found = forecaster.errors.copy()
    if data.history is not None:
        errors = error_ranges(issued.past, data.history)
        found = np.where(np.isfinite(errors), errors, found)
    factors: Floats = np.exp(found)
    return factors


def _annual(annual: ZoneIntensity, now: datetime, until: datetime, hours: float) -> Outlook:
    figure = annual.over(hours)
    edges = np.array([exact_hour(now), exact_hour(until)])
    value, low, high = (np.array([end]) for end in (figure.value, figure.low, figure.high))
    text = f"no hourly history of {annual.zone}: every hour counts with its annual value"
    notices = (Notice("intensity-annual", text, "intensity_g_per_kwh"),)
    grid = Grid(edges, value)
    segments = (Segment(float(edges[0]), "annual", figure.source),)
    return Outlook(annual.zone, grid, low, high, "annual", segments, notices=notices)

"""What is expected of a zone's grid: a provider's forecast, our own, its usual hours, or the annual
value.

A provider's forecast counts for the hours that it covers, our own for the others. Its range is as
wide as that of ours; where the zone has no history, as wide as forecasts of the shipped hours were.
Without either the usual day of the zone counts, which the catalog has of some zones.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct

from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.grid.spreads import spread_around, spread_over, traced_zones
from gramwatt.sci.grid.zones import EXPECTED_SPREADS, UNIT, ZoneIntensity
from gramwatt.sci.planning.forecast import fitted
from gramwatt.sci.planning.hours import (
    DAY_H,
    LEAST,
    WEEK_H,
    Floats,
    Hours,
    exact_hour,
    hour_of,
    moment_of,
)
from gramwatt.sci.planning.usual import UsualDay
from gramwatt.sci.planning.windows import Grid

Method = Literal["forecast", "history-profile", "usual-hours", "annual"]
OLD_H = 2 * DAY_H
"""A history that ended longer ago says too little about today [h]."""
HELD_H = 2
"""A forecast that begins so much after now has its first value until then [h]."""


class Published(NamedTuple):
    """A provider's forecast, whose hours may have gaps, and how its figures name it."""

    hours: Hours
    source: str


class Segment(NamedTuple):
    """What the steps from `start` [h] on are made of."""

    start: float
    method: Method
    source: str


class Outlook(Struct, frozen=True):
    """Expected intensity of a zone, and the range of each step."""

    zone: str
    grid: Grid
    low: Floats
    high: Floats
    segments: Sequence[Segment]
    notices: Sequence[Notice] = ()

    @property
    def method(self) -> Method:
        """Return what its first step is made of."""
        return self.segments[0].method

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


class ZoneData(Struct, frozen=True):
    """What is known of a zone at some moment: its annual value, what its hours are expected to be,
    None where neither a forecast nor a history says so, and its usual day.
    """

    annual: ZoneIntensity
    expected: Outlook | None = None
    usual: UsualDay | None = None

    @property
    def day(self) -> UsualDay | None:
        """Return the usual day where nothing better says what to expect."""
        return None if self.expected else self.usual

    def outlook(self, now: datetime, until: datetime, hours: float) -> Outlook:
        """Return what is expected from `now` on for a job of so many hours until a moment."""
        if self.expected:
            return self.expected
        if self.usual:
            return _usual(self.annual, self.usual, now, until, hours)
        return _annual(self.annual, now, until, hours)


def expected_hours(
    zone: str, history: Hours | None, source: str, now: datetime, published: Published | None = None
) -> Outlook | None:
    """Return what the coming hours of a zone are expected to be; None where nothing says so.

    `history` is what was measured, of `source`; nothing of it after `now` is used.
    """
    first = hour_of(now)
    own = _own(zone, history.until(first), source, first) if history else None
    return _provided(zone, published, own, first) if published else own


def _own(zone: str, history: Hours, source: str, first: int) -> Outlook | None:
    """Return our own forecast of a history that ends at `first`; None for a short or old one."""
    past = history.filled()
    forecaster = None if past.after < first - OLD_H else fitted(past)
    if forecaster is None:
        return None
    predicted = forecaster.predict(past)
    kind = "ridge regression" if predicted.method == "forecast" else "mean by hour of the day"
    text = f"forecast for {zone} from {len(past.values) // DAY_H} days of {source}: {kind}"
    edges = np.arange(predicted.first, predicted.first + len(predicted.mean) + 1, dtype=float)
    segments = (Segment(float(predicted.first), predicted.method, text),)
    return Outlook(zone, Grid(edges, predicted.mean), predicted.low, predicted.high, segments)


def _provided(zone: str, published: Published, own: Outlook | None, first: int) -> Outlook | None:
    """Return a provider's forecast from the hour `first` on, filled with our own."""
    hours = published.hours
    last = hours.after if own is None else max(hours.after, int(own.end))
    edges = np.arange(first, last + 1, dtype=np.float64)
    values = np.full(last - first, np.nan)
    values[: hours.after - first] = np.maximum(hours.values[first - hours.first :], LEAST)
    theirs = np.isfinite(values)
    if own is None:
        spread = EXPECTED_SPREADS["forecast"]
        begins = int(np.flatnonzero(theirs)[0]) if theirs.any() else 0
        if begins <= HELD_H:
            values[:begins], theirs[:begins] = values[begins], True
        low, high = values * (1 - spread), values * (1 + spread)
    else:
        ours = np.where(edges[:-1] < own.end, own.grid.at(edges[:-1]), np.nan)
        values = np.where(theirs, values, ours)
        low, high = (
            values * own.grid.with_values(ends / own.grid.values).at(edges[:-1])
            for ends in (own.low, own.high)
        )
    unknown = np.flatnonzero(~np.isfinite(values))
    end = int(unknown[0]) if len(unknown) else len(values)
    if not theirs[:end].any():
        return own
    changes = [0, *(np.flatnonzero(np.diff(theirs[:end])) + 1).tolist()]
    segments = tuple(
        Segment(float(edges[at]), "forecast", published.source)
        if own is None or theirs[at]
        else own.segments[0]._replace(start=float(edges[at]))
        for at in changes
    )
    return Outlook(zone, Grid(edges[: end + 1], values[:end]), low[:end], high[:end], segments)


def _usual(
    annual: ZoneIntensity, day: UsualDay, now: datetime, until: datetime, hours: float
) -> Outlook:
    """Return the usual hours, at the level of the annual value, of at most a week or the job.

    The range is that of spans as long as the job, where it is known around the usual hours.
    """
    first = hour_of(now)
    last = max(hour_of(now + timedelta(hours=hours)), min(hour_of(until), first + WEEK_H)) + 1
    edges = np.arange(first, last + 1, dtype=float)
    shape = np.array([day.at(moment_of(hour)) for hour in edges[:-1]])
    has_traces = annual.zone in traced_zones()
    low, high = spread_around(annual.zone, hours, now) if has_traces else spread_over(None, hours)
    values = annual.intensity.value * shape
    segments = (
        Segment(float(first), "usual-hours", f"{annual.intensity.source}; {day.source(now)}"),
    )
    return Outlook(annual.zone, Grid(edges, values), low * values, high * values, segments)


def _annual(annual: ZoneIntensity, now: datetime, until: datetime, hours: float) -> Outlook:
    figure = annual.over(hours)
    edges = np.array([exact_hour(now), exact_hour(until)])
    value, low, high = (np.array([end]) for end in (figure.value, figure.low, figure.high))
    text = f"no hourly history of {annual.zone}: every hour counts with its annual value"
    notices = (Notice("intensity-annual", text, "intensity_g_per_kwh"),)
    segments = (Segment(float(edges[0]), "annual", figure.source),)
    return Outlook(annual.zone, Grid(edges, value), low, high, segments, notices)

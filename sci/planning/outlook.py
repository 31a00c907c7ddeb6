"""What is expected of a zone's grid: a provider's forecast, our own, or the annual value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np

from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.grid.intensity import IntensityPoint
from gramwatt.sci.grid.zones import UNIT, ZoneIntensity
from gramwatt.sci.planning.forecast import Forecaster
from gramwatt.sci.planning.hours import DAY_H, Floats, Hours, exact_hour, hour_of
from gramwatt.sci.planning.windows import Grid

Method = Literal["forecast", "history-profile", "annual"]
OLD_H = 2 * DAY_H
"""A history that ended longer ago says too little about today [h]."""


@dataclass(frozen=True, slots=True)
class ZoneData:
    """What is known of a zone at some moment: its annual value, its past, and a forecast if any.

    `history` has what was measured until then, `forecast` what a provider issued until then, in
    order; `source` names both.
    """

    annual: ZoneIntensity
    history: Hours | None = None
    forecast: Sequence[IntensityPoint] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Expected intensity of a zone, and the range of each step."""

    zone: str
    grid: Grid
    low: Floats
    high: Floats
    method: Method
    source: str
    past: Hours | None = None
    """What its own forecast was made of, for the replay."""
    notices: Sequence[Notice] = ()

    @property
    def end(self) -> float:
        """Where it ends [h]."""
        return float(self.grid.edges[-1])

    def figure(self, value: float, low: float, high: float) -> Quantity:
        """An expected intensity [gCO2e/kWh] from that of each end.

        The errors of a forecast's hours count as one error, which errs on the wide side.
        """
        ends = min(low, value), max(high, value)
        return Quantity(value, *ends, UNIT, "estimated", self.source)


def outlook(data: ZoneData, now: datetime, until: datetime, hours: float) -> Outlook:
    """The best that is known: from `now` until a moment, or as far as the forecast goes."""
    if data.forecast and data.forecast[-1].end > now:
        return _provided(data, now)
    past = data.history.until(hour_of(now)).filled() if data.history else None
    forecaster = Forecaster.fit(past) if past else None
    if past is None or forecaster is None or past.after < hour_of(now) - OLD_H:
        return _annual(data.annual, now, until, hours)
    found = forecaster.predict(past)
    zone = data.annual.zone
    kind = "ridge regression" if found.method == "forecast" else "mean by hour of the day"
    source = f"forecast for {zone} from {len(past.values) // DAY_H} days of {data.source}: {kind}"
    edges = np.arange(found.first, found.first + len(found.mean) + 1, dtype=float)
    grid = Grid(edges, found.mean)
    return Outlook(zone, grid, found.low, found.high, found.method, source, past)


def _provided(data: ZoneData, now: datetime) -> Outlook:
    points = [point for point in data.forecast if point.end > now]
    edges = np.array([exact_hour(point.start) for point in points] + [exact_hour(points[-1].end)])
    value, low, high = (
        np.array([getattr(point.intensity, name) for point in points])
        for name in ("value", "low", "high")
    )
    zone = data.annual.zone
    source = f"forecast of {data.source} for {zone}"
    return Outlook(zone, Grid(edges, value), low, high, "forecast", source)


def _annual(annual: ZoneIntensity, now: datetime, until: datetime, hours: float) -> Outlook:
    figure = annual.over(hours)
    edges = np.array([exact_hour(now), exact_hour(until)])
    value, low, high = (np.array([end]) for end in (figure.value, figure.low, figure.high))
    text = f"no hourly history of {annual.zone}: every hour counts with its annual value"
    notices = (Notice("intensity-annual", text, "intensity_g_per_kwh"),)
    grid = Grid(edges, value)
    return Outlook(annual.zone, grid, low, high, "annual", figure.source, notices=notices)

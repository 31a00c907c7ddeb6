"""Fits how far hours lie from the annual value of their zone: the tables of the catalog.

The usual shape of a zone is the mean of each hour of the day in each month over the mean of the
year, smoothed over neighbouring months. Around it, and around the annual value, ranges are
quantiles of what the traces' means came to. Traces are older than the published value, and the
jobs that it is used for are younger: so the change between the years is taken both ways.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gramwatt.sci.grid.spreads import MONTHS, OTHER
from gramwatt.sci.grid.zones import ZoneIntensity

HOURS = (1, 24, 168, 720, 8760)
OUTSIDE = tuple(share / 100 for share in range(9, 30))
"""Shares that a zone's range may leave out at each end: the largest that holds `HELD` is taken."""
HELD = 0.85
"""Share of a zone's own means that its range is to hold: it holds less of a year that the fit did
not have, and of the worst hour of the day."""
OUTSIDE_OTHER = 0.022
"""The same of the range of zones without a trace: so that even the zone that is least like the
others, Ontario, is held 65 % of the time when it is left out."""
DRIFT = 0.01
"""What a year moves means by beside the change of the published value."""
_ROUGH = 400
"""Quantiles that stand for the means of a zone, so that each zone weighs the same."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """Hourly intensity of a zone in a year [gCO2e/kWh], and what the catalog publishes for it."""

    year: str
    hourly: Values
    published: ZoneIntensity
    begin: datetime = field(init=False)

    def __post_init__(self) -> None:
        """Set when it begins."""
        object.__setattr__(self, "begin", datetime(int(self.year), 1, 1, tzinfo=UTC))

    @property
    def level(self) -> float:
        """The mean of the year over the published value, as a logarithm."""
        return math.log(float(self.hourly.mean()) / self.published.intensity.value)

    @cached_property
    def month(self) -> NDArray[np.int64]:
        """The month of each hour, from 0."""
        hours = range(len(self.hourly))
        return np.array([(self.begin + timedelta(hours=hour)).month - 1 for hour in hours])

    def ratios(self, hours: int) -> Values:
        """Means over spans of so many hours, over the published value."""
        return rolling(self.hourly, hours) / self.published.intensity.value

    def shape(self) -> Values:
        """The mean of each month and hour of the day over that of the year."""
        hour, relative = np.arange(len(self.hourly)) % 24, self.hourly / self.hourly.mean()
        rows = [
            [relative[(self.month == m) & (hour == h)].mean() for h in range(24)] for m in range(12)
        ]
        return np.array(rows)

    def usual(self, shape: Values) -> Values:
        """Return what is usual in each hour by a shape."""
        found: Values = shape[self.month, np.arange(len(self.hourly)) % 24]
        return found


def rolling(values: Values, hours: int) -> Values:
    """Means of each span of so many values."""
    length = min(hours, len(values))
    sums = np.concatenate(([0.0], np.cumsum(values)))
    found: Values = (sums[length:] - sums[:-length]) / length
    return found


def shape_of(traces: Sequence[Trace]) -> Values:
    """The usual shape of a zone, by month and hour, with a mean of 1."""
    shape = np.mean([trace.shape() for trace in traces], axis=0)
    smooth = (np.roll(shape, 1, 0) + 2 * shape + np.roll(shape, -1, 0)) / 4
    found: Values = smooth / smooth.mean()
    return found


def by_zone(traces: Iterable[Trace]) -> dict[str, list[Trace]]:
    """Traces by zone."""
    found: dict[str, list[Trace]] = {}
    for trace in traces:
        found.setdefault(trace.published.zone, []).append(trace)
    return found


def tables(traces: Sequence[Trace]) -> tuple[list[str], list[str]]:
    """The lines of intensity_spread.csv and of intensity_hours.csv, fitted."""
    spreads = ["zone,hours,low,high,usual_low,usual_high,source"]
    shapes = [f"zone,hour,{','.join(MONTHS)},low,high,source"]
    for zone, own in sorted(by_zone(traces).items()):
        shape = shape_of(own)
        for hours in HOURS:
            around = _ends(_around(own, shape, hours), _outside(own, shape, hours))
            ends = *_ends(_either_way(own, hours)), *around
            spreads.append(f"{zone},{hours},{_cells(ends)},em-hourly")
        outside = _outside(own, shape, 1)
        for hour in range(24):
            ends = _ends(_around(own, shape, 1, hour), outside)
            cells = ",".join(f"{value:.3f}" for value in shape[:, hour])
            shapes.append(f"{zone},{hour},{cells},{_cells(ends)},em-hourly")
    for hours in HOURS:
        low, high = other(traces, hours)
        spreads.append(f"{OTHER},{hours},{_cells((low, high))},,,em-hourly")
    return spreads, shapes


def other(traces: Sequence[Trace], hours: int) -> tuple[float, float]:
    """The range of a zone without a trace, as multiples of the published value."""
    shares = np.linspace(0, 1, _ROUGH)
    pooled = [np.quantile(_either_way(own, hours), shares) for own in by_zone(traces).values()]
    return _ends(np.concatenate(pooled), OUTSIDE_OTHER)


def _either_way(traces: Sequence[Trace], hours: int) -> Values:
    """Logarithms of means over the published value, with the change of the years both ways."""
    rows = [np.log(trace.ratios(hours)) - trace.level for trace in traces]
    return _with_levels(rows, traces)


def _around(traces: Sequence[Trace], shape: Values, hours: int, hour: int | None = None) -> Values:
    """The same of means over what is usual, of spans that begin at an hour of the day."""
    taken = slice(None) if hour is None else slice(hour, None, 24)
    rows = [
        np.log(trace.ratios(hours) / rolling(trace.usual(shape), hours))[taken] - trace.level
        for trace in traces
    ]
    return _with_levels(rows, traces)


def _outside(traces: Sequence[Trace], shape: Values, hours: int) -> float:
    """Return what a range around the usual may leave out at each end; it holds the year's too."""
    logs = _around(traces, shape, hours)
    for outside in reversed(OUTSIDE):
        low, high = _ends(logs, outside)
        held = []
        for trace in traces:
            usual, ratios = rolling(trace.usual(shape), hours), trace.ratios(hours)
            inside = (np.minimum(low * usual, 1) <= ratios) & (
                ratios <= np.maximum(high * usual, 1)
            )
            held.append(float(inside.mean()))
        if float(np.mean(held)) >= HELD:
            return outside
    return OUTSIDE[0]


def _with_levels(rows: Sequence[Values], traces: Sequence[Trace]) -> Values:
    """Deviations within a year with those of the years, either way."""
    pooled = np.concatenate(rows)
    levels = [sign * trace.level for trace in traces for sign in (1, -1)]
    moved = [pooled + level + drift for level in levels for drift in (-DRIFT, DRIFT)]
    return np.concatenate(moved)


def _ends(logs: Values, outside: float = OUTSIDE[0]) -> tuple[float, float]:
    low, high = np.exp(np.quantile(logs, [outside, 1 - outside]))
    return min(float(low), 0.999), max(float(high), 1.001)


def _cells(ends: Sequence[float]) -> str:
    """Cells of lows and highs in turn, rounded outwards."""
    outwards = (math.floor, math.ceil)
    return ",".join(f"{outwards[n % 2](end * 1e3) / 1e3:.3f}" for n, end in enumerate(ends))

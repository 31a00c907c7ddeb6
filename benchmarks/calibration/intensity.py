"""Ranges of annual intensity against hourly traces: fits the table of the catalog, and checks it.

A trace is a file ZONE_YEAR_hourly.csv with a column `lifecycle_gco2eq_per_kwh`, one row an hour, as
Electricity Maps publishes them. The truth is the mean over a span of hours; what is published is
the newest annual value that the catalog has of the zone, of an earlier or later year.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramwatt.sci.base.csv_data import rows
from gramwatt.sci.base.quantity import total
from gramwatt.sci.grid.zones import AnnualIntensity, ZoneIntensity, Zones, spread_over

HOURS = (1, 24, 168, 720, 8760)
PLANS = {
    "daily, 1 h": lambda hour: [(24 * day + hour, 1) for day in range(DAYS)],
    "daily, 3 h": lambda hour: [(24 * day + hour, 3) for day in range(DAYS)],
    "weekly, 6 h": lambda hour: [(24 * day + hour, 6) for day in range(2, DAYS, 7)],
    "office hours": lambda hour: [
        (24 * (day + hour // 24) + 8 + (5 * day + hour) % 8, 1 + day % 3) for day in range(DAYS)
    ],
    "any hour": lambda hour: [
        (24 * day + (7 * day * day + hour) % 24, 1 + day % 3) for day in range(DAYS)
    ],
}
"""Months of jobs: the hour when each starts, and its length [h], for an hour of the day."""
DAYS = 28
COLUMN = "lifecycle_gco2eq_per_kwh"
MEANS = 2000
"""Means of one span taken from a trace, evenly over the year."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """Hourly intensity of a zone in a year [gCO2e/kWh], and what the catalog publishes for it."""

    year: str
    hourly: Values
    published: ZoneIntensity

    def ratios(self, hours: int) -> Values:
        """Means over spans of so many hours, over the published value."""
        length = min(hours, len(self.hourly))
        sums = np.concatenate(([0.0], np.cumsum(self.hourly)))
        means = (sums[length:] - sums[:-length]) / length / self.published.intensity.value
        places = np.linspace(0, len(means) - 1, MEANS)
        return np.interp(places, np.arange(len(means)), means)

    def symmetric(self, hours: int) -> Values:
        """The same, and with the change between the years the other way round.

        Traces are older than the published value, and the jobs that it is used for are younger.
        """
        found = self.ratios(hours)
        change = float(self.hourly.mean()) / self.published.intensity.value
        return np.concatenate((found, found / change**2))


def read(folder: Path) -> list[Trace]:
    """Every trace in a folder; raises FileNotFoundError where there is none."""
    zones, found = Zones(), []
    for path in sorted(folder.glob("*_hourly.csv")):
        zone, year, _ = path.name.split("_")
        with path.open(encoding="utf-8", newline="") as file:
            hourly = [float(row[COLUMN]) for row in csv.DictReader(file)]
        found.append(Trace(year, np.array(hourly), zones.zone(zone)))
    if not found:
        raise FileNotFoundError(f"no *_hourly.csv in {folder}")
    return found


def revisions(traces: Iterable[Trace]) -> list[tuple[str, str, float]]:
    """Zone, year, and by how much the value published later for that year differs from the trace.

    The trace is an earlier edition of the same hours, so this is what revisions changed.
    """
    later = {
        (row.text("zone"), row.text("year")): row.known("g_per_kwh")
        for row in rows("odbl/zones.csv")
    }
    return [
        (key[0], key[1], later[key] / float(trace.hourly.mean()) - 1)
        for trace in traces
        if (key := (trace.published.zone, trace.year)) in later
    ]


def by_type(traces: Iterable[Trace]) -> dict[str, list[Trace]]:
    """Traces by the type of their grid, and all of them as `other`."""
    groups: dict[str, list[Trace]] = {"other": []}
    for trace in traces:
        groups.setdefault(trace.published.grid_type or "other", []).append(trace)
        groups["other"].append(trace)
    return groups


def fitted(traces: Sequence[Trace], hours: int) -> tuple[float, float]:
    """The range, as multiples of the published value, that holds eight in ten means."""
    pooled = np.concatenate([trace.symmetric(hours) for trace in traces])
    low, high = np.quantile(pooled, [0.1, 0.9])
    return float(low), float(high)


def share_within(traces: Sequence[Trace], hours: int, ends: tuple[float, float]) -> float:
    """Share of means that lie in the range."""
    inside = [((t.ratios(hours) >= ends[0]) & (t.ratios(hours) <= ends[1])).mean() for t in traces]
    return float(np.mean(inside))


def table(traces: Sequence[Trace]) -> list[str]:
    """The lines of odbl/intensity_spread.csv, fitted."""
    lines = ["type,hours,low,high,source"]
    for name, group in sorted(by_type(traces).items()):
        for hours in HOURS:
            low, high = fitted(group, hours)
            ends = math.floor(low * 1e3) / 1e3, math.ceil(high * 1e3) / 1e3
            lines.append("{},{},{:.3f},{:.3f},em-hourly".format(name, hours, *ends))
    return lines


def report(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """Coverage of the shipped ranges, and of ranges fitted without the zone they are asked for."""
    found: list[dict[str, Any]] = []
    for name, group in sorted(by_type(traces).items()):
        zones = {trace.published.zone for trace in group}
        for hours in HOURS:
            left_out = []
            for zone in sorted(zones):
                rest = [trace for trace in group if trace.published.zone != zone]
                own = [trace for trace in group if trace.published.zone == zone]
                left_out.append(share_within(own, hours, fitted(rest, hours)))
            found.append(
                {
                    "grids": name,
                    "zones": len(zones),
                    "hours": hours,
                    "range": "{:.2f} to {:.2f}".format(*spread_over(name, hours)),
                    "covered": share_within(group, hours, spread_over(name, hours)),
                    "zone left out": float(np.mean(left_out)),
                }
            )
    return found


def months(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """How often the range of a month's jobs holds their mean, where annual values stand for it.

    Every other month of every trace, jobs that start at four times of the day.
    """
    found = []
    for name, group in sorted(by_type(traces).items()):
        row: dict[str, Any] = {"grids": name}
        for plan, spans in PLANS.items():
            held = [
                _holds(trace, first, spans(hour))
                for trace in group
                for first in range(0, len(trace.hourly) - 24 * (DAYS + 1), 24 * 61)
                for hour in range(2, 24, 6)
            ]
            row[plan] = sum(held) / len(held)
        found.append(row)
    return found


def _holds(trace: Trace, first: int, spans: Iterable[tuple[int, int]]) -> bool:
    lookup, begin = AnnualIntensity(_One(trace.published)), datetime(2023, 1, 1, tzinfo=UTC)
    figures, truth = [], 0.0
    for hour, length in spans:
        start = begin + timedelta(hours=first + hour)
        [point] = lookup.points(trace.published.zone, start, start + timedelta(hours=length))
        figures.append(point.intensity.scaled(length))
        truth += float(trace.hourly[first + hour : first + hour + length].sum())
    whole = total(figures)
    return whole is not None and whole.low <= truth <= whole.high


@dataclass(frozen=True)
class _One:
    """A catalog with the annual value of one zone."""

    published: ZoneIntensity

    def zone(self, key: str) -> ZoneIntensity:
        return self.published

    def world(self) -> ZoneIntensity:
        return self.published

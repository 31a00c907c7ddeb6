"""Ranges of annual intensity against hourly traces, by zone and hour.

A trace is a file ZONE_YEAR_hourly.csv with a column `lifecycle_gco2eq_per_kwh`, one row an hour, as
Electricity Maps publishes them. The truth is the mean over a span of hours; what is published is
the newest annual value that the catalog has of the zone, of an earlier or later year.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from msgspec.structs import replace

from benchmarks.calibration.fitting import HOURS, Trace, by_zone, other, tables
from gramwatt.sci.figures.csv_data import read_rows, rows
from gramwatt.sci.figures.quantity import total
from gramwatt.sci.grid import spreads
from gramwatt.sci.grid.spreads import HoursRow, SpreadRow
from gramwatt.sci.grid.zones import AnnualIntensity, ZoneIntensity, ZoneRow, Zones

LENGTHS = HOURS[:-1]
"""A year has one mean a trace: too few for a share."""
NIGHTLY = (1, 8)
"""Lengths of jobs that start at the same hour every day [h]."""
STARTS = range(0, 24, 3)
SAMPLES = 120
"""Starts that are tried in a trace for each length, evenly over the year."""
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


def read(folder: Path) -> list[Trace]:
    """Every trace in a folder; raises FileNotFoundError where there is none."""
    zones, found = Zones(), []
    for path in sorted(folder.glob("*_hourly.csv")):
        zone, year, _ = path.name.split("_")
        with path.open(encoding="utf-8", newline="") as file:
            hourly = [float(row[COLUMN]) for row in csv.DictReader(file)]
        # Traces and annual values are of one publisher, so what others say is left out.
        published = replace(zones.zone(zone), publishers=(1.0, 1.0))
        found.append(Trace(year, np.array(hourly), published))
    if not found:
        raise FileNotFoundError(f"no *_hourly.csv in {folder}")
    return found


def revisions(traces: Iterable[Trace]) -> list[tuple[str, str, float]]:
    """Zone, year, and by how much the value published later for that year differs from the trace.

    The trace is an earlier edition of the same hours, so this is what revisions changed.
    """
    later = {(row.zone, str(row.year)): row.g_per_kwh for row in rows(ZoneRow)}
    return [
        (key[0], key[1], later[key] / float(trace.hourly.mean()) - 1)
        for trace in traces
        if (key := (trace.published.zone, trace.year)) in later
    ]


def covered(traces: Sequence[Trace]) -> dict[str, float]:
    """Share of means in their range, by length [h]; `fixed` is of jobs at the same hour daily.

    Of those the least is that of the worst hour of the day to start at.
    """
    found = {}
    for hours in LENGTHS:
        held = [
            _holds(trace, first, hours)
            for trace in traces
            for first in np.linspace(0, len(trace.hourly) - hours, SAMPLES).astype(int).tolist()
        ]
        found[f"{hours} h"] = float(np.mean(held))
    nightly = [
        float(
            np.mean(
                [
                    _holds(trace, 24 * day + start, hours)
                    for trace in traces
                    for day in range(0, len(trace.hourly) // 24 - 1, 5)
                ]
            )
        )
        for hours in NIGHTLY
        for start in STARTS
    ]
    return {**found, "fixed, least": min(nightly), "fixed, mean": float(np.mean(nightly))}


def _holds(trace: Trace, first: int, hours: int) -> bool:
    figure = trace.published.over(hours, trace.begin + timedelta(hours=first))
    truth = float(trace.hourly[first : first + hours].mean())
    return figure.low <= truth <= figure.high


def years_left_out(traces: Sequence[Trace]) -> Iterator[tuple[str, dict[str, float]]]:
    """Zone and year, and the same of that year by tables that were fitted without it."""
    for zone, own in by_zone(traces).items():
        for trace in own if len(own) > 1 else ():
            rest = [other for other in own if other is not trace]
            with _fitted(rest):
                yield f"{zone} {trace.year}", covered([trace])


def zones_left_out(traces: Sequence[Trace]) -> Iterator[tuple[str, dict[str, float]]]:
    """Zone, and how often the range of zones without a trace, fitted without it, holds it."""
    zones = by_zone(traces)
    for zone, own in zones.items():
        rest = [trace for trace in traces if trace.published.zone != zone]
        found = {}
        for hours in LENGTHS:
            low, high = other(rest, hours)
            ratios = np.concatenate([trace.ratios(hours) for trace in own])
            found[f"{hours} h"] = float(((low <= ratios) & (ratios <= high)).mean())
        yield zone, found


@contextmanager
def _fitted(traces: Sequence[Trace]) -> Iterator[None]:
    """Let the engine use tables fitted to these traces."""
    files = {
        kind: tuple(read_rows(kind, "\n".join(lines)))
        for kind, lines in zip((SpreadRow, HoursRow), tables(traces), strict=True)
    }
    with patch.object(spreads, "rows", files.__getitem__):
        _forget()
        yield
    _forget()


def _forget() -> None:
    spreads._table.cache_clear()
    spreads._shapes.cache_clear()


def months(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """How often the range of a month's jobs holds their mean, where annual values stand for it.

    Every other month of every trace, jobs that start at four times of the day.
    """
    found = []
    for zone, own in sorted(by_zone(traces).items()):
        row: dict[str, Any] = {"zone": zone}
        for plan, spans in PLANS.items():
            held = [
                _month_holds(trace, first, spans(hour))
                for trace in own
                for first in range(0, len(trace.hourly) - 24 * (DAYS + 1), 24 * 61)
                for hour in range(2, 24, 6)
            ]
            row[plan] = sum(held) / len(held)
        found.append(row)
    return found


def _month_holds(trace: Trace, first: int, spans: Iterable[tuple[int, int]]) -> bool:
    lookup, figures, truth = AnnualIntensity(_One(trace.published)), [], 0.0
    for hour, length in spans:
        start = trace.begin + timedelta(hours=first + hour)
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

"""Intensity for the engine: stored points, and annual values where there are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np

from gramwatt.sci.figures.document import JobDoc, Quality
from gramwatt.sci.figures.quantity import Kind, Quantity
from gramwatt.sci.grid.intensity import (
    Basis,
    IntensityPoint,
    IntensityTrack,
    Provenance,
    Run,
    Signal,
)
from gramwatt.sci.grid.zones import (
    DERIVED_SPREAD,
    EXPECTED_SPREADS,
    HOURLY_SPREAD,
    UNIT,
    AnnualIntensity,
)
from gramwatt.sci.records.records import parse_time
from gramwatt.service.container import Service
from gramwatt.service.intensity.points import FINAL, DayOfPoints, SeriesName, days_of
from gramwatt.service.store.columns import to_us

STAGES = timedelta(0), timedelta(hours=1), timedelta(hours=24), timedelta(days=7)
"""After a job's end, the ages at which providers are asked about its time."""
LATE = timedelta(minutes=15)
"""How long a job that comes in after all of them waits for the answers."""


def when_better_known(service: Service, document: JobDoc, *, first: bool) -> int | None:
    """Return when the score of an ended job is to be made again [us]; None for a final one.

    `first` is true for the first score of a job, which may come in long after its end.
    """
    ended = document.ended_at
    shares = document.data_quality.intensity
    if ended is None or not set(shares) - set(FINAL):
        return None
    settings = service.config.intensity
    if not any(settings.chains.values()):
        return None
    from gramwatt.service.providers.chain import is_live  # loads an HTTP client

    zones = (service.catalog.zone(zone).zone for zone in document.method.zones)
    if not any(is_live(settings, zone) for zone in zones):
        return None
    now, end = service.now(), parse_time(ended)
    later = next_stage(end, now)
    if later is None and first:
        later = now + LATE
    return None if later is None else to_us(later)


def next_stage(end: datetime, now: datetime) -> datetime | None:
    """Return the next age after `now` at which providers are asked; None after the last."""
    return next((end + age for age in STAGES if end + age > now), None)


def last_stage(end: datetime, now: datetime) -> datetime | None:
    """Return the last age up to `now` at which providers are asked; None before the end."""
    return next((end + age for age in reversed(STAGES) if end + age <= now), None)


FINEST = timedelta(minutes=5)
"""Every step is a whole number of these."""


class StoredIntensity:
    """The lookup of a service: the stored points of one signal and basis.

    What they do not cover has the annual value, of the same signal and basis, and its quality.
    """

    def __init__(
        self, service: Service, signal: Signal = "average", basis: Basis = "lifecycle"
    ) -> None:
        self._service, self._signal, self._basis = service, signal, basis
        self._annual = AnnualIntensity(service.catalog)

    def points(self, zone: str | None, start: datetime, end: datetime) -> IntensityTrack:
        """Points that cover [start, end), those at its ends cut.

        Raises LookupFailed for an unknown zone, ScoreError where the annual value that is needed in
        a gap has another signal or basis.
        """
        days = self._days(zone, start, end)
        edges, values, spans = _steps(days, start, end) if days else ([], [], [])
        if all(number < 0 for _, _, number in spans):
            return IntensityTrack.of(self._annual.points(zone, start, end))
        runs, provenances = [], _Known()
        for first, last, number in spans:
            if number < 0:
                of_run = self._of_gap(zone, edges[first], edges[last])
                values[first] = of_run.figure.value
            else:
                of_run = provenances.of(days[number], values[first:last])
            runs.append(Run(first, last, of_run))
        return IntensityTrack(edges, values, runs, self._signal, self._basis)

    def stored(self, zone: str, start: datetime, end: datetime) -> Iterator[IntensityPoint]:
        """Yield those of the points that are stored: gaps stay gaps. Raises LookupFailed."""
        days = self._days(zone, start, end)
        edges, values, spans = _steps(days, start, end) if days else ([], [], [])
        provenances = _Known()
        for first, last, number in spans:
            if number < 0:
                continue
            of_run = provenances.of(days[number], values[first:last])
            for n in range(first, last):
                figure = of_run.at(values[n])
                about = of_run.quality, self._signal, self._basis, of_run.series
                yield IntensityPoint(of_run.zone, edges[n], edges[n + 1], figure, *about)

    def _days(self, zone: str | None, start: datetime, end: datetime) -> Sequence[DayOfPoints]:
        key = self._service.catalog.zone(zone).zone if zone else None
        if key is None or start >= end:
            return ()
        return days_of(self._service, key, self._signal, self._basis, start, end)

    def _of_gap(self, zone: str | None, start: datetime, end: datetime) -> Provenance:
        track = IntensityTrack.of(self._annual.points(zone, start, end))
        track.require(self._signal, self._basis)
        return track.runs[0].known


class _Known:
    """Provenance of the points of each series and quality.

    Its figure is that of the first of them that is not zero, as in an evidence bundle.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[SeriesName, Quality], Provenance] = {}

    def of(self, day: DayOfPoints, values: Sequence[float]) -> Provenance:
        """Return the same of some points of a day."""
        key = day.series, day.quality
        if key not in self._found:
            figure = _figure(next(filter(None, values), 1.0), day.quality, day.series)
            self._found[key] = Provenance(
                day.series.zone, day.quality, figure, input_id("measured", day.series)
            )
        return self._found[key]


def _figure(value: float, quality: Quality, series: SeriesName) -> Quantity:
    """Return the figure of a point; those of a series have one source, and so share their error.

    What a file says is declared by who imported it, what a provider published a catalog's figure.
    """
    derived = series.scope == "production" and series.basis == "lifecycle"
    kind: Kind = "derived" if derived else "catalog" if series.licence else "declared"
    if quality not in FINAL:
        kind = "estimated"
    source = source_text(quality, series)
    relative = DERIVED_SPREAD if derived else HOURLY_SPREAD
    spread = max(relative, EXPECTED_SPREADS.get(quality, relative))
    figure = Quantity.around(value, spread, UNIT, kind, source)
    return figure.as_input(input_id(quality, series))


def input_id(quality: Quality, series: SeriesName) -> str:
    """Return the id of the points of a series as an input; that of what is expected is its own."""
    expected = quality if quality in EXPECTED_SPREADS else ""
    parts = ("grid", series.zone, series.provider, series.scope, expected)
    return ":".join(part for part in parts if part)


def source_text(quality: Quality, series: SeriesName) -> str:
    """Return how scores name the source of points of a series and quality."""
    derived = series.scope == "production" and series.basis == "lifecycle"
    parts = [series.zone, series.signal, series.basis]
    parts += [quality] if quality in EXPECTED_SPREADS else []
    parts += [f"{series.scope}-based"] if series.scope else []
    parts += ["from generation by fuel, imports left out"] if derived else []
    licence = f" ({series.licence})" if series.licence else ""
    return f"{series.provider} values of {', '.join(parts)}{licence}"


def _steps(
    days: Sequence[DayOfPoints], start: datetime, end: datetime
) -> tuple[list[datetime], list[float], list[tuple[int, int, int]]]:
    """Return the most trusted known value of each time in [start, end); later days are trusted
    more.

    Edges and values of points, and spans of points (first, one after the last) that are of one
    series and quality, with the number of a day of theirs. That of a gap is negative, and it is one
    point.
    """
    if not days:  # a job that nobody read has no time either
        return [start, end], [], []
    origin = start - (start - datetime.min.replace(tzinfo=UTC)) % FINEST
    count = max(-((origin - end) // FINEST), 1)  # a job may end in the moment when it begins
    taken, step = np.full(count, -1), np.zeros(count, int)
    values = np.full(count, np.nan)
    for number, day in enumerate(days):
        width, of_day = day.step_s // FINEST.seconds, np.asarray(day.values)
        finite = np.flatnonzero(np.isfinite(of_day))
        places = (day.start - origin) // FINEST + (finite[:, None] * width + np.arange(width))
        within = (places >= 0) & (places < count)
        at, steps = places[within], np.repeat(finite, width)[within.ravel()]
        taken[at], step[at], values[at] = number, steps, of_day[steps]
    left = _changes(taken, step)
    kinds: dict[tuple[SeriesName, Quality], int] = {}
    alike = np.array([*(kinds.setdefault((d.series, d.quality), len(kinds)) for d in days), -1])
    spans = [*_changes(alike[taken[left]]).tolist(), len(left)]
    edges = [start, *(origin + number * FINEST for number in left[1:].tolist()), end]
    numbers = taken[left].tolist()
    return (
        edges,
        values[left].tolist(),
        [(first, last, numbers[first]) for first, last in pairwise(spans)],
    )


def _changes(*rows: np.ndarray) -> np.ndarray:
    """Numbers of the columns that differ from the one before, the first among them."""
    differs = np.any([np.diff(row) != 0 for row in rows], axis=0)
    return np.concatenate(([0], np.flatnonzero(differs) + 1))

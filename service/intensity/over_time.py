"""Intensity of a zone over a span, as the route, the command and the page show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from gramwatt.sci.figures.document import IntensityDoc, IntensityPointDoc, IntensitySeriesDoc
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.grid.intensity import Basis, IntensityPoint, Quality, Signal
from gramwatt.sci.grid.local_time import timezone_of
from gramwatt.sci.planning.hours import moment_of
from gramwatt.sci.planning.outlook import Outlook
from gramwatt.service.container import Service
from gramwatt.service.intensity.lookup import StoredIntensity
from gramwatt.service.intensity.plans import zone_data
from gramwatt.service.intensity.points import SeriesName, series_of
from gramwatt.service.providers.base import SCORED

LONGEST = timedelta(days=31)
STEP_H = 1.0
"""The hours that the range of one expected step is of."""
_QUALITY: dict[str, Quality] = {
    "forecast": "forecast",
    "history-profile": "profile",
    "usual-hours": "profile",
}


def intensity_over(
    service: Service,
    zone: str,
    start: datetime,
    end: datetime,
    signal: Signal = "average",
    basis: Basis = "lifecycle",
) -> IntensityDoc:
    """Return what scores use over [start, end), and what plans expect; or what is stored of another
    signal or basis. Raises LookupFailed.
    """
    key, lookup = service.catalog.zone(zone).zone, StoredIntensity(service, signal, basis)
    now, expected = max(start, service.now()), []
    if (signal, basis) == SCORED:
        points: Sequence[IntensityPoint] = lookup.points(zone, start, end)
        expected = list(_expected(service, zone, now, end)) if now < end else []
    else:
        points = list(lookup.stored(zone, start, end))
    stored = series_of(service, key, start, end)
    timezone = timezone_of(key)
    return IntensityDoc(
        zone=key,
        timezone=timezone.key if timezone else None,
        signal=points[0].signal if points else signal,
        basis=points[0].basis if points else basis,
        points=list(map(_doc, points)),
        forecast=list(map(_doc, expected)),
        stored=[
            IntensitySeriesDoc(
                signal=one.signal,
                basis=one.basis,
                provider=one.provider,
                used=(one.signal, one.basis) == SCORED,
            )
            for one in stored
        ],
        notices=list(_notices(key, points, stored)),
    )


def unused_text(zone: str, kinds: str) -> str:
    """Says that values of some kinds are stored for a zone, and not used."""
    return (
        f"{zone} has {kinds} values, which no score or plan uses: those need average lifecycle "
        "values, and nothing converts one into the other."
    )


def _notices(
    zone: str, points: Sequence[IntensityPoint], stored: Sequence[SeriesName]
) -> list[Notice]:
    """Says so where the points are used by nothing, or the year's stand in beside such values."""
    kinds = dict.fromkeys(f"{one.signal} {one.basis}" for one in stored if one[1:3] != SCORED)
    annual = any(point.quality == "annual" for point in points)
    asked = any((point.signal, point.basis) != SCORED for point in points)
    if not kinds or not (annual or asked):
        return []
    text = unused_text(zone, " and ".join(kinds))
    text += " The annual value stands in." if annual else ""
    return [Notice("intensity-unused", text, "intensity_g_per_kwh")]


def _expected(
    service: Service, zone: str, start: datetime, end: datetime
) -> Iterable[IntensityPoint]:
    found = zone_data(service, zone, service.now()).outlook(start, end, STEP_H)
    return [] if found.method == "annual" else _steps(found, start, end)


def _steps(found: Outlook, start: datetime, end: datetime) -> Iterator[IntensityPoint]:
    """Yield the steps of an outlook within [start, end)."""
    for index, value in enumerate(found.grid.values):
        left = max(start, moment_of(float(found.grid.edges[index])))
        right = min(end, moment_of(float(found.grid.edges[index + 1])))
        if left < right:
            ends = float(found.grid.edges[index]), float(found.grid.edges[index + 1])
            figure = found.figure(
                float(value), float(found.low[index]), float(found.high[index]), *ends
            )
            quality = _QUALITY[found.at(ends[0]).method]
            yield IntensityPoint(found.zone, left, right, figure, quality)


def _doc(point: IntensityPoint) -> IntensityPointDoc:
    return IntensityPointDoc(
        start=f"{point.start:%Y-%m-%dT%H:%M:%SZ}",
        end=f"{point.end:%Y-%m-%dT%H:%M:%SZ}",
        quality=point.quality,
        intensity_g_per_kwh=point.intensity.bare(),
    )

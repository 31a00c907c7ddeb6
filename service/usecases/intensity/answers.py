"""Intensity of a zone over a span, as the route, the command and the page show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TypedDict

from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.grid.intensity import IntensityPoint, Quality
from gramwatt.sci.planning.hours import moment_of
from gramwatt.sci.planning.outlook import Outlook, outlook
from gramwatt.service.container import Service
from gramwatt.service.usecases.intensity.lookup import StoredIntensity
from gramwatt.service.usecases.intensity.plans import zone_data

LONGEST = timedelta(days=31)
_QUALITY: dict[str, Quality] = {"forecast": "forecast", "history-profile": "profile"}


class PointAnswer(TypedDict):
    """Mean intensity over [start, end), and how it is known."""

    start: str
    end: str
    quality: str
    intensity_g_per_kwh: QuantityDoc


class IntensityAnswer(TypedDict):
    """Intensity of a zone: points in order that cover the span without a gap.

    `forecast` is what plans expect of the span's hours from now on; empty where nothing is known
    but the annual value.
    """

    zone: str
    signal: str
    basis: str
    points: list[PointAnswer]
    forecast: list[PointAnswer]


def intensity_over(service: Service, zone: str, start: datetime, end: datetime) -> IntensityAnswer:
    """What scores use over [start, end), and what plans expect; raises LookupFailed."""
    points = StoredIntensity(service).points(zone, start, end)
    now = max(start, service.now())
    expected = _expected(service, zone, now, end) if now < end else ()
    return {
        "zone": points[0].zone,
        "signal": points[0].signal,
        "basis": points[0].basis,
        "points": list(map(_doc, points)),
        "forecast": list(map(_doc, expected)),
    }


def _expected(
    service: Service, zone: str, start: datetime, end: datetime
) -> Iterable[IntensityPoint]:
    now = service.now()
    found = outlook(zone_data(service, zone, now), now, end, 1.0)
    return [] if found.method == "annual" else _steps(found, start, end)


def _steps(found: Outlook, start: datetime, end: datetime) -> Iterator[IntensityPoint]:
    """The steps of an outlook within [start, end)."""
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


def _doc(point: IntensityPoint) -> PointAnswer:
    return {
        "start": f"{point.start:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{point.end:%Y-%m-%dT%H:%M:%SZ}",
        "quality": point.quality,
        "intensity_g_per_kwh": point.intensity.to_doc(),
    }

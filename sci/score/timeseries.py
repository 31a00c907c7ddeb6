"""Energy over time for charts: intervals of all devices gathered into few enough points."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from gramwatt.sci.base.document import SeriesPoint
from gramwatt.sci.base.quantity import KINDS
from gramwatt.sci.grid.intensity import IntensityTrack
from gramwatt.sci.journal.merge import MergedJob
from gramwatt.sci.journal.records import format_time

STEPS_S = (10, 60, 300, 900, 3600, 6 * 3600, 24 * 3600)
MAX_POINTS = 240
_RANK: dict[str, int] = {kind: rank for rank, kind in enumerate(KINDS)}


def series(job: MergedJob, track: IntensityTrack | None) -> list[SeriesPoint]:
    """Energy [J] by device class in equal steps, at most `MAX_POINTS` steps a class.

    An interval that crosses a step is shared by time, so the points add up to the job's energy. The
    first and last point end where the readings do, so that energy over length is mean power. Where
    nodes stand in several zones there is no `track`, and no one intensity beside the energy.
    """
    intervals = [interval for device in job.devices for interval in device.intervals]
    first = min((interval.start for interval in intervals), default=job.started_at)
    last = max((interval.end for interval in intervals), default=job.started_at)
    step = timedelta(seconds=_step_s(job.duration_s))
    sums: dict[tuple[str, int], float] = defaultdict(float)
    kinds: dict[tuple[str, int], set[str]] = defaultdict(set)
    for device in job.devices:
        for interval in device.intervals:
            for index, share in _steps(job.started_at, step, interval.start, interval.end):
                key = (device.record.device_class, index)
                sums[key] += interval.energy_j * share
                kinds[key].add(interval.kind)
    points: list[SeriesPoint] = []
    for (device_class, index), joules in sorted(sums.items()):
        start = job.started_at + index * step
        points.append(
            {
                "start": format_time(max(start, first)),
                "end": format_time(min(start + step, last)),
                "class": device_class,
                "energy_j": joules,
                "kind": max(kinds[device_class, index], key=_RANK.__getitem__),
                "intensity_g_per_kwh": _intensity_at(track, start),
            }
        )
    return points


def _step_s(duration_s: float) -> float:
    for step in STEPS_S:
        if duration_s / step <= MAX_POINTS:
            return step
    return duration_s / MAX_POINTS


def _steps(
    origin: datetime, step: timedelta, start: datetime, end: datetime
) -> list[tuple[int, float]]:
    first = (start - origin) // step
    last = max(first, -((origin - end) // step) - 1)
    if first == last:
        return [(first, 1.0)]
    length = end - start
    found = []
    for index in range(first, last + 1):
        edge = origin + index * step
        found.append((index, (min(end, edge + step) - max(start, edge)) / length))
    return found


def _intensity_at(track: IntensityTrack | None, when: datetime) -> float | None:
    for point in track.points if track else ():
        if point.start <= when < point.end:
            return point.intensity.value
    return None

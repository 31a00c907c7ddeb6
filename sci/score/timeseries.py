"""A job over time: points of a chart, days, and the steps of its operational sum."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, tzinfo
from itertools import compress, groupby, pairwise
from operator import mul

from gramwatt.sci.figures.days import DAY, by_day, day_of, midnight, shares
from gramwatt.sci.figures.document import (
    DayDoc,
    DeviceStepsDoc,
    IntensityUsedDoc,
    SeriesPoint,
    StepsDoc,
)
from gramwatt.sci.figures.quantity import Kind, Quantity, bare, weakest
from gramwatt.sci.figures.units import J_PER_KWH
from gramwatt.sci.grid.intensity import IntensityTrack, Provenance, Run
from gramwatt.sci.records.elsewhere import charged, charged_s
from gramwatt.sci.records.merge import MergedJob
from gramwatt.sci.records.records import format_time
from gramwatt.sci.score.functional_unit import ScoredJob
from gramwatt.sci.score.operational import JobEnergy

CHART_STEPS_S = (10, 60, 300, 900, 3600, 6 * 3600, 24 * 3600)
MAX_CHART_POINTS = 240
MAX_STEPS = 744
"""As many as a month has hours."""
MAX_CELLS = 20_000
"""Devices times steps that one document carries at most."""


def series(job: MergedJob, track: IntensityTrack | None) -> list[SeriesPoint]:
    """Return energy [J] by device class in equal steps, at most `MAX_CHART_POINTS` steps a class.

    An interval that crosses a step is shared by time, so the points add up to the job's energy. The
    first and last point end where the readings do, so that energy over length is mean power. The
    intensity is the mean over the step by time. Where nodes stand in several zones there is no
    `track`, and no one intensity beside the energy.
    """
    read = [device.intervals for device in job.devices if device.intervals]
    if not read:
        return []
    first = min(intervals[0].start for intervals in read)
    last = max(intervals[-1].end for intervals in read)
    step = timedelta(seconds=_chart_step_s(job.duration_s))
    sums, busy = _by_step(job, step)
    numbers = {n for _, index in sums for n in (index, index + 1)}
    edges = {n: min(max(job.started_at + n * step, first), last) for n in numbers}
    texts = {n: format_time(edge) for n, edge in edges.items()}
    steps_met = {index for _, index in sums}
    means = {n: track.mean(edges[n], edges[n + 1]) for n in steps_met} if track else {}
    return [
        SeriesPoint(
            start=texts[index],
            end=texts[index + 1],
            device_class=device_class,
            energy_j=sum(by_kind.values()),
            kind=weakest(by_kind),
            intensity_g_per_kwh=means.get(index),
            utilisation=busy.get((device_class, index)),
        )
        for (device_class, index), by_kind in sorted(sums.items())
    ]


def _chart_step_s(duration_s: float) -> float:
    for step_s in CHART_STEPS_S:
        if duration_s / step_s <= MAX_CHART_POINTS:
            return step_s
    return duration_s / MAX_CHART_POINTS


def _by_step(
    job: MergedJob, step: timedelta
) -> tuple[dict[tuple[str, int], dict[Kind, float]], dict[tuple[str, int], float]]:
    """Return joules by kind, and mean utilisation (0 to 1) weighted by time.

    Both are by device class and number of the step after the job's start.
    """
    sums: dict[tuple[str, int], dict[Kind, float]] = defaultdict(lambda: defaultdict(float))
    times: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for device in job.devices:
        device_class = device.record.device_class
        for interval in device.intervals:
            start, end, busy = interval.start, interval.end, interval.utilisation_mean
            for index, share in _steps_crossed(job.started_at, step, start, end):
                sums[device_class, index][interval.kind] += interval.energy_j * share
                if busy is not None:
                    length_s = (end - start).total_seconds() * share
                    of_step = times[device_class, index]
                    of_step[0] += busy * length_s
                    of_step[1] += length_s
    return sums, {key: busy_s / whole_s for key, (busy_s, whole_s) in times.items() if whole_s}


def _steps_crossed(
    origin: datetime, step: timedelta, start: datetime, end: datetime
) -> Iterator[tuple[int, float]]:
    """Yield number of each step that [start, end) meets, with the fraction of the span in it."""
    index = (start - origin) // step
    left = origin + index * step
    while left < end:
        yield index, (min(end, left + step) - max(start, left)) / (end - start)
        index, left = index + 1, left + step


def intensity_used(energy: JobEnergy) -> list[IntensityUsedDoc]:
    """Return the intensity joined with energy by zone, quality and source, in order of time.

    Points that follow each other and are alike in these are one row.
    """
    rows: list[IntensityUsedDoc] = []
    for track, joules in energy.by_point():
        used = (run for run in track.runs if any(joules[run.first : run.end]))
        for _, group in groupby(used, key=lambda run: _provenance(run.known)):
            rows.append(_used(track, joules, list(group)))
    return rows


def _used(track: IntensityTrack, joules: Sequence[float], runs: Sequence[Run]) -> IntensityUsedDoc:
    """Return the row of runs that are alike, out of their points with energy."""
    numbers = [n for first, end, _ in runs for n in compress(range(first, end), joules[first:end])]
    energy_j = sum(joules[number] for number in numbers)
    grams = sum(joules[number] * track.values[number] for number in numbers)
    provenance = runs[0].known
    return IntensityUsedDoc(
        zone=provenance.zone,
        start=format_time(track.edges[numbers[0]]),
        end=format_time(track.edges[numbers[-1] + 1]),
        quality=provenance.quality,
        points=len(numbers),
        energy_j=energy_j,
        g_per_kwh=grams / energy_j,
        series=provenance.series,
        source=provenance.figure.source,
    )


def _provenance(known: Provenance) -> tuple[str, str, str, str]:
    return known.zone, known.quality, known.series, known.figure.source


def days(scored: ScoredJob) -> list[DayDoc]:
    """Return the job's terms and R in each day, each divided by the time that it stands for.

    Energy and O over their intervals, M over the time reserved, what was counted over the time
    since the count before; a job without units is one job over its reserved time. So the days add
    up to the job, and C and R of a day are those of the same hours.
    """
    zone = scored.context.zone
    counts = _counts_by_day(scored.job, zone)
    calendar = {day_of(left, zone) for left, _ in by_day(*_span(scored.job), zone)}
    rows: list[DayDoc] = []
    for day in sorted({*calendar, *counts}):
        energy_kwh, operational_g = _day_terms(scored, day)
        embodied_g = scored.embodied.within(midnight(day, zone), midnight(day + DAY, zone))
        rows.append(
            DayDoc(
                day=day.isoformat(),
                energy_kwh=bare(energy_kwh),
                operational_g=bare(operational_g),
                embodied_g=bare(embodied_g),
                counts=dict(counts.get(day, {})),
            )
        )
    return rows


def _counts_by_day(job: MergedJob, zone: tzinfo) -> dict[date, dict[str, float]]:
    """Return R by day and unit; a job that counted nothing is one job over its reserved time."""
    counts: dict[date, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for count in job.counts:
        if count.amount > 0:
            span = count.since or count.at, count.at
            at_once = {day_of(count.at, zone): 1.0}  # a moment lies wholly in its day
            for day, share in (shares(span, zone=zone) or at_once).items():
                counts[day][count.unit] += count.amount * share
    if counts:
        return counts
    reserved = shares(*job.reserved([node.name for node in job.nodes]), zone=zone)
    whole = reserved or {day_of(job.started_at, zone): 1.0}
    return {day: {"job": share} for day, share in whole.items()}


def _day_terms(scored: ScoredJob, day: date) -> tuple[Quantity | None, Quantity | None]:
    """Return E [kWh] and O [gCO2e] of a day: 0 of a known term where no reading lies."""
    energy_kwh, operational_g = scored.energy_kwh, scored.operational_g
    days_read = set(scored.energy.days_read)
    if not scored.complete or days_read == {day}:
        return energy_kwh, operational_g
    if day not in days_read:
        return _part(energy_kwh, 0.0), _part(operational_g, 0.0)
    energy = scored.energy.energy_j(day)
    of_day = scored.energy.operational_g(day)
    return energy.scaled(1 / J_PER_KWH, "kWh") if energy else None, of_day


def _part(figure: Quantity | None, share: float) -> Quantity | None:
    return figure.scaled(share) if figure else None


def _span(job: MergedJob) -> tuple[datetime, datetime]:
    """Return the start or the first reading, and the end or the last one."""
    moments = [job.started_at, job.ended_at or job.last_seen, job.last_seen]
    moments += [device.intervals[0].start for device in job.devices if device.intervals]
    return min(moments), max(moments)


def steps(scored: ScoredJob) -> StepsDoc:
    """Return energy [J] and joined intensity [gCO2e/kWh] of every device by step.

    Over all devices and steps, the sum of energy [kWh] x intensity x the device's PUE is the
    operational term. A step is one intensity point, or several neighbours where a job has more than
    the document should carry: their intensity is then weighted by the device's own energy, so that
    E x I stays the sum.
    """
    start, end = _span(scored.job)
    track = scored.energy.track
    first = max(bisect_right(track.edges, start) - 1, 0)
    last = min(bisect_left(track.edges, end), len(track))
    if first >= last:
        return StepsDoc(edges=[], reserved_s=[], devices=[])
    allowed = max(1, min(MAX_STEPS, MAX_CELLS // max(1, len(scored.job.devices))))
    width = -(-(last - first) // allowed)
    groups = [(n, min(n + width, last)) for n in range(first, last, width)]
    edges = [start, *(track.edges[n] for n, _ in groups[1:]), end]
    return StepsDoc(
        edges=[format_time(edge) for edge in edges],
        reserved_s=_reserved_s(scored.job, edges),
        devices=_device_steps(scored, groups),
    )


def _device_steps(scored: ScoredJob, groups: Sequence[tuple[int, int]]) -> list[DeviceStepsDoc]:
    """Return every device's steps; the plain mean of intensities where it has no energy."""
    pues = dict(scored.place.pues)
    rows: list[DeviceStepsDoc] = []
    for (node, device_id), device in scored.energy.devices.items():
        joules, values = device.by_point, device.track.values
        energy = [sum(joules[first:end]) for first, end in groups]
        intensity = [
            sum(map(mul, joules[first:end], values[first:end])) / of_step
            if of_step
            else sum(values[first:end]) / (end - first)
            for (first, end), of_step in zip(groups, energy, strict=True)
        ]
        row: DeviceStepsDoc = DeviceStepsDoc(
            device_id=device_id,
            node=node,
            pue=pues.get(node, scored.place.pue).value,
            energy_j=energy,
            intensity_g_per_kwh=intensity,
        )
        rows.append(row)
    return rows


def _reserved_s(job: MergedJob, edges: Sequence[datetime]) -> list[float]:
    """Return the time between the edges in which any node was reserved [s]."""
    reserved = charged(job.reserved([node.name for node in job.nodes]), ())
    return [charged_s(reserved, left, right) for left, right in pairwise(edges)]

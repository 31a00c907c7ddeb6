"""Running jobs of this machine, read from their open journals: power, carbon rate, work rate."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from gramwatt.collectors.settings.config import Config
from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.score import scored_here
from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.sci.figures.document import JobDoc, SeriesPoint
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import h_from_s
from gramwatt.sci.records.merge import DeviceKey, MergedJob
from gramwatt.sci.records.records import ACCELERATORS, CountRecord, IntervalRecord, parse_time

RECENT = timedelta(minutes=6)
"""A device whose newest reading is older than the job's by more than the longest interval, 5 min,
draws no power now."""
LEAST_S = 5.0
"""Shortest time whose mean is shown as the power of now [s]: counters move in steps."""
WATTS_PER_KW = 1000.0


class LiveJob(NamedTuple):
    """A running job: power [W] of its newest readings, carbon [gCO2e/h] and work [units/s] of now.

    What is not known is None. `age_s` is how old the newest reading is [s].
    """

    job_id: str
    name: str
    duration_s: float
    age_s: float | None
    power_w: Quantity | None
    g_per_h: Quantity | None
    unit: str | None
    units_per_s: float | None
    utilisation: float | None
    sci: bool


def live_jobs(home: Path, config: Config, now: datetime) -> list[LiveJob]:
    """Return the jobs whose meters write in this home, wherever they send it; newest first."""
    folders: dict[str, list[SpoolFolder]] = defaultdict(list)
    for folder in spool.folders(home):
        if folder.is_live():
            folders[folder.job_id].append(folder)
    jobs = [_live_job(job_id, parts, config, now) for job_id, parts in folders.items()]
    return sorted((job for job in jobs if job), key=lambda job: job.duration_s)


def _live_job(
    job_id: str, folders: Sequence[SpoolFolder], config: Config, now: datetime
) -> LiveJob | None:
    """Return the job; None while its journal has no whole line that says what it is."""
    scored = scored_here(folders, config)
    if scored is None:
        return None
    job, document = scored
    read = [device.intervals[-1].end for device in job.devices if device.intervals]
    power_w = power_now(document, math.fsum(device_watts(job).values())) if read else None
    unit, rate = _work(job.counts, now)
    return LiveJob(
        job_id,
        document.name,
        (now - job.started_at).total_seconds(),
        (now - max(read)).total_seconds() if read else None,
        power_w,
        carbon_now(document, power_w),
        unit,
        rate,
        _utilisation(job, max(read)) if read else None,
        document.conformance != "not-sci",
    )


def device_watts(job: MergedJob) -> dict[DeviceKey, float]:
    """Return the mean power of each device lately [W]; none for one whose readings are old."""
    read = {device.key: device.intervals for device in job.devices if device.intervals}
    newest = max((intervals[-1].end for intervals in read.values()), default=job.last_seen)
    watts = {
        key: _mean_watts(intervals)
        for key, intervals in read.items()
        if newest - intervals[-1].end <= RECENT
    }
    return {key: value for key, value in watts.items() if value is not None}


def _mean_watts(intervals: Sequence[IntervalRecord]) -> float | None:
    """Return the mean power over the newest intervals that are LEAST_S long together [W]."""
    energy_j = length_s = 0.0
    for interval in reversed(intervals):
        energy_j += interval.energy_j
        length_s += (interval.end - interval.start).total_seconds()
        if length_s >= LEAST_S:
            break
    return energy_j / length_s if length_s else None


def power_now(document: JobDoc, watts: float) -> Quantity | None:
    """Return this power [W], as uncertain as the job's energy; None where that is not known."""
    energy = document.energy_kwh
    if energy is None or not energy.value:
        return None
    whole = Quantity(watts, watts, watts, "W", energy.kind, energy.source)
    return whole.ranged(energy.low / energy.value, energy.high / energy.value)


def carbon_now(document: JobDoc, power_w: Quantity | None) -> Quantity | None:
    """Return the power now times I and PUE, and the embodied carbon of an hour [gCO2e/h]."""
    embodied, duration_s = document.embodied_g, document.duration_s
    if power_w is None or embodied is None or not duration_s:
        return None
    method = document.method
    per_h = "gCO2e/h"
    intensity = method.intensity_g_per_kwh
    pue = method.pue
    used = power_w.scaled(1 / WATTS_PER_KW, "kW").times(intensity, per_h).times(pue, per_h)
    return used + embodied.scaled(1 / h_from_s(duration_s), per_h)


def _work(counts: Sequence[CountRecord], now: datetime) -> tuple[str | None, float | None]:
    """Return the unit counted most lately, and its amount per second over minutes [1/s].

    None while it has been counted once and at one moment only.
    """
    if not counts:
        return None, None
    last = max(counts, key=lambda count: count.at)
    recent = [c for c in counts if c.unit == last.unit and now - c.at <= RECENT]
    if not recent:
        return last.unit, 0.0
    begins = min(count.since or count.at for count in recent)
    length_s = (last.at - begins).total_seconds()
    amount = math.fsum(count.amount for count in recent)
    return last.unit, amount / length_s if length_s > 0 else None


def _utilisation(job: MergedJob, newest: datetime) -> float | None:
    """Return the mean utilisation (0 to 1) of the devices over their newest intervals.

    Of those that have one: an interval that began a moment ago has no sample yet.
    """
    newest_of = {
        device.key: (device.record.device_class, interval.utilisation_mean)
        for device in job.devices
        for interval in device.intervals
        if interval.utilisation_mean is not None and newest - interval.end <= RECENT
    }
    return mean_utilisation(newest_of.values())


def mean_utilisation(used: Iterable[tuple[str, float | None]]) -> float | None:
    """Return the mean of the accelerators' utilisations (0 to 1); of the processors' without any.

    `used` are device classes and utilisations. A GPU at 98 % beside a processor at 4 % is in full
    use, and their mean would say nothing of either. None where none is known.
    """
    shares_by_class = [(name, share) for name, share in used if share is not None]
    of_accelerators = [share for name, share in shares_by_class if name in ACCELERATORS]
    shares = of_accelerators or [share for _, share in shares_by_class]
    return math.fsum(shares) / len(shares) if shares else None


def live_job_of(document: JobDoc, now: datetime) -> LiveJob:
    """Return the job of a provisional document by its newest step of time; work is the mean since
    it began.
    """
    newest = {point.device_class: point for point in document.series}
    ends = [parse_time(point.end) for point in newest.values()]
    power_w, age_s = None, None
    if ends:
        last = max(ends)
        age_s = (now - last).total_seconds()
        fresh = [p for p in newest.values() if last - parse_time(p.end) <= RECENT]
        power_w = power_now(document, math.fsum(map(_step_watts, fresh)))
    row, duration_s = document.sci[0], document.duration_s
    rate = row.count / duration_s if duration_s and row.unit != "job" else None
    return LiveJob(
        document.job_id,
        document.name,
        (now - parse_time(document.started_at)).total_seconds(),
        age_s,
        power_w,
        carbon_now(document, power_w),
        row.unit if rate is not None else None,
        rate,
        mean_utilisation((name, point.utilisation) for name, point in newest.items()),
        document.conformance != "not-sci",
    )


def _step_watts(point: SeriesPoint) -> float:
    seconds = (parse_time(point.end) - parse_time(point.start)).total_seconds()
    return point.energy_j / seconds if seconds > 0 else 0.0

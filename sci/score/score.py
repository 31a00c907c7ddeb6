"""The score: SCI = ((E x I) + M) per R, with everything needed to defend it.

ISO/IEC 21031:2024, as published in SCI specification v1.1.0. `score` is pure: the same job and
context give the same document. Nothing unknown becomes 0: an unknown term is None, makes the total
and the scores None, and the status `not-sci`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gramwatt.sci.base.document import DeviceDoc, JobDoc, JobHead, QualityDoc, SciDoc
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.notices import CODES, Notice
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.grid.intensity import IntensityTrack, aligned
from gramwatt.sci.journal.merge import MergedDevice, MergedJob, NodePlace
from gramwatt.sci.journal.records import IntervalRecord, format_time
from gramwatt.sci.journal.telemetry import joined
from gramwatt.sci.score.allocation import EmbodiedShares, Share, allocate
from gramwatt.sci.score.context import Parts, ScoreContext, doc
from gramwatt.sci.score.daily import days
from gramwatt.sci.score.functional_unit import Converted, convert
from gramwatt.sci.score.location import Place, locate_nodes, reused
from gramwatt.sci.score.market_based import memo
from gramwatt.sci.score.method import inputs, method, overlay_notices
from gramwatt.sci.score.operational import EnergyCells
from gramwatt.sci.score.quality import conformance, quality
from gramwatt.sci.score.sensitivity import lifetime_sensitivity
from gramwatt.sci.score.terms import embodied_terms, steps
from gramwatt.sci.score.timeseries import series
from gramwatt.sci.score.windows import window_notices, windows

__all__ = ["ScoreContext", "per_unit", "score"]


def score(job: MergedJob, context: ScoreContext) -> JobDoc:
    """The job document of design section 9; raises ScoreError when an input has no meaning."""
    converted = convert(job)
    job = converted.job
    parts = _parts(converted, context)
    units, of_units = _units(job, parts.total_g)
    beside, of_memo = memo(job.head.tags, parts.energy_kwh, parts.place.pue)
    remarks = (*of_units, *converted.notices, *of_memo, *window_notices(job))
    return {
        **_head(parts, units),
        "devices": _devices(job.devices, parts.cells, parts.embodied),
        "data_quality": _quality(parts),
        "notices": [notice.to_doc() for notice in _notices(parts, remarks)],
        "method": method(parts, [row["unit"] for row in units]),
        "series": series(job, None if parts.place.nodes else parts.cells.track),
        "steps": steps(parts),
        "embodied_terms": embodied_terms(parts),
        "lifetime_sensitivity": lifetime_sensitivity(parts, units),
        "memo": beside,
        "windows": windows(parts),
        "days": days(parts),
        "tags": dict(job.head.tags),
        "model_id": job.head.model_id,
        "framework": job.head.framework,
        "precision": job.head.precision,
    }


def _head(parts: Parts, units: list[SciDoc]) -> JobHead:
    job = parts.job
    status = conformance(_faults(parts), parts.place.deviations)
    return {
        "job_id": job.head.job_id,
        "name": job.head.name or job.head.job_id,
        "project": job.head.project,
        "kind": job.head.kind,
        "state": job.state,
        "exit_code": job.exit_code,
        "started_at": format_time(job.started_at),
        "ended_at": format_time(job.ended_at) if job.ended_at else None,
        "duration_s": job.duration_s,
        "zone": parts.place.zone,
        "region": job.head.region,
        "revision": parts.context.revision,
        "provisional": job.state == "running",
        "energy_kwh": doc(parts.energy_kwh),
        "operational_g": doc(parts.operational_g),
        "embodied_g": doc(parts.embodied_g),
        "total_g": doc(parts.total_g),
        "sci": units,
        "conformance": status.status,
        "deviations": list(status.deviations),
    }


def per_unit(total_g: Quantity, count: float, unit: str) -> Quantity:
    """C per R [gCO2e/unit]; raises ScoreError for R <= 0, which has no meaning."""
    if count <= 0:
        raise ScoreError(f"R must be above zero, not {count} {unit}", code="bad-functional-unit")
    return total_g.scaled(1 / count, f"gCO2e/{unit}")


def _parts(converted: Converted, context: ScoreContext) -> Parts:
    job = converted.job
    whole = NodePlace("", job.head.zone, job.head.region, job.head.pue)
    place = locate_nodes(whole, job.places, job.nodes, context.catalog)
    cells = EnergyCells.of(job.devices, *_tracks(job, place, context))
    embodied = allocate(job, context.catalog, context.lifetime)
    return Parts(job, context, place, cells, embodied, converted.used)


def _tracks(
    job: MergedJob, place: Place, context: ScoreContext
) -> tuple[IntensityTrack, dict[str, IntensityTrack]]:
    """The intensity of the job's place, and by node where the nodes stand in several zones."""
    intervals = [interval for device in job.devices for interval in device.intervals]
    start = min((interval.start for interval in intervals), default=job.started_at)
    end = max((interval.end for interval in intervals), default=job.last_seen)
    zones = place.zones or (None,)
    tracks = [_track(context, zone, start, end) for zone in zones]
    if len(tracks) > 1 and start < end:
        tracks = aligned(tracks, start, end)
    of_zone = dict(zip(zones, tracks, strict=True))
    return tracks[0], {node: of_zone[zone] for node, zone in place.nodes}


def _track(
    context: ScoreContext, zone: str | None, start: datetime, end: datetime
) -> IntensityTrack:
    track = IntensityTrack(context.intensity.points(zone, start, end))
    if (track.signal, track.basis) != (context.signal, context.basis):
        asked, given = f"{context.signal}, {context.basis}", f"{track.signal}, {track.basis}"
        raise ScoreError(
            f"the score is asked for in {asked} intensity, and the data are {given}",
            code="mixed-intensity",
        )
    return track


def _faults(parts: Parts) -> list[str]:
    """What keeps the score from being an SCI: each "shall" of the standard that is not met."""
    named = {"energy": parts.energy_kwh, "embodied carbon": parts.embodied_g}
    unknown = [f"{name} is not known" for name, figure in named.items() if figure is None]
    synthetic = ["readings come from a synthetic or replayed meter, not from hardware"]
    return [*(synthetic if parts.synthetic else []), *parts.place.faults, *unknown]


def _units(job: MergedJob, total_g: Quantity | None) -> tuple[list[SciDoc], list[Notice]]:
    """R and C per R for each counted unit, and per job where nothing was counted."""
    counts: dict[str, float] = {}
    for count in job.counts:
        counts[count.unit] = counts.get(count.unit, 0.0) + count.amount
    counted = {unit: amount for unit, amount in counts.items() if amount > 0}
    notices = [
        Notice("unit-not-counted", f"The unit {unit!r} was declared but never counted.", "sci")
        for unit in job.units
        if unit not in counted and unit != "job"
    ]
    if not counted:
        counted = {"job": 1.0}
        if not job.units:
            notices.append(Notice("unit-undeclared", CODES["unit-undeclared"], "sci"))
    ordered = sorted(counted, key=lambda unit: (unit not in job.units, unit))
    return [_sci(unit, counted[unit], total_g) for unit in ordered], notices


def _sci(unit: str, count: float, total_g: Quantity | None) -> SciDoc:
    figure = per_unit(total_g, count, unit).to_doc() if total_g else None
    return {"unit": unit, "count": count, "g_per_unit": figure}


def _notices(parts: Parts, of_units: Iterable[Notice]) -> Iterable[Notice]:
    """Each remark once, those on the place first."""
    job = parts.job
    notices = list(parts.place.notices)
    if parts.synthetic and all(notice.code != "meter-synthetic" for notice in job.notices):
        notices.append(Notice("meter-synthetic", CODES["meter-synthetic"], "energy_kwh"))
    notices += [*_energy_notices(parts), *of_units, *job.notices]
    notices += [*parts.embodied.notices, *_intensity_notices(parts)]
    notices += overlay_notices(inputs(parts), parts.context.catalog)
    notices += [Notice("job-lost", CODES["job-lost"])] if job.state == "lost" else []
    return dict.fromkeys(notices)


def _quality(parts: Parts) -> QualityDoc:
    return quality(
        parts.cells.by_kind(),
        parts.cells.by_quality(),
        parts.embodied.by_tier(),
        complete=parts.complete,
    )


def _energy_notices(parts: Parts) -> list[Notice]:
    unread = [device.record for device in parts.job.devices if not device.intervals]
    notices = [
        Notice(
            "energy-unmeasured",
            f"No energy of {record.name} ({record.device_class}) was read.",
            f"devices.{record.device_id}.energy_j",
        )
        for record in unread
    ]
    by_kind = parts.cells.by_kind()
    if not by_kind and not unread:
        notices.append(Notice("energy-unmeasured", CODES["energy-unmeasured"], "energy_kwh"))
    estimated = by_kind.get("estimated", 0.0)
    if estimated:
        share = estimated / sum(by_kind.values())
        which = "the energy that is known" if unread else "the energy"
        text = f"{share:.0%} of {which} is estimated by a model, not read from a meter."
        text += " The job's energy is not known as a whole." if unread else ""
        notices.append(Notice("energy-estimated", text, "energy_kwh"))
    return notices


def _intensity_notices(parts: Parts) -> list[Notice]:
    annual = [point.intensity.source for point in parts.cells.points if point.quality == "annual"]
    if not annual:
        return []
    texts = (f"Annual mean intensity: {source}." for source in dict.fromkeys(annual))
    found = [Notice("intensity-annual", text, "operational_g") for text in texts]
    for zone in parts.place.zones:
        found += reused(zone, parts.context.catalog)
    return found


def _devices(
    devices: Iterable[MergedDevice], cells: EnergyCells, embodied: EmbodiedShares
) -> list[DeviceDoc]:
    rows = [_device(device, cells, embodied) for device in devices]
    read = {row["device_id"] for row in rows}
    return rows + [_host(share) for share in embodied.shares if share.device_id not in read]


def _host(share: Share) -> DeviceDoc:
    """The host's row: embodied share only; its energy is that of the CPU and memory rows."""
    return {
        "device_id": share.device_id,
        "node": share.node,
        "class": "host",
        "name": share.label,
        "hardware": None,
        "share": share.fraction,
        "energy_j": None,
        "embodied_g": share.embodied_g.to_doc(),
        "meter": "counted in the CPU and memory rows",
        "kinds": {},
        "mean_utilisation": None,
        "peak_memory_b": None,
        "max_power_w": None,
        "profile": {},
    }


def _device(device: MergedDevice, cells: EnergyCells, embodied: EmbodiedShares) -> DeviceDoc:
    record, share = device.record, embodied.of(device.record.device_id)
    return {
        "device_id": record.device_id,
        "node": record.node,
        "class": record.device_class,
        "name": record.name,
        "hardware": embodied.ids.get(record.device_id),
        "share": record.share,
        "energy_j": doc(cells.energy_j(device=record.device_id)),
        "embodied_g": share.embodied_g.to_doc() if share else None,
        "meter": record.meter,
        "kinds": cells.by_kind(record.device_id),
        "mean_utilisation": _mean_utilisation(device),
        "peak_memory_b": _highest(i.memory_peak_b for i in device.intervals),
        "max_power_w": _highest(i.power_max_w for i in device.intervals),
        "profile": joined((i.profile, _length_s(i)) for i in device.intervals),
    }


def _mean_utilisation(device: MergedDevice) -> float | None:
    """Utilisation weighted by time, over the intervals that report one."""
    weighted = [
        (interval.utilisation_mean, _length_s(interval))
        for interval in device.intervals
        if interval.utilisation_mean is not None
    ]
    seconds = sum(length for _, length in weighted)
    return sum(busy * length for busy, length in weighted) / seconds if seconds else None


def _length_s(interval: IntervalRecord) -> float:
    return (interval.end - interval.start).total_seconds()


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)

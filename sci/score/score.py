"""The score: SCI = ((E x I) + M) per R, with everything needed to defend it.

ISO/IEC 21031:2024, as published in SCI specification v1.1.0. `score` is pure: the same job and
context give the same document. Nothing unknown becomes 0: an unknown term is None, makes the total
and the scores None, and the status `not-sci`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from gramwatt.sci.base.document import DeviceDoc, JobDoc, JobHead
from gramwatt.sci.base.formatting import duration
from gramwatt.sci.base.notices import CODES, Notice
from gramwatt.sci.base.propagation import UncertaintyDoc
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.grid.intensity import IntensityTrack, aligned
from gramwatt.sci.journal.corrections import exclusion
from gramwatt.sci.journal.merge import DeviceKey, MergedDevice, MergedJob, NodePlace
from gramwatt.sci.journal.modules import HOST_CLASSES
from gramwatt.sci.journal.records import IntervalRecord, format_time
from gramwatt.sci.journal.telemetry import joined
from gramwatt.sci.score.allocation import ACCELERATORS, Share, allocate
from gramwatt.sci.score.context import ScoreContext, ScoredJob, doc
from gramwatt.sci.score.functional_unit import Converted, UnitScore, convert, unit_scores
from gramwatt.sci.score.location import Place, in_data_centre, locate_nodes, reused
from gramwatt.sci.score.method import inputs, method, overlay_notices
from gramwatt.sci.score.operational import DeviceEnergy, Site, join
from gramwatt.sci.score.quality import conformance, quality
from gramwatt.sci.score.supplementary import lifetime_sensitivity, market_based
from gramwatt.sci.score.timeseries import days, intensity_used, series, steps
from gramwatt.sci.score.windows import grouped, window_notices, windows

__all__ = ["ScoreContext", "score"]

GAP_SHARE, GAP_S = 0.1, 60.0
"""Time without readings that a score names: more than this share of what was reserved, and [s]."""


def score(job: MergedJob, context: ScoreContext) -> JobDoc:
    """The document of a job; raises ScoreError when an input has no meaning."""
    converted = convert(job)
    scored = _scored(converted, context)
    job = scored.job
    units, unit_notices = unit_scores(job, scored.total_g)
    contract, contract_notices = market_based(job.head.tags, scored.energy_kwh, scored.pue)
    found = grouped(job.windows)
    figures = inputs(scored)
    notices = dict.fromkeys(
        (
            *_place_notices(scored),
            *_energy_notices(scored),
            *unit_notices,
            *converted.notices,
            *contract_notices,
            *window_notices(job, found),
            *job.notices,
            *scored.embodied.notices,
            *_intensity_notices(scored),
            *overlay_notices(figures, context.catalog),
            *([Notice("job-lost", CODES["job-lost"])] if job.state == "lost" else []),
        )
    )
    return {
        **_head(scored, units),
        "devices": _devices(scored),
        "data_quality": quality(
            scored.energy.by_kind,
            scored.energy.by_quality(),
            scored.embodied.by_tier(),
            complete=scored.complete,
        ),
        "notices": [notice.to_doc() for notice in notices],
        "method": method(scored, figures, [row.unit for row in units]),
        "series": series(job, None if scored.place.nodes else scored.energy.track),
        "steps": steps(scored),
        "intensity": intensity_used(scored.energy),
        "embodied_terms": [share.to_doc() for share in scored.embodied.shares],
        "lifetime_sensitivity": lifetime_sensitivity(scored.embodied, scored.operational_g, units),
        "memo": contract,
        "windows": windows(scored, found),
        "days": days(scored),
        "uncertainty": _uncertainty(scored),
        "model_id": job.head.model_id,
        "framework": job.head.framework,
        "precision": job.head.precision,
        "corrections": [correction.to_doc() for correction in context.corrections],
    }


def _uncertainty(scored: ScoredJob) -> dict[str, UncertaintyDoc]:
    """What moves each term that is known, and not zero, by inputs."""
    terms = {
        "energy_kwh": scored.energy_kwh,
        "operational_g": scored.operational_g,
        "embodied_g": scored.embodied_g,
    }
    rest = f"other inputs of {scored.job.head.job_id}"
    return {
        name: figure.uncertainty.condensed(rest).to_doc()
        for name, figure in terms.items()
        if figure is not None and figure.value > 0
    }


def _head(scored: ScoredJob, units: Iterable[UnitScore]) -> JobHead:
    job = scored.job
    status = conformance(_faults(scored), scored.place.deviations)
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
        "zone": scored.place.zone,
        "region": job.head.region,
        "revision": scored.context.revision,
        "provisional": job.state == "running",
        "energy_kwh": doc(scored.energy_kwh),
        "operational_g": doc(scored.operational_g),
        "embodied_g": doc(scored.embodied_g),
        "total_g": doc(scored.total_g),
        "sci": [row.to_doc() for row in units],
        "conformance": status.status,
        "deviations": list(status.deviations),
        "tags": dict(job.head.tags),
        "excluded": exclusion(scored.context.corrections),
    }


def _scored(converted: Converted, context: ScoreContext) -> ScoredJob:
    job = converted.job
    whole = NodePlace("", job.head.zone, job.head.region, job.head.pue)
    names = [node.name for node in job.nodes]
    embodied = allocate(job, context.catalog, context.lifetime)
    served = bool(job.head.scheduler) or _on_servers(job, embodied.ids, context.catalog)
    place = locate_nodes(whole, job.places, names, context.catalog, data_centre=served)
    energy = join(job.devices, *_sites(job, place, context), context.zone)
    return ScoredJob(job, context, place, energy, embodied, converted.used)


def _on_servers(job: MergedJob, ids: Mapping[DeviceKey, str], catalog: Catalog) -> bool:
    """Whether an accelerator of the job is made for data centres; `ids` are its catalog ids."""
    accelerators = (d.key for d in job.devices if d.record.device_class in ACCELERATORS)
    parts = {ids[key] for key in accelerators if key in ids}
    return any(in_data_centre(catalog.hardware(part)) for part in parts)


def _sites(
    job: MergedJob, place: Place, context: ScoreContext
) -> tuple[IntensityTrack, dict[str, Site]]:
    """The intensity of the job's place, and intensity and PUE by node where the nodes differ."""
    read = [device.intervals for device in job.devices if device.intervals]
    start = min((intervals[0].start for intervals in read), default=job.started_at)
    end = max((intervals[-1].end for intervals in read), default=job.last_seen)
    zones = place.zones or (None,)
    tracks = [_track(context, zone, start, end) for zone in zones]
    if len(tracks) > 1 and start < end:
        tracks = aligned(tracks, start, end)
    of_zone = dict(zip(zones, tracks, strict=True))
    zone_of, pue_of = dict(place.nodes), dict(place.pues)
    differing = [n.name for n in job.nodes if n.name in zone_of or n.name in pue_of]
    return tracks[0], {
        node: (of_zone[zone_of.get(node, zones[0])], pue_of.get(node)) for node in differing
    }


def _track(
    context: ScoreContext, zone: str | None, start: datetime, end: datetime
) -> IntensityTrack:
    track = IntensityTrack.of(context.intensity.points(zone, start, end))
    track.require(context.signal, context.basis)
    return track


def _faults(scored: ScoredJob) -> list[str]:
    """What keeps the score from being an SCI: each "shall" of the standard that is not met."""
    named = {"energy": scored.energy_kwh, "embodied carbon": scored.embodied_g}
    unknown = [f"{name} is not known" for name, figure in named.items() if figure is None]
    synthetic = ["readings come from a synthetic or replayed meter, not from hardware"]
    return [*(synthetic if scored.synthetic else []), *scored.place.faults, *unknown]


def _place_notices(scored: ScoredJob) -> list[Notice]:
    notices = list(scored.place.notices)
    if scored.synthetic and all(n.code != "meter-synthetic" for n in scored.job.notices):
        notices.append(Notice("meter-synthetic", CODES["meter-synthetic"], "energy_kwh"))
    return notices


def _energy_notices(scored: ScoredJob) -> list[Notice]:
    unread = [device.record for device in scored.job.devices if not device.intervals]
    notices = [
        Notice(
            "energy-unmeasured",
            f"No energy of {record.name} ({record.device_class}) was read.",
            f"devices.{record.device_id}.energy_j",
        )
        for record in unread
    ]
    notices += _gap_notices(scored.job)
    by_kind = scored.energy.by_kind
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


def _gap_notices(job: MergedJob) -> list[Notice]:
    """A notice of devices whose readings leave out much of the time they were reserved for.

    Of a running job more may come; host parts of a node whose module has them are no gap.
    """
    if job.ended_at is None:
        return []
    modules = {device.record.node for device in job.devices if device.record.includes_host}
    gaps = []
    for device in job.devices:
        record = device.record
        if not device.intervals or (record.device_class in HOST_CLASSES and record.node in modules):
            continue
        reserved_s = job.reserved_s(device.nodes)
        read_s = sum(((i.end - i.start) for i in device.intervals), timedelta()).total_seconds()
        if reserved_s - read_s > max(GAP_SHARE * reserved_s, GAP_S):
            gaps.append((read_s / reserved_s, record, read_s, reserved_s))
    if not gaps:
        return []
    _, record, read_s, reserved_s = min(gaps, key=lambda gap: gap[0])
    text = (
        f"Readings of {record.name} ({record.device_class}) cover {duration(read_s)} of the "
        f"{duration(reserved_s)} that it was reserved for; the energy of the rest is missing."
    )
    if more := len(gaps) - 1:
        text += f" So it is with {more} more device{'s' if more > 1 else ''}."
    return [Notice("meter-gap", text, f"devices.{record.device_id}.energy_j")]


def _intensity_notices(scored: ScoredJob) -> list[Notice]:
    known = [run.known for track in scored.energy.tracks for run in track.runs]
    annual = [one.figure.source for one in known if one.quality == "annual"]
    if not annual:
        return []
    texts = (f"Annual mean intensity: {source}." for source in dict.fromkeys(annual))
    found = [Notice("intensity-annual", text, "operational_g") for text in texts]
    for zone in scored.place.zones:
        found += reused(zone, scored.context.catalog)
    return found


def _devices(scored: ScoredJob) -> list[DeviceDoc]:
    """A row for every device, then for every host: its energy is that of CPU and memory rows."""
    shares = {share.key: share for share in reversed(scored.embodied.shares)}
    rows = []
    for device in scored.job.devices:
        hardware, energy = scored.embodied.ids.get(device.key), scored.energy.devices[device.key]
        rows.append(_device(device, hardware, energy, shares.get(device.key)))
    read = scored.energy.devices.keys()
    hosts = [_host(share) for share in scored.embodied.shares if share.key not in read]
    return rows + hosts


def _host(share: Share) -> DeviceDoc:
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


def _device(
    device: MergedDevice, hardware: str | None, energy: DeviceEnergy, share: Share | None
) -> DeviceDoc:
    record, intervals = device.record, device.intervals
    lengths_s = [(interval.end - interval.start).total_seconds() for interval in intervals]
    return {
        "device_id": record.device_id,
        "node": record.node,
        "class": record.device_class,
        "name": record.name,
        "hardware": hardware,
        "share": record.share,
        "energy_j": doc(energy.energy_j),
        "embodied_g": share.embodied_g.to_doc() if share else None,
        "meter": record.meter,
        "kinds": {kind: joules for kind, joules in energy.by_kind.items()},
        "mean_utilisation": _mean_utilisation(intervals, lengths_s),
        "peak_memory_b": _highest([interval.memory_peak_b for interval in intervals]),
        "max_power_w": _highest([interval.power_max_w for interval in intervals]),
        "profile": joined([interval.profile for interval in intervals], lengths_s),
    }


def _mean_utilisation(
    intervals: Sequence[IntervalRecord], lengths_s: Sequence[float]
) -> float | None:
    """Utilisation weighted by time, over the intervals that report one."""
    busy_s = known_s = 0.0
    for interval, length_s in zip(intervals, lengths_s, strict=True):
        if interval.utilisation_mean is not None:
            busy_s += interval.utilisation_mean * length_s
            known_s += length_s
    return busy_s / known_s if known_s else None


def _highest(values: Iterable[float | None]) -> float | None:
    return max([value for value in values if value is not None], default=None)

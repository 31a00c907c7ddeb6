"""The score: SCI = ((E x I) + M) per R, with everything needed to defend it.

ISO/IEC 21031:2024, as published in SCI specification v1.1.0. `score` is pure: the same job and
context give the same document. Nothing unknown becomes 0: an unknown term is None, makes the total
and the scores None, and the status `not-sci`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gramwatt.sci.figures.document import DeviceDoc, JobDoc
from gramwatt.sci.figures.quantity import Quantity, bare
from gramwatt.sci.records.corrections import (
    EXCLUDED,
    TAG,
    Correction,
    exclusion,
    with_declared_counts,
)
from gramwatt.sci.records.merge import MergedDevice, MergedJob
from gramwatt.sci.records.records import IntervalRecord, JobRecord, format_time, joined
from gramwatt.sci.score.allocation import Share, allocate
from gramwatt.sci.score.assess import Assessment, assess
from gramwatt.sci.score.boundary import method
from gramwatt.sci.score.functional_unit import PREFIX, ScoredJob, divide
from gramwatt.sci.score.identify import ScoreContext, identify
from gramwatt.sci.score.operational import DeviceEnergy, join
from gramwatt.sci.score.sensitivity import lifetime_sensitivity
from gramwatt.sci.score.service import service
from gramwatt.sci.score.timeseries import days, intensity_used, series, steps
from gramwatt.sci.score.windows import windows

__all__ = ["ScoreContext", "score"]

_SCORED_TAGS = frozenset({"inception", "retirement", "tokeniser", "unit_rationale", "unit_values"})
"""Tags of which a score says more than that they are there; and those that begin with PREFIX."""


def score(job: MergedJob, context: ScoreContext) -> JobDoc:
    """Return the document of a job; raises ScoreError when an input has no meaning."""
    identified = identify(with_declared_counts(job, context.corrections), context)
    energy = join(identified)
    embodied = allocate(identified)
    scored = divide(identified, energy, embodied)
    return document(scored, assess(scored))


def document(scored: ScoredJob, assessed: Assessment) -> JobDoc:
    """Return all that a score shows, as JSON-ready data."""
    job, embodied = scored.job, scored.embodied
    return JobDoc(
        job_id=job.head.job_id,
        name=job.head.name or job.head.job_id,
        project=job.head.project,
        kind=job.head.kind,
        state=job.state,
        exit_code=job.exit_code,
        started_at=format_time(job.started_at),
        ended_at=format_time(job.ended_at) if job.ended_at else None,
        duration_s=job.duration_s,
        zone=scored.place.zone,
        region=scored.place.region.id if scored.place.region else job.head.region,
        revision=scored.context.revision,
        provisional=job.state == "running",
        energy_kwh=_term(scored, scored.energy_kwh),
        operational_g=_term(scored, scored.operational_g),
        embodied_g=_term(scored, scored.embodied_g),
        total_g=bare(scored.total_g),
        sci=scored.sci,
        conformance=assessed.status.status,
        deviations=list(assessed.status.deviations),
        tags=dict(job.head.tags),
        excluded=exclusion(scored.context.corrections),
        devices=_devices(scored),
        data_quality=assessed.quality,
        notices=list(assessed.notices),
        method=method(scored, [row.to_doc() for row in assessed.inputs]),
        series=series(job, None if scored.place.nodes else scored.energy.track),
        steps=steps(scored),
        intensity=intensity_used(scored.energy),
        embodied_terms=[share.to_doc() for share in embodied.shares],
        lifetime_sensitivity=lifetime_sensitivity(scored),
        windows=windows(scored),
        days=days(scored),
        service=service(scored),
        model_id=job.head.model_id,
        framework=job.head.framework,
        precision=job.head.precision,
        corrections=[correction.to_doc() for correction in scored.context.corrections],
    )


def relabel(
    document: JobDoc, head: JobRecord, corrections: Sequence[Correction], revision: int
) -> JobDoc:
    """Return the score as a further revision, with name, tags and exclusion as declared now."""
    return replace(
        document,
        name=head.name or head.job_id,
        tags=dict(head.tags),
        excluded=exclusion(corrections),
        corrections=[correction.to_doc() for correction in corrections],
        revision=revision,
    )


def changes_no_figure(field: str) -> bool:
    """Return whether a correction of the field leaves every figure, and how it was made."""
    tag = field.removeprefix(TAG)
    if tag != field:
        return not (tag in _SCORED_TAGS or tag.startswith(PREFIX))
    return field in ("name", EXCLUDED)


def _term(scored: ScoredJob, figure: Quantity | None) -> Quantity | None:
    """Return a term of the job with its inputs, so that sums of jobs count shared ones once."""
    if figure is None:
        return None
    return figure.condensed(f"other:{scored.job.head.job_id}")


def _devices(scored: ScoredJob) -> list[DeviceDoc]:
    """Return a row for every device, then for every host, whose energy its CPU and memory have."""
    shares = {share.of.key: share for share in reversed(scored.embodied.shares)}
    rows = []
    for device in scored.job.devices:
        hardware, energy = scored.identified.ids.get(device.key), scored.energy.devices[device.key]
        rows.append(_device(device, hardware, energy, shares.get(device.key)))
    read = scored.energy.devices.keys()
    hosts = [_host(share) for share in scored.embodied.shares if share.of.key not in read]
    return rows + hosts


def _host(share: Share) -> DeviceDoc:
    return DeviceDoc(
        device_id=share.of.device_id,
        node=share.of.node,
        device_class="host",
        name=share.of.label,
        hardware=None,
        share=share.of.fraction,
        energy_j=None,
        embodied_g=share.embodied_g.bare(),
        meter="counted in the CPU and memory rows",
        kinds={},
        mean_utilisation=None,
        peak_memory_b=None,
        max_power_w=None,
        profile={},
    )


def _device(
    device: MergedDevice, hardware: str | None, energy: DeviceEnergy, share: Share | None
) -> DeviceDoc:
    record, intervals = device.record, device.intervals
    lengths_s = [(interval.end - interval.start).total_seconds() for interval in intervals]
    return DeviceDoc(
        device_id=record.device_id,
        node=record.node,
        device_class=record.device_class,
        name=record.name,
        hardware=hardware,
        share=record.share,
        energy_j=bare(energy.energy_j),
        embodied_g=share.embodied_g.bare() if share else None,
        meter=record.meter,
        kinds={kind: joules for kind, joules in energy.by_kind.items()},
        mean_utilisation=_mean_utilisation(intervals, lengths_s),
        peak_memory_b=_highest([interval.memory_peak_b for interval in intervals]),
        max_power_w=_highest([interval.power_max_w for interval in intervals]),
        profile=joined([interval.profile for interval in intervals], lengths_s),
    )


def _mean_utilisation(
    intervals: Sequence[IntervalRecord], lengths_s: Sequence[float]
) -> float | None:
    """Return utilisation weighted by time, over the intervals that report one."""
    busy_s = known_s = 0.0
    for interval, length_s in zip(intervals, lengths_s, strict=True):
        if interval.utilisation_mean is not None:
            busy_s += interval.utilisation_mean * length_s
            known_s += length_s
    return busy_s / known_s if known_s else None


def _highest(values: Iterable[float | None]) -> float | None:
    return max([value for value in values if value is not None], default=None)

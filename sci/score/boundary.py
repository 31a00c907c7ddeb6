"""The boundary and the method that a score is reported with.

ISO/IEC 21031 (SCI specification v1.1), "Reporting". The standard keeps certificates, purchase
agreements and offsets out of the intensity ("Carbon intensity").
"""

from __future__ import annotations

from collections.abc import Mapping

from gramwatt.sci.figures.document import ExclusionDoc, InputDoc, MethodDoc
from gramwatt.sci.figures.meters import meter_energy_j
from gramwatt.sci.figures.quantity import bare
from gramwatt.sci.score.functional_unit import ScoredJob
from gramwatt.sci.score.sci_for_ai import CONSUMER, PROVIDER, for_ai, persona
from gramwatt.sci.score.sensitivity import largest_uncertainty
from gramwatt.sci.score.version import ENGINE_VERSION

STANDARD = "ISO/IEC 21031:2024 (SCI specification v1.1.0), self-declared"
FORMULA = "SCI = ((E x I) + M) / R, with E x I = sum over intervals of E_k x I(zone, t_k) x PUE"
APPROACH = "location-based; market-based instruments are not part of SCI"
INCLUDED = (
    "accelerators reserved for the job, idle time included",
    "host CPU and memory",
    "embodied carbon of accelerators and host",
)
NOT_JUDGED = "no job measures it, and whether it is material was not said (tag of that name)"
OTHER_RUNS = "other runs of the same model"
EXCLUDED: tuple[ExclusionDoc, ...] = (
    ExclusionDoc(
        component="network and shared storage", reason="no meter and no catalog figure yet"
    ),
    ExclusionDoc(component=OTHER_RUNS, reason="each is a job of its own"),
    ExclusionDoc(component="end-user devices", reason="a training or batch job has none"),
)


def method(scored: ScoredJob, inputs: list[InputDoc]) -> MethodDoc:
    """Return the method block of a job's document."""
    track, job = scored.energy.track, scored.job
    exclusions = [*EXCLUDED, *stages(job.head.kind, job.head.tags)]
    own = meter_energy_j(job.meter_cpu_s, job.meter_rss_b, job.duration_s)
    return MethodDoc(
        standard=STANDARD,
        formula=FORMULA,
        engine_version=ENGINE_VERSION,
        catalog_version=scored.context.catalog.version,
        boundary_included=list(INCLUDED),
        boundary_excluded=[f"{row.component}: {reason_of(row)}" for row in exclusions],
        exclusions=exclusions,
        intensity_signal=track.signal,
        intensity_basis=track.basis,
        intensity_approach=APPROACH,
        supply=scored.place.supply,
        supplies=[scored.place.supply],
        zones=list(scored.place.zones),
        conversions=list(scored.conversions),
        sci_for_ai=for_ai(job.head.kind, scored.counts, job.head.tags),
        lifetime_years=scored.identified.life.bare(),
        pue=scored.energy.pue,
        intensity_g_per_kwh=scored.energy.mean_intensity,
        largest_uncertainty=largest_uncertainty(scored.total_g, inputs),
        inputs=inputs,
        meter_cpu_s=job.meter_cpu_s,
        meter_rss_b=job.meter_rss_b,
        meter_energy_j=bare(own),
        time_zone=str(scored.context.zone),
    )


def reason_of(row: ExclusionDoc) -> str:
    """Return why something is left out, or that nobody said so."""
    return row.reason or NOT_JUDGED


def stages(kind: str, tags: Mapping[str, str]) -> list[ExclusionDoc]:
    """Return the stages of a model that no job measures, and what was said of whether they matter.

    SCI for AI counts inception for the provider and retirement for both where they are material.
    """
    who = persona(kind)
    stages_of = {PROVIDER: ("inception", "retirement"), CONSUMER: ("retirement",)}.get(
        who or "", ()
    )
    return [
        ExclusionDoc(component=f"{stage} of the model", reason=tags.get(stage) or None)
        for stage in stages_of
    ]

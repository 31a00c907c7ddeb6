"""What a score discloses: boundary, method, inputs with sources, and what widens its range.

ISO/IEC 21031 (SCI specification v1.1), "Reporting": a score is reported with its boundary and
calculation methodology.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import TypedDict

from gramwatt.sci.base.document import MethodDoc, doc
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.score.assess import Assessment
from gramwatt.sci.score.functional_unit import ScoredJob
from gramwatt.sci.score.sci_for_ai import CONSUMER, PROVIDER, for_ai, persona
from gramwatt.sci.score.supplementary import meter_energy_j

ENGINE_VERSION = "5"
"""Raised whenever the same inputs would give other numbers; listed in CHANGELOG."""

STANDARD = "ISO/IEC 21031:2024 (SCI specification v1.1.0), self-declared"
FORMULA = "SCI = ((E x I) + M) / R, with E x I = sum over intervals of E_k x I(zone, t_k) x PUE"
APPROACH = "location-based; market-based instruments are not part of SCI"
INCLUDED = (
    "accelerators reserved for the job, idle time included",
    "host CPU and memory",
    "embodied carbon of accelerators and host",
)
NOT_JUDGED = "no job measures it, and whether it is material was not said (tag of that name)"
OTHER_RUNS = "other runs of the same model: each is a job of its own"
EXCLUDED = (
    "network and shared storage: no meter and no catalog figure yet",
    OTHER_RUNS,
    "end-user devices: a training or batch job has none",
)


class _TimeZone(TypedDict, total=False):
    time_zone: str


def method(scored: ScoredJob, assessed: Assessment) -> MethodDoc:
    """Return the method block of a job's document."""
    track, job = scored.energy.track, scored.job
    own = meter_energy_j(job.meter_cpu_s, job.meter_rss_b, job.duration_s)
    return {
        "standard": STANDARD,
        "formula": FORMULA,
        "engine_version": ENGINE_VERSION,
        "catalog_version": scored.context.catalog.version,
        "boundary_included": list(INCLUDED),
        "boundary_excluded": [*EXCLUDED, *stages(job.head.kind, job.head.tags)],
        "intensity_signal": track.signal,
        "intensity_basis": track.basis,
        "intensity_approach": APPROACH,
        "supply": scored.place.supply,
        "zones": list(scored.place.zones),
        **_time_zone(scored.context.zone),
        "conversions": list(scored.conversions),
        "sci_for_ai": for_ai(job.head.kind, scored.counts, job.head.tags),
        "lifetime_years": scored.identified.life.to_doc(),
        "pue": scored.energy.pue.to_doc(),
        "intensity_g_per_kwh": scored.energy.mean_intensity.to_doc(),
        "largest_uncertainty": largest_uncertainty(scored),
        "inputs": [row.to_doc() for row in assessed.inputs],
        "meter_cpu_s": job.meter_cpu_s,
        "meter_rss_b": job.meter_rss_b,
        "meter_energy_j": doc(own),
    }


def _time_zone(zone: tzinfo) -> _TimeZone:
    return {} if zone is UTC else {"time_zone": str(zone)}


def stages(kind: str, tags: Mapping[str, str]) -> list[str]:
    """Statements on the stages of a model that no job measures: whether they matter, and why.

    SCI for AI counts inception for the provider and retirement for both where they are material.
    """
    who = persona(kind)
    asked = {PROVIDER: ("inception", "retirement"), CONSUMER: ("retirement",)}.get(who or "", ())
    return [f"{stage} of the model: {tags.get(stage) or NOT_JUDGED}" for stage in asked]


def largest_uncertainty(scored: ScoredJob) -> str | None:
    """The input that widens the total most, with its share of all widths; None where unknown.

    Each input's width is what the total's range would be if only that input were uncertain.
    """
    widths = _widths(scored)
    whole = sum(widths.values())
    if scored.total_g is None or whole <= 0:
        return None
    name = max(widths, key=widths.__getitem__)
    return f"{name} ({widths[name] / whole:.0%} of the range)"


def _widths(scored: ScoredJob) -> dict[str, float]:
    energy, operational, embodied = scored.energy_kwh, scored.operational_g, scored.embodied_g
    if energy is None or operational is None or embodied is None:
        return {}
    life = scored.identified.life
    widths = {
        "energy": operational.value * _relative(energy),
        "carbon intensity": operational.value * _relative(scored.energy.mean_intensity),
        "PUE": operational.value * _relative(scored.energy.pue),
        "hardware lifetime": embodied.value * life.value * (1 / life.low - 1 / life.high),
    }
    for share in scored.embodied.shares:
        name = f"embodied carbon of {share.of.label}"
        grown = widths.get(name, 0.0) + share.embodied_g.value * _relative(share.of.te.te_g)
        widths[name] = grown
    return widths


def _relative(figure: Quantity) -> float:
    """Width of a figure's range over its value."""
    return (figure.high - figure.low) / figure.value if figure.value else 0.0

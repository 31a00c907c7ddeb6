"""The method of a score, and figures that stand beside it and never enter it.

ISO/IEC 21031 (SCI specification v1.1), "Reporting": a score is reported with its boundary and
calculation methodology. Beside it stand other lives of the hardware and what the meter itself used.
The standard keeps certificates, purchase agreements and offsets out of the intensity ("Carbon
intensity").
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from gramwatt.sci.base.document import (
    ExclusionDoc,
    InputDoc,
    MethodDoc,
    SensitivityDoc,
    doc,
)
from gramwatt.sci.base.host_model import (
    CPU_MODEL,
    DRAM_W_PER_GIB,
    FULL_W_PER_THREAD,
    RAM_MODEL,
    ram_power_w,
)
from gramwatt.sci.base.meters import energy
from gramwatt.sci.base.quantity import Quantity, total
from gramwatt.sci.score.functional_unit import ScoredJob
from gramwatt.sci.score.sci_for_ai import CONSUMER, PROVIDER, for_ai, persona

ENGINE_VERSION = "9"
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
OTHER_RUNS = "other runs of the same model"
EXCLUDED: tuple[ExclusionDoc, ...] = (
    ExclusionDoc(
        component="network and shared storage",
        reason="no meter and no catalog figure yet",
    ),
    ExclusionDoc(component=OTHER_RUNS, reason="each is a job of its own"),
    ExclusionDoc(component="end-user devices", reason="a training or batch job has none"),
)
WIDENS = {"E": "energy", "I": "carbon intensity", "PUE": "PUE", "EL": "hardware lifetime"}
"""What the inputs of a symbol are called where they widen the range."""
LIFETIMES_YEARS = (3.0, 4.0, 5.0, 6.0)
"""The lives that published footprints assume; see docs/methodology.md."""
METER_SOURCE = f"processor time x {FULL_W_PER_THREAD} W, memory x {DRAM_W_PER_GIB} W/GiB"


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
        lifetime_years=scored.identified.life.to_doc(),
        pue=scored.energy.pue.kept_doc(),
        intensity_g_per_kwh=scored.energy.mean_intensity.kept_doc(),
        largest_uncertainty=largest_uncertainty(scored.total_g, inputs),
        inputs=inputs,
        meter_cpu_s=job.meter_cpu_s,
        meter_rss_b=job.meter_rss_b,
        meter_energy_j=doc(own),
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
    asked = {PROVIDER: ("inception", "retirement"), CONSUMER: ("retirement",)}.get(who or "", ())
    return [
        ExclusionDoc(component=f"{stage} of the model", reason=tags.get(stage) or None)
        for stage in asked
    ]


def largest_uncertainty(total_g: Quantity | None, inputs: Iterable[InputDoc]) -> str | None:
    """Return the input that widens the total most, with its share; None where that is unknown.

    The range is a root of squares: an input has the share of its squares. What several ids stand
    for, such as the counters of boards, is one input.
    """
    if total_g is None:
        return None
    names = {id_: _name_of(row) for row in inputs for id_ in row.ids}
    squares: dict[str, float] = defaultdict(float)
    for id_, (low, high) in total_g.inputs.items():
        squares[names.get(id_, "other inputs")] += low * low + high * high
    whole = sum(squares.values())
    if whole <= 0:
        return None
    name = max(squares, key=squares.__getitem__)
    return f"{name} ({squares[name] / whole:.0%} of the range)"


def _name_of(row: InputDoc) -> str:
    if row.symbol == "TE":
        return f"embodied carbon of {row.of}"
    return WIDENS[row.symbol]


def lifetime_sensitivity(scored: ScoredJob) -> list[SensitivityDoc]:
    """Return M, C [gCO2e] and C per R with EL of 3, 4, 5 and 6 years for all hardware."""
    shares, operational_g = scored.embodied.shares, scored.operational_g
    if not shares:
        return []
    by_year = math.fsum(s.embodied_g.value * s.of.life.value for s in shares)
    rows: list[SensitivityDoc] = []
    for years in LIFETIMES_YEARS:
        embodied_g = by_year / years
        total_g = operational_g.value + embodied_g if operational_g else None
        row: SensitivityDoc = SensitivityDoc(
            lifetime_years=years,
            embodied_g=embodied_g,
            total_g=total_g,
            g_per_unit={
                unit: total_g / count if total_g else None for unit, count in scored.counts.items()
            },
        )
        rows.append(row)
    return rows


def meter_energy_j(
    cpu_s: float | None, memory_b: float | None, duration_s: float
) -> Quantity | None:
    """Return energy of the job's meters [J] out of CPU time [s], peak memory [B] and duration [s].

    An estimate, and a part of the host's energy: it is in E already where the host is measured or
    modelled. None when no meter recorded what it used.
    """
    if cpu_s is None:
        return None
    cpu_j = cpu_s * FULL_W_PER_THREAD
    ram_j = ram_power_w(memory_b or 0.0) * duration_s
    parts = (energy(cpu_j, "estimated", CPU_MODEL), energy(ram_j, "estimated", RAM_MODEL))
    whole = total(parts)
    return whole.sourced(METER_SOURCE) if whole else None

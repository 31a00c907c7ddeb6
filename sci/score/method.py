"""What a score discloses: boundary, method, inputs with sources, and what widens its range.

ISO/IEC 21031 (SCI specification v1.1), "Reporting": a score is reported with its boundary and
calculation methodology.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, tzinfo
from typing import NamedTuple, TypedDict

from gramwatt.sci.base.document import MethodDoc, SourceDoc
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import KINDS, Quantity
from gramwatt.sci.base.uncertainty import relative_range
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.grid.zones import Supply
from gramwatt.sci.journal.merge import MergedJob
from gramwatt.sci.score.context import ScoredJob, doc
from gramwatt.sci.score.sci_for_ai import CONSUMER, PROVIDER, for_ai, persona
from gramwatt.sci.score.supplementary import meter_energy_j

ENGINE_VERSION = "5"
"""Raised whenever the same inputs would give other numbers; listed in CHANGELOG."""

STANDARD = "ISO/IEC 21031:2024 (SCI specification v1.1.0), self-declared"
FORMULA = "SCI = ((E x I) + M) / R, with E x I = sum over intervals of E_k x I(zone, t_k) x PUE"
APPROACH = "location-based; market-based instruments are not part of SCI"
SUPPLIES: dict[Supply, str] = {
    "grid": "the grid",
    "off-grid": "the own supply, not connected to a grid",
}
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


class Input(NamedTuple):
    """One input figure of a score: what it is, and the figure with its range and source."""

    what: str
    figure: Quantity

    def to_doc(self) -> SourceDoc:
        """This input as JSON-ready data."""
        return {"what": self.what, "figure": self.figure.to_doc()}


def method(scored: ScoredJob, inputs: Iterable[Input], units: Iterable[str]) -> MethodDoc:
    """The method block of a job document with scores in these units."""
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
        "conversions": [conversion.to_doc() for conversion in scored.conversions],
        "sci_for_ai": for_ai(job.head.kind, units, job.head.tags),
        "lifetime_years": scored.embodied.life.to_doc(),
        "pue": scored.pue.to_doc(),
        "intensity_g_per_kwh": scored.energy.mean_intensity.to_doc(),
        "largest_uncertainty": largest_uncertainty(scored),
        "inputs": [row.to_doc() for row in inputs],
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


def inputs(scored: ScoredJob) -> list[Input]:
    """Every input figure of the score with its source, in the order of the formula.

    Equal ones are one that says how many there are.
    """
    counted = Counter(_inputs(scored))
    return [
        row if n == 1 else row._replace(what=f"{row.what} ({n} alike)")
        for row, n in counted.items()
    ]


def _inputs(scored: ScoredJob) -> Iterator[Input]:
    for device in scored.job.devices:
        energy = scored.energy.devices[device.key]
        meter = device.record.meter
        if energy.energy_j is not None:
            ranges = [relative_range(kind, meter) for kind in KINDS if kind in energy.by_kind]
            evidence = "; ".join(found.source for found in ranges)
            source = f"{energy.energy_j.source} (range: {evidence})"
            yield Input(f"energy of {device.record.name}", energy.energy_j.sourced(source))
    supplied = SUPPLIES[scored.place.supply]
    yield Input(f"carbon intensity of {supplied}", scored.energy.mean_intensity)
    if scored.place.nodes and scored.energy.sums:
        for number, zone in enumerate(scored.place.zones):
            there = ", ".join(node for node, own in scored.place.nodes if own == zone)
            figure = scored.energy.zone_intensity(number)
            yield Input(f"carbon intensity of zone {zone} ({there})", figure)
    yield Input("PUE", scored.pue)
    nodes: dict[Quantity, list[str]] = defaultdict(list)
    for node, pue in scored.place.pues:
        nodes[pue].append(node)
    for pue, names in nodes.items():
        yield Input(f"PUE of {', '.join(names)}", pue)
    for share in scored.embodied.shares:
        yield Input(f"TE, embodied carbon of {share.label}", share.te.te_g)
        resource = Quantity.exact(share.fraction, "1", "declared", "reserved over total")
        yield Input(f"RR/ToR, share of {share.label}", resource)
    yield Input("EL, expected lifetime", scored.embodied.life)
    for share in scored.embodied.shares:
        if share.life != scored.embodied.life:
            yield Input(f"EL, expected lifetime of {share.label}", share.life)
    yield from _times_reserved(scored.job)


def _times_reserved(job: MergedJob) -> Iterator[Input]:
    """TiR [s], with the nodes it holds for where they differ."""
    nodes: dict[float, list[str]] = defaultdict(list)
    for node in job.nodes:
        nodes[job.reserved_s([node.name])].append(node.name)
    for time_s, there in nodes.items():
        where = f" on {', '.join(there)}" if len(nodes) > 1 else ""
        figure = Quantity.exact(time_s, "s", "measured", "start to end on the node")
        yield Input(f"TiR, time reserved{where}", figure)


def overlay_notices(inputs: Iterable[tuple[str, Quantity]], catalog: Catalog) -> list[Notice]:
    """A notice for every input (what it is, and the figure) that comes from the user's overlay."""
    texts = catalog.overlay.sources if catalog.overlay else ()
    return [
        Notice("overlay-used", f"From the overlay: {what} ({text}).")
        for what, figure in inputs
        for text in texts
        if f"overlay: {text}" in figure.source
    ]


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
    life = scored.embodied.life
    widths = {
        "energy": operational.value * _relative(energy),
        "carbon intensity": operational.value * _relative(scored.energy.mean_intensity),
        "PUE": operational.value * _relative(scored.pue),
        "hardware lifetime": embodied.value * life.value * (1 / life.low - 1 / life.high),
    }
    for share in scored.embodied.shares:
        name = f"embodied carbon of {share.label}"
        grown = widths.get(name, 0.0) + share.embodied_g.value * _relative(share.te.te_g)
        widths[name] = grown
    return widths


def _relative(figure: Quantity) -> float:
    """Width of a figure's range over its value."""
    return (figure.high - figure.low) / figure.value if figure.value else 0.0

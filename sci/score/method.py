"""What a score discloses: boundary, method, inputs with sources, and what widens its range.

SCI specification v1.1: a score is reported with its boundary and calculation methodology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gramwatt.sci.base.document import MethodDoc, SourceDoc
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import KINDS, Quantity
from gramwatt.sci.base.uncertainty import ENERGY_SPREADS
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.grid.zones import Supply
from gramwatt.sci.score.context import Parts, doc
from gramwatt.sci.score.meter_overhead import meter_energy_j
from gramwatt.sci.score.sci_for_ai import CONSUMER, PROVIDER, for_ai, persona

ENGINE_VERSION = "1"
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
EXCLUDED = (
    "network and shared storage: no meter and no catalog figure yet",
    "other runs of the same model: each is a job of its own",
    "end-user devices: a training or batch job has none",
)


def method(parts: Parts, units: Iterable[str]) -> MethodDoc:
    """The method block of a job document with scores in these units."""
    track, job = parts.cells.track, parts.job
    own = meter_energy_j(job.meter_cpu_s, job.meter_rss_b, job.duration_s)
    return {
        "standard": STANDARD,
        "formula": FORMULA,
        "engine_version": ENGINE_VERSION,
        "catalog_version": parts.context.catalog.version,
        "boundary_included": list(INCLUDED),
        "boundary_excluded": [*EXCLUDED, *stages(job.head.kind, job.head.tags)],
        "intensity_signal": track.signal,
        "intensity_basis": track.basis,
        "intensity_approach": APPROACH,
        "supply": parts.place.supply,
        "zones": list(parts.place.zones),
        "conversions": [conversion.to_doc() for conversion in parts.conversions],
        "sci_for_ai": for_ai(parts.job.head.kind, units, parts.job.head.tags),
        "lifetime_years": parts.context.life.to_doc(),
        "pue": parts.place.pue.to_doc(),
        "intensity_g_per_kwh": parts.cells.mean_intensity().to_doc(),
        "largest_uncertainty": largest_uncertainty(parts),
        "inputs": inputs(parts),
        "meter_cpu_s": parts.job.meter_cpu_s,
        "meter_rss_b": parts.job.meter_rss_b,
        "meter_energy_j": doc(own),
    }


def stages(kind: str, tags: Mapping[str, str]) -> list[str]:
    """What is said of the stages of a model that no job measures: whether they matter, and why.

    SCI for AI counts inception for the provider and retirement for both where they are material.
    """
    who = persona(kind)
    asked = {PROVIDER: ("inception", "retirement"), CONSUMER: ("retirement",)}.get(who or "", ())
    return [f"{stage} of the model: {tags.get(stage) or NOT_JUDGED}" for stage in asked]


def inputs(parts: Parts) -> list[SourceDoc]:
    """Every input figure of the score with its source, in the order of the formula."""
    rows: list[SourceDoc] = []
    for device in parts.job.devices:
        energy = parts.cells.energy_j(device=device.record.device_id)
        if energy is not None:
            kinds = parts.cells.by_kind(device.record.device_id)
            evidence = "; ".join(ENERGY_SPREADS[kind].source for kind in KINDS if kind in kinds)
            sourced = energy.sourced(f"{energy.source} (range: {evidence})")
            rows.append(_row(f"energy of {device.record.name}", sourced))
    supplied = SUPPLIES[parts.place.supply]
    rows.append(_row(f"carbon intensity of {supplied}", parts.cells.mean_intensity()))
    rows += _of_zones(parts) if parts.place.nodes and parts.cells.cells else []
    rows.append(_row("PUE", parts.place.pue))
    for share in parts.embodied.shares:
        rows.append(_row(f"TE, embodied carbon of {share.label}", share.te.te_g))
        resource = Quantity.exact(share.fraction, "1", "declared", "reserved over total")
        rows.append(_row(f"RR/ToR, share of {share.label}", resource))
    rows.append(_row("EL, expected lifetime", parts.context.life))
    for share in parts.embodied.shares:
        if share.life != parts.context.life:
            rows.append(_row(f"EL, expected lifetime of {share.label}", share.life))
    reserved = Quantity.exact(parts.job.duration_s, "s", "measured", "job start to end")
    rows.append(_row("TiR, time reserved", reserved))
    return _once(rows)


def _of_zones(parts: Parts) -> Iterable[SourceDoc]:
    """The intensity of each zone, where the nodes of a job stand in several."""
    for number, zone in enumerate(parts.place.zones):
        there = ", ".join(node for node, own in parts.place.nodes if own == zone)
        figure = parts.cells.mean_intensity(number)
        yield _row(f"carbon intensity of zone {zone} ({there})", figure)


def overlay_notices(inputs: list[SourceDoc], catalog: Catalog) -> list[Notice]:
    """A notice for every input figure that comes from the user's overlay."""
    texts = catalog.overlay.sources if catalog.overlay else ()
    return [
        Notice("overlay-used", f"From the overlay: {row['what']} ({text}).")
        for row in inputs
        for text in texts
        if f"overlay: {text}" in row["figure"]["source"]
    ]


def _once(rows: list[SourceDoc]) -> list[SourceDoc]:
    """Rows that say the same as one, with how many there are: eight equal devices are one line."""
    found: list[tuple[SourceDoc, int]] = []
    for row in rows:
        index = next((n for n, (known, _) in enumerate(found) if known == row), None)
        if index is None:
            found.append((row, 1))
        else:
            found[index] = (row, found[index][1] + 1)
    return [
        row if n == 1 else {"what": f"{row['what']} ({n} alike)", "figure": row["figure"]}
        for row, n in found
    ]


def largest_uncertainty(parts: Parts) -> str | None:
    """The input that widens the total most, with its share of all widths; None where unknown.

    Each input's width is what the total's range would be if only that input were uncertain.
    """
    widths = _widths(parts)
    whole = sum(widths.values())
    if parts.total_g is None or whole <= 0:
        return None
    name = max(widths, key=widths.__getitem__)
    return f"{name} ({widths[name] / whole:.0%} of the range)"


def _widths(parts: Parts) -> dict[str, float]:
    energy, operational, embodied = parts.energy_kwh, parts.operational_g, parts.embodied_g
    if energy is None or operational is None or embodied is None:
        return {}
    life = parts.context.life
    widths = {
        "energy": operational.value * _relative(energy),
        "carbon intensity": operational.value * _relative(parts.cells.mean_intensity()),
        "PUE": operational.value * _relative(parts.place.pue),
        "hardware lifetime": embodied.value * life.value * (1 / life.low - 1 / life.high),
    }
    for share in parts.embodied.shares:
        name = f"embodied carbon of {share.label}"
        grown = widths.get(name, 0.0) + share.embodied_g.value * _relative(share.te.te_g)
        widths[name] = grown
    return widths


def _relative(figure: Quantity) -> float:
    return (figure.high - figure.low) / figure.value if figure.value else 0.0


def _row(what: str, figure: Quantity) -> SourceDoc:
    return {"what": what, "figure": figure.to_doc()}

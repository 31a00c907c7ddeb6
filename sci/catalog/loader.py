"""Rows of the data files and the overlay as the catalog's records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gramwatt.sci.base.csv_data import LIST_SEPARATOR, rows
from gramwatt.sci.catalog.embodied_facts import (
    EmbodiedFacts,
    ModelInputs,
    parse_declared,
    parse_inputs,
    parse_study,
)
from gramwatt.sci.catalog.hardware import Cpu, Hardware, parse_cpu, parse_hardware
from gramwatt.sci.catalog.overlay import Overlay, OverlayError
from gramwatt.sci.catalog.overlay_rows import hardware_rows, region_rows, source_key
from gramwatt.sci.catalog.regions import Region, parse_region


@dataclass(frozen=True, slots=True)
class Source:
    """Where figures come from; `evidence` says how far the document itself was read."""

    key: str
    title: str
    url: str | None
    licence: str | None
    year: int | None
    evidence: str


def parts(overlay: Overlay | None) -> Iterable[Hardware]:
    """Accelerators, the overlay's among them."""
    names = aliases("hardware")
    studies = {
        row.text("hardware"): parse_study(row)
        for row in rows("embodied_studies.csv")
        if row.text("role") == "chosen"
    }
    inputs = {row.text("id"): parse_inputs(row) for row in rows("embodied_inputs.csv")}
    for row in hardware_rows(overlay):
        key = row.text("id")
        own = inputs.get(key, ModelInputs())
        facts = EmbodiedFacts(parse_declared(row), studies.get(key), own)
        yield parse_hardware(row, names.get(key, ()), facts)


def literal_names(overlay: Overlay | None) -> Mapping[str, str]:
    """Names that count letter by letter, in any case: of cloud metadata, and the overlay's own."""
    found = {name: part for part, names in aliases("hardware-literal").items() for name in names}
    own: dict[str, str] = {}
    for part, cells in (overlay.hardware if overlay else {}).items():
        for name in filter(None, cells.get("aliases", "").lower().split(LIST_SEPARATOR)):
            if own.setdefault(name, part) != part:
                raise OverlayError(f"the overlay gives the alias {name!r} to two parts")
    return {**found, **own}


def cpus() -> Iterable[Cpu]:
    """CPUs."""
    names = aliases("cpu")
    for row in rows("cpus.csv"):
        yield parse_cpu(row, names.get(row.text("id"), ()))


def regions(overlay: Overlay | None) -> Iterable[Region]:
    """Cloud regions with the PUE published or declared for them."""
    highest: dict[str, float] = {}
    for row in rows("regions.csv"):
        if row.text("pue_basis") == "annual":
            provider = row.text("provider")
            highest[provider] = max(row.known("pue"), highest.get(provider, 1.0))
    declared = overlay.pue if overlay else {}
    for row in region_rows(overlay):
        region = parse_region(row, highest)
        if region.id in declared:
            pue, year = declared[region.id]
            key = source_key("pue", region.id)
            sources = (*region.sources, key)
            region = replace(region, pue=pue, pue_year=year, pue_basis="declared", sources=sources)
        yield region


def sources(overlay: Overlay | None) -> Iterable[Source]:
    """Sources of figures, one for each entry of the overlay among them."""
    for row in rows("sources.csv"):
        yield Source(
            row.text("key"),
            row.text("title"),
            row.optional("url"),
            row.optional("licence"),
            row.integer("year"),
            row.text("evidence"),
        )
    for key, text in (overlay.sources if overlay else {}).items():
        kind, _, name = key.partition(" ")
        yield Source(source_key(kind, name), text, None, None, None, "declared in the overlay")


def aliases(what: str) -> dict[str, tuple[str, ...]]:
    """Aliases of one kind by the id they stand for."""
    found: dict[str, tuple[str, ...]] = {}
    for row in rows("aliases.csv"):
        if row.text("what") == what:
            found[row.text("id")] = (*found.get(row.text("id"), ()), row.text("alias"))
    return found


def pairs(names: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    """(alias, id) pairs."""
    return [(alias, row_id) for row_id, called in names.items() for alias in called]


def named(parts: Iterable[Hardware | Cpu]) -> Iterable[tuple[str, str]]:
    """(name, id) pairs of every name of parts."""
    return ((name, part.id) for part in parts for name in (part.id, part.name, *part.aliases))


def architectures(parts: Iterable[Hardware | Cpu]) -> Iterable[tuple[str, str]]:
    """(architecture, id) pairs."""
    return ((part.architecture, part.id) for part in parts)

"""The lines of the data files, with the entries of the user's overlay over them, as records.

A record that holds figures of the overlay names its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from gramwatt.sci.base.csv_data import LIST_SEPARATOR, Row, read_as, rows
from gramwatt.sci.catalog.embodied_facts import (
    EmbodiedFacts,
    ModelInputs,
    parse_declared,
    parse_inputs,
    parse_study,
)
from gramwatt.sci.catalog.hardware import Cpu, Hardware, parse_hardware
from gramwatt.sci.catalog.instances import Instance, parse_instance
from gramwatt.sci.catalog.overlay import Cells, Overlay, OverlayError
from gramwatt.sci.catalog.regions import Region, parse_region

NEEDED = {"hardware": ("name", "class"), "instances": ("hardware",), "regions": ("zone", "country")}
"""What an entry that is not in the packaged data needs beside its source."""
SHARE_ALIKE = ("hardware", "embodied_studies")
"""Data files with rows in the folder cc-by-sa."""
_SOURCE_COLUMNS = {
    "tdp_sources": ("tdp_w",),
    "idle_sources": ("idle_w",),
    "die_sources": ("process_nm", "die_area_mm2", "die_count"),
    "memory_sources": ("memory_gb", "memory_type", "memory_bandwidth_gbs"),
    "peak_sources": ("fp32_tflops", "fp16_tensor_tflops", "bf16_tensor_tflops", "int8_tops"),
}
"""Columns of hardware.csv that cite a source, each with the columns it speaks for."""
_NEW_HARDWARE = {
    **dict.fromkeys(("vendor", "form_factor", "architecture", "status"), "not said"),
    "devices_per_board": "1",
    "market": "other",
    "availability": "sold",
}


def read_hardware(overlay: Overlay | None) -> Iterable[Hardware]:
    """Yield accelerators, the overlay's among them; raises OverlayError for an incomplete one."""
    names = aliases("hardware")
    studies = {
        row.text("hardware"): parse_study(row)
        for row in _packaged("embodied_studies")
        if row.text("role") == "chosen"
    }
    inputs = {row.text("id"): parse_inputs(row) for row in rows("embodied_inputs.csv")}
    entries = overlay.hardware if overlay else {}
    own = {key: _hardware_cells(key, cells) for key, cells in entries.items()}
    for row in _merged("hardware", own, lambda key: _new_hardware(own[key])):
        key = row.text("id")
        made = inputs.get(key, ModelInputs())
        facts = EmbodiedFacts(parse_declared(row), studies.get(key), made)
        yield parse_hardware(row, names.get(key, ()), facts)


def read_cpus() -> Iterable[Cpu]:
    """Yield CPUs."""
    names = aliases("cpu")
    for row in rows("cpus.csv"):
        yield read_as(Cpu, row, aliases=names.get(row.text("id"), ()))


def read_instances(overlay: Overlay | None) -> Iterable[Instance]:
    """Return cloud instances, the overlay's among them; a new machine is its own host."""
    entries = overlay.instances if overlay else {}
    own = {key: {**cells, "sources": _cited("instances", key)} for key, cells in entries.items()}
    for key, cells in own.items():
        _check_id("instances", key)
        if "price_usd_per_hour" in cells:
            cells["price_source"] = _cited("instances", key)
    return map(parse_instance, _merged("instances", own, _new_instance))


def read_regions(overlay: Overlay | None) -> Iterable[Region]:
    """Yield cloud regions, the overlay's among them, with their published or declared PUE."""
    highest: dict[str, float] = {}
    for row in rows("regions.csv"):
        if row.text("pue_basis") == "annual":
            provider = row.text("provider")
            highest[provider] = max(row.known("pue"), highest.get(provider, 1.0))
    entries = overlay.regions if overlay else {}
    own = {key: {**cells, "zone_source": _cited("regions", key)} for key, cells in entries.items()}
    declared = overlay.pue if overlay else {}
    for row in _merged("regions", own, _new_region, _region_id):
        region = parse_region(row, highest)
        pue = declared.get(region.id)
        if pue:
            region = replace(
                region,
                pue=pue.figure,
                pue_year=pue.year,
                pue_basis="declared",
                sources=(*region.sources, _cited("pue", region.id)),
            )
        yield region


def aliases(kind: str) -> dict[str, tuple[str, ...]]:
    """Return aliases of one kind by the id they stand for."""
    found: dict[str, tuple[str, ...]] = {}
    for row in rows("aliases.csv"):
        if row.text("what") == kind:
            found[row.text("id")] = (*found.get(row.text("id"), ()), row.text("alias"))
    return found


def literal_names(overlay: Overlay | None) -> Mapping[str, str]:
    """Return ids by names that count letter by letter: of cloud metadata, and the overlay's.

    Raises OverlayError for an alias that the overlay gives to two parts.
    """
    found = {name: part for part, names in aliases("hardware-literal").items() for name in names}
    own: dict[str, str] = {}
    for part, cells in (overlay.hardware if overlay else {}).items():
        for name in filter(None, cells.get("aliases", "").lower().split(LIST_SEPARATOR)):
            if own.setdefault(name, part) != part:
                raise OverlayError(f"the overlay gives the alias {name!r} to two parts")
    return {**found, **own}


def _cited(kind: str, key: str) -> str:
    """Return what an entry of the overlay has in place of keys of sources.csv."""
    return f"overlay {kind} {key}"


def _hardware_cells(key: str, cells: Cells) -> dict[str, str]:
    cited = _cited("hardware", key)
    found = {**cells, "sources": cited}
    for column, spoken_for in _SOURCE_COLUMNS.items():
        if any(name in cells for name in spoken_for):
            found[column] = cited
    if "idle_w" in cells:
        for end in ("idle_low_w", "idle_high_w"):
            found.setdefault(end, cells["idle_w"])
    return found


def _new_hardware(cells: Cells) -> dict[str, str]:
    desk = {"consumer", "workstation"} & set(cells.get("intended_use", "").split(LIST_SEPARATOR))
    card = "workstation" if desk else "card"
    host_class = "module" if cells.get("class") == "module" else card
    return {**_NEW_HARDWARE, "host_class": host_class}


def _new_instance(key: str) -> dict[str, str]:
    provider, _, name = key.partition(":")
    return {"provider": provider, "name": name, "family": name, "share": "1", "host": key}


def _new_region(key: str) -> dict[str, str]:
    _check_id("regions", key)
    provider, _, name = key.partition(":")
    return {"provider": provider, "region": name}


def _region_id(row: Row) -> str:
    return f"{row.text('provider')}:{row.text('region')}"


def _check_id(kind: str, key: str) -> None:
    if not key.partition(":")[2]:
        raise OverlayError(f'[{kind}."{key}"] the id is written PROVIDER:NAME')


def _packaged(kind: str) -> Sequence[Row]:
    """Return the rows of a data file, then those under a share-alike licence, in a folder apart."""
    apart = rows(f"cc-by-sa/{kind}.csv") if kind in SHARE_ALIKE else ()
    return (*rows(f"{kind}.csv"), *apart)


def _merged(
    kind: str,
    entries: Mapping[str, Cells],
    defaults: Callable[[str], Cells],
    id_of: Callable[[Row], str] = lambda row: row.text("id"),
) -> Iterable[Row]:
    """Return rows of a file with the entries over them; new ones, complete, stand at the end."""
    left, packaged = dict(entries), _packaged(kind)
    found = [row.with_cells(left.pop(id_of(row), {})) for row in packaged]
    for key, cells in left.items():
        missing = [name for name in NEEDED[kind] if name not in cells]
        if missing:
            text = f"[{kind}.{key}] is new and needs {', '.join(missing)}"
            raise OverlayError(f"the overlay cannot be used: {text}")
        whole = {**packaged[0].blank(), "id": key, **defaults(key), **cells}
        found.append(Row(whole, f"[{kind}.{key}]"))
    return found

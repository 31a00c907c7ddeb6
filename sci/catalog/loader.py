"""The rows of the data files, with the entries of the user's overlay over them.

A row that holds figures of the overlay names its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import asdict, replace

from gramwatt.sci.catalog.embodied_facts import AS_PUBLISHED, ModelInputs, Study
from gramwatt.sci.catalog.files import Alias
from gramwatt.sci.catalog.hardware import Cpu, Hardware, HardwareRow, per_device
from gramwatt.sci.catalog.instances import Instance
from gramwatt.sci.catalog.overlay import Overlay, OverlayError, Values
from gramwatt.sci.catalog.regions import FleetRow, Region, RegionRow, region_of
from gramwatt.sci.figures.checks import fields_of
from gramwatt.sci.figures.csv_data import Row, rows

R = TypeVar("R", Hardware, Instance, RegionRow)
NEEDED = {
    "hardware": ("name", "device_class"),
    "instances": ("hardware",),
    "regions": ("zone", "country"),
}
"""What an entry that is not in the packaged data needs beside its source."""
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
    "devices_per_board": 1,
    "software": (),
    "intended_use": (),
    "market": "other",
    "availability": "sold",
}


def read_hardware(overlay: Overlay | None) -> Iterator[Hardware]:
    """Yield accelerators, the overlay's among them; raises OverlayError for an incomplete one."""
    names = aliases("hardware")
    studies = {study.hardware: study for study in rows(Study) if study.role == "chosen"}
    inputs = {row.id: row for row in rows(ModelInputs)}
    boards = [
        Hardware(**asdict(row), study=studies.get(row.id), inputs=inputs.get(row.id, AS_PUBLISHED))
        for row in rows(HardwareRow)
    ]
    entries = overlay.hardware if overlay else {}
    own = {key: _hardware_values(key, values) for key, values in entries.items()}
    for board in _merged("hardware", boards, own, _new_hardware):
        yield replace(board, aliases=names.get(board.id, ()), **per_device(board))


def read_cpus() -> Iterator[Cpu]:
    """Yield CPUs."""
    names = aliases("cpu")
    for row in rows(Cpu):
        yield replace(row, aliases=names.get(row.id, ()))


def read_instances(overlay: Overlay | None) -> Iterable[Instance]:
    """Return cloud instances, the overlay's among them; a new machine is its own host."""
    own: dict[str, dict[str, Any]] = {}
    for key, values in (overlay.instances if overlay else {}).items():
        _check_id("instances", key)
        cited = _cited("instances", key)
        own[key] = _entry_of(Instance, values) | {"sources": (cited,)}
        own[key] |= {"price_source": cited} if "price_usd_per_hour" in values else {}
    return _merged("instances", rows(Instance), own, _new_instance)


def read_regions(overlay: Overlay | None) -> Iterator[Region]:
    """Yield cloud regions, the overlay's among them, with their published or declared PUE."""
    highest: dict[str, float] = {}
    for row in rows(RegionRow):
        if row.pue and row.pue_basis == "annual":
            highest[row.provider] = max(row.pue, highest.get(row.provider, 1.0))
    own = {
        key: {name: value for name, value in values.items() if name != "source"}
        | {"zone_source": _cited("regions", key)}
        for key, values in (overlay.regions if overlay else {}).items()
    }
    fleets = {row.provider: row for row in rows(FleetRow)}
    declared = overlay.pue if overlay else {}
    for row in _merged("regions", rows(RegionRow), own, _new_region):
        region = region_of(row, highest.get(row.provider, 1.0), fleets.get(row.provider))
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
    names: dict[str, tuple[str, ...]] = {}
    for row in rows(Alias):
        if row.what == kind:
            names[row.id] = (*names.get(row.id, ()), row.alias)
    return names


def literal_names(overlay: Overlay | None) -> Mapping[str, str]:
    """Return ids by names that count letter by letter: of cloud metadata, and the overlay's.

    Raises OverlayError for an alias that the overlay gives to two parts.
    """
    packaged = {name: part for part, names in aliases("hardware-literal").items() for name in names}
    own: dict[str, str] = {}
    for part, values in (overlay.hardware if overlay else {}).items():
        for alias in values.get("aliases", ()):
            if own.setdefault(alias.lower(), part) != part:
                raise OverlayError(f"the overlay gives the alias {alias!r} to two parts")
    return {**packaged, **own}


def _cited(kind: str, key: str) -> str:
    """Return what an entry of the overlay has in place of keys of sources.csv."""
    return f"overlay {kind} {key}"


def _entry_of(kind: type[Row], values: Values) -> dict[str, Any]:
    """Return an entry's values by the names of the class, which keeps their source."""
    fields = fields_of(kind)
    return {fields[name].name: value for name, value in values.items() if name in fields} | {
        "overlay": values["source"]
    }


def _hardware_values(key: str, values: Values) -> dict[str, Any]:
    cited = (_cited("hardware", key),)
    own = _entry_of(Hardware, values) | {"sources": cited}
    for column, spoken_for in _SOURCE_COLUMNS.items():
        if any(name in values for name in spoken_for):
            own[column] = cited
    if "idle_w" in values:
        own = {"idle_low_w": values["idle_w"], "idle_high_w": values["idle_w"], **own}
    return own


def _new_hardware(key: str, values: dict[str, Any]) -> Hardware:
    desk = {"consumer", "workstation"} & set(values.get("intended_use", ()))
    card = "workstation" if desk else "card"
    host_class = "module" if values["device_class"] == "module" else card
    return Hardware(**{"id": key, **_NEW_HARDWARE, "host_class": host_class, **values})


def _new_instance(key: str, values: dict[str, Any]) -> Instance:
    provider, _, name = key.partition(":")
    usual = {"id": key, "provider": provider, "name": name, "family": name, "host": key}
    return Instance(**(usual | values))


def _new_region(key: str, values: dict[str, Any]) -> RegionRow:
    _check_id("regions", key)
    provider, _, name = key.partition(":")
    return RegionRow(provider=provider, name=name, **values)


def _check_id(kind: str, key: str) -> None:
    if not key.partition(":")[2]:
        raise OverlayError(f'[{kind}."{key}"] the id is written PROVIDER:NAME')


def _merged(
    kind: str,
    packaged: Sequence[R],
    entries: Mapping[str, dict[str, Any]],
    new: Callable[[str, dict[str, Any]], R],
) -> Iterator[R]:
    """Yield the packaged rows with the entries over them, then new ones, which must be complete."""
    remaining = dict(entries)
    for row in packaged:
        values = remaining.pop(row.id, None)
        yield row if values is None else _changed(kind, row, values)
    columns = fields_of(type(packaged[0]))
    for key, values in remaining.items():
        missing = [
            name
            for name, field in columns.items()
            if field.name in NEEDED[kind] and field.name not in values
        ]
        if missing:
            text = f"[{kind}.{key}] is new and needs {', '.join(missing)}"
            raise OverlayError(f"the overlay cannot be used: {text}")
        yield new(key, values)


def _changed(kind: str, row: R, values: Mapping[str, Any]) -> R:
    """Return a row with an entry over it; an end of a range alone may not fit the packaged one."""
    try:
        return replace(row, **values)
    except ValueError as error:
        text = f"the overlay cannot be used: [{kind}.{row.id}] {error}"
        raise OverlayError(text) from None

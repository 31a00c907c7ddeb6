"""The packaged rows with an overlay's entries over them, and the checks that need both.

A figure out of the overlay names its source; one the model computes from such figures does too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gramwatt.sci.base.csv_data import Row, rows
from gramwatt.sci.catalog.overlay import Cells, Overlay, OverlayError

NEEDED = {"hardware": ("name", "class"), "instances": ("hardware",), "regions": ("zone", "country")}
"""What an entry that is not in the packaged data needs beside its source."""
_GROUPS = {
    "tdp_sources": ("tdp_w",),
    "idle_sources": ("idle_w",),
    "die_sources": ("process_nm", "die_area_mm2", "die_count"),
    "memory_sources": ("memory_gb", "memory_type", "memory_bandwidth_gbs"),
    "peak_sources": ("fp32_tflops", "fp16_tensor_tflops", "bf16_tensor_tflops", "int8_tops"),
}


def source_key(kind: str, key: str) -> str:
    """The key of an overlay entry among the catalog's sources."""
    return f"overlay {kind} {key}"


def hardware_rows(overlay: Overlay | None) -> Iterable[Row]:
    """Rows of hardware.csv with the overlay's parts; raises OverlayError for an incomplete one."""
    entries = {} if overlay is None else overlay.hardware
    own = {key: _hardware_cells(key, cells) for key, cells in entries.items()}
    texts = dict.fromkeys(("vendor", "form_factor", "architecture", "status"), "not said")
    defaults = {**texts, "devices_per_board": "1"}
    return _over("hardware", "hardware.csv", own, lambda _key: defaults)


def _hardware_cells(key: str, cells: Cells) -> dict[str, str]:
    cited = source_key("hardware", key)
    found = {**cells, "sources": cited}
    found |= {group: cited for group, names in _GROUPS.items() if any(n in cells for n in names)}
    if "idle_w" in cells:
        ends = ("idle_low_w", "idle_high_w")
        found |= {end: cells.get(end, cells["idle_w"]) for end in ends}
    return found


def instance_rows(overlay: Overlay | None) -> Iterable[Row]:
    """Rows of instances.csv with the overlay's machines; a new one is its own host."""
    entries = {} if overlay is None else overlay.instances
    own = {
        key: {**cells, "sources": source_key("instances", key)} for key, cells in entries.items()
    }
    for key, cells in own.items():
        if ":" not in key:
            raise OverlayError(f'[instances."{key}"] the id is written PROVIDER:NAME')
        if "price_usd_per_hour" in cells:
            cells["price_source"] = source_key("instances", key)
    return _over("instances", "instances.csv", own, _instance_defaults)


def _instance_defaults(key: str) -> dict[str, str]:
    provider, _, name = key.partition(":")
    return {"provider": provider, "name": name, "family": name, "share": "1", "host": key}


def region_rows(overlay: Overlay | None) -> Iterable[Row]:
    """Rows of regions.csv with the overlay's places."""
    entries = {} if overlay is None else overlay.regions
    own = {
        key: {**cells, "zone_source": source_key("regions", key)} for key, cells in entries.items()
    }
    return _over("regions", "regions.csv", own, _region_defaults, _region_id)


def _region_id(row: Row) -> str:
    return f"{row.text('provider')}:{row.text('region')}"


def _region_defaults(key: str) -> dict[str, str]:
    provider, _, name = key.partition(":")
    if not name:
        raise OverlayError(f'[regions."{key}"] the id is written PROVIDER:NAME')
    return {"provider": provider, "region": name}


def _over(
    kind: str,
    file: str,
    own: Mapping[str, Cells],
    defaults: Callable[[str], Cells],
    id_of: Callable[[Row], str] = lambda row: row.text("id"),
) -> Iterable[Row]:
    """Rows of a file with the entries over them; new ones, complete, stand at the end."""
    left = dict(own)
    found = [row.with_cells(left.pop(id_of(row), {})) for row in rows(file)]
    for key, cells in left.items():
        missing = [name for name in NEEDED[kind] if name not in cells]
        if missing:
            text = f"[{kind}.{key}] is new and needs {', '.join(missing)}"
            raise OverlayError(f"the overlay cannot be used: {text}")
        found.append(Row({**rows(file)[0].blank(), "id": key, **defaults(key), **cells}))
    return found

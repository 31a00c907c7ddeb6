"""Devices: their energy and its kind, embodied carbon, and how busy they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gramwatt.reports.charts import data_table
from gramwatt.reports.model import Block, Cell, Column, Heading, Pair, Table
from gramwatt.reports.sections.common import cell, share_chart
from gramwatt.sci.base.document import DeviceDoc
from gramwatt.sci.base.formatting import number, percent
from gramwatt.sci.base.units import gib_from_bytes

MAX_BARS = 10
_PROFILE = (
    Column("Device", weight=2.0),
    Column("Mean use", "right", 0.8),
    Column("Peak memory", "right"),
    Column("Memory busy", "right", 0.9),
    Column("Peak power", "right", 0.9),
    Column("Hottest", "right", 0.8),
    Column("Held back by", weight=1.4),
)
_HOLDS = {
    "power_capped": "power limit",
    "thermally_slowed": "heat",
    "hardware_slowed": "board protection",
}
_PROFILE_NOTE = (
    "Read every 5 to 10 s. Held back: the part of the readings in which the driver named this "
    "reason for lower clocks. The device does not report what is empty."
)


def device_blocks(devices: Sequence[DeviceDoc]) -> list[Block]:
    """Return a chart of the shares of energy, and tables of the devices and how they ran."""
    whole_j = sum(device.energy_j["value"] for device in devices if device.energy_j)
    blocks: list[Block] = [
        Heading("Devices"),
        *_shares(devices, whole_j),
        _table(devices, whole_j),
    ]
    rows = tuple(row for device in devices if (row := _profile(device)))
    if rows:
        note = _PROFILE_NOTE if any(device.profile for device in devices) else ""
        blocks.append(Table("How the devices ran", _PROFILE, rows, note))
    return blocks


def _shares(devices: Sequence[DeviceDoc], whole_j: float) -> list[Block]:
    used = [(_label(d, devices), d.energy_j["value"]) for d in devices if d.energy_j]
    if len(used) < 2 or not whole_j:
        return []
    used.sort(key=lambda row: -row[1])
    shown, rest = used[:MAX_BARS], used[MAX_BARS:]
    if rest:
        shown.append((f"{len(rest)} more", sum(joules for _, joules in rest)))
    bars = [(name, joules / whole_j, percent(joules / whole_j)) for name, joules in shown]
    caption = "Share of the energy by device"
    data = data_table(caption, ("Device", "Share"), [(name, label) for name, _, label in bars])
    return [share_chart(caption, bars, data)]


def _label(device: DeviceDoc, devices: Sequence[DeviceDoc]) -> str:
    """Return the name, with a number if several devices have it."""
    alike = [other for other in devices if other.name == device.name]
    if len(alike) == 1:
        return device.name
    return f"{device.name}, no. {alike.index(device) + 1}"


def _table(devices: Sequence[DeviceDoc], whole_j: float) -> Table:
    columns = (
        Column("Device", weight=2.2),
        Column("Share", "right", 0.7),
        Column("Energy", "right", 1.2),
        Column("Of total", "right", 0.7),
        Column("Kind", weight=1.3),
        Column("Embodied", "right", 1.2),
    )
    rows = tuple(_device(device, whole_j) for device in devices)
    note = "CPU and memory share the host's embodied carbon, which has its own row."
    return Table("Energy and embodied carbon by device", columns, rows, note)


def _device(device: DeviceDoc, whole_j: float) -> tuple[Cell, ...]:
    energy = device.energy_j
    known = [(kind, joules) for kind, joules in device.kinds.items() if joules]
    hosted = device.device_class in ("cpu", "ram")
    return (
        Pair(device.name, f"{device.device_class} on {device.node}"),
        percent(device.share),
        cell(energy) if device.device_class != "host" else "see CPU and memory",
        percent(energy["value"] / whole_j) if energy and whole_j else "",
        Pair(_kinds(known), device.meter) if known else device.meter,
        "in the host's row" if hosted else cell(device.embodied_g),
    )


def _kinds(known: Sequence[tuple[str, float]]) -> str:
    if len(known) == 1:
        return known[0][0]
    read = sum(joules for _, joules in known)
    return ", ".join(f"{kind} {percent(joules / read)}" for kind, joules in known)


def _profile(device: DeviceDoc) -> tuple[Cell, ...] | None:
    utilisation, memory_b = device.mean_utilisation, device.peak_memory_b
    power_w, profile = device.max_power_w, device.profile
    if utilisation is None and memory_b is None and power_w is None and not profile:
        return None
    encoder = profile.get("encoder_busy")
    busy = "" if utilisation is None else percent(utilisation)
    return (
        Pair(device.name, device.device_id),
        Pair(busy, f"encoder {percent(encoder)}") if encoder else busy,
        "" if memory_b is None else f"{number(gib_from_bytes(memory_b), 3)} GiB",
        percent(profile["memory_busy"]) if "memory_busy" in profile else "",
        "" if power_w is None else f"{number(power_w, 3)} W",
        f"{profile['temperature_c']:.0f} °C" if "temperature_c" in profile else "",
        _held_back(profile),
    )


def _held_back(ran: Mapping[str, float]) -> str:
    """Reasons for lower clocks, each with its share of the readings; empty if not reported."""
    known = [(words, ran[name]) for name, words in _HOLDS.items() if name in ran]
    seen = [f"{words} {percent(part)}" for words, part in known if part]
    return ", ".join(seen) if seen else ("nothing" if known else "")

"""Embodied emissions of a job: M = TE x TiR/EL x RR/ToR for each device and each host.

ISO/IEC 21031 (SCI specification v1.1), "Embodied emissions". TiR is the time the hardware was
reserved for the job, EL its expected life, RR/ToR the share of it that was reserved. A host's share
goes with the accelerators reserved in it; a host without accelerators is reserved as seen by the
job. A node that ended before the others was reserved for its own time only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gramwatt.sci.base.document import EmbodiedTermDoc
from gramwatt.sci.base.errors import AmbiguousName, LookupFailed
from gramwatt.sci.base.notices import CODES, Notice
from gramwatt.sci.base.quantity import Quantity, total
from gramwatt.sci.base.units import S_PER_YEAR, gib_from_bytes
from gramwatt.sci.catalog.catalog import Catalog, Cpu, Hardware
from gramwatt.sci.embodied.accelerators import accelerator_te
from gramwatt.sci.embodied.hosts import (
    Size,
    host_share_te,
    host_te,
    seen_host_te,
    server_accelerators,
    shows_host,
    stand_in_te,
)
from gramwatt.sci.embodied.te import Embodied
from gramwatt.sci.journal.merge import DeviceKey, MergedJob
from gramwatt.sci.journal.records import DeviceRecord

ACCELERATORS = ("gpu", "accelerator", "module")
BEYOND_LIFE = 1.5
"""Of EL, how long no hardware is reserved for one job: 6 years where 4 are expected, which is the
high end of EL's range. A clock that was set wrong makes such a job."""


@dataclass(frozen=True, slots=True)
class Share:
    """Embodied carbon of one device or host charged to the job, and how it came about.

    `te` is that of the whole, `life` its EL [years], `reserved_s` TiR [s]; `reserved` RR and
    `total` ToR count what is shared.
    """

    device_id: str
    node: str
    label: str
    te: Embodied
    reserved: float
    total: float
    reserved_s: float
    life: Quantity
    embodied_g: Quantity

    @property
    def key(self) -> DeviceKey:
        """What identifies the device or host in the job."""
        return self.node, self.device_id

    @property
    def fraction(self) -> float:
        """RR/ToR, in (0, 1]."""
        return self.reserved / self.total

    def to_doc(self) -> EmbodiedTermDoc:
        """TE, TiR, EL, RR and ToR by those names, as JSON-ready data."""
        return {
            "device_id": self.device_id,
            "node": self.node,
            "label": self.label,
            "te_g": self.te.te_g.to_doc(),
            "tier": self.te.tier,
            "stages": self.te.stages,
            "time_reserved_s": self.reserved_s,
            "lifetime_years": self.life.value,
            "resources_reserved": self.reserved,
            "resources_total": self.total,
            "embodied_g": self.embodied_g.to_doc(),
        }


@dataclass(frozen=True)
class EmbodiedShares:
    """All shares of a job, with the notices their look-up left.

    `life` is the EL [years] of hardware without one of its own.
    """

    shares: tuple[Share, ...]
    life: Quantity
    notices: tuple[Notice, ...]
    ids: Mapping[DeviceKey, str]
    """Catalog id of every device whose name the catalog knows."""

    @cached_property
    def embodied_g(self) -> Quantity | None:
        """M of the job [gCO2e]; None when no hardware is known."""
        return total(share.embodied_g for share in self.shares)

    def by_tier(self) -> dict[str, float]:
        """Grams by data tier: A first party, B independent study, C and D modelled."""
        tiers: dict[str, float] = defaultdict(float)
        for share in self.shares:
            tiers[share.te.tier] += share.embodied_g.value
        return dict(tiers)


def embodied_share_g(te_g: Quantity, reserved_s: float, life: Quantity, share: float) -> Quantity:
    """M = TE x TiR/EL x RR/ToR [gCO2e].

    `te_g` [gCO2e], `reserved_s` TiR [s], `life` EL [years], `share` RR/ToR in (0, 1].
    """
    time_share = Quantity.exact(reserved_s / S_PER_YEAR, "years", "measured", "time reserved")
    return te_g.scaled(share).times(time_share.over(life, "1"), "gCO2e")


def allocate(job: MergedJob, catalog: Catalog, life: Quantity | None) -> EmbodiedShares:
    """M of every accelerator and host of the job.

    `life` is the declared EL [years], None for that of the catalog, part by part.
    """
    usual_life = life or catalog.lifetime()
    if not job.devices:
        text = "No device of the job is known, so neither is its embodied carbon."
        return _unknown(text, usual_life, {})
    longest_s = max(job.reserved_s([node.name]) for node in job.nodes)
    devices = _identified(job, catalog)
    ids = {device.key: device.row.id for device in devices if device.row}
    if longest_s > BEYOND_LIFE * usual_life.value * S_PER_YEAR:
        text = (
            f"The job's times are {longest_s / S_PER_YEAR:.0f} years apart, longer than hardware "
            "lives, so a clock was wrong, and its embodied carbon is not known. Delete the job, or "
            "declare its hardware's lifetime."
        )
        return _unknown(text, usual_life, ids)
    by_node: dict[str, list[_Device]] = defaultdict(list)
    for device in devices:
        by_node[device.record.node].append(device)
    shares: list[Share] = []
    notices: list[Notice] = []
    names = {device.row.id for device in devices if device.row}
    lives = {name: life or catalog.lifetime(name) for name in names}
    for device in devices:
        if device.te is not None:
            own_life = lives[device.row.id] if device.row else usual_life
            reserved_s = job.reserved_s(device.nodes)
            shares.append(_accelerator(device.record, device.te, reserved_s, own_life))
            notices += _accelerator_notices(device, device.te)
    hosted = _on_host_of(devices)
    for name in (node.name for node in job.nodes if node.name not in hosted):
        machine = [name, *(node for node, host in hosted.items() if host == name)]
        host = _host(name, by_node[name], job.reserved_s(machine), usual_life)
        if host is not None:
            shares.append(host)
            notices.append(Notice("host-modelled", CODES["host-modelled"], "embodied_g"))
    notices += [_ambiguous(d.record.name, d.choices) for d in devices if d.choices]
    if longest_s > usual_life.value * S_PER_YEAR:
        notices.append(Notice("lifetime-exceeded", CODES["lifetime-exceeded"], "embodied_g"))
    return EmbodiedShares(tuple(shares), usual_life, tuple(dict.fromkeys(notices)), ids)


def _unknown(text: str, life: Quantity, ids: dict[DeviceKey, str]) -> EmbodiedShares:
    """No embodied carbon, and a notice that says why."""
    return EmbodiedShares((), life, (Notice("embodied-unknown", text, "embodied_g"),), ids)


@dataclass(frozen=True, slots=True)
class _Device:
    """A device with its catalog row, or with the parts that its name may mean.

    `te` is that of an accelerator, the generic figure where the catalog has none.
    """

    record: DeviceRecord
    nodes: tuple[str, ...] = ()
    row: Hardware | Cpu | None = None
    choices: tuple[str, ...] = ()
    te: Embodied | None = None

    @property
    def key(self) -> DeviceKey:
        return self.record.node, self.record.device_id

    @property
    def part(self) -> Hardware | None:
        return self.row if isinstance(self.row, Hardware) else None


def _on_host_of(devices: Sequence[_Device]) -> dict[str, str]:
    """Nodes with no device but boards counted for another node, by whose host is theirs too."""
    seen = ((node, device.record.node) for device in devices for node in device.nodes)
    with_devices = {device.record.node for device in devices}
    return {node: other for node, other in seen if node not in with_devices}


def _identified(job: MergedJob, catalog: Catalog) -> list[_Device]:
    """Every device of the job, each name looked up once."""
    known: dict[tuple[str, str], _Device] = {}
    found = []
    for device in job.devices:
        key = device.record.device_class, device.record.name
        if key not in known:
            known[key] = _identify(device.record, catalog)
        found.append(replace(known[key], record=device.record, nodes=device.nodes))
    return found


def _identify(record: DeviceRecord, catalog: Catalog) -> _Device:
    if record.device_class not in ("cpu", *ACCELERATORS):
        return _Device(record)
    unknown_te = None if record.device_class == "cpu" else stand_in_te(None)
    try:
        if record.device_class == "cpu":
            return _Device(record, row=catalog.cpu(record.name))
        # A slice is named for its board, as in "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
        board = catalog.hardware(record.name.split(" MIG ")[0])
    except AmbiguousName as error:
        return _Device(record, choices=tuple(error.choices), te=unknown_te)
    except LookupFailed:
        return _Device(record, te=unknown_te)
    return _Device(record, row=board, te=accelerator_te(board) or stand_in_te(board))


def _accelerator(record: DeviceRecord, te: Embodied, reserved_s: float, life: Quantity) -> Share:
    return Share(
        device_id=record.device_id,
        node=record.node,
        label=record.name,
        te=te,
        reserved=record.share,
        total=1.0,
        reserved_s=reserved_s,
        life=life,
        embodied_g=embodied_share_g(te.te_g, reserved_s, life, record.share),
    )


def _accelerator_notices(device: _Device, te: Embodied) -> list[Notice]:
    name, field = device.record.name, f"devices.{device.record.device_id}.embodied_g"
    notices = []
    if device.row is None and not device.choices:
        text = f"{name!r} is not in the catalog; a generic accelerator stands in for it."
        notices.append(Notice("hardware-unknown", text, field))
    if te.tier in ("C", "D"):
        text = f"Embodied carbon of {name} is modelled (tier {te.tier})."
        notices.append(Notice("embodied-modelled", text, field))
    return notices


def _ambiguous(name: str, choices: Sequence[str]) -> Notice:
    """The same for every device of a name, so that it stands once."""
    text = (
        f"{name!r} may be {' or '.join(choices)}; a generic figure stands in. "
        "An overlay can give the name to one of them."
    )
    return Notice("hardware-ambiguous", text, "embodied_g")


def _host(node: str, devices: Sequence[_Device], reserved_s: float, life: Quantity) -> Share | None:
    """The host's share; None where the figures of all its accelerators hold it already."""
    accelerators = [device for device in devices if device.te and not device.te.includes_host]
    if not accelerators and any(device.te for device in devices):
        return None
    te, reserved, slots = _seen_host(devices), _part_of_limits(_of_class(devices, "cpu")), 1.0
    label = "host (CPU, memory, board, case)"
    if accelerators:
        reserved = sum(device.record.share for device in accelerators)
        slots = _slots(accelerators, reserved)
        found = _host_of(accelerators, slots, devices)
        if found is None:
            return None
        te = found
        if not all(shows_host(device.part) for device in accelerators):
            label = f"host, the share of {reserved:g} of {slots:g} accelerators"
    return Share(
        device_id=f"{node}-host",
        node=node,
        label=label,
        te=te,
        reserved=reserved,
        total=slots,
        reserved_s=reserved_s,
        life=life,
        embodied_g=embodied_share_g(te.te_g, reserved_s, life, reserved / slots),
    )


def _slots(accelerators: Sequence[_Device], reserved: float) -> float:
    """Accelerators in the host: as many as the driver lists, and as a server is sold with."""
    in_host = max(device.record.units_total or 0.0 for device in accelerators)
    boards = any(device.part and device.part.host_class == "server" for device in accelerators)
    return max(in_host, reserved, server_accelerators() if boards else 1.0)


def _host_of(
    accelerators: Sequence[_Device], slots: float, devices: Sequence[_Device]
) -> Embodied | None:
    """TE of the host of accelerators, by what is seen of it where that tells its size."""
    parts = sorted((device.part for device in accelerators), key=shows_host)
    shares = (host_share_te(part, slots) for part in parts)
    usual = next((share for share in shares if share), None)
    if usual is None or not shows_host(parts[0]):
        return usual
    server = not any(part and part.host_class == "workstation" for part in parts)
    cpu, size = _seen_size(devices)
    return seen_host_te(usual, size, cpu, server=server)


def _part_of_limits(cpu: _Device | None) -> float:
    """The job's part of what its limits left it, which others used at the same time (0 to 1].

    The host's size is that of the limits (`units`); a share below theirs was divided further.
    """
    if cpu is None or not cpu.record.units or not cpu.record.units_total:
        return 1.0
    return min(1.0, round(cpu.record.share * cpu.record.units_total / cpu.record.units, 6))


def _seen_host(devices: Sequence[_Device]) -> Embodied:
    cpu, size = _seen_size(devices)
    return host_te(cpu, size.threads, size.memory_gib)


def _seen_size(devices: Sequence[_Device]) -> tuple[Cpu | None, Size]:
    cpu, ram = _of_class(devices, "cpu"), _of_class(devices, "ram")
    memory_gib = gib_from_bytes(ram.record.memory_b) if ram and ram.record.memory_b else None
    known = cpu.row if cpu and isinstance(cpu.row, Cpu) else None
    return known, Size(cpu.record.units if cpu else None, memory_gib)


def _of_class(devices: Sequence[_Device], device_class: str) -> _Device | None:
    return next((d for d in devices if d.record.device_class == device_class), None)

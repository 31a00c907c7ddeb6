"""Embodied emissions of a job: M = TE x TiR/EL x RR/ToR for each device and each host.

SCI specification v1.1, "Embodied emissions". TiR is the time the hardware was reserved for the job,
EL its expected life, RR/ToR the share of it that was reserved. A host's share goes with the
accelerators reserved in it; a host without accelerators is reserved as seen by the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gramwatt.sci.base.errors import AmbiguousName, LookupFailed
from gramwatt.sci.base.notices import CODES, Notice
from gramwatt.sci.base.quantity import Quantity, total
from gramwatt.sci.base.units import S_PER_YEAR, gib_from_bytes
from gramwatt.sci.catalog.catalog import Catalog, Cpu, Hardware
from gramwatt.sci.embodied.accelerators import accelerator_te
from gramwatt.sci.embodied.hosts import (
    host_share_te,
    host_te,
    server_accelerators,
    unknown_accelerator_te,
)
from gramwatt.sci.embodied.te import Embodied
from gramwatt.sci.journal.merge import MergedJob
from gramwatt.sci.journal.records import DeviceRecord

ACCELERATORS = ("gpu", "accelerator", "module")


@dataclass(frozen=True, slots=True)
class Share:
    """Embodied carbon of one device or host charged to the job, and how it came about.

    `te` is that of the whole, `life` its EL [years]; `reserved` RR and `total` ToR count what is
    shared.
    """

    device_id: str
    node: str
    label: str
    te: Embodied
    reserved: float
    total: float
    embodied_g: Quantity
    life: Quantity

    @property
    def fraction(self) -> float:
        """RR/ToR, in (0, 1]."""
        return self.reserved / self.total


@dataclass(frozen=True, slots=True)
class EmbodiedShares:
    """All shares of a job, with the notices their look-up left."""

    shares: tuple[Share, ...]
    notices: tuple[Notice, ...]
    ids: Mapping[str, str]
    """Catalog id of every device whose name the catalog knows, by device id."""

    @property
    def embodied_g(self) -> Quantity | None:
        """M of the job [gCO2e]; None when no hardware is known."""
        return total(share.embodied_g for share in self.shares)

    def by_tier(self) -> dict[str, float]:
        """Grams by data tier: A first party, B independent study, C and D modelled."""
        tiers: dict[str, float] = {}
        for share in self.shares:
            tiers[share.te.tier] = tiers.get(share.te.tier, 0.0) + share.embodied_g.value
        return tiers

    def of(self, device_id: str) -> Share | None:
        """The share of one device, None when it has none of its own."""
        return next((share for share in self.shares if share.device_id == device_id), None)


def embodied_share_g(te_g: Quantity, reserved_s: float, life: Quantity, share: float) -> Quantity:
    """M = TE x TiR/EL x RR/ToR [gCO2e].

    `te_g` [gCO2e], `reserved_s` TiR [s], `life` EL [years], `share` RR/ToR in (0, 1].
    """
    time_share = Quantity.exact(reserved_s / S_PER_YEAR, "years", "measured", "job duration")
    return te_g.scaled(share).times(time_share.over(life, "1"), "gCO2e")


def allocate(job: MergedJob, catalog: Catalog, life: Quantity | None) -> EmbodiedShares:
    """M of every accelerator and host of the job.

    `life` is the declared EL [years], None for that of the catalog, part by part.
    """
    shares: list[Share] = []
    notices: list[Notice] = []
    for device in job.devices:
        if device.record.device_class in ACCELERATORS:
            share, remarks = _accelerator(device.record, job.duration_s, catalog, life)
            shares.append(share)
            notices += remarks
    for node in job.nodes:
        records = [d.record for d in job.devices if d.record.node == node]
        host_life = life or catalog.lifetime()
        host, remarks = _host(node, records, job.duration_s, catalog, host_life)
        shares += [host] if host else []
        notices += remarks
    notices += [notice for d in job.devices for notice in _asked_back(d.record, catalog)]
    notices += _beyond_life(job.duration_s, life or catalog.lifetime())
    rows = {d.record.device_id: identify(d.record, catalog) for d in job.devices}
    ids = {device_id: row.id for device_id, row in rows.items() if row is not None}
    return EmbodiedShares(tuple(shares), tuple(dict.fromkeys(notices)), ids)


def _beyond_life(reserved_s: float, life: Quantity) -> list[Notice]:
    if reserved_s <= life.value * S_PER_YEAR:
        return []
    return [Notice("lifetime-exceeded", CODES["lifetime-exceeded"], "embodied_g")]


def identify(record: DeviceRecord, catalog: Catalog) -> Hardware | Cpu | None:
    """The catalog row of a detected device, None when its name is unknown or ambiguous."""
    try:
        if record.device_class == "cpu":
            return catalog.cpu(record.name)
        if record.device_class in ACCELERATORS:
            return catalog.hardware(_board(record.name))
    except LookupFailed:
        pass
    return None


def _board(name: str) -> str:
    """The board a MIG slice is on, as in "NVIDIA A100-SXM4-40GB MIG 1g.5gb"; its share is apart."""
    return name.split(" MIG ")[0]


def _accelerator(
    record: DeviceRecord, reserved_s: float, catalog: Catalog, declared: Quantity | None
) -> tuple[Share, list[Notice]]:
    found = identify(record, catalog)
    hardware = found if isinstance(found, Hardware) else None
    life = declared or catalog.lifetime(hardware.id if hardware else None)
    field = f"devices.{record.device_id}.embodied_g"
    notices = []
    if hardware is None and not _asked_back(record, catalog):
        text = f"{record.name!r} is not in the catalog; a generic accelerator stands in for it."
        notices.append(Notice("hardware-unknown", text, field))
    te = (accelerator_te(hardware) if hardware else None) or unknown_accelerator_te()
    if te.tier in ("C", "D"):
        text = f"Embodied carbon of {record.name} is modelled (tier {te.tier})."
        notices.append(Notice("embodied-modelled", text, field))
    grams = embodied_share_g(te.te_g, reserved_s, life, record.share)
    where = (record.device_id, record.node, record.name)
    return Share(*where, te, record.share, 1.0, grams, life), notices


def _asked_back(record: DeviceRecord, catalog: Catalog) -> list[Notice]:
    """A notice with the choices where the catalog knows a device's name, but not which part."""
    try:
        if record.device_class == "cpu":
            catalog.cpu(record.name)
        elif record.device_class in ACCELERATORS:
            catalog.hardware(_board(record.name))
    except AmbiguousName as error:
        text = (
            f"{record.name!r} may be {' or '.join(error.choices)}; a generic figure stands in. An "
            "overlay can give the name to one of them."
        )
        return [Notice("hardware-ambiguous", text, f"devices.{record.device_id}.embodied_g")]
    except LookupFailed:
        pass
    return []


def _host(
    node: str,
    records: Sequence[DeviceRecord],
    reserved_s: float,
    catalog: Catalog,
    life: Quantity,
) -> tuple[Share | None, list[Notice]]:
    found = [r for r in records if r.device_class in ACCELERATORS]
    accelerators = [r for r in found if not _holds_host(r, catalog)]
    if found and not accelerators:
        return None, []
    reserved = sum(record.share for record in accelerators)
    if any(_in_server(record, catalog) for record in accelerators):
        slots = max(server_accelerators(), reserved)
        te = host_share_te(slots)
        label = f"host, the share of {reserved:g} of {slots:g} accelerators"
    else:
        te = _seen_host(records, catalog)
        reserved, slots = _reserved_of(reserved, accelerators, records)
        label = "host (CPU, memory, board, case)"
    grams = embodied_share_g(te.te_g, reserved_s, life, reserved / slots)
    notice = Notice("host-modelled", CODES["host-modelled"], "embodied_g")
    share = Share(f"{node}-host", node, label, te, reserved, slots, grams, life)
    return share, [notice]


def _holds_host(record: DeviceRecord, catalog: Catalog) -> bool:
    """Whether the published figure of a part already holds its host's share."""
    hardware = identify(record, catalog)
    embodied = accelerator_te(hardware) if isinstance(hardware, Hardware) else None
    return embodied is not None and embodied.includes_host


def _in_server(record: DeviceRecord, catalog: Catalog) -> bool:
    hardware = identify(record, catalog)
    return isinstance(hardware, Hardware) and hardware.in_server


def _reserved_of(
    reserved: float, accelerators: Sequence[DeviceRecord], records: Sequence[DeviceRecord]
) -> tuple[float, float]:
    """RR and ToR: accelerators reserved and in the host; the job's part of a host that has none."""
    in_host = max((record.units_total or 0.0 for record in accelerators), default=0.0)
    if in_host > reserved:
        return reserved, in_host
    return (1.0, 1.0) if accelerators else (_beside_others(records), 1.0)


def _beside_others(records: Sequence[DeviceRecord]) -> float:
    """The job's part of what its limits left it, which others used at the same time (0 to 1].

    The host's size is that of the limits (`units`); a share below theirs was divided further.
    """
    cpu = next((record for record in records if record.device_class == "cpu"), None)
    if cpu is None or not cpu.units or not cpu.units_total:
        return 1.0
    return min(1.0, round(cpu.share * cpu.units_total / cpu.units, 6))


def _seen_host(records: Sequence[DeviceRecord], catalog: Catalog) -> Embodied:
    cpu = next((r for r in records if r.device_class == "cpu"), None)
    ram = next((r for r in records if r.device_class == "ram"), None)
    found = identify(cpu, catalog) if cpu else None
    return host_te(
        found if isinstance(found, Cpu) else None,
        cpu.units if cpu else None,
        gib_from_bytes(ram.memory_b) if ram and ram.memory_b else None,
    )

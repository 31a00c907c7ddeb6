"""The first step of a score: which hardware the job had, and where it ran.

Every name is looked up in the catalog here, once; later steps only reckon. Embodied carbon is that
of the whole of a device or host, of which `allocation.py` gives the job its share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, tzinfo

from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import Catalog, Cpu, Hardware, Instance
from gramwatt.sci.catalog.slices import split_name, vgpu_fraction
from gramwatt.sci.embodied.forms import Forms, Seen, forms, forms_host_te, forms_te
from gramwatt.sci.embodied.te import (
    Embodied,
    Size,
    host_te,
    instance_host_te,
    seen_host_te,
    server_accelerators,
    shows_host,
    virtual_share,
)
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed
from gramwatt.sci.figures.notices import CODES, Notice
from gramwatt.sci.figures.quantity import Kind, Quantity
from gramwatt.sci.figures.units import gib_from_bytes
from gramwatt.sci.grid.intensity import Basis, IntensityLookup, Signal
from gramwatt.sci.grid.zones import AnnualIntensity
from gramwatt.sci.records.corrections import Correction
from gramwatt.sci.records.merge import DeviceKey, MergedJob
from gramwatt.sci.records.nodes import NAMED_AT_MOST
from gramwatt.sci.records.records import ACCELERATORS, DeviceRecord
from gramwatt.sci.score.location import SERVER_PROCESSOR, Place, in_data_centre, locate_nodes

LAUNCHED = {"torchrun_run_id", "torchrun_restart", "world_size", "local_rank"}
"""What `torchrun` leaves in a job's `scheduler`: it starts jobs on any machine."""


class ScoreContext(Struct, frozen=True):
    """What a score needs beside the journal: catalog, intensity and the revision's number.

    `lifetime` is the declared EL of all hardware [years], None for the catalog's. `signal` and
    `basis` are those the score is asked for: intensity of another kind is refused, never mixed in.
    `zone` is the time zone whose days the job is divided into.
    `corrections` are those already applied to the job's records; the document lists them.
    """

    catalog: Catalog
    intensity: IntensityLookup
    lifetime: Quantity | None = None
    revision: int = 1
    signal: Signal = "average"
    basis: Basis = "lifecycle"
    zone: tzinfo = UTC
    corrections: tuple[Correction, ...] = ()


def annual_context(
    catalog: Catalog, lifetime_years: float | None, revision: int = 1
) -> ScoreContext:
    """Return the context with annual intensity and the configured EL [years].

    `lifetime_years` is None for the catalog's.
    """
    lifetime = None
    if lifetime_years is not None:
        source = "hardware life declared in the configuration"
        lifetime = Quantity.exact(lifetime_years, "years", "declared", source)
    return ScoreContext(catalog, AnnualIntensity(catalog), lifetime, revision)


class Component(Struct, frozen=True):
    """An accelerator or a host of the job: TE of the whole of it, and the part that was reserved.

    `reserved` is RR, `total` ToR, in the unit that is shared; `life` is EL [years]. It was reserved
    while any of `nodes` was.
    """

    device_id: str
    node: str
    label: str
    te: Embodied
    reserved: float
    total: float
    life: Quantity
    nodes: tuple[str, ...]
    share_kind: Kind = "declared"
    """How RR/ToR is known: `estimated` where the host of a virtual machine is not."""

    @property
    def key(self) -> DeviceKey:
        """Return what identifies the device or host in the job."""
        return self.node, self.device_id

    @property
    def fraction(self) -> float:
        """RR/ToR, in (0, 1]."""
        return self.reserved / self.total


class IdentifiedJob(Struct, frozen=True):
    """A merged job with its hardware and its place.

    `ids` has the catalog id of every device whose name the catalog knows. `life` is the EL [years]
    of hardware without one of its own; `limits_w` has what the boards of an accelerator can draw
    [W], where the catalog knows it; `notices` are those on the hardware.
    """

    job: MergedJob
    context: ScoreContext
    place: Place
    ids: Mapping[DeviceKey, str]
    components: tuple[Component, ...]
    life: Quantity
    limits_w: Mapping[DeviceKey, float]
    notices: tuple[Notice, ...]


def identify(job: MergedJob, context: ScoreContext) -> IdentifiedJob:
    """Look up every device, host, zone and region of a job."""
    catalog = context.catalog
    usual_life = context.lifetime or catalog.lifetime()
    devices = _identified(job, catalog, context.lifetime)
    accelerators = [device for device in devices if device.te]
    components = [_accelerator(device) for device in accelerators]
    notices = [notice for device in accelerators for notice in _accelerator_notices(device)]
    hosts = _hosts(job, devices, usual_life, catalog)
    # Of the host of a virtual machine nobody there can know more: its share is `estimated`.
    seen = any(host.share_kind == "declared" for host in hosts)
    notices += [Notice("host-modelled", CODES["host-modelled"], "embodied_g")] if seen else []
    named = [device for device in devices if not device.record.virtual]
    notices += [_ambiguous_cpu(d.record.name, d.choices) for d in named if d.choices]
    served = bool(set(job.head.scheduler) - LAUNCHED)
    served = served or any(device.in_data_centre for device in devices)
    return IdentifiedJob(
        job,
        context,
        locate_nodes(job, catalog, data_centre=served),
        {device.key: device.row.id for device in devices if device.row},
        (*components, *hosts),
        usual_life,
        {device.key: limit_w for device in devices if (limit_w := device.limit_w)},
        tuple(dict.fromkeys(notices)),
    )


class _Device(Struct, frozen=True):
    """A device: a processor with its catalog row or the choices of its name, or an accelerator
    with the parts that its name may mean, and TE of them together.
    """

    record: DeviceRecord
    life: Quantity
    nodes: tuple[str, ...] = ()
    cpu: Cpu | None = None
    choices: tuple[str, ...] = ()
    forms: Forms | None = None
    te: Embodied | None = None

    @property
    def key(self) -> DeviceKey:
        return self.record.node, self.record.device_id

    @property
    def row(self) -> Hardware | Cpu | None:
        return self.forms.part if self.forms else self.cpu

    @property
    def part(self) -> Hardware | None:
        """Return the part that is counted, of several the commonest."""
        return self.forms.parts[0] if self.forms else None

    @property
    def share(self) -> float:
        """Return the part of the board that is the job's: of a vGPU no more than its memory."""
        piece = split_name(self.record.name)[1]
        vgpu = vgpu_fraction(self.part, piece) if self.part and piece else 1.0
        return min(self.record.share, vgpu)

    @property
    def in_data_centre(self) -> bool:
        """Return whether it shows a data centre: a processor of servers, or a part made for them.

        Its name is in the catalog then, and every part that it means is made for one.
        """
        if self.record.device_class == "cpu":
            return SERVER_PROCESSOR.search(self.record.name) is not None
        named = self.forms if self.forms and self.forms.meaning != "family" else None
        return named is not None and all(map(in_data_centre, named.parts))

    @property
    def limit_w(self) -> float | None:
        """Return what its boards can draw [W]; one that several devices share counts for each.

        None for a name that is not in the catalog.
        """
        if self.forms is None or self.forms.meaning == "family":
            return None
        limits = [part.tdp_w * part.devices_per_board for part in self.forms.parts if part.tdp_w]
        return max(limits) * (self.record.units or 1.0) if limits else None


def _identified(job: MergedJob, catalog: Catalog, life: Quantity | None) -> list[_Device]:
    """Return every device of the job, each name looked up once."""
    by_traits: dict[tuple[str, str, float | None, float | None], _Device] = {}
    result = []
    for device in job.devices:
        of = device.record
        key = of.device_class, of.name, of.memory_b, of.power_limit_w
        if key not in by_traits:
            by_traits[key] = _identify(of, catalog, life)
        result.append(replace(by_traits[key], record=of, nodes=device.nodes))
    return result


def _identify(record: DeviceRecord, catalog: Catalog, life: Quantity | None) -> _Device:
    usual = _Device(record, life or catalog.lifetime())
    if record.device_class == "cpu":
        try:
            return replace(usual, cpu=catalog.cpu(record.name))
        except AmbiguousName as error:
            return replace(usual, choices=tuple(error.choices))
        except LookupFailed:
            return usual
    if record.device_class not in ACCELERATORS:
        return usual
    means = forms(catalog, record.name, _seen(record))
    own_life = life or catalog.lifetime(means.part.id) if means.part else usual.life
    return replace(usual, life=own_life, forms=means, te=forms_te(catalog, means))


def _seen(record: DeviceRecord) -> Seen:
    """Return what tells parts of one name, or of one family, apart."""
    memory_gib = gib_from_bytes(record.memory_b) if record.memory_b else None
    if record.share < 1:  # memory and limit are those of a slice, or of the board
        return Seen(record.device_class)
    module = record.device_class == "module"
    includes_host = record.includes_host or (None if module else False)
    return Seen(record.device_class, memory_gib, record.power_limit_w, includes_host)


def _accelerator(device: _Device) -> Component:
    assert device.te is not None  # its caller chose those
    record = device.record
    return Component(
        device_id=record.device_id,
        node=record.node,
        label=record.name,
        te=device.te,
        reserved=device.share,
        total=1.0,
        life=device.life,
        nodes=device.nodes,
    )


def _accelerator_notices(device: _Device) -> Iterator[Notice]:
    name, field = device.record.name, f"devices.{device.record.device_id}.embodied_g"
    if device.forms and device.forms.meaning == "family":
        yield Notice("hardware-unknown", device.forms.sentence, "embodied_g")
    if device.forms and device.forms.meaning == "several":
        yield Notice("hardware-ambiguous", device.forms.sentence, "embodied_g")
    if device.te and device.te.tier in ("C", "D"):
        text = f"Embodied carbon of {name} is modelled (tier {device.te.tier})."
        yield Notice("embodied-modelled", text, field)


def _ambiguous_cpu(name: str, choices: Sequence[str]) -> Notice:
    """Return the same for every device of a name, so that it stands once."""
    several = " or ".join(choices) if len(choices) <= NAMED_AT_MOST else f"{len(choices)} parts"
    text = (
        f"{name!r} may be {several}; a generic figure stands in. "
        "An overlay can give the name to one of them."
    )
    return Notice("hardware-ambiguous", text, "embodied_g")


def _hosts(
    job: MergedJob, devices: Sequence[_Device], life: Quantity, catalog: Catalog
) -> list[Component]:
    """Return the host of every node; none of a node whose boards are counted on another."""
    by_node: dict[str, list[_Device]] = defaultdict(list)
    for device in devices:
        by_node[device.record.node].append(device)
    owners = {
        node: device.record.node
        for device in devices
        for node in device.nodes
        if node not in by_node
    }
    hosts = []
    for name in (node.name for node in job.nodes if node.name not in owners):
        host = _host(by_node.get(name, []), catalog, job.head.region)
        if host is not None:
            label, te, reserved, slots, kind = host
            machine = (name, *(node for node, owner in owners.items() if owner == name))
            key = f"{name}-host"
            hosts.append(Component(key, name, label, te, reserved, slots, life, machine, kind))
    return hosts


def _host(
    devices: Sequence[_Device], catalog: Catalog, region: str | None
) -> tuple[str, Embodied, float, float, Kind] | None:
    """Return a host's label, TE, RR, ToR and how their quotient is known.

    None where its accelerators' figures hold it.
    """
    accelerators = [device for device in devices if device.te and not device.te.includes_host]
    label, cpu = "host (CPU, memory, board, case)", _of_class(devices, "cpu")
    if not accelerators:
        if any(device.te for device in devices):
            return None
        part = _part_of_limits(cpu)
        row, size = _seen_size(devices)
        virtual = cpu is not None and cpu.record.virtual and row is None
        if virtual and (shared := virtual_share(size.threads, size.memory_gib)):
            share, te = shared
            return f"{label}, a virtual machine's share", te, share * part, 1.0, "estimated"
        return label, host_te(row, size.threads, size.memory_gib), part, 1.0, "declared"
    reserved = sum(device.share for device in accelerators)
    if cpu is not None and cpu.record.virtual:
        rented = _rented(accelerators, cpu, catalog, region)
        of_device = instance_host_te(catalog, rented) if rented else None
        if rented and of_device is not None:
            label, count = f"host of the instance {rented.id}", rented.count or 1.0
            return label, of_device.scaled(count), reserved, count, "derived"
    slots = _slots(accelerators, reserved)
    usual = _host_of(accelerators, slots, devices)
    if usual is None:
        return None
    if not all(shows_host(device.part) for device in accelerators):
        label = f"host, the share of {reserved:g} of {slots:g} accelerators"
    return label, usual, reserved, slots, "declared"


def _rented(
    accelerators: Sequence[_Device], cpu: _Device, catalog: Catalog, region: str | None
) -> Instance | None:
    """Return the cloud instance with these devices and threads; None where not just one has them.

    What a virtual machine shows of its host is the machine's own size.
    """
    threads = cpu.record.units_total or cpu.record.units
    parts = {device.part.id for device in accelerators if device.part}
    count = max(len(accelerators), *(d.record.units_total or 0 for d in accelerators))
    provider = region.partition(":")[0] if region else None
    fits = [
        instance
        for instance in catalog.all_instances()
        if instance.vcpu == threads
        and {instance.hardware} == parts
        and instance.count == count
        and provider in (None, instance.provider)
    ]
    return fits[0] if len({instance.host for instance in fits}) == 1 else None


def _slots(accelerators: Sequence[_Device], reserved: float) -> float:
    """Return the number of accelerators in the host: at least those of a server as sold."""
    in_host = max(device.record.units_total or 0.0 for device in accelerators)
    boards = any(device.part and device.part.host_class == "server" for device in accelerators)
    return max(in_host, reserved, server_accelerators() if boards else 1.0)


def _host_of(
    accelerators: Sequence[_Device], slots: float, devices: Sequence[_Device]
) -> Embodied | None:
    """Return TE of the host of accelerators, by what is seen of it where that tells its size."""
    named = [device.forms for device in accelerators if device.forms]
    named.sort(key=lambda of: shows_host(of.parts[0]))
    shares = (forms_host_te(of, slots) for of in named)
    usual = next((share for share in shares if share), None)
    if usual is None or not shows_host(named[0].parts[0]):
        return usual
    server = not any(of.parts[0].host_class == "workstation" for of in named)
    cpu, size = _seen_size(devices)
    return seen_host_te(usual, size, cpu, server=server)


def _part_of_limits(cpu: _Device | None) -> float:
    """Return the job's part of what its limits left it and others used too (0 to 1].

    The host's size is that of the limits (`units`); a share below theirs was divided further.
    """
    if cpu is None or not cpu.record.units or not cpu.record.units_total:
        return 1.0
    return min(1.0, round(cpu.record.share * cpu.record.units_total / cpu.record.units, 6))


def _seen_size(devices: Sequence[_Device]) -> tuple[Cpu | None, Size]:
    cpu, ram = _of_class(devices, "cpu"), _of_class(devices, "ram")
    memory_gib = gib_from_bytes(ram.record.memory_b) if ram and ram.record.memory_b else None
    row = cpu.cpu if cpu else None
    return row, Size(cpu.record.units if cpu else None, memory_gib)


def _of_class(devices: Sequence[_Device], device_class: str) -> _Device | None:
    return next((d for d in devices if d.record.device_class == device_class), None)

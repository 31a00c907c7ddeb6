"""The catalog: hardware, CPUs, cloud instances, regions and annual grid intensity, by name.

Names match exactly or not at all (`names.py`). A catalog is immutable; the data are the
CSV files packaged beside this module, read on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gramwatt.sci.catalog.files import Group, PciId, Version
from gramwatt.sci.catalog.hardware import Cpu, CpuFamily, Hardware
from gramwatt.sci.catalog.instances import (
    ATTACHED,
    PROVIDERS,
    WITHOUT_ACCELERATOR,
    Instance,
    InstanceNames,
    devices_in,
    named_machines,
    other_provider,
    tpu_slice,
)
from gramwatt.sci.catalog.loader import (
    aliases,
    literal_names,
    read_cpus,
    read_hardware,
    read_instances,
    read_regions,
)
from gramwatt.sci.catalog.names import (
    VENDORS,
    Names,
    Resolution,
    Service,
    alternatives,
    cpu_name,
    key,
    part_name,
    similar,
    vendors_in,
    words,
)
from gramwatt.sci.catalog.overlay import Overlay, OverlayError, parse_overlay
from gramwatt.sci.catalog.parameters import lifetime_years
from gramwatt.sci.catalog.printed import bare_part, pci_ids, readings
from gramwatt.sci.catalog.regions import Region, RegionNames
from gramwatt.sci.figures.csv_data import rows
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.grid.zones import ZoneIntensity, Zones

if TYPE_CHECKING:
    from gramwatt.sci.catalog.phrases import Span

__all__ = ["Catalog", "Cpu", "Hardware", "Instance", "Region", "ZoneIntensity", "load_catalog"]


NAMED_MOST = 8
"""Most parts of a service that its sentence lists."""
MEASURE_IT = (
    "`gramwatt run` measures a job on it; for an estimate give energy_kwh, since the catalog has "
    "machines with accelerators only"
)
NAME_ITS_PART = (
    "which the catalog does not have: name its accelerators instead ('8x A100 80GB' as instance, "
    "or --hardware with the count)"
)
ATTACH_IT = (
    "is a machine of Google to which accelerators are attached, and its name does not say which: "
    "name the part with it ('n1-standard-8 + 1x T4'), or gcp:n1+t4 (k80, p4, p100, v100) and count"
)
SLICE = re.compile(r"(?<![\w.])[1-7]g\.\d+gb(?!\w)")
OF_A_BOARD = "is a MIG slice of a board: name the board with it ('A100-SXM4-80GB MIG 1g.10gb')"
NAME_OF_PCI = (
    "is a PCI id that the catalog does not have: `nvidia-smi -L`, `amd-smi list` or `lspci` of a "
    "newer list says the name of the device"
)
LISTS = "`gramwatt catalog hardware` lists accelerators, `gramwatt catalog cpus` processors"
MOST_PHRASES = 4096
"""Most names whose reading is kept."""
_NAMED_TOO = r"(?i)(?:instinct|radeon|geforce|quadro|[gr]tx|tesla|arc)\s+(?:\w+\s+)?\w*\d"
"""A name beside a PCI id: where that is not known, the id may be of another form of it."""
_BETWEEN = r"[\s,;|()\[\]{}\"'`=*]+|/"
"""What stands between the words of a phrase with the name of a machine."""
_SEVERAL = r"[,;|/]|\b(?:and|or|vs)\b|\s{2,}"
_COUNTED = r"(?i)gpu_\d+x_\w+|lit-[a-z]+\d+\w*-\d|[a-z][\w-]*\d[\w-]*:\d{1,2}"
_OF_MACHINE = r"\d.*[._-]|[._-].*\d"


class Catalog:
    """All records by all their names; `load_catalog` gives the packaged one."""

    def __init__(self, overlay: Overlay | None = None) -> None:
        """Read the packaged data, with the entries of the user's overlay over them.

        `version` is the date of the last change of the data, YYYY.MM.DD, with the overlay's digest.
        Raises OverlayError for an overlay that does not fit the data.
        """
        self.overlay = overlay
        self.version = rows(Version)[0].version
        self.version += f"+overlay.{overlay.digest[:8]}" if overlay else ""
        self._literal_names = literal_names(overlay)
        self._phrases: dict[str, tuple[Span, ...]] = {}
        if overlay:
            self._check(overlay)

    # Each is read when it is asked for first: a command needs few of them.

    @cached_property
    def _hardware(self) -> dict[str, Hardware]:
        return {part.id: part for part in read_hardware(self.overlay)}

    @cached_property
    def _cpus(self) -> dict[str, Cpu]:
        return {cpu.id: cpu for cpu in read_cpus()}

    @cached_property
    def _instances(self) -> dict[str, Instance]:
        return {instance.id: instance for instance in read_instances(self.overlay)}

    @cached_property
    def _regions(self) -> dict[str, Region]:
        return {region.id: region for region in read_regions(self.overlay)}

    @cached_property
    def _region_names(self) -> RegionNames:
        others = {name: row_id for row_id, names in aliases("region").items() for name in names}
        return RegionNames(self._regions, others)

    @cached_property
    def _services(self) -> dict[str, Service]:
        return {key(name): row for row in rows(Service) for name in (row.name, *row.names)}

    @cached_property
    def _zones(self) -> Zones:
        return Zones(self.overlay.zones if self.overlay else None)

    @cached_property
    def _hardware_names(self) -> Names:
        return Names(
            "hardware",
            _named(self._hardware.values()),
            _pairs(aliases("hardware-shared")),
            [(part.architecture, part.id) for part in self._hardware.values()],
            simplify=part_name,
        )

    @cached_property
    def _cpu_names(self) -> Names:
        return Names(
            "cpu",
            _named(self._cpus.values()),
            groups=[(cpu.architecture, cpu.id) for cpu in self._cpus.values()],
            simplify=cpu_name,
        )

    @cached_property
    def _instance_names(self) -> InstanceNames:
        return InstanceNames(
            tuple(self._instances.values()),
            _pairs(aliases("instance")),
            {row.name: row.families for row in rows(Group)},
        )

    @staticmethod
    def with_overlay(text: str) -> Catalog:
        """Return the packaged catalog with the entries of a TOML text; raises OverlayError."""
        try:
            return Catalog(parse_overlay(text))
        except OverlayError:
            raise
        except ValueError as error:  # a name of another part
            raise OverlayError(f"the overlay cannot be used: {error}") from None

    def hardware(self, name: str) -> Hardware:
        """Return an accelerator by id, name or alias; raises AmbiguousName or LookupFailed."""
        if name in self._hardware:  # an id needs no index of names
            return self._hardware[name]
        try:
            return self._hardware[self._part(name)]
        except LookupFailed as error:
            # "GPU" is a part of several names, but a service entry says what it means.
            ambiguous = isinstance(error, AmbiguousName) and key(name) not in self._services
            members = self._instance_names.ids(name) if ambiguous else ()
            if members:  # "A2" is a card, and a family of instances
                instances = [self._instances[member] for member in members]
                error.reason = self._of_instances(name, instances).reason
            meant = None if ambiguous else self.resolution(name) or self._of_cpu(name)
            if meant is None and not ambiguous and (piece := SLICE.search(name)):
                boards = [i for i, row in self._hardware.items() if piece[0] in row.mig_profiles]
                meant = Resolution(tuple(boards), (), f"{name} {OF_A_BOARD}")
            if meant is None and not ambiguous and pci_ids(name):
                meant = Resolution((), (), f"{name} {NAME_OF_PCI}")
            if meant is None and not ambiguous:  # costly, and of use to nobody before
                meant = self._close(name)
            if meant is None:
                raise
            raise LookupFailed("hardware", name, meant.hardware, meant.reason or None) from None

    def cpu(self, name: str) -> Cpu:
        """Return a CPU by id, name or alias.

        Raises AmbiguousName, or LookupFailed: with its family where the name says that.
        """
        if name in self._cpus:
            return self._cpus[name]
        try:
            return self._cpus[self._cpu_names.find(name)]
        except AmbiguousName:
            raise
        except LookupFailed:
            members, reason = self.cpu_family(name)
            if not members:
                raise
            ids = [cpu.id for cpu in members]
            raise LookupFailed("cpu", name, ids, reason) from None

    def cpu_family(self, name: str) -> tuple[Sequence[Cpu], str]:
        """Return the processors of the family that a processor's name says, and what they span.

        None of them, and no sentence, for a name that says no family.
        """
        core = [word for word in words(cpu_name(name)) if word not in VENDORS]
        for family in rows(CpuFamily):
            if re.fullmatch(family.pattern, " ".join(core)):
                break
        else:
            return (), ""
        members = [row for row in self._cpus.values() if row.architecture in family.architectures]
        cores, watts = [row.cores for row in members], [row.tdp_w for row in members if row.tdp_w]
        rated = f" and are rated at {_span(watts)} W" if watts else ""
        return members, (
            f"{name} is not in the catalog; the {len(members)} processors of its family "
            f"({family.family}) have {_span(cores)} cores{rated}"
        )

    def instance(self, name: str) -> Instance:
        """Return an instance by id or name; raises AmbiguousName for a family, or LookupFailed."""
        machines = self._machines_in(name) if re.search(_SEVERAL, name) else ()
        if len(machines) > 1:
            raise AmbiguousName("instance", name, machines)
        try:
            return self._instances[self._instance_names.find(name)]
        except AmbiguousName:
            raise
        except LookupFailed:
            by_rule = tpu_slice(name) or self._named_machine(name) or self._of_machine_phrase(name)
            if by_rule is not None:
                return by_rule
            meant = self.resolution(name)
            if meant is None and (provider := other_provider(name)):
                meant = Resolution((), (), f"{name} is a machine of {provider}, {NAME_ITS_PART}")
            if meant is None and ATTACHED.fullmatch(name.strip()):
                meant = Resolution((), (), f"{name} {ATTACH_IT}")
            if meant is None and WITHOUT_ACCELERATOR.fullmatch(name.strip()):
                meant = Resolution((), (), f"{name} has no accelerator: {MEASURE_IT}")
            if meant is None and (begun := self._instance_names.begun(name)):
                raise AmbiguousName("instance", name, begun) from None
            if meant is None:
                raise
            raise LookupFailed("instance", name, meant.instances, meant.reason) from None

    def _named_machine(self, name: str) -> Instance | None:
        """Return the machine that a name describes; raises AmbiguousName with one for each part.

        None where it describes none, or none of known hardware.
        """
        for says in named_machines(name):
            machines = [self._instances[row_id] for row_id in self._instance_names.ids(says.part)]
            of_one = machines[0] if len(machines) == 1 and "." in says.part else None
            if of_one and of_one.count:  # "2 x p4d.24xlarge" are two machines
                count = says.count * of_one.count
                return replace(of_one, id=f"{says.count}x{of_one.id}", count=count)
            try:
                parts = [self.hardware(says.part)]
            except AmbiguousName as error:
                parts = [self.hardware(choice) for choice in error.choices]
            except LookupFailed:
                continue
            fit = [part for part in parts if says.fits(part)] or parts
            if len(fit) > 1:
                choices = [says.instance(name, part).id for part in fit]
                raise AmbiguousName("instance", name, choices)
            return says.instance(name, fit[0])
        return None

    def _machines_in(self, name: str) -> list[str]:
        """Return the machines whose names stand in a phrase, of the provider that it names."""
        chunks = _chunks(re.sub(r"(?<=\S)\s+#.*$", "", name))
        providers = {PROVIDERS[text.lower()] for text in chunks if text.lower() in PROVIDERS}
        of = next(iter(providers)) if len(providers) == 1 else None
        named = dict.fromkeys(
            row_id
            for text in chunks
            if re.search(_OF_MACHINE, text)
            for row_id in self._instance_names.ids(text)
            if of is None or row_id.partition(":")[0] in of
        )
        return list(named)

    def _of_machine_phrase(self, name: str) -> Instance | None:
        """Return the machine that a phrase has a name of, or whose devices it counts.

        Raises AmbiguousName with several; None where it says no machine.
        """
        if re.search(r"\d/\d+$|^ml\.[^/\s]+$", name.strip()):
            return None  # "VM.GPU.A10.1/2" are two, "ml.gd-1xgh200" is none
        chunks, named = _chunks(name), self._machines_in(name)
        for text in chunks:
            if re.fullmatch(_COUNTED, text) and not named and (item := self._named_machine(text)):
                return item
        slices = [by_rule for text in chunks if "-" in text and (by_rule := tpu_slice(text))]
        counted = [
            f"{count}x{part}"
            for span in self._spans(name)
            if (count := devices_in(name, span.begin, span.end))
            for part in self._narrowed(name, span.ids)
        ]
        machines = named or [item.id for item in slices] or list(dict.fromkeys(counted))
        if len(machines) > 1:
            raise AmbiguousName("instance", name, machines)
        return self.instance(machines[0]) if machines and machines[0] != name else None

    def resolution(self, name: str) -> Resolution | None:
        """Return what a name stands for: instances, a service or hardware; None if unknown."""
        members = self._instance_names.ids(name)
        if members:
            return self._of_instances(name, [self._instances[member] for member in members])
        try:
            by_rule = tpu_slice(name) or self._named_machine(name)
        except AmbiguousName as error:
            return self._of_instances(name, [self.instance(choice) for choice in error.choices])
        if by_rule is not None:
            return self._of_instances(name, [by_rule])
        service = self._services.get(key(name))
        if service is not None:
            return self._of_service(service)
        try:
            meant: Sequence[str] = (self._part(name),)
        except AmbiguousName as error:
            meant = error.choices
        except LookupFailed:
            return None
        held = tuple(
            instance.id for instance in self._instances.values() if instance.hardware in meant
        )
        return Resolution(
            tuple(meant), held, f"{name} is hardware, not an instance: {', '.join(meant)}"
        )

    def _part(self, name: str) -> str:
        """Return the id of a part; names in cloud metadata match only literally, in any case."""
        if {key(name), key(bare_part(name))} & set(self._services) and name not in self._hardware:
            raise LookupFailed("hardware", name)  # "NPU" is a kind, though one maker has just one
        exact = self._narrowed(name, tuple(self._meant(name)))
        ids = exact or self._of_phrase(name) or self._of_pci_ids(name)
        if len(ids) > 1:
            raise AmbiguousName("hardware", name, ids)
        if not ids:
            raise LookupFailed("hardware", name)
        return ids[0]

    def _close(self, name: str) -> Resolution:
        """Return the parts of which an unknown name may be a misspelling."""
        of_another_maker = self._hardware_names.meant(name)
        close = () if of_another_maker else self._hardware_names.close(name)
        return Resolution(close, (), "" if close else LISTS)

    def _meant(self, name: str) -> Sequence[str]:
        """Return the parts that a name means as it is written."""
        names = self._literal_names
        for written in (name.strip().lower(), bare_part(name).lower()):
            literal = names.get(written) or names.get(written.replace("_", "-"))  # Vertex AI's
            if literal:
                return (literal,)
        if name.rstrip().endswith("..."):
            return self._hardware_names.begun(name)
        return self._of_makers(name, self._hardware_names.meant(name))

    def _of_makers(self, name: str, ids: Sequence[str]) -> Sequence[str]:
        """Return the parts of the makers that a name says; all where it says none."""
        makers = vendors_in(name)
        others = set(VENDORS.values()) - makers if makers else set()
        return [i for i in ids if self._hardware[i].vendor.lower() not in others]

    def _of_alternatives(self, name: str) -> list[str]:
        """Return the parts that a name with slashes means, of each the first reading."""
        readings = alternatives(name) if "/" in name else []
        meant = [
            next((ids for text in texts if (ids := self._hardware_names.ids(text))), ())
            for texts in readings
        ]
        return list(self._of_makers(name, _least(meant)))

    def _of_readings(self, name: str) -> Sequence[str]:
        """Return the parts of the first reading of a name that is known, of the memory it says."""
        for text, memory_gb in readings(name):
            ids = self._meant(text)
            sizes = {i: self._hardware[i].memory_gb or 0 for i in ids}
            fit = [
                row_id
                for row_id in ids
                if memory_gb is None or memory_gb / 1.05 <= sizes[row_id] <= memory_gb * 1.15
            ]
            if fit:
                return fit
        return ()

    def _of_phrase(self, name: str) -> Sequence[str]:
        """Return the parts that a phrase names, each as what stands behind it narrows it."""
        read = tuple(self._of_alternatives(name) or self._of_readings(name))
        if self._instance_names.ids(name):
            return read
        spans_of = self._spans(name)
        sets = [span.ids for span in spans_of]
        if read and not any(set(ids).isdisjoint(read) for ids in sets):
            return self._narrowed(name, read)  # the phrase names nothing else
        if not read and len({*map(frozenset, sets)}) < 2:
            return self._narrowed(name, _least(sets))
        # Of several names each has the memory and the form that stand behind it.
        ends = [span.begin for span in spans_of[1:]] + [len(name)]
        sets = [
            self._narrowed(name[span.begin : end], span.ids)
            for span, end in zip(spans_of, ends, strict=True)
        ]
        return _least(
            [read, *sets]
            if read and set(read).isdisjoint({part for ids in sets for part in ids})
            else sets
        )

    def _narrowed(self, text: str, ids: tuple[str, ...]) -> tuple[str, ...]:
        if len(ids) < 2:
            return ids
        from gramwatt.sci.catalog.phrases import narrowed

        return narrowed(text, ids, self._memory_gb)

    def _spans(self, name: str) -> tuple[Span, ...]:
        from gramwatt.sci.catalog.phrases import BRAND, spans  # only a name that is not known pays

        if name not in self._phrases:
            is_cpu = bool(self._cpu_names.ids(name) or self.cpu_family(name)[0])
            is_cpu = is_cpu and not BRAND.search(name)
            words_of = self._hardware_names.vocabulary
            named = () if is_cpu else spans(name, self._meant, self._memory_gb, words_of)
            if len(self._phrases) > MOST_PHRASES:
                self._phrases.clear()
            self._phrases[name] = tuple(named)
        return self._phrases[name]

    @cached_property
    def _memory_gb(self) -> dict[str, float | None]:
        return {part.id: part.memory_gb for part in self._hardware.values()}

    @cached_property
    def _pci(self) -> dict[str, tuple[str, ...]]:
        return {own: row.hardware for row in rows(PciId) for own in row.ids}

    def _of_pci_ids(self, name: str) -> tuple[str, ...]:
        """Return the parts of the PCI id in a name; of a device id alone, whose vendor has it."""
        ids = frozenset() if re.search(_NAMED_TOO, name) else pci_ids(name)
        full = [own for own in self._pci if own in ids or own.partition(":")[2] in ids]
        return self._pci[full[0]] if len(full) == 1 else ()

    def _of_cpu(self, name: str) -> Resolution | None:
        """Return what to say of a processor's name, whole or in part; None for any other name."""
        try:
            ids: Sequence[str] = (self._cpu_names.find(name),)
        except LookupFailed as error:
            several, name_words = isinstance(error, AmbiguousName), set(words(name))
            ids = [
                i for i in error.close if several or name_words <= set(words(self._cpus[i].name))
            ]
        members, reason = ((), "") if ids else self.cpu_family(name)
        if members:
            return Resolution((), (), f"{reason}; it is a processor, not an accelerator")
        if not ids:
            return None
        reason = (
            f"{name} is a processor, not an accelerator: `gramwatt catalog cpus` has "
            f"{', '.join(ids)}; for work on processors alone give energy_kwh to gramwatt estimate"
        )
        return Resolution((), (), reason)

    def _of_instances(self, name: str, members: Sequence[Instance]) -> Resolution:
        boards = tuple(dict.fromkeys(instance.hardware for instance in members))
        what = "a cloud instance" if len(members) == 1 else "a family of cloud instances"
        parts = ", ".join(boards)
        reason = f"{name} is {what} with {parts}: name that part, or ask for it as instance"
        return Resolution(boards, tuple(instance.id for instance in members), reason)

    def _of_service(self, service: Service) -> Resolution:
        held = [i for i in self._instances.values() if service.runs_on(i.provider, i.family)]
        boards = dict.fromkeys((*service.hardware, *(instance.hardware for instance in held)))
        reason = service.reason
        if 1 < len(boards) <= NAMED_MOST:
            reason += f" (one of {', '.join(boards)})"
        return Resolution(tuple(boards), tuple(instance.id for instance in held), reason)

    def host_of(self, instance: Instance) -> Instance | None:
        """Return the instance that is the whole machine of another; None if unknown."""
        return self._instances.get(instance.host or "")

    def cpu_of(self, instance: Instance) -> Cpu | None:
        """Return the CPU of an instance; None where the catalog does not have it."""
        return self._cpus.get(instance.cpu or "")

    def lifetime(self, part: str | None = None) -> Quantity:
        """Return EL of a part [years]: the overlay's for it or its default, else 4 (3 to 6)."""
        declared = self.overlay.lifetimes if self.overlay else {}
        declared_life = declared.get(part or "", declared.get("default"))
        return declared_life or lifetime_years()

    def region(self, name: str) -> Region:
        """Return a cloud region by "provider:region", one of its zones, or its place.

        Raises AmbiguousName with the regions that a name may mean, or LookupFailed.
        """
        exact = self._regions.get(name.strip().lower())
        return exact or self._regions[self._region_names.find(name)]

    def zone(self, key: str) -> ZoneIntensity:
        """Return the annual intensity of a zone by ISO 3166 code, zone key or name of a place.

        A cloud region's name means its zone. A zone's own row wins over its country's, and the
        newest value over older ones. Raises AmbiguousName with the zones that a name may mean, or
        LookupFailed.
        """
        try:
            return self._zones.zone(key)
        except AmbiguousName:
            raise
        except LookupFailed:
            try:
                region = self._regions[self._region_names.find(key)]
            except LookupFailed:
                region = None
            if region is None:
                raise
            return self._zones.zone(region.zone)

    def zones_within(self, country: str, name: str) -> Sequence[ZoneIntensity]:
        """Return the zones of a country that a name may mean: a state, a city, SE3 in SE.

        Raises LookupFailed for an unknown country.
        """
        return self._zones.within(country, name)

    def zones_of(self, country: str) -> Sequence[str]:
        """Return the keys of the zones of a country, other than its own, that have a value."""
        return self._zones.parts(country)

    def world(self) -> ZoneIntensity:
        """Return the world mean [gCO2e/kWh], which is used for an unknown zone."""
        return self._zones.world

    def all_hardware(self) -> Sequence[Hardware]:
        """Return every accelerator, in the order of the data file."""
        return tuple(self._hardware.values())

    def all_cpus(self) -> Sequence[Cpu]:
        """Return every CPU, in the order of the data file."""
        return tuple(self._cpus.values())

    def all_instances(self) -> Sequence[Instance]:
        """Return every cloud instance, in the order of the data file."""
        return tuple(self._instances.values())

    def all_regions(self) -> Sequence[Region]:
        """Return every cloud region, in the order of the data file."""
        return tuple(self._regions.values())

    def all_zones(self) -> Sequence[ZoneIntensity]:
        """Return the newest value of every country and zone, by key."""
        return self._zones.newest()

    def _check(self, overlay: Overlay) -> None:
        """Raise OverlayError where an entry names a record that does not exist, ValueError for a
        name that another record has.
        """
        _ = self._hardware_names, self._instance_names, self._region_names, self._zones
        for part in overlay.lifetimes:
            if part != "default":
                _check_known("lifetimes", part, part, self._hardware)
        for region in overlay.pue:
            _check_known("pue", region, region, self._regions)
        for region in overlay.regions:
            try:
                self.zone(self._regions[region].zone)
            except LookupFailed as error:
                text = f'[regions."{region}"] {error.message}'
                raise OverlayError(f"the overlay cannot be used: {text}") from None
        for name in overlay.instances:
            instance = self._instances[name]
            _check_known("instances", name, instance.hardware, self._hardware)
            if instance.host:
                _check_known("instances", name, instance.host, self._instances)


def _chunks(name: str) -> list[str]:
    return [text.strip(".:") for text in re.split(_BETWEEN, name)]


def _least(sets: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the members of all sets; of a set that holds another only that: W7900 of gfx1100."""
    least = [ids for ids in sets if not any(other and set(other) < set(ids) for other in sets)]
    return tuple(dict.fromkeys(part for ids in least for part in ids))


def _span(values: Sequence[float]) -> str:
    """Return the least and the greatest value for people."""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


@cache
def load_catalog() -> Catalog:
    """Return the packaged catalog, built once per process."""
    return Catalog()


def _named(parts: Iterable[Hardware | Cpu]) -> list[tuple[str, str]]:
    """Return (name, id) pairs of parts: each id, name and alias."""
    return [(name, part.id) for part in parts for name in (part.id, part.name, *part.aliases)]


def _pairs(names: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return (alias, id) pairs."""
    return [(alias, row_id) for row_id, called in names.items() for alias in called]


def _check_known(kind: str, key: str, name: str, known: Mapping[str, object]) -> None:
    """Raise OverlayError with close matches where an entry names what is not known."""
    if name not in known:
        close = similar(name, known)
        hint = f"; close matches: {', '.join(close)}" if close else ""
        text = f'[{kind}."{key}"] names {name!r}, which is not known{hint}'
        raise OverlayError(f"the overlay cannot be used: {text}")

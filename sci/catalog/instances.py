"""Cloud instances: which accelerators they have, what share of them, and in which host.

An instance is found by its id ("aws:p4d.24xlarge"), by its provider's name for it, and by that name
with "ml." in front, as in SageMaker. A family ("P4", "NCasT4_v3") stands for its members. Case,
spaces and punctuation do not matter. Names that say count and part themselves ("8xH100",
"A100-80GB:4") need no line: `NameRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Annotated, Any

from msgspec import Struct, to_builtins

from gramwatt.sci.catalog.hardware import Hardware
from gramwatt.sci.catalog.names import Names, key, words
from gramwatt.sci.catalog.printed import bare_machine, of_slurm
from gramwatt.sci.figures.csv_data import (
    SOURCE,
    Cell,
    Id,
    OwnRow,
    Row,
    Sources,
    between,
    column,
    rows,
)
from gramwatt.sci.figures.errors import ScoreError

_AWS, _GOOGLE = frozenset({"aws"}), frozenset({"gcp", "google-colab"})
PROVIDERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("aws", "amazon", "ec2", "sagemaker", "ml"), _AWS),
    **dict.fromkeys(("azure", "microsoft"), frozenset({"azure"})),
    **dict.fromkeys(("google", "gcp", "gce"), _GOOGLE),
    "snowflake": frozenset({"snowflake"}),
    **{
        provider: frozenset({provider})
        for provider in (
            *("coreweave", "oci", "nebius", "lambda", "ibm", "scaleway", "ovh"),
            "hetzner",
        )
    },
    **dict.fromkeys(("oracle",), frozenset({"oci"})),
    "digitalocean": frozenset({"digitalocean"}),
}
"""Words that may precede the name of an instance, with their providers; SageMaker's ml.TYPE is
EC2's TYPE."""
THREADS_OF_XLARGE = 4
"""Threads of a machine of size xlarge; "8xlarge" has 8 times as many."""
ANY_PROVIDER = "any"
"""Who rents a machine whose name says its devices, and no more."""
MOST_DEVICES = 72
"""Most devices of one machine that a name is taken to say: those of a rack."""
WITHOUT_ACCELERATOR = re.compile(
    r"(?:(?:ml|db|cache)\.)?(?:t|m|c|r|a|d|h|i|x|z|u|mac|hpc|im|is|z)\d[a-z0-9-]*\.(?:\d*(?:nano|micro"
    r"|small|medium|x?large)|metal(?:-\w+)?)"
    r"|(?:e2|n2d?|n4d?|c2d?|c3d?|c4[ad]?|t2[ad]|m[1-4]|z3|h[34]d?)-[a-z]+(?:-\d+)?(?:-lssd|-metal)?"
    r"|standard_[abdeflm][a-z]*\d+[a-z0-9-]*(?:_v\d+)?",
    re.IGNORECASE,
)
"""Names of machines of Amazon, Google and Azure whose families have none."""
FAMILY_TAIL = re.compile(r"(?<=.)(?: ?(?:series|vms?|instances?|family))+$")
_DEVICE_GB = r"(?i)[\s_(-]+(?P<gb>\d+)gb?\b(?: each)?\)?"
"""Memory of a device in its name: "A100-80GB", "A100-80G"."""
_AS_PRINTED = r"(?i).*\bhbm\d\w*"
"""A part's name as drivers print it, whose memory is no more than a piece of the name."""
NUMBERS: Mapping[str, int] = {
    **dict.fromkeys(("single", "one"), 1),
    **dict.fromkeys(("dual", "two"), 2),
    **dict.fromkeys(("quad", "four"), 4),
    **{"three": 3, "six": 6, "eight": 8, "sixteen": 16},
}
"""Words for a number of devices."""
_SHORT_SIZE = r"(?i)(?<=\.)(\d*)xl$"
ATTACHED = re.compile(r"(?:n1-[a-z]+-\d+|(?:n1-)?custom-\d+-\d+)", re.IGNORECASE)
"""Machines of Google to which accelerators are attached, which their names do not say."""
_SLICE = (
    r"(?i)(?:(?:gcp|gce|google|cloud)[\s:]+)*(?:tpu[\s-]?(?:pod\s|slice\s)?)?"
    r"(v2|v3|v4|v5p|v5e|v5litepod|v6e|tpu7x)[\s-]?(\d+)(?:\s(?:tpu|pod|slice|vm))*"
)
_SLICES = {
    "v2": ("google-tpu-v2", 2, 256),
    "v3": ("google-tpu-v3", 2, 1024),
    "v4": ("google-tpu-v4", 2, 4096),
    "v5p": ("google-tpu-v5p", 2, 8960),
    "v5e": ("google-tpu-v5e", 1, 256),
    "v5litepod": ("google-tpu-v5e", 1, 256),
    "v6e": ("google-tpu-v6e", 1, 256),
    "tpu7x": ("google-tpu-v7", 2, 9216),
}
"""Slices of TPUs: their part, what the number in the name counts for each chip (TensorCores, or the
chip itself), and the chips of the largest."""


OTHER_PROVIDERS = {
    "Tencent Cloud": (
        r"(?:hcc)?(?:gn\d|gt\d|gnv\d|pnv\d|pnt\d|gi\d)\w*\.(?:\d*x?large|small|medium)\d*"
    ),
    "Huawei Cloud": (
        r"(?:p\d\w{0,3}|pi\d\w?|g[1-7]\w?|ai\d\w?|kai\w+|physical\.\w+)\.\d*x?large\.\d+\S*"
    ),
    "Volcengine": (
        r"(?:ml|ecs)\.(?:ebm)?(?:hpc)?(?:[vpgix]ni|g1|g1ve|g1te|g1v|pi|veg)\d?\w*\.\w*large"
    ),
    "Baidu AI Cloud": r"(?:bcc|bbc|ebc|ehc|ebci)\.\w+\.c\d+m\d+\S*",
    "Alibaba Cloud": r"ecs\.(?:ebm|s|v|scc)?(?:gn|ga|hfg?n|gpu)\d?\w*(?:-[\w-]+)?\.\w*large",
}
"""Names of machines with accelerators of providers whose lists the catalog does not have."""
SLICED = frozenset(part for part, _, _ in _SLICES.values())
"""TPUs that Google Cloud rents out in slices, whose names follow a rule and stand in no list."""


Devices = Annotated[int, between(1, 10_000)]


class NameRule(Row, frozen=True, kw_only=True):
    """Names that say what a machine has and need no line in instances.csv, by a regular expression.

    Its groups are count (one without it), part, vcpu (threads), gib (memory of the machine), gb
    (memory of a device), all_gb (of all devices) or vram (of all, which may be a part of a device);
    per and times where a name of Alibaba Cloud says threads a device and size.
    """

    files = ("name_rules.csv",)
    key = ("example",)

    example: Annotated[Cell, column("A name that it reads")]
    pattern: Annotated[Cell, column("Regular expression of whole names, in any case")]
    part: Annotated[Cell | None, column("The part, where the name does not say it")] = None
    count: Annotated[
        Annotated[int, between(1, 512)] | None,
        column("The devices, where the name does not say them"),
    ] = None
    gib_per_device: Annotated[
        Annotated[float, between(1, 4096, "GiB")] | None,
        column("Memory of the machine for each device, where that tells the count"),
    ] = None
    source: Annotated[Id, column("Source key", SOURCE)]


class NamedMachine(Struct, frozen=True):
    """What a name says of a machine: part, devices, threads, memory, that of a device or of all."""

    part: str
    count: int
    vcpu: float | None = None
    memory_gib: float | None = None
    device_gb: float | None = None
    vram_gb: float | None = None
    source: str = ""

    def fits(self, part: Hardware) -> bool:
        """Tell whether the memory that the name says is that of this part."""
        return part.memory_gb == (self.device_gb or self.vram_gb)

    def instance(self, name: str, part: Hardware) -> Instance:
        """Return the machine as an instance with that part."""
        count, share = self.count, 1.0
        if self.vram_gb and part.memory_gb:
            share = min(1.0, self.vram_gb / part.memory_gb)
            count = max(1, round(self.vram_gb / part.memory_gb))
        return Instance(
            id=f"{count * share:g}x{part.id}",
            provider=ANY_PROVIDER,
            name=name,
            family="by its name",
            hardware=part.id,
            count=count,
            share=share,
            vcpu=self.vcpu,
            host_memory_gib=self.memory_gib,
            sources=(self.source,),
            notes="Its name says its devices.",
        )


class Instance(OwnRow, frozen=True, kw_only=True):
    """Cloud instances with accelerators, one line a machine type.

    Prices are for display, never for carbon.
    """

    files = ("instances.csv",)
    ranges = (("count_low", "count_high"),)

    id: Annotated[Cell, column("provider:name")]
    provider: Annotated[Cell, column("Who rents it")]
    name: Annotated[Cell, column("Name as the provider writes it")]
    family: Annotated[Cell, column("Family or series")]
    hardware: Annotated[Cell, column("Part", "hardware.csv:id")]
    count: Annotated[
        Devices | None, column("Devices as the system lists them; empty where the user chooses")
    ] = None
    count_low: Annotated[Devices | None, column("Fewest that may be chosen")] = None
    count_high: Annotated[Devices | None, column("Most that may be chosen")] = None
    share: Annotated[
        float, between(0.01, 1), column("Part of each device that belongs to the instance")
    ] = 1.0
    regions: Annotated[
        tuple[Cell, ...], column("Regions that offer it; empty where that is not known")
    ] = ()
    host: Annotated[
        Cell | None,
        column(
            "Instance that takes up the whole machine: the largest of its family is taken",
            "instances.csv:id",
        ),
    ] = None
    vcpu: Annotated[Annotated[float, between(1, 10_000)] | None, column("Threads")] = None
    host_memory_gib: Annotated[
        Annotated[float, between(1, 100_000, "GiB")] | None, column("Memory of the machine")
    ] = None
    host_cpu: Annotated[Cell | None, column("CPU as the source writes it")] = None
    cpu: Annotated[Id | None, column("That CPU, where it is known", "cpus.csv:id")] = None
    price_usd_per_hour: Annotated[
        Annotated[float, between(0.01, 10_000, "USD/h")] | None,
        column("List price on demand, Linux"),
    ] = None
    price_region: Annotated[Cell | None, column("Region of the price")] = None
    price_date: Annotated[Cell | None, column("Date of the price list")] = None
    price_source: Annotated[Id | None, column("Source key of the price", SOURCE)] = None
    price_note: Annotated[Cell | None, column("Why there is none, or what it is for")] = None
    sources: Sources
    notes: Annotated[Cell | None, column("Disagreements and traps")] = None

    def devices(self, asked: float | None) -> float:
        """Return the number of devices in a request for this instance, from its own `count` field.

        `asked` counts devices: a multiple of a fixed `count` (several instances), or a number in
        the range that the user chooses from. Raises ScoreError for any other number.
        """
        if self.count is None:
            ends = (self.count_low or 1, self.count_high or 1)
            if asked is None or not ends[0] <= asked <= ends[1]:
                text = f"{self.id} takes {ends[0]} to {ends[1]} devices: give that as count"
                raise ScoreError(text, code="bad-count")
            return asked
        if asked is None:
            return float(self.count)
        if asked % self.count:
            text = (
                f"count counts devices and {self.id} has {self.count}: "
                f"give a multiple of that, {3 * self.count} for three instances"
            )
            raise ScoreError(text, code="bad-count")
        return asked

    def to_doc(self) -> dict[str, Any]:
        """Return this instance as JSON-ready data."""
        doc: dict[str, Any] = to_builtins(self)
        return doc


def tpu_slice(name: str) -> Instance | None:
    """Return the slice that a name such as "v4-4096" stands for, by the rule of its generation.

    None for any other name, and for a number that no slice has.
    """
    named = re.fullmatch(_SLICE, bare_machine(name))
    if named is None:
        return None
    generation, number = named[1].lower(), int(named[2])
    part, per_chip, most = _SLICES[generation]
    chips, left = divmod(number, per_chip)
    # By TensorCores the names count whole machines of four chips, but for the one chip of tpu7x-2.
    by_machine = per_chip == 2 and f"{generation}-{number}" != "tpu7x-2"
    if left or not 1 <= chips <= most or (by_machine and number % 8):
        return None
    counted = "TensorCores, two a chip" if per_chip == 2 else "chips"
    return Instance(
        id=f"gcp:{generation}-{number}",
        provider="gcp",
        name=f"{generation}-{number}",
        family=f"TPU {generation} slice",
        hardware=part,
        count=chips,
        sources=("gcp-tpu-slices",),
        notes=f"The number in its name counts {counted}.",
    )


@cache
def _name_rules() -> Sequence[tuple[NameRule, re.Pattern[str]]]:
    return [(rule, re.compile(rule.pattern, re.IGNORECASE)) for rule in rows(NameRule)]


def named_machines(name: str) -> Iterator[NamedMachine]:
    """Yield what a name may say of a machine by the rules of names, in their order."""
    texts = dict.fromkeys((of_slurm(name.strip()), bare_machine(name)))
    for text, (rule, pattern) in product(texts, _name_rules()):
        match = pattern.fullmatch(text)
        says = {key: value for key, value in match.groupdict().items() if value} if match else {}
        machine = _said(rule, says) if match else None
        if machine is not None:
            yield machine


def counted(name: str, count: float | None = None) -> tuple[str, float | None]:
    """Return the device and the number in a name such as "8xA100"; else the name and `count`.

    Raises ScoreError where both say how many, and differ.
    """
    says = next(named_machines(name), None) if name.lstrip()[:1].isdigit() else None
    if says is None or says.count == 1:
        return name, count
    if count not in (None, says.count):
        text = f"{name!r} and count {count:g} say different numbers of devices: leave one out"
        raise ScoreError(text, code="conflicting-fields")
    return re.sub(r"^\s*\d+ ?[x*×] ?", "", name), float(says.count)


def _said(rule: NameRule, says: Mapping[str, str]) -> NamedMachine | None:
    """Return what the groups of a match say; None for a count that no machine has."""
    figure = {
        key: float(NUMBERS.get(text.lower(), text))
        for key, text in says.items()
        if key not in ("part", "pcie")
    }
    gib, vcpu = figure.get("gib"), figure.get("vcpu")
    count = figure.get("count", float(rule.count or 1))
    if rule.gib_per_device and gib:
        count = gib / rule.gib_per_device
    if "?P<times>" in rule.pattern:
        vcpu = THREADS_OF_XLARGE * figure.get("times", 1.0)
    if vcpu and "per" in figure:
        count = vcpu / figure["per"]
    if not count.is_integer() or not 1 <= count <= MOST_DEVICES:
        return None
    device_gb = figure.get("gb", figure["all_gb"] / count if "all_gb" in figure else None)
    part = (rule.part or says["part"]) + (" pcie" if "pcie" in says else "")
    if not re.fullmatch(_AS_PRINTED, part) and (memory := re.search(_DEVICE_GB, part)):
        part, device_gb = part.replace(memory[0], ""), float(memory["gb"])
    return NamedMachine(part, int(count), vcpu, gib, device_gb, figure.get("vram"), rule.source)


_NUMBER = rf"\d{{1,3}}|{'|'.join(NUMBERS)}"
_COUNT_BEFORE = (
    rf"(?i)(?<![\d.])(?P<count>{_NUMBER})(?P<times>\s*[x×*]\s*|-?x\s+|[\s-]+)\(?(?:(?:nvidia|amd|intel|google|tesla"
    r"|gpus?:?|of)\s+)*$"
)
_COUNT_BEHIND = (
    r"(?i)s?(?:\s*gpus?|\s*cards?)?\s*[(\[]?\s*[x×*]\s*(?P<count>\d{1,3})\b(?!\s*[gm]i?b)"
    r"|\s*[(,]\s*(?P<of>\d{1,2})[\s-]*(?:gpus?|cards?|devices|units|pcs)\b"
    r"|\s*[:=]\s*(?P<last>\d{1,2})\W*$"
)
_COUNT_OF_GPUS = (
    rf"(?i)\b(?P<count>{_NUMBER})[\s-]*(?:gpus?|cards|accelerators|devices)\b"
    r"|\b(?:num_?|n_?)?gpus?(?:[_ ]?(?:count|num|s))?\s*[:=x]\s*(?P<of>\d{1,2})\b"
)
_MANY = r"(?i)(?:\ds|gpus|cards|accelerators|devices)\s*$"


def devices_in(text: str, begin: int, end: int) -> int | None:
    """Return how many devices a phrase says of the part named in it; None where it says none."""
    before, behind = text[:begin], text[end:]
    counted = re.search(_COUNT_BEFORE, before)
    if counted and (
        set(counted["times"]) & set("x×*X")
        or counted["count"].lower() in NUMBERS
        or re.search(_MANY, text[begin:end])
        or re.match(r"s\b|.{0,12}\b(?:gpus|cards|accelerators)\b", behind, re.IGNORECASE)
    ):
        return _number(counted["count"])
    if match := re.match(_COUNT_BEHIND, behind):
        return _number(match["count"] or match["of"] or match["last"])
    if match := re.search(_COUNT_OF_GPUS, text):
        return _number(match["count"] or match["of"])
    return None


def _number(text: str) -> int | None:
    count = int(NUMBERS.get(text.lower(), text))
    return count if 1 <= count <= MOST_DEVICES else None


def other_provider(name: str) -> str | None:
    """Return the provider whose machine a name is, of those that the catalog does not have."""
    bare = bare_machine(name)
    providers = (who for who, names in OTHER_PROVIDERS.items() if re.fullmatch(names, bare, re.I))
    return next(providers, None)


class InstanceNames(Names):
    """The ids of instances by name and alias, and of families and groups of families by theirs."""

    def __init__(
        self,
        instances: Sequence[Instance],
        aliases: Iterable[tuple[str, str]],
        groups: Mapping[str, Sequence[str]],
    ) -> None:
        """Index instances; `aliases` are (name, id) pairs, `groups` have families by name."""
        named = [
            (name, item.id)
            for item in instances
            for name in (item.id, item.name, item.name.removeprefix("Standard_"))
        ]
        members = [
            (group, item.id)
            for group, families in groups.items()
            for family in families
            for item in instances
            if item.family == family
        ]
        members += [(item.family, item.id) for item in instances]
        super().__init__(
            "instance", named, members, leading=PROVIDERS, tail=FAMILY_TAIL, unique=False
        )
        self._own = [(name.lower(), item.id) for item in instances for name in (item.name + " ",)]
        # Of "CoreWeave H100" no word may be missing.
        self._whole |= {key(alias): {row_id: None} for alias, row_id in aliases}

    def reordered(self, name: str) -> tuple[str, ...]:
        """Return none: the words of an instance's name have an order."""
        return ()

    def holders(self, name: str) -> tuple[str, ...]:
        """Return none: what a name of instances has in common is its family."""
        return ()

    def ids(self, name: str) -> tuple[str, ...]:
        """Return the id of an instance, those of a family, or none; of the provider in the name."""
        exact = self._ids(name)
        if exact:
            return exact
        bare = re.sub(_SHORT_SIZE, r"\1xlarge", bare_machine(name))
        return self._ids(bare)

    def begun(self, name: str) -> tuple[str, ...]:
        """Return the ids of machines whose names go on behind these words: "a3-highgpu"."""
        text = bare_machine(name).lower()
        begun = [i for own, i in self._own if own.startswith(text) and own[len(text)] in "-._"]
        return tuple(dict.fromkeys(begun)) if re.search(r"[a-z].*\d|\d.*[a-z]", text) else ()

    def _ids(self, name: str) -> tuple[str, ...]:
        providers = None
        for word in words(name)[:-1]:
            if word not in PROVIDERS:
                break
            providers = PROVIDERS[word] if providers is None else providers & PROVIDERS[word]
        return tuple(
            row_id
            for row_id in super().ids(name)
            if providers is None or row_id.split(":")[0] in providers
        )

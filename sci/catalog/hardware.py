"""Accelerators and CPUs of the catalog.

Figures of accelerators are per device as the driver lists it: a board that it lists as two devices
(K80, M60, MI250, MI250X) gives half to each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from gramwatt.sci.base.csv_data import Row
from gramwatt.sci.base.document import plain
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.embodied_facts import EmbodiedFacts

HostClass = Literal["server", "card", "cloud", "workstation", "module", "computer", "edge"]
"""What a part usually stands in.

`server`: a board for servers of eight; `card`: a PCIe card for servers; `cloud`: a board that a
cloud builds for itself; `workstation`: a card for a desk; `module`: a part with its own processor
and memory; `computer`: a part of a computer's own chip; `edge`: a stick or module of a small one.
"""
_FORMS: tuple[tuple[str, HostClass], ...] = (
    (r"\bsoc\b", "computer"),
    (r"\busb\b|\bsom\b", "edge"),
    (r"sxm|oam|hgx|superchip|rack|15u", "server"),
    (r"^pcie", "card"),
    (r"board|ec2|internal", "cloud"),
)
"""Words of form factors, with the class of host; the first that is found counts."""


@dataclass(frozen=True, slots=True)
class Peak:
    """Peak dense rates of one device [TFLOPS, int8 in TOPS], without sparsity; None if not known.

    Tensor rates are those of the matrix units with FP32 accumulation; `other` has further rates.
    """

    fp64: float | None
    fp32: float | None
    tf32: float | None
    fp16_tensor: float | None
    bf16_tensor: float | None
    fp8: float | None
    int8_tops: float | None
    other: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class FigureSources:
    """Keys of sources.csv for each group of figures of a part."""

    peak: tuple[str, ...]
    memory: tuple[str, ...]
    die: tuple[str, ...]
    tdp: tuple[str, ...]
    idle: tuple[str, ...]
    all: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One accelerator, per device as the driver lists it; None where not known.

    Power [W], memory [GB as marketed, which is GiB on the device], rates [GB/s], die area [mm2].
    `tdp_w` is a limit, not a mean; a driver may report another limit at run time.
    """

    id: str
    vendor: str
    name: str
    device_class: str
    aliases: tuple[str, ...]
    architecture: str
    release_year: int | None
    form_factor: str
    process_nm: float | None
    die_area_mm2: float | None
    die_count: float | None
    devices_per_board: int
    tdp_w: float | None
    idle_w: Quantity | None
    idle_state: str | None
    peak: Peak
    memory_gb: float | None
    memory_type: str | None
    memory_bandwidth_gbs: float | None
    interconnect_gbs: float | None
    software: tuple[str, ...]
    intended_use: tuple[str, ...]
    status: str
    embodied_facts: EmbodiedFacts
    sources: FigureSources
    notes: str | None
    overlay: str | None = None
    """The source named by the user's overlay, None for a packaged part."""

    @property
    def cited(self) -> str:
        """The id as cited in the source of a figure, with the overlay's source where it has one."""
        return f"{self.id} (overlay: {self.overlay})" if self.overlay else self.id

    @property
    def host_class(self) -> HostClass:
        """What the part usually stands in, by its form factor and use; a card where not said."""
        form = self.form_factor.lower()
        found: HostClass = next((one for words, one in _FORMS if re.search(words, form)), "card")
        if self.device_class == "module" and found not in ("computer", "edge"):
            return "module"
        desk = {"consumer", "workstation"} & set(self.intended_use)
        return "workstation" if found == "card" and desk else found

    def to_doc(self) -> dict[str, Any]:
        """This part as JSON-ready data, without its embodied carbon."""
        doc = plain(self, skip=("embodied_facts", "sources", "peak", "device_class"))
        doc["class"] = self.device_class
        doc["idle_w"] = doc.pop("idle_w")
        doc["peak_dense_tflops"] = plain(self.peak, skip=("int8_tops", "other"))
        doc["int8_tops"] = self.peak.int8_tops
        doc["peak_other"] = dict(self.peak.other)
        doc["sources"] = plain(self.sources)
        return doc


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """One CPU model, per socket; None where not known. Power [W], die area [mm2, all dies]."""

    id: str
    vendor: str
    name: str
    aliases: tuple[str, ...]
    architecture: str
    release_year: int | None
    cores: int
    threads: int
    tdp_w: float | None
    process_nm: float | None
    die_area_mm2: float | None
    seen_in: str | None
    sources: tuple[str, ...]
    notes: str | None

    def to_doc(self) -> dict[str, Any]:
        """This CPU as JSON-ready data, without its embodied carbon."""
        return plain(self)


def parse_hardware(row: Row, aliases: tuple[str, ...], embodied_facts: EmbodiedFacts) -> Hardware:
    """Parse a line of hardware.csv; figures of its board are divided among the board's devices."""
    return Hardware(
        id=row.text("id"),
        vendor=row.text("vendor"),
        name=row.text("name"),
        device_class=row.text("class"),
        aliases=aliases,
        architecture=row.text("architecture"),
        release_year=row.integer("release_year"),
        form_factor=row.text("form_factor"),
        process_nm=row.number("process_nm"),
        die_area_mm2=_per_device(row, "die_area_mm2"),
        die_count=_per_device(row, "die_count"),
        devices_per_board=_devices_per_board(row),
        tdp_w=_per_device(row, "tdp_w"),
        idle_w=_idle(row),
        idle_state=row.optional("idle_state"),
        peak=_peak(row),
        memory_gb=_per_device(row, "memory_gb"),
        memory_type=row.optional("memory_type"),
        memory_bandwidth_gbs=_per_device(row, "memory_bandwidth_gbs"),
        interconnect_gbs=_per_device(row, "interconnect_gbs"),
        software=row.listing("software"),
        intended_use=row.listing("intended_use"),
        status=row.text("status"),
        embodied_facts=embodied_facts,
        sources=_sources(row),
        notes=row.optional("notes"),
        overlay=row.overlay,
    )


def parse_cpu(row: Row, aliases: tuple[str, ...]) -> Cpu:
    """Parse a line of cpus.csv."""
    return Cpu(
        id=row.text("id"),
        vendor=row.text("vendor"),
        name=row.text("name"),
        aliases=aliases,
        architecture=row.text("architecture"),
        release_year=row.integer("release_year"),
        cores=int(row.known("cores")),
        threads=int(row.known("threads")),
        tdp_w=row.number("tdp_w"),
        process_nm=row.number("process_nm"),
        die_area_mm2=row.number("die_area_mm2"),
        seen_in=row.optional("seen_in"),
        sources=row.listing("sources"),
        notes=row.optional("notes"),
    )


def _devices_per_board(row: Row) -> int:
    return row.integer("devices_per_board") or 1


def _per_device(row: Row, column: str) -> float | None:
    figure = row.number(column)
    return None if figure is None else figure / _devices_per_board(row)


def _idle(row: Row) -> Quantity | None:
    value = row.number("idle_w")
    if value is None:
        return None
    devices = _devices_per_board(row)
    keys = ", ".join(row.listing("idle_sources"))
    source = f"catalog {row.text('id')}, idle power with no process ({keys})"
    if row.overlay:
        source = f"{source}, overlay: {row.overlay}"
    low, high = row.known("idle_low_w"), row.known("idle_high_w")
    value, low, high = value / devices, low / devices, high / devices
    return Quantity(value, low, high, "W", "catalog", source)


def _peak(row: Row) -> Peak:
    devices = _devices_per_board(row)
    return Peak(
        fp64=_per_device(row, "fp64_tflops"),
        fp32=_per_device(row, "fp32_tflops"),
        tf32=_per_device(row, "tf32_tflops"),
        fp16_tensor=_per_device(row, "fp16_tensor_tflops"),
        bf16_tensor=_per_device(row, "bf16_tensor_tflops"),
        fp8=_per_device(row, "fp8_tflops"),
        int8_tops=_per_device(row, "int8_tops"),
        other=tuple((name, figure / devices) for name, figure in row.pairs("peak_other")),
    )


def _sources(row: Row) -> FigureSources:
    return FigureSources(
        peak=row.listing("peak_sources"),
        memory=row.listing("memory_sources"),
        die=row.listing("die_sources"),
        tdp=row.listing("tdp_sources"),
        idle=row.listing("idle_sources"),
        all=row.listing("sources"),
    )

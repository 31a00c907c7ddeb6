"""What the catalog knows of accelerators and CPUs.

Every figure is per device as the driver lists it: a board that shows as two devices (K80, M60,
MI250, MI250X) gives each of them half.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from gramwatt.sci.base.csv_data import Row
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.embodied_facts import EmbodiedFacts

SERVER_FORM_FACTORS = ("sxm", "oam", "hgx")
"""Form factors that are only sold in multi-accelerator servers."""


@dataclass(frozen=True, slots=True)
class Peak:
    """Peak dense rates of one device [TFLOPS, int8 in TOPS], never with sparsity; None: not known.

    Tensor rates are those of the matrix engine with FP32 accumulation; `other` holds the rest.
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
    """Keys into sources.csv for each group of figures of a part."""

    peak: tuple[str, ...]
    memory: tuple[str, ...]
    die: tuple[str, ...]
    tdp: tuple[str, ...]
    idle: tuple[str, ...]
    all: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One accelerator part, per device as the driver lists it; None where not known.

    Power [W], memory [GB as marketed, which is GiB on the device], rates [GB/s], die area [mm2].
    `tdp_w` is a limit, not a draw: read the driver's limit at run time where there is one.
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
    """The source that the user's overlay names, None for a packaged part."""

    @property
    def cited(self) -> str:
        """The id as figures cite it: with the overlay's source where it is from an overlay."""
        return f"{self.id} (overlay: {self.overlay})" if self.overlay else self.id

    @property
    def in_server(self) -> bool:
        """Whether the part is only sold in servers of several accelerators."""
        return any(word in self.form_factor.lower() for word in SERVER_FORM_FACTORS)

    def to_doc(self) -> dict[str, Any]:
        """This part as JSON-ready data, without its embodied carbon."""
        doc = _plain(self, skip=("embodied_facts", "sources", "peak", "device_class", "idle_w"))
        doc["class"] = self.device_class
        doc["idle_w"] = self.idle_w.to_doc() if self.idle_w else None
        doc["peak_dense_tflops"] = _plain(self.peak, skip=("int8_tops", "other"))
        doc["int8_tops"] = self.peak.int8_tops
        doc["peak_other"] = dict(self.peak.other)
        doc["sources"] = _plain(self.sources)
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
        return _plain(self)


def parse_hardware(row: Row, aliases: tuple[str, ...], embodied_facts: EmbodiedFacts) -> Hardware:
    """A part from its line in hardware.csv, whose board figures are divided among its devices."""
    per = row.integer("devices_per_board") or 1

    def share(column: str) -> float | None:
        figure = row.number(column)
        return None if figure is None else figure / per

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
        die_area_mm2=share("die_area_mm2"),
        die_count=share("die_count"),
        devices_per_board=per,
        tdp_w=share("tdp_w"),
        idle_w=_idle(row, per),
        idle_state=row.optional("idle_state"),
        peak=_peak(row, per),
        memory_gb=share("memory_gb"),
        memory_type=row.optional("memory_type"),
        memory_bandwidth_gbs=share("memory_bandwidth_gbs"),
        interconnect_gbs=share("interconnect_gbs"),
        software=row.listing("software"),
        intended_use=row.listing("intended_use"),
        status=row.text("status"),
        embodied_facts=embodied_facts,
        sources=_sources(row),
        notes=row.optional("notes"),
        overlay=row.overlay,
    )


def parse_cpu(row: Row, aliases: tuple[str, ...]) -> Cpu:
    """A CPU from its line in cpus.csv."""
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


def _idle(row: Row, per: int) -> Quantity | None:
    value = row.number("idle_w")
    if value is None:
        return None
    keys = ", ".join(row.listing("idle_sources"))
    source = f"catalog {row.text('id')}, idle power with no process ({keys})"
    if row.overlay:
        source = f"{source}, overlay: {row.overlay}"
    low, high = row.known("idle_low_w"), row.known("idle_high_w")
    return Quantity(value / per, low / per, high / per, "W", "catalog", source)


def _peak(row: Row, per: int) -> Peak:
    def rate(column: str) -> float | None:
        figure = row.number(column)
        return None if figure is None else figure / per

    return Peak(
        fp64=rate("fp64_tflops"),
        fp32=rate("fp32_tflops"),
        tf32=rate("tf32_tflops"),
        fp16_tensor=rate("fp16_tensor_tflops"),
        bf16_tensor=rate("bf16_tensor_tflops"),
        fp8=rate("fp8_tflops"),
        int8_tops=rate("int8_tops"),
        other=tuple((name, figure / per) for name, figure in row.pairs("peak_other")),
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


def _plain(record: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a frozen record as JSON-ready data, tuples as lists."""
    doc: dict[str, Any] = {}
    for field in fields(record):
        if field.name not in skip:
            value = getattr(record, field.name)
            doc[field.name] = list(value) if isinstance(value, tuple) else value
    return doc

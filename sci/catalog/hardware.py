"""Accelerators and CPUs of the catalog.

Figures of accelerators are per device as the driver lists it: a board that it lists as two devices
(K80, M60, MI250, MI250X) gives half to each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gramwatt.sci.base.csv_data import Row, read_as
from gramwatt.sci.base.document import to_json
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.embodied_facts import EmbodiedFacts

HostClass = Literal["server", "card", "cloud", "workstation", "module", "computer", "edge"]
"""What a part usually stands in.

`server`: a board for servers of eight; `card`: a PCIe card for servers; `cloud`: a board that a
cloud builds for itself; `workstation`: a card for a desk; `module`: a part with its own processor
and memory; `computer`: a part of a computer's own chip; `edge`: a stick or module of a small one.
"""
CARDS: tuple[HostClass, ...] = ("card", "workstation")
"""What goes into any host with a slot."""
Market = Literal["current", "out-of-production", "legacy", "other"]
"""`out-of-production` is current in fleets and no longer sold new; `other` is not said, or a
variant for export."""
Availability = Literal["sold", "rented", "internal"]
"""How the part is had: `rented` from clouds only, `internal` by its vendor only."""
Isa = Literal["x86-64", "arm64"]
IdlePstate = Literal["P0", "P8"]
Use = Literal["training", "inference", "edge", "graphics", "consumer", "workstation"]
PER_BOARD = (
    "die_area_mm2",
    "die_count",
    "tdp_w",
    "memory_gb",
    "memory_bandwidth_gbs",
    "interconnect_gbs",
)
"""Figures of the board, which are divided among its devices."""
NOT_SHOWN = ("host_class", "host_cpu", "mig_slices", "idle_pstate", "market", "availability")
"""Columns for the program that say what a text for people says too."""


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
    `tdp_w` is a limit, not a mean; a driver may report another limit at run time. `host_cpu` is the
    processor that belongs to the part, `mig_slices` into how many it can be divided, `idle_pstate`
    the one power state of the idle figures. `form_factor`, `idle_state` and `status` are texts for
    people.
    """

    id: str
    vendor: str
    name: str
    device_class: str
    aliases: tuple[str, ...]
    architecture: str
    release_year: int | None
    form_factor: str
    host_class: HostClass
    host_cpu: str | None
    process_nm: float | None
    die_area_mm2: float | None
    die_count: float | None
    devices_per_board: int
    mig_slices: int | None
    tdp_w: float | None
    idle_w: Quantity | None
    idle_state: str | None
    idle_pstate: IdlePstate | None
    peak: Peak
    memory_gb: float | None
    memory_type: str | None
    memory_bandwidth_gbs: float | None
    interconnect_gbs: float | None
    software: tuple[str, ...]
    intended_use: tuple[Use, ...]
    status: str
    market: Market
    availability: Availability
    embodied_facts: EmbodiedFacts
    sources: FigureSources
    notes: str | None
    overlay: str | None = None
    """The source named by the user's overlay, None for a packaged part."""

    @property
    def cited(self) -> str:
        """Return the id as cited in a figure's source, with the overlay's source if it has one."""
        return f"{self.id} (overlay: {self.overlay})" if self.overlay else self.id

    @property
    def is_system(self) -> bool:
        """Tell whether power and embodied carbon are those of a whole system, host included."""
        return self.embodied_facts.inputs.model == "wafer"

    def to_doc(self) -> dict[str, Any]:
        """Return this part as JSON-ready data, without its embodied carbon."""
        doc = to_json(self, skip=("embodied_facts", "sources", "peak", "device_class", *NOT_SHOWN))
        doc["class"] = self.device_class
        doc["idle_w"] = doc.pop("idle_w")
        doc["peak_dense_tflops"] = to_json(self.peak, skip=("int8_tops", "other"))
        doc["int8_tops"] = self.peak.int8_tops
        doc["peak_other"] = dict(self.peak.other)
        doc["sources"] = to_json(self.sources)
        return doc


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """One CPU model, per socket; None where not known. Power [W], die area [mm2, all dies]."""

    id: str
    vendor: str
    name: str
    aliases: tuple[str, ...]
    architecture: str
    isa: Isa
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
        """Return this CPU as JSON-ready data, without its embodied carbon."""
        return to_json(self, skip=("isa",))


def parse_hardware(row: Row, aliases: tuple[str, ...], embodied_facts: EmbodiedFacts) -> Hardware:
    """Parse a line of hardware.csv; figures of its board are divided among the board's devices."""
    return read_as(
        Hardware,
        row,
        **{name: _per_device(row, name) for name in PER_BOARD},
        device_class=row.text("class"),
        aliases=aliases,
        devices_per_board=_devices_per_board(row),
        idle_w=_idle(row),
        peak=_peak(row),
        embodied_facts=embodied_facts,
        sources=_sources(row),
        overlay=row.overlay,
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

"""Accelerators and CPUs of the catalog.

Figures of accelerators are per device as the driver lists it: a board that it lists as two devices
(K80, M60, MI250, MI250X) gives half to each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field, to_builtins

from gramwatt.sci.catalog.embodied_facts import (
    AS_PUBLISHED,
    Area,
    Dice,
    Kilograms,
    ModelInputs,
    Nanometres,
    Study,
)
from gramwatt.sci.figures.csv_data import Cell, Id, OwnRow, Row, Sources, Year, between, column
from gramwatt.sci.figures.document import Tier
from gramwatt.sci.figures.quantity import Quantity, of_sources

HostClass = Literal["server", "card", "cloud", "workstation", "module", "computer", "edge"]
CARDS: tuple[HostClass, ...] = ("card", "workstation")
"""What goes into any host with a slot."""
IdlePstate = Literal["P0", "P8"]
Use = Literal["training", "inference", "edge", "graphics", "consumer", "workstation"]
Watts = Annotated[float, between(0.1, 50_000, "W")]
Rate = Annotated[float, between(0.1, 1_000_000, "TFLOPS")]
Operations = Annotated[float, between(0.1, 1_000_000, "TOPS")]
MigProfile = Annotated[str, Meta(title="a MIG profile", pattern=r"^[1-7]g\.\d+gb$")]
PER_BOARD = (
    *("die_area_mm2", "die_count", "tdp_w", "idle_w", "idle_low_w", "idle_high_w"),
    *("fp64_tflops", "fp32_tflops", "tf32_tflops", "fp16_tensor_tflops", "bf16_tensor_tflops"),
    *("fp8_tflops", "int8_tops", "memory_gb", "memory_bandwidth_gbs", "interconnect_gbs"),
)
"""Figures of the board, which are divided among its devices."""
NOT_SHOWN = (
    *("host_class", "host_cpu", "mig_profiles", "idle_pstate", "market", "availability"),
    *("idle_low_w", "idle_high_w", "study", "inputs", "embodied_kg", "embodied_low_kg"),
    *("embodied_high_kg", "embodied_tier", "embodied_includes_host"),
)
"""Fields that others of the document say for people."""


UNSTATED = "not said"
"""Maker of a device of the overlay that names none (`loader.py`)."""


class HardwareRow(OwnRow, frozen=True, kw_only=True):
    """Accelerators, one line a part.

    Figures are those of the BOARD as published; the loader divides them by devices_per_board. Parts
    with figures out of stas00/ml-engineering, CC BY-SA 4.0, have a file apart: see LICENSE.md
    beside it.
    """

    files = ("hardware.csv", "cc-by-sa/hardware.csv")
    ranges: ClassVar[tuple[tuple[str, ...], ...]] = (("idle_low_w", "idle_w", "idle_high_w"),)

    id: Annotated[
        Id, column("Lower case, digits and hyphens, vendor first; never reused for another part")
    ]
    vendor: Annotated[Cell, column("Maker")]
    name: Annotated[Cell, column("The maker's name for the part")]
    device_class: Annotated[
        Literal["gpu", "accelerator", "module"], column("What kind of device it is")
    ] = field(name="class")
    architecture: Annotated[Cell, column("Generation")]
    release_year: Annotated[Year | None, column("Year of release")] = None
    form_factor: Annotated[Cell, column("Card, module or system, for people")]
    host_class: Annotated[
        HostClass,
        column(
            "What it usually stands in. server: a board for servers of eight; card: a PCIe card for"
            " servers; cloud: a board that a cloud builds for itself; workstation: a card for a"
            " desk; module: a part with its own processor and memory; computer: a part of a"
            " computer's own chip; edge: a stick or module of a small one"
        ),
    ]
    host_cpu: Annotated[Id | None, column("Processor that belongs to the part", "cpus.csv:id")] = (
        None
    )
    process_nm: Annotated[Nanometres | None, column("Marketed node of the compute dies")] = None
    die_area_mm2: Annotated[Area | None, column("All compute dies together")] = None
    die_count: Annotated[Dice | None, column("Number of compute dies")] = None
    devices_per_board: Annotated[
        int, between(1, 8), column("Devices the driver lists for one board")
    ]
    framework_devices: Annotated[
        Annotated[int, between(2, 8)] | None,
        column("Devices that frameworks list for one that the driver lists: JAX two for a TPU7x"),
    ] = None
    mig_profiles: Annotated[
        tuple[MigProfile, ...],
        column("MIG profiles, the smallest first and the whole board last: 1g.5gb, 7g.40gb"),
    ] = ()
    tdp_w: Annotated[
        Watts | None,
        column(
            "Power limit of the board, not a mean; the highest configurable one that vendor or"
            " driver state"
        ),
    ] = None
    idle_w: Annotated[Watts | None, column("Idle power of the board with no process")] = None
    idle_low_w: Annotated[Watts | None, column("Lower end of it")] = None
    idle_high_w: Annotated[Watts | None, column("Upper end of it")] = None
    idle_state: Annotated[
        Cell | None, column("Power state the idle figures belong to, with a remark")
    ] = None
    idle_pstate: Annotated[
        IdlePstate | None, column("The power state where all idle figures belong to one")
    ] = None
    fp64_tflops: Annotated[
        Rate | None, column("Peak dense FP64 rate, without the matrix engine")
    ] = None
    fp32_tflops: Annotated[
        Rate | None, column("Peak dense FP32 rate, without the matrix engine")
    ] = None
    tf32_tflops: Annotated[Rate | None, column("Peak dense TF32 rate of the matrix engine")] = None
    fp16_tensor_tflops: Annotated[
        Rate | None,
        column(
            "Peak dense rate of the matrix engine with FP32 accumulation; never the figure with"
            " sparsity"
        ),
    ] = None
    bf16_tensor_tflops: Annotated[Rate | None, column("The same for BF16")] = None
    fp8_tflops: Annotated[Rate | None, column("The same for FP8")] = None
    int8_tops: Annotated[Operations | None, column("Peak dense INT8 rate")] = None
    peak_other: Annotated[dict[str, Rate], column("Other peak rates as name=number")] = {}
    memory_gb: Annotated[
        Annotated[float, between(0.001, 4096, "GB")] | None,
        column("Memory as marketed, which is GiB on the device"),
    ] = None
    memory_type: Annotated[
        Cell | None, column("HBM, GDDR and LPDDR are recognised by their first letters")
    ] = None
    memory_bandwidth_gbs: Annotated[
        Annotated[float, between(0.1, 50_000_000, "GB/s")] | None, column("Memory bandwidth")
    ] = None
    interconnect_gbs: Annotated[
        Annotated[float, between(0.1, 100_000, "GB/s")] | None,
        column("Scale-up link, both directions together; PCIe where there is no other"),
    ] = None
    software: Annotated[
        tuple[Cell, ...], column("Software stacks, by the names that suggestions look up")
    ]
    intended_use: Annotated[tuple[Use, ...], column("What the maker sells it for")]
    status: Annotated[Cell, column("The market and a remark, for people")]
    market: Annotated[
        Literal["current", "out-of-production", "legacy", "other"],
        column(
            "current; out-of-production: current in fleets, no longer sold new; legacy; other: not"
            " said, or a variant for export"
        ),
    ]
    availability: Annotated[
        Literal["sold", "rented", "internal"],
        column("rented: from clouds only; internal: by its vendor only"),
    ]
    peak_sources: Sources = ()
    memory_sources: Sources = ()
    die_sources: Sources = ()
    tdp_sources: Sources = ()
    idle_sources: Sources = ()
    sources: Sources
    notes: Annotated[Cell | None, column("Disagreements and traps, in own words")] = None


class Hardware(HardwareRow, frozen=True, kw_only=True, eq=False):
    """One accelerator: its line, per device as the driver lists it, with names and embodied facts.

    A driver may report another power limit at run time. `overlay` is the source that the user's
    overlay names, None for a packaged part; only an overlay declares `embodied_kg` of a device, and
    its range.
    """

    ranges = (*HardwareRow.ranges, ("embodied_low_kg", "embodied_kg", "embodied_high_kg"))

    aliases: tuple[Annotated[Cell, Meta(max_length=200)], ...] = ()
    embodied_kg: Kilograms | None = None
    embodied_low_kg: Kilograms | None = None
    embodied_high_kg: Kilograms | None = None
    embodied_tier: Tier = "C"
    embodied_includes_host: bool = False
    study: Study | None = None
    inputs: ModelInputs = AS_PUBLISHED

    @property
    def label(self) -> str:
        """Return the name for people, with its maker where an overlay names one."""
        named = self.vendor == UNSTATED or self.name.startswith(self.vendor)
        return self.name if named else f"{self.vendor} {self.name}"

    @property
    def is_system(self) -> bool:
        """Tell whether power and embodied carbon are those of a whole system, host included."""
        return self.inputs.model == "wafer"

    @property
    def idle(self) -> Quantity | None:
        """Return the idle power of a device with no process [W]; None where not known."""
        if self.idle_w is None:
            return None
        source = f"catalog {self.id}, idle power with no process ({', '.join(self.idle_sources)})"
        low, high = self.idle_low_w or self.idle_w, self.idle_high_w or self.idle_w
        sources = (source, *self.own_sources)
        return of_sources(self.idle_w, low, high, "W", "catalog", sources)

    def to_doc(self) -> dict[str, Any]:
        """Return this part as JSON-ready data, without its embodied carbon."""
        doc: dict[str, Any] = to_builtins(self)
        doc["idle_w"] = self.idle.bare() if self.idle else None
        return {name: value for name, value in doc.items() if name not in NOT_SHOWN}


def per_device(board: HardwareRow) -> Mapping[str, Any]:
    """Return what differs of one device of a board."""
    devices = board.devices_per_board
    figures = {name: getattr(board, name) for name in PER_BOARD}
    shares = {name: value / devices for name, value in figures.items() if value is not None}
    return shares | {"peak_other": {name: v / devices for name, v in board.peak_other.items()}}


class Cpu(Row, frozen=True, kw_only=True):
    """CPUs, one line a model, per socket."""

    files = ("cpus.csv",)

    id: Annotated[Id, column("Lower case, digits and hyphens, vendor first")]
    vendor: Annotated[Cell, column("Maker")]
    name: Annotated[Cell, column("Name")]
    architecture: Annotated[Cell, column("Generation")]
    isa: Annotated[Literal["x86-64", "arm64"], column("Instruction set")]
    release_year: Annotated[Year | None, column("Year")] = None
    cores: Annotated[int, between(1, 512), column("Cores per socket")]
    threads: Annotated[int, between(1, 1024), column("Threads per socket")]
    tdp_w: Annotated[Watts | None, column("TDP per socket")] = None
    process_nm: Annotated[Nanometres | None, column("Node of the compute dies")] = None
    die_area_mm2: Annotated[Area | None, column("All dies of a socket")] = None
    seen_in: Annotated[Cell | None, column("Where it is found")] = None
    sources: Sources
    notes: Annotated[Cell | None, column("Remarks")] = None
    aliases: tuple[str, ...] = ()

    def to_doc(self) -> dict[str, Any]:
        """Return this CPU as JSON-ready data, without its embodied carbon."""
        doc: dict[str, Any] = to_builtins(self)
        return {name: value for name, value in doc.items() if name != "isa"}


class CpuFamily(Row, frozen=True, kw_only=True):
    """Families of processors: what a processor's name says where cpus.csv does not have it."""

    files = ("cpu_families.csv",)
    key = ("family",)

    family: Annotated[Cell, column("Name of the family")]
    example: Annotated[Cell, column("A processor of it that cpus.csv does not have")]
    pattern: Annotated[
        Cell,
        column("Regular expression of the words of whole names, in lower case, without the maker"),
    ]
    architectures: Annotated[tuple[Cell, ...], column("Its generations", "cpus.csv:architecture")]

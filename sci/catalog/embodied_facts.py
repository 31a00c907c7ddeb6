"""What is known of the embodied carbon of a part: published, or input of the model.

Facts only; `sci.embodied` makes the embodied carbon TE of them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct, field

from gramwatt.sci.figures.csv_data import Cell, Id, Row, Source, between, column
from gramwatt.sci.figures.document import Tier

Kilograms = Annotated[float, between(1, 20_000, "kgCO2e")]
Nanometres = Annotated[float, between(2, 65, "nm")]
Area = Annotated[float, between(1, 50_000, "mm2")]
Dice = Annotated[int, between(1, 16)]


class Study(Row, frozen=True, kw_only=True):
    """Published embodied figures.

    chosen: used for its part; range: another study of that part, inside its range; context: other
    things; rejected: read and not used. Those out of the ADEME GPU life-cycle data, CC BY-SA 4.0,
    have a file apart: see LICENSE.md beside it.
    """

    files = ("embodied_studies.csv", "cc-by-sa/embodied_studies.csv")
    ranges = (("low_kg", "high_kg"),)

    id: Annotated[Id, column("Key")]
    item: Annotated[Cell, column("What was studied")]
    kg: Annotated[Kilograms | None, column("Figure for all devices of the item")] = field(
        name="kg_co2e", default=None
    )
    per: Annotated[Cell | None, column("What the figure is for")] = None
    devices: Annotated[int, between(1, 72), column("Devices in the item")]
    hardware: Annotated[Id | None, column("Part it belongs to", "hardware.csv:id")] = None
    role: Annotated[Literal["chosen", "range", "context", "rejected"], column("How it is used")]
    tier: Annotated[
        Literal["A", "B"] | None, column("A first party, B independent; chosen lines only")
    ] = None
    low_kg: Annotated[
        Kilograms | None, column("Lower end per device; the range includes every study of the part")
    ] = None
    high_kg: Annotated[Kilograms | None, column("Upper end per device")] = None
    includes_host: Annotated[bool, column("1 when the figure includes the host and the building")]
    boundary: Annotated[Cell | None, column("Life stages counted")] = None
    uncertainty: Annotated[Cell | None, column("Uncertainty as the study states it")] = None
    source: Source | None = None
    evidence: Annotated[Cell, column("How far it was read")]
    notes: Annotated[Cell | None, column("Remarks")] = None

    def __post_init__(self) -> None:
        """Raise ValueError for a chosen study without its figures."""
        super().__post_init__()
        if self.role == "chosen":
            _ = self.figures

    @property
    def figures(self) -> tuple[float, float, float, Tier]:
        """Return kg, low_kg, high_kg and tier; raises ValueError where one is not known."""
        if self.kg is None or self.low_kg is None or self.high_kg is None or self.tier is None:
            raise ValueError("a chosen study needs kg_co2e, low_kg, high_kg and tier")
        return self.kg, self.low_kg, self.high_kg, self.tier


class Dies(Struct, frozen=True):
    """`count` equal dies of `area_mm2` together, made at `process_nm`."""

    area_mm2: float
    count: float
    process_nm: float


class ModelInputs(Row, frozen=True, kw_only=True):
    """What the embodied model needs beyond hardware.csv: assumed figures (tier D), further dies,
    another model. Figures are of the whole board.
    """

    files = ("embodied_inputs.csv",)

    id: Annotated[Id, column("Part", "hardware.csv:id")]
    model: Annotated[
        Literal["board", "wafer", "none"],
        column("board: formula v1; wafer: whole wafer; none: no model applies"),
    ]
    die_area_mm2: Annotated[Area | None, column("Assumed area of all compute dies")] = None
    die_count: Annotated[Dice | None, column("Assumed number of dies")] = None
    process_nm: Annotated[Nanometres | None, column("Assumed node")] = None
    power_w: Annotated[
        Annotated[float, between(1, 50_000, "W")] | None, column("Assumed power")
    ] = None
    memory_gb: Annotated[
        Annotated[float, between(0, 4096, "GB")] | None,
        column("Assumed memory; 0 means that the memory belongs to the host"),
    ] = None
    extra_die_area_mm2: Annotated[Area | None, column("Further dies, all together (known)")] = None
    extra_die_count: Annotated[Dice | None, column("Number of further dies")] = None
    extra_process_nm: Annotated[Nanometres | None, column("Their node")] = None
    high_factor: Annotated[
        Annotated[float, between(2.5, 10)] | None,
        column("Upper end over value, where wider than the band of tier D"),
    ] = None
    why: Annotated[Cell, column("Reason for the line")]

    @property
    def extra_dies(self) -> tuple[Dies, ...]:
        """Return the dies beside the compute dies."""
        area, count, node = self.extra_die_area_mm2, self.extra_die_count, self.extra_process_nm
        return () if not (area and count and node) else (Dies(area, count, node),)

    @property
    def assumed(self) -> bool:
        """Tell whether an input of the model is assumed, not published."""
        own = (self.die_area_mm2, self.process_nm, self.power_w, self.memory_gb, self.high_factor)
        return self.model == "wafer" or any(figure is not None for figure in own)


AS_PUBLISHED = ModelInputs(id="", model="board", why="all inputs stand in hardware.csv")
"""The inputs of a part that embodied_inputs.csv does not have."""

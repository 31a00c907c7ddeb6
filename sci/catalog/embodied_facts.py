"""What is known of the embodied carbon of a part: declared, published, or input of the model.

Facts only; `sci.embodied` makes the embodied carbon TE of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from gramwatt.sci.base.csv_data import Row, read_as

Tier = Literal["A", "B", "C", "D"]
"""A: first-party study; B: independent study; C: model with known inputs; D: with assumed ones."""


@dataclass(frozen=True, slots=True)
class DeclaredTe:
    """TE of one device as the user's overlay declares it [kgCO2e]; ends None where not given."""

    kg: float
    low_kg: float | None
    high_kg: float | None
    tier: Tier
    includes_host: bool


@dataclass(frozen=True, slots=True)
class Study:
    """The published study chosen for a part: `kg` for `devices`, the range for one [kgCO2e]."""

    id: str
    item: str
    kg: float
    devices: float
    low_kg: float
    high_kg: float
    tier: Tier
    boundary: str
    includes_host: bool
    source: str


@dataclass(frozen=True, slots=True)
class Dies:
    """`count` equal dies of `area_mm2` together, made at `process_nm`."""

    area_mm2: float
    count: float
    process_nm: float


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """How a part is modelled, and its inputs that hardware.csv does not give, None where it does.

    Figures are of the whole board: area [mm2], node [nm], power [W], memory [GB]. `high_factor` is
    the upper end over the value where it is wider than usual.
    """

    model: str = "board"
    die_area_mm2: float | None = None
    die_count: float | None = None
    process_nm: float | None = None
    power_w: float | None = None
    memory_gb: float | None = None
    extra_dies: Dies | None = None
    high_factor: float | None = None

    @property
    def assumed(self) -> bool:
        """Tell whether an input of the model is assumed, not published."""
        own = (self.die_area_mm2, self.process_nm, self.power_w, self.memory_gb, self.high_factor)
        return self.model == "wafer" or any(figure is not None for figure in own)


@dataclass(frozen=True, slots=True)
class EmbodiedFacts:
    """All that is known about the embodied carbon of a part; what stands first counts."""

    declared: DeclaredTe | None
    study: Study | None
    inputs: ModelInputs


def parse_declared(row: Row) -> DeclaredTe | None:
    """Return TE declared in a line of hardware.csv by an overlay, None where there is none."""
    cells = row.given
    if "embodied_kg" not in cells:
        return None
    low, high = cells.get("embodied_low_kg"), cells.get("embodied_high_kg")
    return DeclaredTe(
        kg=float(cells["embodied_kg"]),
        low_kg=float(low) if low else None,
        high_kg=float(high) if high else None,
        tier=cast(Tier, cells.get("embodied_tier", "C")),
        includes_host=cells.get("embodied_includes_host") == "1",
    )


def parse_study(row: Row) -> Study:
    """Parse a line of embodied_studies.csv."""
    return read_as(Study, row, kg=row.known("kg_co2e"))


def parse_inputs(row: Row) -> ModelInputs:
    """Parse a line of embodied_inputs.csv."""
    extra = None
    if row.text("extra_die_area_mm2"):
        names = ("die_area_mm2", "die_count", "process_nm")
        extra = Dies(*(row.known(f"extra_{name}") for name in names))
    return read_as(ModelInputs, row, extra_dies=extra)

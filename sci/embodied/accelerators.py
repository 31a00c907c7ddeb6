"""Embodied carbon of accelerators: a published study first, else the bottom-up model v1.

M = uplift x (k_die x sum(area x CPA(node) / Y(area)) + GB x f_mem + TDP x f_thermal + board) [kg],
cradle to gate, host excluded. Every parameter, with its source, is a line of embodied_model.csv.
The model was fitted on the eleven points it is checked against, so its agreement with them (log sd
0.17) is a consistency check; the bands of tiers C and D are wider for that reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gramwatt.sci.base.csv_data import Row, rows
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import cm2_from_mm2, g_from_kg
from gramwatt.sci.catalog.hardware import Embodied, Tier

BOARD_STAGES = "accelerator board or module, cradle to gate, host and use excluded"
WAFER_STAGES = "wafer-scale system, cradle to gate, use excluded"


class Parameters:
    """The figures of embodied_model.csv by key."""

    def __init__(self, lines: Mapping[str, Row]) -> None:
        """Lines of embodied_model.csv by key."""
        self._lines = lines

    def __getitem__(self, key: str) -> float:
        """The value of a parameter in its unit."""
        return self._lines[key].known("value")

    def quantity(self, key: str) -> Quantity:
        """A parameter with its range [its unit]."""
        line = self._lines[key]
        value, low, high = line.known("value"), line.number("low"), line.number("high")
        low, high = (value if end is None else end for end in (low, high))
        source = f"embodied model v1, {key} ({', '.join(line.listing('source'))})"
        return Quantity(value, low, high, line.text("unit"), "estimated", source)

    def cpa_kg_per_cm2(self, process_nm: float) -> float:
        """Carbon of a cm2 of wafer at a node, before yield; raises KeyError for an unknown node."""
        node = f"{process_nm:g}nm"
        if f"node_{node}" in self._lines:
            node = f"{self[f'node_{node}']:g}nm"
        return self[f"cpa_{node}"]


@cache
def parameters() -> Parameters:
    """The packaged parameters, read once per process."""
    return Parameters({line.text("key"): line for line in rows("embodied_model.csv")})


@dataclass(frozen=True, slots=True)
class Dies:
    """`count` equal dies of `area_mm2` together, made at `process_nm`."""

    area_mm2: float
    count: float
    process_nm: float


@dataclass(frozen=True, slots=True)
class Board:
    """What the model needs of one accelerator: dies, power [W] and memory [GB]."""

    dies: tuple[Dies, ...]
    power_w: float
    memory_gb: float
    memory_type: str


def murphy_yield(area_cm2: float, defects_per_cm2: float) -> float:
    """Share of good dies by Murphy's model: ((1 - exp(-AD)) / AD)^2."""
    load = area_cm2 * defects_per_cm2
    return ((1 - math.exp(-load)) / load) ** 2


def board_kg(board: Board, k_die: float | None = None) -> float:
    """Embodied carbon of a board by the bottom-up model v1 [kgCO2e]."""
    given = parameters()
    silicon = math.fsum(_die_kg(dies, given) for dies in board.dies)
    factor = given["k_die"] if k_die is None else k_die
    parts = (
        factor * silicon,
        board.memory_gb * given[_memory_key(board.memory_type)],
        board.power_w * given["f_thermal"],
        given["board"],
    )
    return given["uplift"] * math.fsum(parts)


def wafer_kg(process_nm: float, power_w: float) -> float:
    """Embodied carbon of a wafer-scale system: one whole wafer, heat path and a case [kgCO2e]."""
    given = parameters()
    silicon = given["k_die"] * given["wafer_area"] * given.cpa_kg_per_cm2(process_nm)
    heat = power_w * given["f_thermal"]
    return given["uplift"] * (silicon + heat) + given["wafer_case"]


def published_te(study: Row) -> Embodied:
    """TE of a part from the study chosen for it, with the range its line gives."""
    devices = study.known("devices")
    value_g = g_from_kg(study.known("kg_co2e") / devices)
    low_g, high_g = (g_from_kg(study.known(end)) for end in ("low_kg", "high_kg"))
    source = f"{study.text('item')}, {study.text('source')}"
    figure = Quantity(value_g, low_g, high_g, "gCO2e", "catalog", source)
    stages = f"{study.text('boundary')}, use excluded".replace(";", ",")
    return Embodied(figure, _tier(study.text("tier")), stages, study.text("includes_host") == "1")


def modelled_te(part: Row, given: Row | None) -> Embodied | None:
    """TE of a part by the model, None where an input is not known.

    `part` is its line in hardware.csv, `given` its line in embodied_inputs.csv where it has one.
    """
    model = given.text("model") if given else "board"
    if model == "none":
        return None
    kilograms = _wafer_of(part) if model == "wafer" else _board_of(part, given)
    if kilograms is None:
        return None
    devices = part.known("devices_per_board")
    assumed = model == "wafer" or _assumed(given)
    return _banded(g_from_kg(kilograms / devices), assumed, given, model)


def _banded(value_g: float, assumed: bool, given: Row | None, model: str) -> Embodied:
    model_parameters = parameters()
    band = model_parameters["band_d" if assumed else "band_c"]
    high = (given.number("high_factor") if given else None) or band
    tier: Tier = "D" if assumed else "C"
    source = f"embodied model v1, tier {tier}" + (" (assumed inputs)" if assumed else "")
    figure = Quantity(value_g, value_g / band, value_g * high, "gCO2e", "estimated", source)
    return Embodied(figure, tier, WAFER_STAGES if model == "wafer" else BOARD_STAGES)


def _assumed(given: Row | None) -> bool:
    columns = ("die_area_mm2", "process_nm", "power_w", "memory_gb", "high_factor")
    return given is not None and any(given.optional(column) for column in columns)


def _board_of(part: Row, given: Row | None) -> float | None:
    def figure(column: str, own: str) -> float | None:
        assumed = given.number(column) if given else None
        return part.number(own) if assumed is None else assumed

    area, node = (figure("die_area_mm2", "die_area_mm2"), figure("process_nm", "process_nm"))
    count = figure("die_count", "die_count")
    power, memory = figure("power_w", "tdp_w"), figure("memory_gb", "memory_gb")
    if area is None or node is None or count is None or power is None or memory is None:
        return None
    dies = (Dies(area, count, node), *_extra_dies(given))
    return board_kg(Board(dies, power, memory, part.text("memory_type")))


def _extra_dies(given: Row | None) -> tuple[Dies, ...]:
    if given is None or not given.optional("extra_die_area_mm2"):
        return ()
    columns = ("extra_die_area_mm2", "extra_die_count", "extra_process_nm")
    area, count, node = (given.known(column) for column in columns)
    return (Dies(area, count, node),)


def _wafer_of(part: Row) -> float | None:
    node, power = part.number("process_nm"), part.number("tdp_w")
    return None if node is None or power is None else wafer_kg(node, power)


def _die_kg(dies: Dies, given: Parameters) -> float:
    area_cm2 = cm2_from_mm2(dies.area_mm2 / dies.count)
    good = murphy_yield(area_cm2, given["defects_per_cm2"])
    return dies.count * area_cm2 * given.cpa_kg_per_cm2(dies.process_nm) / good


def _memory_key(memory_type: str) -> str:
    # What is neither HBM nor GDDR counts as LPDDR, whose factor lies near that of server DRAM.
    for kind in ("hbm", "gddr"):
        if memory_type.lower().startswith(kind):
            return f"f_mem_{kind}"
    return "f_mem_lpddr"


def _tier(text: str) -> Tier:
    tiers: dict[str, Tier] = {"A": "A", "B": "B", "C": "C", "D": "D"}
    return tiers[text]

"""Embodied carbon of accelerators: declared or published where it is, else the bottom-up model v1.

M = uplift x (k_die x sum(area x CPA(node) / Y(area)) + GB x f_mem + TDP x f_thermal + board) [kg],
cradle to gate, host excluded. Every parameter, with its source, is a line of embodied_model.csv.
The model was fitted on the eleven points it is checked against, so its agreement with them (log sd
0.17) is a consistency check; the bands of tiers C and D are wider for that reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import cm2_from_mm2, g_from_kg
from gramwatt.sci.catalog.embodied_facts import DeclaredTe, Dies, Study, Tier
from gramwatt.sci.catalog.hardware import Hardware
from gramwatt.sci.catalog.parameters import Parameters, parameters
from gramwatt.sci.embodied.te import Embodied

BOARD_STAGES = "accelerator board or module, cradle to gate, host and use excluded"
WAFER_STAGES = "wafer-scale system, cradle to gate, use excluded"
DECLARED_STAGES = "declared in the overlay, use excluded"
STUDY_BAND = 1.25
"""Usual range of a study that gives none: a quarter either way (docs/data-sources.md)."""


@lru_cache(maxsize=1024)
def accelerator_te(part: Hardware) -> Embodied | None:
    """TE of one device [gCO2e]: declared by the user, else published, else modelled.

    None where an input of the model is not known. Cached, because a comparison of parts asks for it
    several times for each.
    """
    facts = part.embodied_facts
    if facts.declared:
        return _declared_te(facts.declared, part.overlay)
    return _published_te(facts.study) if facts.study else _modelled_te(part)


@dataclass(frozen=True, slots=True)
class Board:
    """Inputs of the model for one board: dies, power [W] and memory [GB]."""

    dies: tuple[Dies, ...]
    power_w: float
    memory_gb: float
    memory_type: str


def murphy_yield(area_cm2: float, defects_per_cm2: float) -> float:
    """Share of good dies by Murphy's model: ((1 - exp(-AD)) / AD)^2."""
    load = area_cm2 * defects_per_cm2
    return ((1 - math.exp(-load)) / load) ** 2


def board_kg(board: Board, k_die: float | None = None) -> float:
    """Embodied carbon of a board by the bottom-up model v1 [kgCO2e]; `k_die` None is its own."""
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


def _declared_te(declared: DeclaredTe, source: str | None) -> Embodied:
    """TE declared in the user's overlay, with its declared or else the usual range of its tier."""
    bands = {"C": parameters()["band_c"], "D": parameters()["band_d"]}
    band = bands.get(declared.tier, STUDY_BAND)
    low_kg = declared.kg / band if declared.low_kg is None else declared.low_kg
    high_kg = declared.kg * band if declared.high_kg is None else declared.high_kg
    value_g = g_from_kg(declared.kg)
    low_g, high_g = min(g_from_kg(low_kg), value_g), max(g_from_kg(high_kg), value_g)
    figure = Quantity(value_g, low_g, high_g, "gCO2e", "declared", f"overlay: {source}")
    return Embodied(figure, declared.tier, DECLARED_STAGES, declared.includes_host)


def _published_te(study: Study) -> Embodied:
    value_g = g_from_kg(study.kg / study.devices)
    low_g, high_g = g_from_kg(study.low_kg), g_from_kg(study.high_kg)
    source = f"{study.item}, {study.source}"
    figure = Quantity(value_g, low_g, high_g, "gCO2e", "catalog", source)
    stages = f"{study.boundary}, use excluded".replace(";", ",")
    return Embodied(figure, study.tier, stages, study.includes_host)


def _modelled_te(part: Hardware) -> Embodied | None:
    inputs = part.embodied_facts.inputs
    kilograms = _modelled_kg(part)
    if kilograms is None:
        return None
    tier: Tier = "D" if inputs.assumed else "C"
    band = parameters()["band_d" if inputs.assumed else "band_c"]
    value_g = g_from_kg(kilograms / part.devices_per_board)
    source = f"embodied model v1, tier {tier}" + (" (assumed inputs)" if inputs.assumed else "")
    source += f", overlay: {part.overlay}" if part.overlay else ""
    high_g = value_g * (inputs.high_factor or band)
    figure = Quantity(value_g, value_g / band, high_g, "gCO2e", "estimated", source)
    return Embodied(figure, tier, WAFER_STAGES if inputs.model == "wafer" else BOARD_STAGES)


def _modelled_kg(part: Hardware) -> float | None:
    """Embodied carbon of the part's board by the model [kgCO2e], None where an input is unknown."""
    inputs, devices = part.embodied_facts.inputs, part.devices_per_board

    def board_figure(assumed: float | None, per_device: float | None) -> float | None:
        if assumed is not None:
            return assumed
        return None if per_device is None else per_device * devices

    area = board_figure(inputs.die_area_mm2, part.die_area_mm2)
    count = board_figure(inputs.die_count, part.die_count)
    node = part.process_nm if inputs.process_nm is None else inputs.process_nm
    power = board_figure(inputs.power_w, part.tdp_w)
    memory = board_figure(inputs.memory_gb, part.memory_gb)
    if inputs.model == "wafer":
        return None if node is None or power is None else wafer_kg(node, power)
    if inputs.model == "none" or area is None or count is None or node is None:
        return None
    if power is None or memory is None:
        return None
    extra = (inputs.extra_dies,) if inputs.extra_dies else ()
    dies = (Dies(area, count, node), *extra)
    return board_kg(Board(dies, power, memory, part.memory_type or ""))


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

"""Figures of hardware that are often printed wrong, each with the catalog's beside it.

`data/misquoted.csv` lists them; the right figure is the catalog's own, so that it cannot
differ from what scores use.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeVar

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.catalog.hardware import Hardware
from gramwatt.sci.embodied.te import accelerator_te
from gramwatt.sci.figures.errors import LookupFailed
from gramwatt.sci.figures.formatting import number
from gramwatt.sci.figures.units import kg_from_g

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the catalog: its name for people, its unit, how to read it, and its sources."""

    name: str
    unit: str
    value: Callable[[Hardware], float | None]
    sources: Callable[[Hardware], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Misquoted:
    """One wrong figure: of which part, as printed and where, why, and the right one."""

    id: str
    name: str
    what: str
    wrong: str
    right: str
    seen_in: str
    why: str
    sources: tuple[str, ...]


def _per_watt(part: Hardware) -> float | None:
    rate = part.fp16_tensor_tflops
    return rate / part.tdp_w if rate and part.tdp_w else None


def _embodied_kg(part: Hardware) -> float | None:
    embodied = accelerator_te(part)
    return kg_from_g(embodied.te_g.value) if embodied else None


FIGURES = {
    "tdp_w": Figure("power limit", "W", lambda p: p.tdp_w, lambda p: p.tdp_sources),
    "memory_gb": Figure("memory", "GB", lambda p: p.memory_gb, lambda p: p.memory_sources),
    "memory_bandwidth_gbs": Figure(
        "memory bandwidth", "GB/s", lambda p: p.memory_bandwidth_gbs, lambda p: p.memory_sources
    ),
    "fp32_tflops": Figure("FP32 rate", "TFLOPS", lambda p: p.fp32_tflops, lambda p: p.peak_sources),
    "fp16_tensor_tflops": Figure(
        "dense FP16 tensor rate", "TFLOPS", lambda p: p.fp16_tensor_tflops, lambda p: p.peak_sources
    ),
    "bf16_tensor_tflops": Figure(
        "dense BF16 rate", "TFLOPS", lambda p: p.bf16_tensor_tflops, lambda p: p.peak_sources
    ),
    "fp16_per_watt": Figure(
        "dense FP16 rate per watt of the power limit",
        "TFLOPS/W",
        _per_watt,
        lambda p: tuple(dict.fromkeys((*p.peak_sources, *p.tdp_sources))),
    ),
    "embodied_kg": Figure("embodied carbon", "kg CO2e", _embodied_kg, lambda _part: ()),
}


def misquoted(catalog: Catalog) -> list[Misquoted]:
    """Return every figure of the list whose part the catalog has."""
    rows = (
        _instance_row(catalog, row) if row["kind"] == "instance" else _row(catalog, row)
        for row in _rows()
    )
    return [row for row in rows if row is not None]


def _row(catalog: Catalog, row: dict[str, str]) -> Misquoted | None:
    part = _entry(catalog.hardware, row["id"])
    if part is None:
        return None
    figure = FIGURES[row["figure"]]
    value = figure.value(part)
    if value is None:
        return None
    return Misquoted(
        part.id,
        part.name,
        figure.name,
        f"{row['wrong']} {figure.unit}",
        f"{number(value, 4 if value >= 100 else 3)} {figure.unit}",
        row["seen_in"],
        row["why"],
        figure.sources(part),
    )


def _instance_row(catalog: Catalog, row: dict[str, str]) -> Misquoted | None:
    instance = _entry(catalog.instance, row["id"])
    part = _entry(catalog.hardware, instance.hardware) if instance else None
    if instance is None or part is None:
        return None
    share = "" if instance.share == 1 else f", {instance.share:.2g} of it"
    right = f"{instance.count:g} x {part.name}{share}"
    return Misquoted(
        instance.id, instance.name, row["figure"], row["wrong"], right, row["seen_in"], row["why"],
        tuple(instance.sources),
    )  # fmt: skip


def _entry(find: Callable[[str], Entry], name: str) -> Entry | None:
    try:
        return find(name)
    except LookupFailed:
        return None


@cache
def _rows() -> list[dict[str, str]]:
    text = (
        resources.files("gramwatt.service.pages").joinpath("data/misquoted.csv").read_text("utf-8")
    )
    return list(csv.DictReader(text.splitlines()))

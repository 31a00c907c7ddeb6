"""Supplementary tables of a job report.

Unit conversions, sensitivity to hardware lifetime and SCI for AI.
"""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.reports.model import Block, Column, Heading, Pair, Table
from gramwatt.sci.base.document import (
    ConversionDoc,
    JobDoc,
    SensitivityDoc,
)
from gramwatt.sci.base.formatting import UNKNOWN, count_text, number, prefix

MODEL_DIGITS = 3
"""Significant digits of figures without a range, which show a direction only."""


def conversion_blocks(rows: Sequence[ConversionDoc]) -> list[Block]:
    """Return the declared factors between units, with source and date; empty if none was used."""
    if not rows:
        return []
    columns = (Column("Factor", weight=1.6), Column("Counted", "right"), Column("Source", weight=2))
    lines = tuple(
        (
            f"1 {row.unit} = {number(row.factor, 6)} {row.to}",
            f"{count_text(row.counted)} {row.unit}",
            Pair(row.source, row.date),
        )
        for row in rows
    )
    note = "Declared with the job. Amounts in these units are counted in the other unit, once."
    return [
        Heading("Conversion of units", 2),
        Table("Factors between functional units", columns, lines, note),
    ]


def sensitivity_blocks(rows: Sequence[SensitivityDoc]) -> list[Block]:
    """M, C and C per R for other lifetimes of the hardware."""
    if not rows:
        return []
    units = list(rows[0].g_per_unit)
    columns = (
        Column("EL", "right", 0.8),
        Column("M", "right"),
        Column("C = O + M", "right"),
        *(Column(f"SCI per {unit}", "right", 1.4) for unit in units),
    )
    lines = tuple(
        (
            f"{row.lifetime_years:g} years",
            _grams(row.embodied_g),
            _grams(row.total_g),
            *(_grams(row.g_per_unit[unit], f"/{unit}") for unit in units),
        )
        for row in rows
    )
    note = "All hardware with the same lifetime; everything else as above. Middle values only."
    return [
        Heading("Sensitivity to hardware lifetime", 2),
        Table("Embodied carbon, total and SCI by expected lifetime (EL)", columns, lines, note),
    ]


def ai_facts(document: JobDoc) -> list[tuple[str, str]]:
    """Disclosures of SCI for AI: persona and unit, its reason, values and tokeniser."""
    stated = document.method.sci_for_ai
    rows = [
        ("SCI for AI", stated.statement),
        ("Why this unit", stated.unit_rationale),
        ("Values", stated.unit_values),
        ("Tokeniser", stated.tokeniser),
    ]
    return [(name, value) for name, value in rows if value]


def _grams(grams: float | None, per: str = "") -> str:
    if grams is None:
        return UNKNOWN
    size, unit = prefix(grams, f"gCO2e{per}")
    return f"{number(grams / size, MODEL_DIGITS)} {unit}"

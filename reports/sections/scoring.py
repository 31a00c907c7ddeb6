"""The score: the formula with the job's numbers, its terms, and embodied carbon in parts."""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.reports.model import Block, Cell, Column, Formula, Heading, Pair, Table, Text
from gramwatt.reports.sections.common import TIERS, cell
from gramwatt.reports.sections.supplementary import conversion_blocks, sensitivity_blocks
from gramwatt.sci.base.document import (
    EmbodiedTermDoc,
    JobDoc,
    SciDoc,
)
from gramwatt.sci.base.formatting import UNKNOWN, count_text, duration, number, shown, value_text
from gramwatt.sci.base.quantity import Quantity, QuantityDoc, is_estimate, total

SYMBOLS = "SCI = ((E × I) + M) per R, with E × I summed over every interval, times PUE once"


def score_blocks(document: JobDoc) -> list[Block]:
    """Return the calculation of the score, from the formula to the result."""
    formula = Formula(
        (SYMBOLS, *(line for row in document.sci for line in _in_numbers(document, row)))
    )
    return [
        Heading("The score and its terms"),
        formula,
        _terms(document),
        Text(_largest_uncertainty(document)),
        *conversion_blocks(document.method.conversions),
        *_embodied(document.embodied_terms),
        *sensitivity_blocks(document.lifetime_sensitivity),
    ]


def _in_numbers(document: JobDoc, row: SciDoc) -> list[str]:
    """Return the formula with numbers, and the result, for one functional unit."""
    method = document.method
    energy, embodied = value_text(document.energy_kwh), value_text(document.embodied_g)
    intensity, pue = value_text(method.intensity_g_per_kwh), value_text(method.pue)
    result = row.g_per_unit
    numbers = f"({energy} × {intensity} × {pue} + {embodied}) / {count_text(row.count)} {row.unit}"
    if result is None:
        return [f"= {numbers}", f"= {UNKNOWN}: a term is missing"]
    printed = shown(result)
    ends = f" (range {printed.span})" if printed.span else ""
    return [f"= {numbers}", f"= {printed.value} {printed.unit.replace('/', ' per ', 1)}{ends}"]


def _terms(document: JobDoc) -> Table:
    method = document.method
    rows = [
        _row("E", "energy of the IT equipment", document.energy_kwh),
        _row("I", "grid intensity, the mean weighted by energy", method.intensity_g_per_kwh),
        _row("PUE", "facility over IT energy, applied once", method.pue),
        _row("O", "operational: sum of E × I, times PUE", document.operational_g),
        _row("M", "embodied: sum of TE × TiR/EL × RR/ToR", document.embodied_g),
        _row("C", "O + M", document.total_g),
    ]
    symbol = "C / R" if document.conformance == "not-sci" else "SCI"
    for row in document.sci:
        rows.append(("R", f"{row.unit}: how many", count_text(row.count), "exact"))
        rows.append(_row(symbol, f"carbon per {row.unit}", row.g_per_unit))
    heads = (
        Column("Term", weight=0.5),
        Column("What", weight=2.2),
        Column("Value", "right", 1.2),
        Column("Range", "right", 1.1),
    )
    return Table("Terms of this job", heads, tuple(rows))


def _row(symbol: str, what: str, figure: QuantityDoc | None) -> tuple[Cell, ...]:
    span = "" if figure is None else shown(figure).span or "exact"
    return symbol, what, Pair(value_text(figure), "", is_estimate(figure)), span


def _largest_uncertainty(document: JobDoc) -> str:
    widest = document.method.largest_uncertainty
    if widest is None:
        return "What widens the range is not known, because a term is not known."
    return f"What widens the range most: {widest}."


def _embodied(rows: Sequence[EmbodiedTermDoc]) -> list[Block]:
    """Embodied carbon by part, with equal devices in one row."""
    groups: dict[tuple[object, ...], list[EmbodiedTermDoc]] = {}
    for row in rows:
        groups.setdefault(_likeness(row), []).append(row)
    if not groups:
        return []
    columns = (
        Column("Hardware", weight=2.2),
        Column("TE", "right", 1.2),
        Column("Tier", weight=0.5),
        Column("TiR / EL", "right", 1.1),
        Column("RR / ToR", "right", 0.9),
        Column("M", "right", 1.2),
    )
    note = (
        "TE and the shares are per piece, M is that of all alike. TE leaves the use phase out. "
        f"{TIERS}"
    )
    lines = tuple(_part(members) for members in groups.values())
    return [
        Heading("Embodied carbon in parts", 2),
        Table("M = TE × TiR/EL × RR/ToR, summed", columns, lines, note),
    ]


def _likeness(row: EmbodiedTermDoc) -> tuple[object, ...]:
    te = row.te_g
    return (
        row.label,
        row.tier,
        te["value"],
        te["source"],
        row.time_reserved_s,
        row.lifetime_years,
        row.resources_reserved,
        row.resources_total,
    )


def _part(members: Sequence[EmbodiedTermDoc]) -> tuple[Cell, ...]:
    first, n = members[0], len(members)
    together = total(Quantity.from_doc(row.embodied_g) for row in members)
    name = first.label if n == 1 else f"{first.label} ({n} alike)"
    return (
        Pair(name, first.stages),
        cell(first.te_g),
        first.tier,
        Pair(duration(first.time_reserved_s), f"of {number(first.lifetime_years, 4)} years"),
        f"{number(first.resources_reserved, 4)} / {number(first.resources_total, 4)}",
        cell(together.to_doc() if together else None),
    )

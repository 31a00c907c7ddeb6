"""What the change against the month before is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec.structs import asdict

from gramwatt.reports.model import Block, Cell, Column, Pair, Table, Text
from gramwatt.reports.sections.change import (
    MINUS,
    NO_DIFFERENCE,
    change,
    compared,
    first_days,
)
from gramwatt.reports.sections.common import cell
from gramwatt.reports.sections.daily import month_name
from gramwatt.sci.analysis.documents import ChangeDoc, MonthDoc
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.analysis.month_rows import (
    ProjectChange,
)
from gramwatt.sci.base.formatting import NARROW_SPACE, marked, prefix, value_text
from gramwatt.sci.base.quantity import QuantityDoc

NAMES = {
    "volume_g": "Volume",
    "efficiency_g": "Efficiency",
    "grid_g": "Grid",
    "hardware_g": "Hardware",
    "method_g": "Method",
}
CAUSES = {
    "volume_g": ("more work", "less work"),
    "efficiency_g": ("more energy per unit", "less energy per unit"),
    "grid_g": ("grid and PUE", "grid and PUE"),
    "hardware_g": ("more embodied carbon per unit", "less embodied carbon per unit"),
    "method_g": ("another method", "another method"),
}
FIRST_PROJECTS = 3
"""Projects on the first page."""
SAID = 2
"""Effects that the sentence names."""
EFFECTS = (
    "Volume: more or less work (R). Efficiency: energy per unit. Grid: intensity and PUE. "
    "Hardware: embodied carbon per unit. Method: other versions of engine or catalog, another "
    "kind, publisher or resolution of intensity, with what cannot be separated from them. What "
    "both months share cancels in a range."
)


def story(document: MonthDoc) -> list[Block]:
    """Return one sentence: how the total changed, and the effects that certainly moved it most."""
    parts, totals, before = document.change_parts, compared(document), document.previous
    if parts is None or before is None or totals is None:
        return []
    then = f"{month_name(previous_month(document.month))}{first_days(document)}"
    found = change(totals.total_g, before.total_g, document.changes["total_g"])
    if found.text == NO_DIFFERENCE:
        said = f"No reliable difference from {then}"
        moved = [f"{row.project} {found.text}" for row, found in _moved(document)[:SAID]]
        said += f" in the sum; by project: {', '.join(moved)}." if moved else "."
        return [Text(said, strong=True)]
    figures: Mapping[str, QuantityDoc] = asdict(parts)
    sure = [name for name in NAMES if figures[name]["low"] > 0 or figures[name]["high"] < 0]
    sure.sort(key=lambda name: -abs(figures[name]["value"]))
    causes = [_cause(name, figures[name]) for name in sure[:SAID]]
    sentence = f"Carbon against {then}: {found.text}."
    if causes:
        first, *rest = causes
        sentence += f" {'; '.join([first[:1].upper() + first[1:], *rest])}."
    return [Text(sentence, strong=True)]


def _moved(document: MonthDoc) -> list[tuple[ProjectChange, Pair]]:
    """Return the projects that certainly changed, and how; the largest difference first."""
    rows = [
        (row, change(row.total_g, row.previous_g, row.change))
        for row in document.project_changes
        if row.total_g and row.previous_g and row.change
    ]
    return [(row, found) for row, found in rows if found.text != NO_DIFFERENCE]


def project_changes(document: MonthDoc) -> list[Block]:
    """Return the projects whose total certainly changed; nothing for one project or none."""
    rows = _moved(document)[:FIRST_PROJECTS]
    if len(document.project_changes) < 2 or not rows:
        return []
    columns = (
        Column("Project", weight=1.6),
        Column("This month", "right"),
        Column("Before", "right"),
        Column("Change", "right", 1.2),
    )
    lines = tuple(
        (row.project, cell(row.total_g), cell(row.previous_g), found) for row, found in rows
    )
    return [Table("Projects that certainly changed", columns, lines)]


def _cause(name: str, figure: QuantityDoc) -> str:
    rose = figure["value"] > 0
    amount = value_text(_positive(figure))
    return f"{CAUSES[name][0 if rose else 1]} {'added' if rose else 'took off'} {amount}"


def _positive(figure: QuantityDoc) -> QuantityDoc:
    """Return the size of an effect."""
    if figure["value"] >= 0:
        return figure
    return {**figure, "value": -figure["value"], "low": -figure["high"], "high": -figure["low"]}


def change_parts(parts: ChangeDoc | None) -> list[Block]:
    """Return the effects side by side, in one unit, printed so that they add up to the change."""
    if parts is None:
        return []
    figures: Mapping[str, QuantityDoc] = asdict(parts)
    size, unit = prefix(max(abs(figure["value"]) for figure in figures.values()), "gCO2e")
    places = decimals([figures[name]["value"] / size for name in NAMES])
    whole = figures["change_g"]["value"] / size
    shares = adding_up([figures[name]["value"] / size for name in NAMES], whole, places)
    cells: list[Cell] = [
        Pair(signed(value, places), _span(figures[name], size, places))
        for name, value in zip(NAMES, shares, strict=True)
    ]
    cells.append(Pair(signed(whole, places), _span(figures["change_g"], size, places)))
    columns = tuple(Column(name, "right") for name in (*NAMES.values(), "Change"))
    columns = (Column(columns[0].title), *columns[1:])
    return [Table(f"What the change is made of, in {unit}", columns, (tuple(cells),))]


def decimals(values: Sequence[float]) -> int:
    """Decimals that show the largest value with three digits."""
    most = max(map(abs, values), default=0.0)
    return max(0, 2 - math.floor(math.log10(most))) if most > 0 else 0


def adding_up(values: Sequence[float], whole: float, places: int) -> list[float]:
    """Return the values rounded so that they add up to the rounded whole, none by more than one
    step.
    """
    step = 10.0**-places
    rounded = [math.floor(value / step) for value in values]
    missing = round(whole / step) - sum(rounded)
    by_rest = sorted(range(len(values)), key=lambda n: rounded[n] - values[n] / step)
    for place in by_rest[: max(0, missing)]:
        rounded[place] += 1
    return [count * step for count in rounded]


def signed(value: float, places: int) -> str:
    """Return a number with its sign and so many decimals; 0 without a sign."""
    digits = f"{abs(value):,.{places}f}".replace(",", NARROW_SPACE)
    if not any(character in "123456789" for character in digits):
        return "0"
    return marked(f"{'+' if value > 0 else MINUS}{digits}")


def _span(figure: QuantityDoc, size: float, places: int) -> str:
    if figure["low"] == figure["high"]:
        return ""
    return f"{signed(figure['low'] / size, places)} to {signed(figure['high'] / size, places)}"

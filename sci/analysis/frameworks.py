"""Where the figures of a month belong in reporting frameworks: what each row covers and what not.

The rows are dated data, `data/frameworks.csv`; none claims more than was computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypedDict

from gramwatt.sci.base.csv_data import Row, data_text, parse
from gramwatt.sci.base.quantity import Quantity, QuantityDoc

TO_REPORT = {"kWh": (1e-3, "MWh"), "gCO2e": (1e-6, "tCO2e")}
"""Factor and unit of what frameworks ask for, by unit."""


class FrameworkRow(TypedDict):
    """A row of a framework: the figure [MWh or tCO2e], what it covers and lacks, as of a date.

    The figure is null where it is not known, or where no job of the month belongs there.
    """

    framework: str
    item: str
    figure: QuantityDoc | None
    covers: str
    lacks: str
    as_of: str
    source: str


def framework_rows(fields: Mapping[str, Any]) -> list[FrameworkRow]:
    """Return the rows for a month, by its fields `scope_2`, `by_boundary` and `models`."""
    return [found for row in _rows() for found in _of(row, fields)]


def _of(row: Row, fields: Mapping[str, Any]) -> Iterator[FrameworkRow]:
    wanted = row.text("figure")
    if wanted == "models":
        made = [model for model in fields["models"] if model["persona"] == "provider"]
        for model in made:
            item = f"{row.text('item')}: {model['model_id']}"
            yield _row(row, item, model["facility_kwh"])
        if not made:
            yield _row(row, row.text("item"), None)
        return
    part, _, term = wanted.partition(".")
    places = {of["boundary"]: of for of in fields["by_boundary"]}
    found = {**places, "scope_2": fields["scope_2"]}.get(part)
    yield _row(row, row.text("item"), found[term] if found else None)


def _row(row: Row, item: str, figure: QuantityDoc | None) -> FrameworkRow:
    named = {n: row.text(n) for n in ("framework", "covers", "lacks", "as_of", "source")}
    return {**named, "item": item, "figure": figure and _reported(figure)}  # type: ignore[typeddict-item]


def _reported(figure: QuantityDoc) -> QuantityDoc:
    """Return a figure in the unit that frameworks ask for."""
    factor, unit = TO_REPORT[figure["unit"]]
    return Quantity.from_doc(figure).scaled(factor, unit).to_doc()


@cache
def _rows() -> tuple[Row, ...]:
    return tuple(parse(data_text("frameworks.csv", "gramwatt.sci.analysis"), "frameworks.csv"))

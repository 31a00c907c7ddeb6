"""The section of a job's report that says what would emit less for the same work.

It is made of the job document and the packaged catalog alone, so that one document gives one
report; the API's answer also knows the organisation's own measurements.
"""

from __future__ import annotations

from gramwatt.reports.document import Block, Cell, Column, Heading, Pair, Table, Text
from gramwatt.reports.sections import cell
from gramwatt.sci.advice import SuggestionDoc, for_job, report_lines
from gramwatt.sci.catalog import load_catalog
from gramwatt.sci.document import JobDoc
from gramwatt.sci.errors import GramwattError
from gramwatt.sci.quantity import QuantityDoc

COLUMNS = (
    Column("Suggestion", weight=2.0),
    Column("Carbon, new over present", "right"),
    Column("Saves", "right"),
    Column("Why", weight=3.0),
)
NOTE = "Ranges hold eight times in ten; a saving is named only where the whole range lies below 1."


def advice_blocks(document: JobDoc) -> list[Block]:
    """The section, empty where the job gives no ground for suggestions."""
    try:
        answer = for_job(document, load_catalog())
    except GramwattError:
        # A part out of an overlay is not in the packaged catalog; the API's answer knows it.
        return []
    shown = report_lines(answer)
    flags = [n["message"] for n in answer["notices"] if n["code"].startswith("flag-")]
    if not shown and not flags:
        return []
    blocks: list[Block] = [Heading("Suggestions"), *(Text(text) for text in flags)]
    if shown and shown[0]["action"] == "keep":
        return [*blocks, Text(_sentence(shown[0]["reasons"][0]))]
    rows = tuple(_row(one) for one in shown)
    return [*blocks, Table("What would emit less for the same work", COLUMNS, rows, NOTE)]


def _row(one: SuggestionDoc) -> tuple[Cell, ...]:
    name = one["action"].replace("-", " ")
    target = f" to {one['target']}" if one["target"] else ""
    why = one["reasons"][0] if one["reasons"] else one["operating_point"]
    return (_sentence(name + target), _ratio(one["carbon_ratio"]), cell(one["saved_g"]), why)


def _ratio(figure: QuantityDoc | None) -> Cell:
    if figure is None:
        return "not known"
    return Pair(f"{figure['value']:.2f}", f"{figure['low']:.2f} to {figure['high']:.2f}")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"

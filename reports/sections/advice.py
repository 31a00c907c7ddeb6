"""The section of a job's report that says what would emit less for the same work.

It is made of data alone: the answer that is passed in, which the service makes with its own catalog
and measurements, or the answer that the document and the packaged catalog give. One document with
one answer gives one report.
"""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.reports.model import Block, Cell, Column, Heading, Pair, Table, Text
from gramwatt.reports.sections.common import cell
from gramwatt.sci.advice.documents import AdviceDoc, SuggestionDoc
from gramwatt.sci.advice.jobs import JOBS_EXAMINED, for_job, report_lines, software_of
from gramwatt.sci.base.document import JobDoc, SavingDoc
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.catalog.catalog import load_catalog

COLUMNS = (
    Column("Suggestion", weight=2.0),
    Column("Carbon, new over present", "right"),
    Column("Saves", "right"),
    Column("Why", weight=3.0),
)
MONTH_NOTE = (
    f"Out of the {JOBS_EXAMINED} jobs with the most carbon; figures are those of whole jobs. A "
    "saving is named only where the whole range of the carbon ratio lies below 1."
)
NOTE = "Ranges hold eight times in ten; a saving is named only where the whole range lies below 1."


def advice_blocks(document: JobDoc, answer: AdviceDoc | None = None) -> list[Block]:
    """The section, empty where the job gives no ground for suggestions."""
    answer = answer or _by_the_package(document)
    if answer is None:
        return []
    shown = report_lines(answer)
    flags = [n["message"] for n in answer["notices"] if n["code"].startswith("flag-")]
    if not shown and not flags:
        return []
    blocks: list[Block] = [Heading("Suggestions"), *(Text(text) for text in flags)]
    blocks += [Text(text) for text in _software(document)]
    if shown and shown[0]["action"] == "keep":
        return [*blocks, Text(_sentence(shown[0]["reasons"][0]))]
    rows = tuple(_row(one) for one in shown)
    return [*blocks, Table("What would emit less for the same work", COLUMNS, rows, NOTE)]


def saving_blocks(savings: Sequence[SavingDoc]) -> list[Block]:
    """The month's section: the best certain saving of each job that has one; empty without any."""
    if not savings:
        return []
    rows = tuple(
        (
            Pair(one["name"], one["job_id"] if one["name"] != one["job_id"] else ""),
            _action(one["action"], one["target"]),
            _ratio(one["carbon_ratio"]),
            cell(one["saved_g"]),
            one["reason"],
        )
        for one in savings
    )
    columns = (Column("Job", weight=1.6), *COLUMNS)
    table = Table("The largest certain savings, one a job", columns, rows, MONTH_NOTE)
    return [Heading("What would help most"), table]


def _by_the_package(document: JobDoc) -> AdviceDoc | None:
    try:
        return for_job(document, load_catalog())
    except GramwattError:
        return None


def _software(document: JobDoc) -> list[str]:
    """What the job ran with, as far as the suggestions know it, and who said so."""
    known = software_of(document)
    from_tags = document["tags"]
    told = [
        f"{name} {text} ({'a tag' if name in from_tags else 'as its record says'})"
        for name, text in known.items()
    ]
    return [f"Judged for {', '.join(told)}."] if told else []


def _row(one: SuggestionDoc) -> tuple[Cell, ...]:
    why = one["reasons"][0] if one["reasons"] else one["operating_point"]
    named = _action(one["action"], one["target"])
    return (named, _ratio(one["carbon_ratio"]), cell(one["saved_g"]), why)


def _action(action: str, target: str | None) -> str:
    name = action.replace("-", " ")
    return _sentence(f"{name} to {target}" if target else name)


def _ratio(figure: QuantityDoc | None) -> Cell:
    if figure is None:
        return "not known"
    return Pair(f"{figure['value']:.2f}", f"{figure['low']:.2f} to {figure['high']:.2f}")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"

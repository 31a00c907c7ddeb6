"""Suggestions: what would emit less for the same work as a job.

The service passes in the advice made with its own catalog and measurements; without it, the section
is made from the document and the packaged catalog.
"""

from __future__ import annotations

from gramwatt.reports.model import Block, Cell, Column, Heading, Pair, Table, Text
from gramwatt.reports.sections.common import cell
from gramwatt.sci.advice.documents import AdviceDoc, SuggestionDoc
from gramwatt.sci.advice.jobs import for_job, report_lines, software_of
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.formatting import marked, text
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.catalog.catalog import load_catalog

COLUMNS = (
    Column("Suggestion", weight=2.0),
    Column("Carbon, new over present", "right"),
    Column("Saves", "right"),
    Column("Why", weight=3.0),
)
NOTHING = "No change is known that would certainly emit less."
PLACE = (
    "Say where the job ran, so that its score can be an SCI: gramwatt job {job_id} --set zone=DE"
)
NOTE = "Ranges hold eight times in ten; a saving is named only where the whole range lies below 1."


def advice_blocks(document: JobDoc, advice: AdviceDoc | None) -> list[Block]:
    """Return what to do: the suggestions for a job, or that none is known."""
    blocks: list[Block] = [Heading("What to do")]
    if document.zone is None:
        blocks.append(Text(PLACE.format(job_id=document.job_id)))
    suggestions = report_lines(advice) if advice else []
    notices = advice.notices if advice else []
    flags = [notice.message for notice in notices if notice.code.startswith("flag-")]
    if not suggestions and not flags:
        return [*blocks, Text(NOTHING)]
    blocks += [Text(line) for line in (*flags, *_software(document))]
    if suggestions and suggestions[0].action == "keep":
        return [*blocks, Text(_sentence(suggestions[0].reasons[0]))]
    rows = tuple(_row(suggestion) for suggestion in suggestions)
    return [*blocks, Table("What would emit less for the same work", COLUMNS, rows, NOTE)]


def saving_sentence(advice: AdviceDoc | None) -> str:
    """Return the largest certain saving of a job as a sentence; that none is known without one."""
    first = next(iter(report_lines(advice) if advice else []), None)
    if first is None or first.action == "keep":
        return NOTHING
    what, saved = _action(first.action, first.target), text(first.saved_g)
    return f"What would help most: {what[:1].lower()}{what[1:]}, which saves {saved}."


def packaged_advice(document: JobDoc) -> AdviceDoc | None:
    """Return the suggestions by the packaged catalog alone; None where there can be none."""
    try:
        return for_job(document, load_catalog())
    except GramwattError:
        return None


def _software(document: JobDoc) -> list[str]:
    """Return the software that the suggestions assume, with where it is known from."""
    tags = document.tags
    known = [
        f"{name} {value} ({'a tag' if name in tags else 'recorded by the job'})"
        for name, value in software_of(document).items()
    ]
    return [f"Suggestions for {', '.join(known)}."] if known else []


def _row(row: SuggestionDoc) -> tuple[Cell, ...]:
    reason = row.reasons[0] if row.reasons else row.operating_point
    action = _action(row.action, row.target)
    return (action, _ratio(row.carbon_ratio), cell(row.saved_g), reason)


def _action(action: str, target: str | None) -> str:
    name = action.replace("-", " ")
    return _sentence(f"{name} to {target}" if target else name)


def _ratio(figure: QuantityDoc | None) -> Cell:
    if figure is None:
        return "not known"
    value, low, high = (marked(f"{figure[end]:.2f}") for end in ("value", "low", "high"))
    return Pair(value, f"{low} to {high}")


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"

"""Corrections: what people declared of a job after it was measured, and what stood before."""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.reports.model import Block, Cell, Column, Heading, Table
from gramwatt.sci.base.document import CorrectionDoc
from gramwatt.sci.base.formatting import minute_text

UNDECLARED = "not declared"
INCLUDED = "no"
"""How the list says that a job is not left out of months."""
NOTE = (
    "A declared value stands in place of the journal's, which is kept. The figures of this "
    "revision are computed with the newest value of each field."
)


def correction_blocks(corrections: Sequence[CorrectionDoc]) -> list[Block]:
    """Return a table of the corrections, oldest first; empty for a job without any."""
    if not corrections:
        return []
    columns = (
        Column("Field", weight=0.9),
        Column("Declared", weight=1.3),
        Column("Before", weight=1.3),
        Column("By", weight=1.1),
        Column("When, UTC", weight=1.1),
        Column("Reason", weight=1.3),
    )
    rows = tuple(_row(correction) for correction in corrections)
    return [Heading("Corrections"), Table("What was declared afterwards", columns, rows, NOTE)]


def value_of(correction: CorrectionDoc, which: str) -> str:
    """Return the `value` or the `old` value of a correction as text."""
    value = correction.value if which == "value" else correction.old
    if value is None:
        return INCLUDED if correction.field == "excluded" else UNDECLARED
    return ", ".join(value) if isinstance(value, list) else str(value)


def _row(correction: CorrectionDoc) -> tuple[Cell, ...]:
    return (
        correction.field,
        value_of(correction, "value"),
        value_of(correction, "old"),
        correction.by,
        minute_text(correction.at),
        correction.reason or "",
    )

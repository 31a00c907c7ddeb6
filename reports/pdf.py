"""A document as a tagged PDF, set by typst without network or temporary files.

The document reaches the one template as JSON, so that no text of a user can be read as markup. The
same document gives the same bytes: its date is the report's, not the clock's.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Literal

from gramwatt.reports.charts import draw
from gramwatt.reports.document import Block, Chart, Document, Table

FONT = "Libertinus Serif"
"""Carried by typst itself, as every font here."""
MAX_ROWS = 200
"""Rows of a table in print; the CSV and the page have all of them."""


def render(document: Document) -> bytes:
    """The document as PDF/UA-1 bytes.

    PDF/UA asks for a glyph of every character. A name in a script that typst's own fonts lack is
    set in the system's fonts instead, or as empty boxes, in a tagged PDF without that claim.
    """
    import typst

    try:
        return _compile(document, "ua-1")
    except typst.TypstError as error:
        if "could not be displayed" not in str(error):
            raise
    return _compile(document, None)


def _compile(document: Document, standard: Literal["ua-1"] | None) -> bytes:
    import typst

    made: bytes = typst.compile(
        _template(),
        format="pdf",
        ignore_system_fonts=standard is not None,
        pdf_standards=standard,
        sys_inputs={"document": json.dumps(_plain(document))},
        timestamp=datetime.fromisoformat(document.date).replace(tzinfo=UTC),
    )
    return made


def _plain(document: Document) -> dict[str, Any]:
    return {
        "title": document.title,
        "subtitle": document.subtitle,
        "date": document.date,
        "lang": document.lang,
        "blocks": [_block(block) for block in document.blocks],
    }


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, Chart):
        picture = draw(block.spec, font=FONT)
        return {"type": "Chart", "caption": block.caption, "alt": block.alt, "svg": picture}
    if isinstance(block, Table) and len(block.rows) > MAX_ROWS:
        block = _cut(block)
    return {"type": type(block).__name__, **asdict(block)}


def _cut(table: Table) -> Table:
    note = f"{MAX_ROWS} of {len(table.rows)} rows; the page and the CSV file have all of them."
    return replace(table, rows=table.rows[:MAX_ROWS], note=f"{note} {table.note}".strip())


@cache
def _template() -> bytes:
    return resources.files("gramwatt.reports").joinpath("templates/report.typ").read_bytes()

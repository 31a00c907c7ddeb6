"""A report as one document of blocks, built once and rendered as HTML and as PDF.

A new section is a new list of blocks; the renderers do not change. Every text is plain text, which
the renderers escape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

ESTIMATED_MARK = "≈"
"""Before a figure that is estimated."""
MARK_LEGEND = "≈ estimated: by a model or from typical values, not read from a meter."
Align = Literal["left", "right"]
Severity = Literal["warning", "info"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a section (level 1) or of a part of one."""

    text: str
    level: Literal[1, 2, 3] = 1


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `strong` prints it in bold."""

    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """A bulleted list."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Links:
    """Where to go on: texts with their addresses, for a page of the site."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A calculation by lines: the formula in symbols, in numbers, and the result."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A headline figure: name, value, unit, range in the same unit, and kind or remark.

    `lead` marks the main figures of the report, printed larger; an `estimated` one is marked.
    """

    label: str
    value: str
    unit: str = ""
    span: str = ""
    note: str = ""
    lead: bool = False
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """Headline figures side by side."""

    items: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values, one per line.

    `quoted` values are what users wrote: no word of them is explained.
    """

    rows: tuple[tuple[str, str], ...]
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column: title, alignment, and `weight`, its relative width in print."""

    title: str
    align: Align = "left"
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Pair:
    """A cell of two lines: a text and, smaller below it, its range or a detail.

    A figure that is `estimated` has a mark before it.
    """

    text: str
    below: str
    estimated: bool = False

    def __str__(self) -> str:
        return f"{self.text} ({self.below})" if self.below else self.text


Cell = str | Pair


@dataclass(frozen=True, slots=True)
class Table:
    """A table, with `note` below it.

    Raises ValueError if a row has more or fewer cells than the table has columns.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        wrong = next((row for row in self.rows if len(row) != len(self.columns)), None)
        if wrong is not None:
            raise ValueError(f"{len(self.columns)} columns in {self.caption!r}, but a row {wrong}")


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as a Vega-Lite specification, its alternative text, and its data as a table.

    `narrow` is what a narrow screen has instead.
    """

    caption: str
    alt: str
    spec: dict[str, Any]
    data: Table
    narrow: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NoticeBlock:
    """A highlighted notice; a `warning` limits how the report may be used."""

    severity: Severity
    code: str
    text: str


Block = Heading | Text | Listing | Links | Formula | Figures | Facts | Table | Chart | NoticeBlock


@dataclass(frozen=True, slots=True)
class Document:
    """A report: title, subtitle, the date of its issue (YYYY-MM-DD, or "" for none) and blocks.

    `reference` identifies the data of the report; it is printed on every page. With `glossary` the
    PDF explains its words at its end, as the HTML always does, but none within `names`, which users
    gave to units, nodes and windows. `mark` is the decimal mark of the axes of charts.
    """

    title: str
    subtitle: str
    date: str
    blocks: tuple[Block, ...]
    reference: str = ""
    lang: str = "en"
    glossary: bool = False
    names: tuple[str, ...] = ()
    mark: Literal[".", ","] = "."

    @property
    def has_estimates(self) -> bool:
        """Return whether a figure has the mark of an estimate, so that the report explains it."""
        return any(map(_has_estimates, self.blocks))


def anchor(text: str) -> str:
    """Return the URL fragment of a heading: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def texts(document: Document) -> Iterator[str]:
    """Yield the running texts of a document, in which its words are explained; not those of
    cells.
    """
    for block in document.blocks:
        match block:
            case Text(text):
                yield text
            case Listing(items):
                yield from items
            case Figures(items):
                yield from (item.label for item in items)
            case Facts(rows, quoted):
                yield from (part for row in rows for part in (row[:1] if quoted else row))
            case Table(note=words) | Chart(caption=words):
                yield words


def _has_estimates(block: Block) -> bool:
    match block:
        case Figures(items):
            return any(item.estimated for item in items)
        case Table(rows=rows) | Chart(data=Table(rows=rows)):
            return any(isinstance(cell, Pair) and cell.estimated for row in rows for cell in row)
    return False

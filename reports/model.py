"""A report as one document of blocks, built once and drawn by two generic renderers.

A new section is a new list of blocks: neither renderer changes. Every text here is plain text; the
renderers take care that no part of it is read as markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Align = Literal["left", "right"]
Severity = Literal["warning", "info"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is a section of the report, 2 a part of one."""

    text: str
    level: Literal[1, 2] = 1


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `strong` for the few sentences that must not be missed."""

    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """Sentences one below the other, each with a mark before it."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A calculation, one line per step: the symbols, then the numbers, then the result."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A headline figure: name, value, unit, range in the same unit, and how it is known.

    `lead` marks the one that the report is about.
    """

    label: str
    value: str
    unit: str = ""
    span: str = ""
    note: str = ""
    lead: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """Headline figures side by side."""

    items: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values, one a line."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column's title and alignment; `weight` is its share of the width in print."""

    title: str
    align: Align = "left"
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Pair:
    """A cell of two lines: what it says, and below it, quieter, its range or its detail."""

    text: str
    below: str

    def __str__(self) -> str:
        return f"{self.text} ({self.below})" if self.below else self.text


Cell = str | Pair


@dataclass(frozen=True, slots=True)
class Table:
    """A table; every row has a cell for every column. `note` stands below it.

    Raises ValueError for a row that has more or fewer cells than there are columns.
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
    """A chart as a Vega-Lite specification, its alternative text, and its data as a table."""

    caption: str
    alt: str
    spec: dict[str, Any]
    data: Table


@dataclass(frozen=True, slots=True)
class NoticeBlock:
    """A remark that stands out: `warning` for what changes how the report may be used."""

    severity: Severity
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class PageBreak:
    """A new page in print; nothing on a screen."""


Block = (
    Heading | Text | Listing | Formula | Figures | Facts | Table | Chart | NoticeBlock | PageBreak
)


@dataclass(frozen=True, slots=True)
class Document:
    """A report: its title, what it is about, its date (YYYY-MM-DD) and its blocks.

    `reference` names the data it was made from, and stands on every page.
    """

    title: str
    subtitle: str
    date: str
    blocks: tuple[Block, ...]
    reference: str = ""
    lang: str = "en"

"""A document as a tagged PDF, typeset by typst without network access.

The template reads the document as JSON, so that no text of a user is read as markup. The same
document gives the same bytes: the PDF's date is that of the report, and its fonts are bundled. The
system's fonts are used only for a script that the bundled ones lack.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence, Set
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from gramwatt.reports import glossary
from gramwatt.reports.charts import draw, patterns
from gramwatt.reports.model import (
    ESTIMATED_MARK,
    Block,
    Cell,
    Chart,
    Document,
    Facts,
    Heading,
    NoticeBlock,
    Table,
    texts,
)
from gramwatt.reports.printable import cleaned

if TYPE_CHECKING:
    import typst

MAX_ROWS = 200
"""Rows of a table in the PDF; the CSV and the page have all of them."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NO_GLYPH = re.compile(r'the text `"(.+?)"` could not be displayed')
_JOINED = ("Mn", "Me", "Cf")
"""Unicode categories of combining marks and joiners."""
MAX_TRIES = 24
NO_DATE = "2000-01-01"
"""What the typesetter takes for today where a report has no date; it prints it nowhere."""
_EMOJI = range(0x1F000, 0x20000)
_ESCAPE = re.compile(r"\\u\{([0-9a-f]+)\}")


def render(document: Document) -> bytes:
    """Return the document as PDF/UA-1 bytes.

    PDF/UA requires a glyph for every character. Characters without one in the bundled and the
    system's fonts become U+FFFD, and a last notice names packages with such fonts. If typst still
    refuses, the PDF is tagged but not PDF/UA.
    """
    import typst

    document = cleaned(document)
    text = _as_text(document)
    lacking: set[str] = set()
    system_fonts = False
    for _ in range(MAX_TRIES):
        try:
            return _compile(text, document.date, system_fonts, "ua-1")
        except typst.TypstError as error:
            missing = _NO_GLYPH.findall(str(error))
            if not missing:
                raise
        if system_fonts:
            lacking |= set(_ESCAPE.sub(_unescaped, "".join(missing)))
            noted = replace(document, blocks=(*document.blocks, _without_font(lacking)))
            text = _replaced(_as_text(noted), lacking)
        system_fonts = True
    return _compile(text, document.date, system_fonts, None)


def _as_text(document: Document) -> str:
    return json.dumps(_plain(document), ensure_ascii=False)


def _without_font(lacking: Set[str]) -> NoticeBlock:
    """Return the notice of characters that no font has."""
    packages = sorted({_package(character) for character in lacking})
    many = f"{len(lacking)} characters" if len(lacking) > 1 else "One character"
    return NoticeBlock(
        "info",
        "",
        f"{many} of this report could not be printed, and stand{'s' * (len(lacking) == 1)} as "
        f"{REPLACEMENT}: no font of the machine that made it has them. On Debian and Ubuntu: "
        f"apt install {' '.join(packages)}. The page, CSV and JSON have every character.",
    )


def _package(character: str) -> str:
    """Return the Debian package with a font for a character."""
    if unicodedata.category(character) == "So" or ord(character) in _EMOJI:
        return "fonts-noto-color-emoji"
    if unicodedata.east_asian_width(character) in "WF":
        return "fonts-noto-cjk"
    return "fonts-noto-core"


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match.group(1), 16))


def _replaced(text: str, lacking: set[str]) -> str:
    """Replace each run of `lacking` characters, with the marks joined to it, by U+FFFD.

    ASCII characters stay: JSON consists of them, and the bundled fonts have them all.
    """
    replaced: list[str] = []
    after = False
    for character in text:
        if not character.isascii() and character in lacking:
            replaced.append("" if after else REPLACEMENT)
            after = True
        elif not (after and unicodedata.category(character) in _JOINED):
            replaced.append(character)
            after = False
    return "".join(replaced)


def _compile(text: str, date: str, system_fonts: bool, standard: Literal["ua-1"] | None) -> bytes:
    import typst

    data: bytes = typst.compile(
        _template(),
        format="pdf",
        font_paths=_fonts(system_fonts),
        pdf_standards=standard,
        sys_inputs={"document": text},
        timestamp=datetime.fromisoformat(date or NO_DATE).replace(tzinfo=UTC),
    )
    return data


@cache
def _fonts(system: bool) -> typst.Fonts:
    """Return the bundled fonts and typst's own, with the system's if wanted; read once per
    process.
    """
    import typst

    with resources.as_file(resources.files("gramwatt.reports").joinpath("fonts")) as folder:
        return typst.Fonts(include_system_fonts=system, font_paths=[folder])


def _plain(document: Document) -> dict[str, Any]:
    words = glossary.used(" ".join(texts(document)), document.names) if document.glossary else []
    legend = f"{ESTIMATED_MARK} estimated" if document.has_estimates else ""
    return {
        "title": document.title,
        "subtitle": document.subtitle,
        "date": document.date,
        "reference": " · ".join(filter(None, (document.reference, legend))),
        "lang": document.lang,
        "blocks": [_block(block, document.mark) for block in (*document.blocks, *_words(words))],
    }


def _words(words: Sequence[glossary.Term]) -> list[Block]:
    """Return what the words of the document mean, as its last section."""
    if not words:
        return []
    return [Heading(glossary.TITLE), Facts(tuple((word.name, word.meaning) for word in words))]


def _block(block: Block, mark: str) -> dict[str, Any]:
    kind = type(block).__name__
    if isinstance(block, Chart):
        picture = draw(block.spec, mark).replace("><", f">{patterns()}<", 1)
        return {"type": kind, "caption": block.caption, "alt": block.alt, "svg": picture}
    if isinstance(block, Table):
        cut = _cut(block)
        rows = [[_cell(cell) for cell in row] for row in cut.rows]
        return {"type": kind, **asdict(replace(cut, rows=())), "rows": rows}
    return {"type": kind, **asdict(block)}


def _cell(cell: Cell) -> tuple[str, str]:
    if isinstance(cell, str):
        return cell, ""
    mark = f"{ESTIMATED_MARK}\N{NO-BREAK SPACE}" if cell.estimated else ""
    return f"{mark}{cell.text}", cell.below


def _cut(table: Table) -> Table:
    if len(table.rows) <= MAX_ROWS:
        return table
    note = f"{MAX_ROWS} of {len(table.rows)} rows; the page and the CSV file have all of them."
    return replace(table, rows=table.rows[:MAX_ROWS], note=f"{note} {table.note}".strip())


@cache
def _template() -> bytes:
    return resources.files("gramwatt.reports").joinpath("templates/report.typ").read_bytes()

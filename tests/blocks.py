"""Reading a document of blocks: its headings, tables, cells and every word."""

from gramwatt.reports.model import (
    Chart,
    Facts,
    Figures,
    Formula,
    Heading,
    Listing,
    NoticeBlock,
    Pair,
    Table,
    Text,
)
from gramwatt.sci.figures.formatting import NARROW_SPACE


def plain(text):
    """A text with ordinary spaces only."""
    return text.replace(NARROW_SPACE, " ").replace("\u00a0", " ")


def blocks(document, kind):
    """Every block of a kind."""
    return [block for block in document.blocks if isinstance(block, kind)]


def headings(document, level=None):
    """Every heading's text, or those of a level."""
    return [row.text for row in blocks(document, Heading) if level in (None, row.level)]


def section(document, title):
    """The blocks of a section, up to the next one."""
    starts = [n for n, block in enumerate(document.blocks) if getattr(block, "level", 0) == 1]
    at = headings(document, 1).index(title)
    return list(document.blocks[starts[at] + 1 : [*starts, None][at + 1]])


def table(document, caption):
    """The one table whose caption starts so."""
    [found] = [block for block in blocks(document, Table) if block.caption.startswith(caption)]
    return found


def cells(row):
    """The first lines of a row's cells."""
    return [plain(cell.text if isinstance(cell, Pair) else cell) for cell in row]


def words(document):
    """Every text of a document, as one."""
    found = [document.title, document.subtitle]
    for block in document.blocks:
        found += _words(block)
    return plain("\n".join(found))


def _words(block):
    if isinstance(block, Heading | Text | NoticeBlock):
        return [block.text]
    if isinstance(block, Figures):
        return [f"{i.label} {i.value} {i.unit} {i.span} {i.note}" for i in block.items]
    if isinstance(block, Formula):
        return list(block.lines)
    if isinstance(block, Listing):
        return list(block.items)
    if isinstance(block, Facts | Table):
        return [" ".join(map(str, row)) for row in block.rows]
    return [block.caption, block.alt] if isinstance(block, Chart) else []

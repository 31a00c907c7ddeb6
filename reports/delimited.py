"""CSV, the one way in which a text or a figure gets into a cell.

A spreadsheet runs a cell that begins with a formula's sign, also behind spaces. Which list
separator it splits lines at depends on its language: a comma, a semicolon or a tab.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from gramwatt.sci.base.printable import clean

SEPARATOR = {".": ",", ",": ";"}
"""Between cells, by decimal mark: with a decimal comma spreadsheets expect semicolons."""
_BLANK = r"[\s\u00ad\u200b-\u200f\u2060\ufeff]*"
"""Spaces, and marks without a width."""
_SIGN = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
"""What a spreadsheet reads as the start of a formula; the last four are full-width."""
_FORMULA = re.compile(f"{_BLANK}{_SIGN}")
_AFTER = {
    separator: re.compile(f'[,;](?<!{separator})(?={_BLANK}"*{_BLANK}{_SIGN})')
    for separator in SEPARATOR.values()
}
"""The other list separator before a formula; at its own, a cell is quoted."""


def delimited(
    header: Sequence[str], rows: Iterable[Sequence[object]], mark: str = ".", end: str = "\n"
) -> str:
    """Return a table as CSV with full precision; a cell of None is empty, never 0.

    `mark` is the decimal mark, "." or ",", `end` that of a line.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=end, delimiter=SEPARATOR[mark])
    writer.writerow(header)
    writer.writerows([_cell(value, mark) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object, mark: str) -> object:
    if isinstance(value, float):
        return repr(value).replace(".", mark)
    return _inert(value, mark) if isinstance(value, str) else value


def _inert(text: str, mark: str) -> str:
    """Return the text without control codes, with an apostrophe before what would be a formula."""
    printed = clean(text)
    if _FORMULA.match(printed):
        printed = f"'{printed}"
    return _AFTER[SEPARATOR[mark]].sub(r"\g<0>'", printed)

"""CSV, the one way in which a text or a figure gets into a cell.

A spreadsheet runs a cell that begins with a formula's sign, also behind spaces. In some languages
it splits lines at a semicolon too, so that no text may have a sign behind one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from gramwatt.sci.figures.printable import clean

_BLANK = r"[\s\u00ad\u200b-\u200f\u2060\ufeff]*"
"""Spaces, and marks without a width."""
_SIGN = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
"""What a spreadsheet reads as the start of a formula; the last four are full-width."""
_FORMULA = re.compile(f'^(?={_BLANK}{_SIGN})|;(?={_BLANK}"*{_BLANK}{_SIGN})')


def delimited(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV with commas and decimal points; a cell of None is empty, never 0.

    Figures have full precision. What would be a formula has an apostrophe before it.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_inert(value) for value in row] for row in rows)
    return out.getvalue()


def _inert(value: object) -> object:
    return _FORMULA.sub(r"\g<0>'", clean(value)) if isinstance(value, str) else value

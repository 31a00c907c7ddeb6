"""CSV files as programs and people save them: with commas, semicolons or tabs, UTF-8 or UTF-16."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

DELIMITERS = ",;\t"


class TableError(ValueError):
    """A file that is not a table; the text says what it is instead."""


class Table(NamedTuple):
    """The lines of a file, the sign between its columns, and the file as bytes."""

    lines: Iterable[str]
    delimiter: str
    raw: BinaryIO


@contextmanager
def open_table(path: Path, errors: str = "strict") -> Iterator[Table]:
    """Open a table, for the reader that its rows need; raises TableError, or OSError."""
    with path.open("rb") as raw:
        start = raw.read(2)
        raw.seek(0)
        encoding = "utf-16" if start in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
        with TextIOWrapper(raw, encoding, errors=errors, newline="") as text:
            first = text.readline()
            if not first:
                raise TableError("the file is empty")
            if first.startswith("sep="):
                raise TableError(f"the first line is {first.strip()!r}, for Excel alone; delete it")
            yield Table(chain([first], text), max(DELIMITERS, key=first.count), raw)

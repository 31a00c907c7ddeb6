"""Reads the packaged data files, CSV with a header line, as rows of typed cells.

An empty cell means "not known" and reads as None, never as 0. Items of a list in a cell are
separated by ';'. docs/data-sources.md describes the files, `data/schema.toml` their columns.
`read_as` makes a dataclass of a row, and names file and line of a cell that does not fit its type.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache, partial
from importlib.resources import files
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

LIST_SEPARATOR = ";"
Record = TypeVar("Record")


class Row:
    """One line of a data file; its cells are read by column name. `where` is its file and line."""

    __slots__ = ("_cells", "where")

    def __init__(self, cells: dict[str, str], where: str = "") -> None:
        """Store the cells by column name, and where they stand."""
        self._cells, self.where = cells, where

    def with_cells(self, cells: Mapping[str, str]) -> Row:
        """Return this row with some cells replaced."""
        return Row({**self._cells, **cells}, self.where)

    def blank(self) -> dict[str, str]:
        """Return the columns of this row, each with an empty cell."""
        return dict.fromkeys(self._cells, "")

    @property
    def given(self) -> Mapping[str, str]:
        """Return the cells that are not empty, by column."""
        return {column: cell for column, cell in self._cells.items() if cell}

    @property
    def overlay(self) -> str | None:
        """Return the source named by the user's overlay for this row, None for a packaged row."""
        return self._cells.get("overlay")

    def text(self, column: str) -> str:
        """Return the cell as text; empty when not known."""
        return self._cells[column]

    def optional(self, column: str) -> str | None:
        """Return the cell as text; None when not known."""
        return self._cells[column] or None

    def number(self, column: str) -> float | None:
        """Return the cell as a number in the column's unit; None when not known."""
        cell = self._cells[column]
        return float(cell) if cell else None

    def known(self, column: str) -> float:
        """Return the cell as a number; raises ValueError when it is empty."""
        return float(self._cells[column])

    def integer(self, column: str) -> int | None:
        """Return the cell as a whole number; None when not known."""
        cell = self._cells[column]
        return int(cell) if cell else None

    def listing(self, column: str) -> tuple[str, ...]:
        """Return the items of a list in the cell; none for an empty cell."""
        cell = self._cells[column]
        return tuple(cell.split(LIST_SEPARATOR)) if cell else ()

    def pairs(self, column: str) -> tuple[tuple[str, float], ...]:
        """Return the names and numbers of a list of `name=number` items in the cell."""
        found = (item.split("=", 1) for item in self.listing(column))
        return tuple((name, float(number)) for name, number in found)


def read_as(record: Callable[..., Record], row: Row, **given: Any) -> Record:
    """Return a row as a dataclass, each field that is not given from the column of its name.

    A field's type says how its cell is read: `str` empty and `str | None` None where not known,
    `float` and `int` required, `float | None` and `int | None` not, `bool` of 1 and 0, a tuple of
    texts from a list, a Literal one of its values. Raises ValueError that names file and line.
    """
    found = {}
    for name, read in _readers(record):
        if name in given:
            continue
        try:
            found[name] = read(row, name)
        except ValueError as error:
            raise ValueError(f"{row.where}: {name}: {error}") from None
    return record(**found, **given)


@cache
def _readers(record: Any) -> tuple[tuple[str, Callable[[Row, str], Any]], ...]:
    hints = get_type_hints(record)
    return tuple((field.name, _reader(hints[field.name])) for field in fields(record))


def _reader(hint: Any) -> Callable[[Row, str], Any]:
    """Return what reads a cell of that type."""
    optional = get_origin(hint) in (UnionType, Union)
    kind = next(one for one in get_args(hint) if one is not type(None)) if optional else hint
    if get_origin(kind) is Literal:
        return partial(_choice, choices=get_args(kind), optional=optional)
    if get_origin(kind) is tuple:
        items = get_args(get_args(kind)[0])
        return partial(_choices, choices=items) if items else Row.listing
    if kind is str:
        return Row.optional if optional else Row.text
    if kind is float:
        return Row.number if optional else Row.known
    if kind is int:
        return Row.integer if optional else lambda row, column: int(row.known(column))
    return lambda row, column: row.text(column) == "1"


def _choice(row: Row, column: str, choices: tuple[str, ...], *, optional: bool) -> str | None:
    cell = row.text(column)
    if cell in choices:
        return cell
    if optional and not cell:
        return None
    raise ValueError(f"{cell!r} is none of {', '.join(choices)}")


def _choices(row: Row, column: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [item for item in row.listing(column) if item not in choices]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is none of {', '.join(choices)}")
    return row.listing(column)


def data_text(name: str, package: str = "gramwatt.sci.catalog") -> str:
    """Return the text of a file in a package's data folder, such as 'odbl/zones.csv'."""
    folder = files(package).joinpath("data")
    return folder.joinpath(*name.split("/")).read_text(encoding="utf-8")


def parse(text: str, name: str = "") -> Iterator[Row]:
    """Yield the rows of a CSV text whose first line names the columns; `name` is its file's."""
    reader = csv.reader(text.splitlines())
    header = next(reader)
    for cells in reader:
        yield Row(dict(zip(header, cells, strict=True)), f"{name} line {reader.line_num}")


@cache
def rows(name: str) -> tuple[Row, ...]:
    """Return the rows of a data file of the catalog, read once per process."""
    return tuple(parse(data_text(name), name))

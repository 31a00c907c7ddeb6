"""Reads the packaged data files, CSV with a header line, as rows of typed cells.

An empty cell means "not known" and reads as None, never as 0. Items of a list in a cell are
separated by ';'. docs/data-sources.md describes the files, `data/schema.toml` their columns.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

LIST_SEPARATOR = ";"


class Row:
    """One line of a data file; its cells are read by column name."""

    __slots__ = ("_cells",)

    def __init__(self, cells: dict[str, str]) -> None:
        """Store the cells by column name."""
        self._cells = cells

    def with_cells(self, cells: Mapping[str, str]) -> Row:
        """This row with some cells replaced."""
        return Row({**self._cells, **cells})

    def blank(self) -> dict[str, str]:
        """The columns of this row, each with an empty cell."""
        return dict.fromkeys(self._cells, "")

    @property
    def given(self) -> Mapping[str, str]:
        """The cells that are not empty, by column."""
        return {column: cell for column, cell in self._cells.items() if cell}

    @property
    def overlay(self) -> str | None:
        """The source named by the user's overlay for this row, None for a packaged row."""
        return self._cells.get("overlay")

    def text(self, column: str) -> str:
        """The cell as text; empty when not known."""
        return self._cells[column]

    def optional(self, column: str) -> str | None:
        """The cell as text; None when not known."""
        return self._cells[column] or None

    def number(self, column: str) -> float | None:
        """The cell as a number in the column's unit; None when not known."""
        cell = self._cells[column]
        return float(cell) if cell else None

    def known(self, column: str) -> float:
        """The cell as a number; raises ValueError when it is empty."""
        return float(self._cells[column])

    def integer(self, column: str) -> int | None:
        """The cell as a whole number; None when not known."""
        cell = self._cells[column]
        return int(cell) if cell else None

    def listing(self, column: str) -> tuple[str, ...]:
        """The items of a list in the cell; none for an empty cell."""
        cell = self._cells[column]
        return tuple(cell.split(LIST_SEPARATOR)) if cell else ()

    def pairs(self, column: str) -> tuple[tuple[str, float], ...]:
        """The names and numbers of a list of `name=number` items in the cell."""
        found = (item.split("=", 1) for item in self.listing(column))
        return tuple((name, float(number)) for name, number in found)


def data_text(name: str, package: str = "gramwatt.sci.catalog") -> str:
    """The text of a file in a package's data folder, such as 'hardware.csv' or 'odbl/zones.csv'."""
    folder = files(package).joinpath("data")
    return folder.joinpath(*name.split("/")).read_text(encoding="utf-8")


def parse(text: str) -> Iterator[Row]:
    """Parse CSV text whose first line names the columns."""
    reader = csv.reader(text.splitlines())
    header = next(reader)
    for cells in reader:
        yield Row(dict(zip(header, cells, strict=True)))


@cache
def rows(name: str) -> tuple[Row, ...]:
    """The rows of a data file of the catalog, read once per process."""
    return tuple(parse(data_text(name)))

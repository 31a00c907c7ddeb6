"""Data files, CSV with a header line, as structs: a class for each file, with a field a column.

Type, bounds, unit and meaning of a column stand at its field alone: reading the file, checking an
entry of the overlay and the reference of the documentation come of it. An empty cell is "not
known": the field's default, never 0. Items of a list are separated by ';', and a table of numbers
is written `name=number;name=number`. docs/data-sources.md says where the data are from.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from gramwatt.sci.figures.checks import InputError, meaning, parse, types_of
from gramwatt.sci.figures.structs import convert

LIST_SEPARATOR = ";"
OVERLAY = "overlay: "
"""How a source begins that an entry of the user's overlay names; figures have it apart."""


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the data files `files` of a package; no two lines have the same `key` columns.

    Each triple of `ranges` are columns that rise where they are known.
    """

    files: ClassVar[tuple[str, ...]]
    package: ClassVar[str] = "gramwatt.sci.catalog"
    key: ClassVar[tuple[str, ...]] = ("id",)
    ranges: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a range whose ends do not hold its value."""
        for names in self.ranges:
            check_rising({name: getattr(self, name) for name in names})


class OwnRow(Row, frozen=True, kw_only=True):
    """A row that the user's overlay may add or change; `overlay` is the source that it names."""

    overlay: str | None = None

    @property
    def own_sources(self) -> tuple[str, ...]:
        """Return what a figure of it names as a source of its own; nothing of a packaged row."""
        return (f"{OVERLAY}{self.overlay}",) if self.overlay else ()


R = TypeVar("R", bound=Row)


def column(text: str, ref: str | None = None) -> Meta:
    """Describe a column: what it is, and the file and column that have its values."""
    return Meta(description=text, extra={"ref": ref})


def between(low: float, high: float, unit: str = "") -> Meta:
    """Describe a number from `low` to `high` in a unit."""
    title = f"a number from {low:g} to {high:g} {unit}".rstrip()
    return Meta(title=title, ge=low, le=high)


Id = Annotated[str, Meta(title="an id (a-z 0-9 . _ -)", pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Cell = Annotated[str, Meta(title="a text", min_length=1)]
Year = Annotated[int, between(2000, 2030)]
SOURCE = "sources.csv:key"
Source = Annotated[Id, column("Source key", SOURCE)]
Sources = Annotated[tuple[Id, ...], column("Source keys", SOURCE)]


def check_rising(figures: Mapping[str, float | None]) -> None:
    """Raise ValueError for figures that do not rise in their order; None is not known."""
    ends = [figure for figure in figures.values() if figure is not None]
    if ends != sorted(ends):
        *names, last = figures
        raise ValueError(f"{', '.join(names)} and {last} must rise in that order")


def data_text(name: str, package: str = Row.package) -> str:
    """Return the text of a file in a package's data folder, such as 'odbl/zones.csv'."""
    # Not importlib.resources: with its archives it takes 2 MB, and this is read in every meter.
    (folder,) = import_module(package).__path__
    return Path(folder, "data", name).read_text(encoding="utf-8")


def read_rows(kind: type[R], text: str, name: str = "") -> Iterator[R]:
    """Yield the rows of a CSV text whose first line names the columns; `name` is its file's.

    Raises ValueError with file, line and column for a cell that its column cannot have.
    """
    reader = csv.reader(text.splitlines())
    header = next(reader)
    splits = {column: split for column, of in types_of(kind).items() if (split := _split(of))}
    for line in reader:
        cells: dict[str, Any] = {
            column: splits[column](cell) if column in splits else cell
            for column, cell in zip(header, line, strict=True)
            if cell
        }
        try:
            yield convert(cells, kind, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(f"{name} line {reader.line_num}: {_why(kind, cells, error)}") from None


def rows(kind: type[R]) -> tuple[R, ...]:
    """Return the rows of all files of a class, read once per process."""
    return _rows(kind)


@cache
def _rows(kind: type[Any]) -> tuple[Any, ...]:
    texts = ((name, data_text(name, kind.package)) for name in kind.files)
    return tuple(row for name, text in texts for row in read_rows(kind, text, name))


def _split(of: Any) -> Any:
    """Return what reads a cell of several items as data, None for a cell of one."""
    if get_origin(of) is tuple:
        return lambda cell: cell.split(LIST_SEPARATOR)
    if get_origin(of) is dict:
        return lambda cell: dict(item.split("=", 1) for item in cell.split(LIST_SEPARATOR))
    return next(filter(None, map(_split, get_args(of))), None)


def _why(kind: type[R], cells: Mapping[str, Any], error: Exception) -> str:
    try:
        parse(kind, cells, strict=False)
    except InputError as wrong:
        return wrong.problems[0].sentence
    except ValueError as wrong:
        return str(wrong)
    return str(error)


class Column(NamedTuple):
    """A column for people: its name, what it is and may hold, and where its values stand."""

    name: str
    text: str
    cells: str
    ref: str | None


def columns(kind: type[Row]) -> Iterator[Column]:
    """Yield the columns of a class, in the order of its files: the fields with a description."""
    for name, of in types_of(kind).items():
        metas = [meta for meta in _metas(of) if meta.description]
        if not metas:
            continue
        ref = next((meta.extra["ref"] for meta in metas if meta.extra), None)
        yield Column(name, metas[0].description or "", meaning(of), ref)


def _metas(of: Any) -> Iterator[Meta]:
    """Yield what describes a type, the outermost first."""
    yield from reversed(getattr(of, "__metadata__", ()))
    for part in get_args(of):
        yield from _metas(part)

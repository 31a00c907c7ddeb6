"""A month as tables of numbers: its sums, projects, owners, jobs, days, factors and sources.

Energy is in kWh and carbon in kg; a heading has the unit of its column. An unknown figure is an
empty cell, never 0. The same tables are an Excel file with a sheet each, and a zip of CSV files.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from gramwatt.reports.delimited import delimited
from gramwatt.reports.model import Pair
from gramwatt.reports.month_sections import CHARGES, DAYS, PROJECTS, pending_jobs
from gramwatt.reports.sections import Amount, Field, Value, keys_of
from gramwatt.sci.figures.formatting import minute_text
from gramwatt.sci.figures.printable import clean
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import kg_from_g
from gramwatt.sci.month.documents import FactorRow, MonthDoc
from gramwatt.sci.month.revised import JobRow

Row = TypeVar("Row")
Plain = str | float | None
"""What a cell holds."""

SHORT = "[>=100]#,##0;[>=1]0.00;General"
"""How a spreadsheet shows a fraction; the cell holds all its digits."""
MAX_ROWS = 1_048_575
"""Rows of a sheet below its headings; a longer table goes on in another sheet."""
WIDTH = 14
"""Width of a column [characters]; the first, which has names, is twice as wide."""
MADE = datetime(1980, 1, 1, tzinfo=UTC)
"""When every file in a zip was made, so that the same month gives the same bytes."""


class _Outside(NamedTuple):
    """A job of the month that no sum holds, and why."""

    job_id: str
    project: str
    why: str
    reason: str | None = None
    energy_kwh: Quantity | None = None
    total_g: Quantity | None = None


class _Figure(NamedTuple):
    """A field of the month, as a row."""

    title: str
    cells: tuple[Plain, ...]
    unit: str | None


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of numbers: its name, its headings, and its rows, which are made as they are read."""

    name: str
    titles: tuple[str, ...]
    rows: Callable[[], Iterator[tuple[Plain, ...]]]


MONTH: tuple[Field[MonthDoc], ...] = (
    Field("Month", lambda month: month.month),
    Field("Project", lambda month: month.project or "all projects"),
    Field("Revision", lambda month: month.revision),
    Field("Issued", lambda month: month.issued_at),
    Field("Complete", lambda month: "yes" if month.complete else "no"),
    Field("Jobs", lambda month: month.totals.jobs),
    Field("Jobs with an unknown term", lambda month: month.totals.jobs_unknown),
    Field("Jobs running", lambda month: month.jobs_running.jobs),
    Field("Jobs not scored", lambda month: month.jobs_unscored.jobs),
    Field("Jobs left out", lambda month: len(month.excluded)),
    Field("Jobs deleted", lambda month: len(month.deletions)),
    Field("Energy", lambda month: month.totals.energy_kwh, unit="kWh"),
    Field("Operational", lambda month: month.totals.operational_g, unit="kg CO2e"),
    Field("Embodied", lambda month: month.totals.embodied_g, unit="kg CO2e"),
    Field("Carbon", lambda month: month.totals.total_g, unit="kg CO2e"),
)
FIGURES: tuple[Field[_Figure], ...] = (
    Field("Figure", lambda row: row.title),
    Field("Value", lambda row: row.cells[0]),
    Field("Low", lambda row: row.cells[1]),
    Field("High", lambda row: row.cells[2]),
    Field("Unit", lambda row: row.unit),
    Field("Kind", lambda row: row.cells[3]),
)
"""The sheet of the month has a row for each field of `MONTH`, so that it is read from the top."""
JOBS: tuple[Field[JobRow], ...] = (
    Field("Job", lambda row: row.job_id),
    Field("Name", lambda row: row.name),
    Field("Project", lambda row: row.project),
    Field("Kind", lambda row: row.kind),
    Field("Started, UTC", lambda row: row.started_at and minute_text(row.started_at)),
    Field("Revision of its score", lambda row: row.revision),
    Field("Energy, kWh", lambda row: row.energy_kwh),
    Field("Operational, kg CO2e", lambda row: _kg(row.operational_g)),
    Field("Embodied, kg CO2e", lambda row: _kg(row.embodied_g)),
    Field("Carbon, kg CO2e", lambda row: _kg(_both(row.operational_g, row.embodied_g))),
)
OUTSIDE: tuple[Field[_Outside], ...] = (
    Field("Job", lambda row: row.job_id),
    Field("Project", lambda row: row.project),
    Field("Why", lambda row: row.why),
    Field("Reason", lambda row: row.reason),
    Field("Energy so far", lambda row: row.energy_kwh, unit="kWh"),
    Field("Carbon", lambda row: row.total_g, unit="kg CO2e"),
)
FACTORS: tuple[Field[FactorRow], ...] = (
    Field("Zone", lambda row: row.zone),
    Field("Jobs", lambda row: row.jobs),
    Field("Energy", lambda row: row.energy_kwh, unit="kWh"),
    Field("PUE", lambda row: row.pue, unit="ratio"),
    Field("Factor", lambda row: row.factor_g_per_kwh, unit="kg CO2e per kWh"),
    Field("Operational", lambda row: row.operational_g, unit="kg CO2e"),
    Field("Known by", lambda row: row.quality),
    Field("Source", lambda row: row.source),
    Field("Publisher", lambda row: row.publisher),
    Field("Edition", lambda row: row.edition),
    Field("Licence", lambda row: row.licence),
    Field("Link", lambda row: row.link),
    Field("SHA-256 of imported files", lambda row: " ".join(file.sha256 for file in row.files)),
)
SOURCES: tuple[Field[tuple[str, ...]], ...] = (
    Field("Source", lambda row: row[0]),
    Field("Key", lambda row: row[1]),
    Field("Title", lambda row: row[2]),
    Field("Licence", lambda row: row[3]),
    Field("Link", lambda row: row[4]),
)
SHEETS: Mapping[str, Sequence[Field[Any]]] = {
    "month": FIGURES,
    "projects": PROJECTS,
    "owners": CHARGES,
    "jobs": JOBS,
    "outside": OUTSIDE,
    "days": DAYS,
    "factors": FACTORS,
    "sources": SOURCES,
}
"""The fields of every table of a month, by its name."""


def month_tables(document: MonthDoc, jobs: Sequence[JobRow]) -> list[Sheet]:
    """Return the tables of a month; `jobs` are those in its sums."""
    unnamed = [("",) * 4]
    sources = [
        (source, *key) for source in document.sources for key in keys_of([source]) or unnamed
    ]
    rows: Mapping[str, Iterable[Any]] = {
        "month": _figures(document),
        "projects": document.projects,
        "owners": document.chargeback,
        "jobs": jobs,
        "outside": _outside(document),
        "days": document.days,
        "factors": document.factors,
        "sources": sources,
    }
    return [_sheet(name, rows[name], fields) for name, fields in SHEETS.items()]


def _figures(document: MonthDoc) -> list[_Figure]:
    """Return the fields of the month as rows; of a count or a text there is the value alone."""
    rows = []
    for field in MONTH:
        cells = _cells(field, field.value(document))
        rows.append(_Figure(field.title, (*cells, None, None, None)[:4], field.unit or None))
    return rows


def _outside(document: MonthDoc) -> list[_Outside]:
    """Return the jobs that no sum holds; of running and unscored ones those that are named."""
    return [
        *(
            _Outside(row.job_id, row.project, why, energy_kwh=row.energy_kwh)
            for why, row in pending_jobs(document)
        ),
        *(_Outside(row.job_id, row.project, "left out", row.reason) for row in document.excluded),
        *(
            _Outside(row.job_id, row.project, "deleted", row.reason, total_g=row.total_g)
            for row in document.deletions
        ),
    ]


def as_zip(sheets: Iterable[Sheet]) -> bytes:
    """Return the tables as a zip of CSV files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for sheet in sheets:
            info = zipfile.ZipInfo(f"{sheet.name}.csv", MADE.timetuple()[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, delimited(sheet.titles, sheet.rows()).encode())
    return content.getvalue()


def as_xlsx(sheets: Iterable[Sheet]) -> bytes:
    """Return the tables as sheets of an Excel file, in which no text is run as a formula."""
    import xlsxwriter

    content = io.BytesIO()
    with xlsxwriter.Workbook(content, {"constant_memory": True}) as book:
        book.set_properties({"author": "gramwatt", "created": MADE})
        short = book.add_format({"num_format": SHORT})
        bold = book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
        for sheet in sheets:
            rows, part = sheet.rows(), 1
            chunk = list(islice(rows, MAX_ROWS))
            while chunk or part == 1:
                page = book.add_worksheet(sheet.name if part == 1 else f"{sheet.name} {part}")
                page.freeze_panes(1, 1)
                page.set_column(0, 0, 2 * WIDTH)
                page.set_column(1, len(sheet.titles) - 1, WIDTH)
                for n, row in enumerate([sheet.titles, *chunk]):
                    for column, value in enumerate(row):
                        if isinstance(value, str):
                            page.write_string(n, column, clean(value), None if n else bold)
                        elif value is not None:
                            page.write_number(
                                n, column, value, None if float(value).is_integer() else short
                            )
                chunk, part = list(islice(rows, MAX_ROWS)), part + 1
    return content.getvalue()


def _sheet(name: str, rows: Iterable[Row], fields: Sequence[Field[Row]]) -> Sheet:
    return Sheet(
        name,
        titles_of(fields),
        lambda: (
            tuple(cell for field in fields for cell in _cells(field, field.value(row)))
            for row in rows
        ),
    )


def titles_of(fields: Sequence[Field[Row]]) -> tuple[str, ...]:
    """Return the headings of a table."""
    return tuple(title for field in fields for title in _titles(field))


def _titles(field: Field[Row]) -> tuple[str, ...]:
    """Return the headings of a field: four of a figure, two of a cell with a second line."""
    title, unit = field.title, field.unit
    if unit:
        return f"{title}, {unit}", f"{title} low, {unit}", f"{title} high, {unit}", f"{title} kind"
    return (title, field.below) if field.below else (title,)


def _cells(field: Field[Row], value: Value) -> tuple[Plain, ...]:
    match value:
        case None:
            return (None,) * len(_titles(field))
        case Amount(number, unit):
            return number, unit
        case Pair(text, below):
            return text, below
        case str() | int() | float():
            return (value,)
        case _:
            ends = value.value, value.low, value.high
            in_kg = field.unit.startswith("kg")
            return *(kg_from_g(end) if in_kg else end for end in ends), value.kind


def _both(operational_g: float | None, embodied_g: float | None) -> float | None:
    if operational_g is None or embodied_g is None:
        return None
    return operational_g + embodied_g


def _kg(grams: float | None) -> float | None:
    return None if grams is None else kg_from_g(grams)

"""Import of intensity: a CSV file of the user's or of a publisher, or points sent.

A file with the columns start_utc and g_per_kwh has every step once, in order; a step whose value is
not known is left empty. Publishers' files are recognised by their header (`publishers`).
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.sci.grid.plausible import LARGEST, remark, wrong_unit
from gramwatt.service.common.requests import TableError, open_table
from gramwatt.service.config import PROVIDERS
from gramwatt.service.container import Service
from gramwatt.service.intensity.points import IMPORTED, SeriesName, keep
from gramwatt.service.intensity.publishers import (
    FORMATS,
    Format,
    IntensityFileError,
    Point,
    Question,
    Span,
    column_name,
    format_of,
    in_order,
    lines,
    spans,
)
from gramwatt.service.providers.base import SCORED
from gramwatt.service.store.columns import upsert
from gramwatt.service.store.intensity import IntensityFile
from gramwatt.service.store.people import alias_of

COLUMNS = ["start_utc", "g_per_kwh"]
YEARS = range(2000, 2200)


class Row(NamedTuple):
    """A step as it was given, and where; `end` is empty where the step before says its length."""

    where: str
    start: str
    end: str
    figure: str


class Origin(NamedTuple):
    """Who published the values of a file, under which licence, and where; None where not said."""

    publisher: str | None = None
    licence: str | None = None
    link: str | None = None


class IntensityAdded(Struct):
    """What an import did: its points and their span, and how many days were new.

    `steps_minutes` are the lengths of its steps, in their order; `low`, `mean` and `high` those of
    its values [gCO2e/kWh]. `used` is false for a signal and basis that no score or plan uses.
    `notices` say what is unlikely and counts as given.
    """

    zone: str
    points: int
    unknown: int
    start: str
    end: str
    steps_minutes: list[int]
    low_g_per_kwh: float | None
    mean_g_per_kwh: float | None
    high_g_per_kwh: float | None
    days: int
    days_new: int
    used: bool
    notices: list[Notice]


class IntensityImport(IntensityAdded):
    """The same of a file; `sha256` is its digest, by which reports of months name it.

    `format` is the publisher's by which it was read, null for the user's own.
    """

    sha256: str
    format: str | None


def import_csv(
    service: Service,
    file: Path,
    zone: str,
    basis: Basis,
    signal: Signal,
    progress: Callable[[int], None] = lambda _bytes: None,
    origin: Origin | None = None,
) -> IntensityImport:
    """Store a file's points; importing it again changes nothing. `progress` is told bytes read.

    The file's digest stays on record, with its origin, the caller and when.

    Raises IntensityFileError, LookupFailed for an unknown zone, or OSError. Nothing is stored then.
    """
    key = service.catalog.zone(zone).zone
    stretches, layout = _read(file, key, basis, progress)
    derived = layout is not None and layout.derived and basis == "lifecycle"
    series = SeriesName(key, signal, basis, IMPORTED, "production" if derived else "")
    added = _kept(service, series, stretches)
    stated = origin or Origin()
    if layout is not None:
        stated = Origin(
            stated.publisher or layout.publisher, stated.licence or layout.licence, stated.link
        )
        notes = [Notice("intensity-reused", layout.note, "g_per_kwh")] if layout.note else []
        added.notices += notes
    row = {"zone": key, "signal": signal, "basis": basis, **stated._asdict()}
    last = stretches[-1].end - timedelta(seconds=1)
    row |= {"first_day": stretches[0].start.toordinal(), "last_day": last.toordinal()}
    digest = _note(service, file, row)
    return IntensityImport(**asdict(added), sha256=digest, format=layout.name if layout else None)


def import_points(
    service: Service, zone: str, source: str, basis: Basis, signal: Signal, rows: Iterable[Row]
) -> IntensityAdded:
    """Store points of a source as `import_csv` does those of a file: all or none.

    Raises IntensityFileError, also for the name of a provider that is asked, or LookupFailed.
    """
    if source in PROVIDERS:
        raise IntensityFileError(f"{source!r} is a provider of ours; name the source otherwise")
    key = service.catalog.zone(zone).zone
    return _kept(service, SeriesName(key, signal, basis, source), _sent(list(rows)))


def _kept(service: Service, series: SeriesName, stretches: Sequence[Span]) -> IntensityAdded:
    values = [value for span in stretches for value in span.values]
    numbers = [value for value in values if not math.isnan(value)]
    if text := wrong_unit(numbers, series.basis):
        raise IntensityFileError(text)
    annual = service.catalog.zone(series.zone)
    year = None if annual.world_fallback else annual.intensity.value
    notices = remark(values, "g_per_kwh", series.basis, year)
    steps = [round(span.step.total_seconds()) for span in stretches]
    new = sum(
        keep(service, series, step_s, "hourly", span.start, span.values)
        for step_s, span in zip(steps, stretches, strict=True)
    )
    start, end = stretches[0].start, stretches[-1].end
    return IntensityAdded(
        zone=series.zone,
        points=len(values),
        unknown=len(values) - len(numbers),
        start=f"{start:%Y-%m-%dT%H:%M:%SZ}",
        end=f"{end:%Y-%m-%dT%H:%M:%SZ}",
        steps_minutes=[step_s // 60 for step_s in steps],
        low_g_per_kwh=min(numbers, default=None),
        mean_g_per_kwh=fmean(numbers) if numbers else None,
        high_g_per_kwh=max(numbers, default=None),
        days=(end - timedelta(seconds=1)).toordinal() - start.toordinal() + 1,
        days_new=new,
        used=(series.signal, series.basis) == SCORED,
        notices=list(notices),
    )


def _note(service: Service, file: Path, row: Mapping[str, Any]) -> str:
    """Keep which file was imported, once; its SHA-256."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    about = {"sha256": digest, "name": file.name[:512], "imported_us": service.now_us()}
    with service.store.write() as session:
        who = {"imported_by": alias_of(session, service.caller.name)}
        upsert(session, IntensityFile, [{**row, **about, **who}])
    return digest


def _read(
    file: Path, zone: str, basis: Basis, progress: Callable[[int], None]
) -> tuple[list[Span], Format | None]:
    """Return what a file has, and the publisher's format that it is in."""
    try:
        with open_table(file) as table:
            reader = csv.reader(table.lines, delimiter=table.delimiter)
            rows = _told(reader, lambda: progress(table.raw.tell()))
            header = next(rows, [])
            if [column_name(name) for name in header] == COLUMNS:
                return spans([_point(row) for row in _own(rows)]), None
            layout = format_of(header)
            if layout is None:
                publishers = ", ".join(dict.fromkeys(each.publisher for each in FORMATS))
                raise IntensityFileError(
                    f"line 1: the columns are {','.join(COLUMNS)}, in this order, or those of a "
                    f"file of {publishers}"
                )
            decimal = "," if table.delimiter == ";" else "."
            points = layout.read(lines(header, rows), Question(zone, basis, decimal))
            for point in points:
                _bounded(point.where, f"{point.value:g}", point.value)
            return spans(in_order(points), gaps=True), layout
    except UnicodeDecodeError:
        raise IntensityFileError("not a text file in UTF-8") from None
    except TableError as error:
        raise IntensityFileError(f"line 1: {error}") from None
    except csv.Error as error:
        raise IntensityFileError(f"not a CSV file: {error}") from None


def _told(reader: Iterator[list[str]], progress: Callable[[], None]) -> Iterator[list[str]]:
    for number, row in enumerate(reader):
        if number % 10_000 == 0:
            progress()
        yield row


def _own(rows: Iterator[list[str]]) -> Iterator[Row]:
    """Yield the rows of a file of the user's own; empty lines are left out."""
    for number, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(COLUMNS):
            raise IntensityFileError(f"line {number}: {len(row)} columns instead of 2")
        yield Row(f"line {number}", row[0], "", row[1])


def _sent(rows: Sequence[Row]) -> list[Span]:
    """Return points that were sent, each of which ends where its step does."""
    if not rows:
        raise IntensityFileError("no points were sent")
    points = [_point(row) for row in rows]
    first = rows[0]
    sent = spans(points, _start(first.where, first.end) - points[0].start if first.end else None)
    ends = [
        span.start + span.step * (number + 1) for span in sent for number in range(len(span.values))
    ]
    for row, point in zip(rows, points, strict=True):
        due = next((end for end in ends if end > point.start), None)
        if row.end and due != _start(row.where, row.end):
            length = "its step" if due is None else f"{due - point.start}"
            text = f"ends at {row.end}, not {length} after its start"
            raise IntensityFileError(f"{row.where}: {text}")
    return sent


def _point(row: Row) -> Point:
    return Point(row.where, _start(row.where, row.start), _value(row.where, row.figure))


def _start(where: str, text: str) -> datetime:
    """Return a time in UTC: by its offset; the columns of the file say UTC where it has none."""
    try:
        start = datetime.fromisoformat(text.strip())
    except ValueError:
        start = None
    if start is None or start.year not in YEARS:
        raise IntensityFileError(
            f"{where}: {text[:40]!r} is not a time such as 2026-05-01T08:00Z or "
            "2026-05-01T10:00+02:00"
        )
    return (start if start.tzinfo else start.replace(tzinfo=UTC)).astimezone(UTC)


def _value(where: str, text: str) -> float:
    if not text.strip():
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if math.isnan(value):
        value = math.inf  # the word: an empty cell is what is not known
    return _bounded(where, text, value)


def _bounded(where: str, text: str, value: float) -> float:
    if not (math.isnan(value) or 0 <= value <= LARGEST):
        raise IntensityFileError(
            f"{where}: {text[:40]!r} is not an intensity from 0 to {LARGEST:g} gCO2e/kWh"
        )
    return value

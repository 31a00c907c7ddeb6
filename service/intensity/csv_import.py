"""Import of intensity: a CSV file with the columns start_utc and g_per_kwh, or points sent.

Every start is one step after the one before: local time, in which an hour is missing or comes twice
a year, is refused by the line where it happens. A step whose value is not known is left empty.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.sci.grid.plausible import LARGEST, remark, wrong_unit
from gramwatt.service.common.tables import TableError, open_table
from gramwatt.service.config import PROVIDERS
from gramwatt.service.container import Service
from gramwatt.service.intensity.points import DAY_S, SeriesName, keep
from gramwatt.service.providers.base import SCORED
from gramwatt.service.store.intensity import IntensityFile
from gramwatt.service.store.people import alias_of
from gramwatt.service.store.upserts import upsert

COLUMNS = ["start_utc", "g_per_kwh"]
STEPS_S = range(300, 3601, 300)
"""From 5 to 60 minutes; those that do not divide a day are refused."""
IMPORTED = "imported"
YEARS = range(2000, 2200)


class IntensityFileError(ValueError):
    """What cannot be imported; the message names the line or point and what to change."""


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

    `used` is false for a signal and basis that no score or plan uses. `notices` say what is
    unlikely and counts as given.
    """

    zone: str
    points: int
    unknown: int
    start: str
    end: str
    step_minutes: int
    days: int
    days_new: int
    used: bool
    notices: list[Notice]


class IntensityImport(IntensityAdded):
    """The same of a file; `sha256` is its digest, by which reports of months name it."""

    sha256: str


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
    start, step, values = _read(file, progress)
    added = _kept(service, SeriesName(key, signal, basis, IMPORTED), start, step, values)
    row = {"zone": key, "signal": signal, "basis": basis, **(origin or Origin())._asdict()}
    last = start + step * len(values) - timedelta(seconds=1)
    row |= {"first_day": start.toordinal(), "last_day": last.toordinal()}
    digest = _note(service, file, row)
    return IntensityImport(**asdict(added), sha256=digest)


def import_points(
    service: Service, zone: str, source: str, basis: Basis, signal: Signal, rows: Iterable[Row]
) -> IntensityAdded:
    """Store points of a source as `import_csv` does those of a file: all or none.

    Raises IntensityFileError, also for the name of a provider that is asked, or LookupFailed.
    """
    if source in PROVIDERS:
        raise IntensityFileError(f"{source!r} is a provider of ours; name the source otherwise")
    key = service.catalog.zone(zone).zone
    return _kept(service, SeriesName(key, signal, basis, source), *_checked(rows))


def _kept(
    service: Service, series: SeriesName, start: datetime, step: timedelta, values: list[float]
) -> IntensityAdded:
    if text := wrong_unit(values, series.basis):
        raise IntensityFileError(text)
    annual = service.catalog.zone(series.zone).intensity.value
    notices = remark(values, "g_per_kwh", series.basis, annual)
    seconds = round(step.total_seconds())
    new = keep(service, series, seconds, "hourly", start, values)
    end = start + step * len(values)
    return IntensityAdded(
        zone=series.zone,
        points=len(values),
        unknown=sum(map(math.isnan, values)),
        start=f"{start:%Y-%m-%dT%H:%M:%SZ}",
        end=f"{end:%Y-%m-%dT%H:%M:%SZ}",
        step_minutes=seconds // 60,
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


def _read(file: Path, progress: Callable[[int], None]) -> tuple[datetime, timedelta, list[float]]:
    try:
        with open_table(file) as table:
            rows = _rows(csv.reader(table.lines, delimiter=table.delimiter))
            return _checked(rows, lambda: progress(table.raw.tell()))
    except UnicodeDecodeError:
        raise IntensityFileError("not a text file in UTF-8") from None
    except TableError as error:
        raise IntensityFileError(f"line 1: {error}") from None
    except csv.Error as error:
        raise IntensityFileError(f"not a CSV file: {error}") from None


def _rows(reader: Iterator[list[str]]) -> Iterator[Row]:
    """Yield the rows of a file; empty lines are left out."""
    header = next(reader, [])
    if [name.strip() for name in header] != COLUMNS:
        raise IntensityFileError(f"line 1: the columns are {','.join(COLUMNS)}, in this order")
    for number, row in enumerate(reader, start=2):
        if not row:
            continue
        if len(row) != len(COLUMNS):
            raise IntensityFileError(f"line {number}: {len(row)} columns instead of 2")
        yield Row(f"line {number}", row[0], "", row[1])


def _checked(
    rows: Iterable[Row], progress: Callable[[], None] = lambda: None
) -> tuple[datetime, timedelta, list[float]]:
    """Return the first start, the length of a step and the values of rows without a gap."""
    values: list[float] = []
    first = due = datetime.min.replace(tzinfo=UTC)
    step = timedelta(0)
    begins = ""
    for where, text, end, figure in rows:
        start = _start(where, text)
        if not values:
            first, begins = start, where
        if not step and (values or end):
            length = _start(where, end) - start if end else start - first
            step = _step(where, length, first, begins)
            due = first + step * len(values)
        if values and start != due:
            raise IntensityFileError(
                f"{where}: starts at {text}, and {due:%Y-%m-%dT%H:%M:%SZ} is due: write "
                "every step once, in UTC, and leave g_per_kwh empty where it is not known"
            )
        due = start + step
        if end and _start(where, end) != due:
            raise IntensityFileError(f"{where}: ends at {end}, not {step} after its start")
        values.append(_value(where, figure))
        if len(values) % 10_000 == 0:
            progress()
    if not step:
        raise IntensityFileError("fewer than two rows: the length of a step cannot be known")
    return first, step, values


def _start(where: str, text: str) -> datetime:
    try:
        start = datetime.fromisoformat(text.strip())
    except ValueError:
        start = None
    if start is None or start.utcoffset() != timedelta(0) or start.year not in YEARS:
        raise IntensityFileError(
            f"{where}: {text[:40]!r} is not a time in UTC such as 2026-05-01T08:00Z"
        )
    return start.astimezone(UTC)


def _step(where: str, step: timedelta, first: datetime, begins: str) -> timedelta:
    seconds = step.total_seconds()
    if seconds not in STEPS_S or DAY_S % seconds:
        raise IntensityFileError(
            f"{where}: a step of {seconds / 60:g} minutes; 5, 10, 15, 20, 30 and 60 are known"
        )
    if (first - first.replace(hour=0, minute=0, second=0, microsecond=0)) % step:
        raise IntensityFileError(
            f"{begins}: {first:%H:%M:%S} is no whole number of steps after midnight UTC"
        )
    return step


def _value(where: str, text: str) -> float:
    if not text.strip():
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LARGEST:
        raise IntensityFileError(
            f"{where}: {text[:40]!r} is not an intensity from 0 to {LARGEST:g} gCO2e/kWh"
        )
    return value

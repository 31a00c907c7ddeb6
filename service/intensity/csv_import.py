"""Import of intensity from a CSV file with the columns start_utc and g_per_kwh.

Every start is one step after the one before: local time, in which an hour is missing or comes twice
a year, is refused by the line where it happens. A step whose value is not known is left empty.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from pathlib import Path
from typing import TypedDict

from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.service.container import Service
from gramwatt.service.intensity.points import DAY_S, SeriesName, keep
from gramwatt.service.providers.base import SCORED

COLUMNS = ["start_utc", "g_per_kwh"]
STEPS_S = range(300, 3601, 300)
"""From 5 to 60 minutes; those that do not divide a day are refused."""
LARGEST = 5000.0
"""Above what any grid emits, and far below a value in the wrong unit [gCO2e/kWh]."""
IMPORTED = "imported"


class IntensityFileError(ValueError):
    """A file that cannot be imported; the message names the line and what to change."""


class IntensityImport(TypedDict):
    """What an import did: the points of the file and their span, and how many days were new.

    `used` is false for a signal and basis that no score or plan uses.
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


def import_csv(
    service: Service,
    file: Path,
    zone: str,
    basis: Basis,
    signal: Signal,
    progress: Callable[[int], None] = lambda _bytes: None,
) -> IntensityImport:
    """Store a file's points; importing it again changes nothing. `progress` is told bytes read.

    Raises IntensityFileError, LookupFailed for an unknown zone, or OSError. Nothing is stored then.
    """
    key = service.catalog.zone(zone).zone
    start, step, values = _read(file, progress)
    series = SeriesName(key, signal, basis, IMPORTED)
    seconds = round(step.total_seconds())
    new = keep(service, series, seconds, "hourly", start, values)
    end = start + step * len(values)
    return {
        "zone": key,
        "points": len(values),
        "unknown": sum(map(math.isnan, values)),
        "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{end:%Y-%m-%dT%H:%M:%SZ}",
        "step_minutes": seconds // 60,
        "days": (end - timedelta(seconds=1)).toordinal() - start.toordinal() + 1,
        "days_new": new,
        "used": (signal, basis) == SCORED,
    }


def _read(file: Path, progress: Callable[[int], None]) -> tuple[datetime, timedelta, list[float]]:
    with file.open("rb") as raw, TextIOWrapper(raw, "utf-8-sig", newline="") as lines:
        try:
            return _checked(_rows(csv.reader(lines)), lambda: progress(raw.tell()))
        except UnicodeDecodeError:
            raise IntensityFileError("not a text file in UTF-8") from None
        except csv.Error as error:
            raise IntensityFileError(f"not a CSV file: {error}") from None


def _rows(reader: Iterator[list[str]]) -> Iterator[tuple[int, str, str]]:
    """Line, start and value of each row; empty lines are left out."""
    header = next(reader, [])
    if [name.strip() for name in header] != COLUMNS:
        raise IntensityFileError(f"line 1: the columns are {','.join(COLUMNS)}, in this order")
    for number, row in enumerate(reader, start=2):
        if not row:
            continue
        if len(row) != len(COLUMNS):
            raise IntensityFileError(f"line {number}: {len(row)} columns instead of 2")
        yield number, row[0], row[1]


def _checked(
    rows: Iterator[tuple[int, str, str]], progress: Callable[[], None]
) -> tuple[datetime, timedelta, list[float]]:
    values: list[float] = []
    first = due = datetime.min.replace(tzinfo=UTC)
    step = timedelta(0)
    for number, text, figure in rows:
        start = _start(number, text)
        if len(values) == 1:
            step = _step(number, start - first, first)
            due = first + step
        if values and start != due:
            raise IntensityFileError(
                f"line {number}: starts at {text}, and {due:%Y-%m-%dT%H:%M:%SZ} is due: write "
                "every step once, in UTC, and leave g_per_kwh empty where it is not known"
            )
        first = first if values else start
        values.append(_value(number, figure))
        due = start + step
        if number % 10_000 == 0:
            progress()
    if len(values) < 2:
        raise IntensityFileError("fewer than two rows: the length of a step cannot be known")
    return first, step, values


def _start(number: int, text: str) -> datetime:
    try:
        start = datetime.fromisoformat(text.strip())
    except ValueError:
        start = None
    if start is None or start.utcoffset() != timedelta(0):
        raise IntensityFileError(
            f"line {number}: {text[:40]!r} is not a time in UTC such as 2026-05-01T08:00Z"
        )
    return start.astimezone(UTC)


def _step(number: int, step: timedelta, first: datetime) -> timedelta:
    seconds = step.total_seconds()
    if seconds not in STEPS_S or DAY_S % seconds:
        raise IntensityFileError(
            f"line {number}: a step of {seconds / 60:g} minutes; 5, 10, 15, 20, 30 and 60 are known"
        )
    if (first - first.replace(hour=0, minute=0, second=0, microsecond=0)) % step:
        raise IntensityFileError(
            f"line 2: {first:%H:%M:%S} is no whole number of steps after midnight UTC"
        )
    return step


def _value(number: int, text: str) -> float:
    if not text.strip():
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LARGEST:
        raise IntensityFileError(
            f"line {number}: {text[:40]!r} is not an intensity from 0 to {LARGEST:g} gCO2e/kWh"
        )
    return value

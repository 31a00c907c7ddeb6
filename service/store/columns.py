"""Stored texts and times: documents as JSON, and whole microseconds since 1970-01-01 UTC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import asdict, replace
from sqlalchemy.orm import DeclarativeBase, Session

from gramwatt.sci.figures.document import IntensityUsedDoc, JobDoc, JobHead, SeriesPoint, StepsDoc
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.structs import decode
from gramwatt.sci.records.records import format_time

if TYPE_CHECKING:
    from gramwatt.sci.month.documents import MonthDoc

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_us(when: datetime) -> int:
    """UTC time -> [us since 1970]; raises ValueError for a time without a zone."""
    if when.tzinfo is None:
        raise ValueError(f"a time without a zone has no meaning: {when}")
    return (when - _EPOCH) // _MICROSECOND


def span_us(span: timedelta) -> int:
    """Length of a span of time [us]."""
    return span // _MICROSECOND


def from_us(time_us: int) -> datetime:
    """Time [us since 1970] -> UTC time; exact, unlike a conversion through float seconds."""
    return _EPOCH + timedelta(microseconds=time_us)


def text_from_us(time_us: int) -> str:
    """Time [us since 1970] -> RFC 3339 text with Z, as records and answers write it."""
    return format_time(from_us(time_us))


class _OverTime(msgspec.Struct):
    """What is long in a job document and read only by the job's own report and exports."""

    series: list[SeriesPoint]
    steps: StepsDoc
    intensity: list[IntensityUsedDoc]


def to_text(document: object) -> str:
    """Return the document as compact JSON."""
    return msgspec.json.encode(document).decode()


def split_job(document: JobDoc) -> tuple[str, str]:
    """Return a job document as two texts: without what changes over time, and that part alone."""
    over_time = _OverTime(document.series, document.steps, document.intensity)
    nothing = _OverTime([], StepsDoc([], [], []), [])
    return to_text(replace(document, **asdict(nothing))), to_text(over_time)


def read_job(text: str, series: str | None = None) -> JobDoc:
    """Return the job document of two texts; empty over time without the second."""
    document = decode(text, JobDoc)
    if series is None:
        return document
    return replace(document, **asdict(decode(series, _OverTime)))


def as_stored(document: JobDoc) -> JobDoc:
    """Return a document as it is once it was stored."""
    return decode(msgspec.json.encode(document), JobDoc)


def head_text(document: JobDoc) -> str:
    """Return the fields of a job document that lists show, figures without their effects."""
    head = {name: getattr(document, name) for name in JobHead.__struct_fields__}
    for name, value in head.items():
        if isinstance(value, Quantity):
            head[name] = value.bare()
    return to_text(head)


def read_head(text: str) -> JobHead:
    """Return the head of a job as lists show it."""
    return decode(text, JobHead)


def read_month(text: str) -> MonthDoc:
    """Return the document of a month."""
    from gramwatt.sci.month.documents import MonthDoc  # plans and lists start without it

    return decode(text, MonthDoc)


def upsert(
    session: Session,
    model: type[DeclarativeBase] | sa.Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    newer: tuple[str, ...] = (),
    replace: bool = False,
) -> None:
    """Insert rows of the same columns; one whose key exists is skipped.

    With `newer`, the row that is greater in those columns, compared in order, stands instead; with
    `replace` the new one does. Rows go in the order of their keys, so that transactions that meet
    wait for each other, and do not block each other.
    """
    if not rows:
        return
    connection = session.connection()
    statement, keys = _statement(connection.dialect.name, model, tuple(rows[0]), newer, replace)
    if keys <= rows[0].keys():
        rows = sorted(rows, key=itemgetter(*sorted(keys)))
    connection.execute(statement, rows)


@lru_cache
def _statement(
    dialect: str,
    model: type[DeclarativeBase] | sa.Table,
    columns: tuple[str, ...],
    newer: tuple[str, ...],
    replace: bool,
) -> tuple[sa.Executable, frozenset[str]]:
    """Return the statement of an upsert, and the columns of the table's key."""
    table: Any = sa.inspect(model).selectable
    keys = frozenset(column.name for column in table.primary_key)
    statement = insert_of(dialect)(table)
    if not newer and not replace:
        return statement.on_conflict_do_nothing(), keys
    newest = None
    if newer:
        pairs = [_comparable(dialect, statement.excluded[name], table.c[name]) for name in newer]
        newest = sa.tuple_(*(new for new, _ in pairs)) > sa.tuple_(*(old for _, old in pairs))
    values = {name: statement.excluded[name] for name in columns if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=values, where=newest), keys


def insert_of(dialect: str) -> Callable[..., Any]:
    """Return the insert of a dialect, which can say what happens where the key exists."""
    # A command starts without the dialect of the other database.
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert
    from sqlalchemy.dialects import sqlite

    return sqlite.insert


def _comparable(dialect: str, *columns: sa.ColumnElement[Any]) -> list[sa.ColumnElement[Any]]:
    """Return the columns as both databases compare them: texts by code point."""
    if dialect == "postgresql" and isinstance(columns[0].type, sa.String):
        return [sa.collate(column, "C") for column in columns]
    return list(columns)

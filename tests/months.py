"""Months of job documents by the statements, on SQLite in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.month.columns import TABLES
from gramwatt.sci.month.document import Beside
from gramwatt.sci.month.document import month_document as document_of
from gramwatt.sci.month.documents import MonthAdvice, MonthDoc, SavingDoc
from gramwatt.sci.month.month import months_of, previous_month
from gramwatt.sci.month.rows import Row, rows_of
from gramwatt.sci.suggest.jobs import class_of, grouped
from gramwatt.service.months.sums import sum_month

TYPES = {"text": "TEXT", "int": "BIGINT", "float": "DOUBLE PRECISION"}
Advise = Callable[[Sequence[JobDoc]], list[SavingDoc]]


class Tables:
    """The rows of jobs in tables of a database of their own, as `Execute`."""

    def __init__(self, jobs: Iterable[JobDoc], url: str = "sqlite://") -> None:
        if url == "duckdb":
            import duckdb

            self._connection: Any = duckdb.connect()
        else:
            self._connection = sa.create_engine(url, poolclass=sa.NullPool).connect()
        for table, rows in _all_rows([rows_of(job, class_of(job)) for job in jobs]).items():
            columns = TABLES[table]
            described = (f"{name} {TYPES[kind.rstrip('?')]}" for name, kind in columns.items())
            self(f"CREATE TABLE {table} ({', '.join(described)})", {})
            marks = ", ".join(f":{name}" for name in columns)
            for row in rows:
                self(f"INSERT INTO {table} VALUES ({marks})", row)

    def __call__(self, statement: str, values: Mapping[str, Any]) -> Any:
        used = {name: _stored(value) for name, value in values.items() if f":{name}" in statement}
        if isinstance(self._connection, sa.Connection):
            return self._connection.execute(sa.text(statement), used)
        text = re.sub(r":(\w+)", r"$\1", statement)
        used = {name: value for name, value in used.items() if re.search(rf"\${name}\b", text)}
        return self._connection.execute(text, used).fetchall()

    def close(self) -> None:
        """Leave the database."""
        self._connection.close()


def _stored(value: Any) -> Any:
    """A value as databases take it: half a character is no text."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _all_rows(rows: Sequence[dict[str, list[Row]]]) -> dict[str, list[Row]]:
    """All rows by table; those of a method once."""
    found: dict[str, dict[Any, Row]] = {table: {} for table in TABLES}
    for of_job in rows:
        for table, new in of_job.items():
            shared = table.startswith("month_method")
            for row in new:
                found[table][str(row) if shared else len(found[table])] = row
    return {table: list(of_table.values()) for table, of_table in found.items()}


def month_document(
    month: str,
    jobs: Sequence[JobDoc],
    previous: Sequence[JobDoc] = (),
    *,
    project: str | None = None,
    ended: bool = False,
    advise: Advise | None = None,
    **beside: Any,
) -> MonthDoc:
    """The report of a month of these jobs; `advise` finds what would save most in them."""
    sums = sum_month(Tables(jobs), month, project)
    advice = None
    if advise is not None:
        members = [job for job in jobs if job.excluded is None and month in months_of(job)]
        savings = msgspec.convert(msgspec.to_builtins(advise(members)), list[SavingDoc])
        counts = {(row.hardware, row.work): row.jobs for row in sums.work}
        rows, examined = grouped(savings, {}, counts), len({s.job_id for s in savings})
        advice = MonthAdvice(rows, savings, examined, sums.factors)
    before = sum_month(Tables(previous), previous_month(month), project) if previous else None
    trend = {before.month: before} if before is not None else {}
    known = {"complete": ended, "open_months": [] if ended else [month], "advice": advice}
    return document_of(sums, before, trend, Beside(**{**known, **beside}))


def alike(one: Any, other: Any, where: str = "") -> None:
    """Fail unless two documents are the same but for rounding."""
    if isinstance(one, Struct):
        one, other = asdict(one), asdict(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for name in one:
            alike(one[name], other[name], f"{where}.{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for n, pair in enumerate(zip(one, other, strict=True)):
            alike(*pair, f"{where}[{n}]")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9), where
    else:
        assert one == other, where

"""Insert many rows, of which some may be there already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Session


def upsert(
    session: Session,
    model: type[DeclarativeBase],
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
    model: type[DeclarativeBase],
    columns: tuple[str, ...],
    newer: tuple[str, ...],
    replace: bool,
) -> tuple[sa.Executable, frozenset[str]]:
    """Return the statement of an upsert, and the columns of the table's key."""
    table: Any = sa.inspect(model).local_table
    keys = frozenset(column.name for column in table.primary_key)
    statement = _insert(dialect)(table)
    if not newer and not replace:
        return statement.on_conflict_do_nothing(), keys
    newest = None
    if newer:
        pairs = [_comparable(dialect, statement.excluded[name], table.c[name]) for name in newer]
        newest = sa.tuple_(*(new for new, _ in pairs)) > sa.tuple_(*(old for _, old in pairs))
    values = {name: statement.excluded[name] for name in columns if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=values, where=newest), keys


def _insert(dialect: str) -> Callable[..., Any]:
    # A command that only reads starts without the dialect of the other database.
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

"""The database behind one small object: engine, read and write sessions, upserts.

The same code runs on SQLite and PostgreSQL. A write on SQLite begins with BEGIN IMMEDIATE, so that
two writers wait for each other instead of failing when they upgrade a read lock.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Session

from gramwatt.service.store.filesystem import is_local

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

BUSY_TIMEOUT_S = 30.0
"""How long a statement waits for another writer before it fails [s]."""

_WRITE = "gramwatt_write"


class Store:
    """A database of jobs. Opening it connects lazily; `migrate.upgrade` brings the tables."""

    def __init__(self, url: str) -> None:
        self.url = parse_url(url)
        self.engine = _engine(self.url)

    @property
    def is_sqlite(self) -> bool:
        """Whether this is an SQLite file (one machine) rather than a server."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def path(self) -> Path | None:
        """The file of an SQLite store; None for a server."""
        return Path(self.url.database) if self.is_sqlite and self.url.database else None

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one consistent state and writes nothing."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session in one transaction: committed at the end, rolled back on an exception."""
        engine = self.engine.execution_options(**{_WRITE: True})
        with Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """A plain connection in one write transaction, with SQLite's foreign keys not enforced.

        SQLite changes a table by copying it and dropping the old one, and dropping an enforced
        parent would delete its children.
        """
        with self.engine.execution_options(**{_WRITE: True}).connect() as connection:
            if self.is_sqlite:
                _enforce_keys(connection, on=False)
            try:
                with connection.begin():
                    yield connection
            finally:
                if self.is_sqlite:
                    _enforce_keys(connection, on=True)

    def close(self) -> None:
        """Give every connection back."""
        self.engine.dispose()


def parse_url(text: str) -> URL:
    """The database address, with psycopg 3 as PostgreSQL's driver; raises ValueError else."""
    try:
        url = make_url(text)
    except sa.exc.ArgumentError:
        raise ValueError(
            "not a database address; write sqlite:////path/file.db or postgresql://user@host/name"
        ) from None
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ValueError(f"{url.get_backend_name()} is not supported; use SQLite or PostgreSQL")
    if url.get_backend_name() == "sqlite" and not url.database:
        raise ValueError("an SQLite store needs a file: sqlite:////path/file.db")
    return url


def failure_text(error: SQLAlchemyError) -> str:
    """A database's error in one line for people."""
    return f"the database cannot be used: {str(error).splitlines()[0]}"


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        return sa.create_engine(url, pool_pre_ping=True, pool_size=16)
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S}, pool_size=16)
    wal = is_local(Path(url.database or "").parent)
    event.listen(engine, "connect", lambda connection, _record: _prepare(connection, wal=wal))
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, *, wal: bool) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {round(BUSY_TIMEOUT_S * 1000)}")
    connection.execute("PRAGMA foreign_keys = ON")
    _set_journal(connection, "wal" if wal else "delete")
    if wal:
        connection.execute("PRAGMA synchronous = NORMAL")


def _set_journal(connection: sqlite3.Connection, mode: str) -> None:
    # SQLite itself does not wait for other connections when it changes the journal mode.
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != mode:
                connection.execute(f"PRAGMA journal_mode = {mode}")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get(_WRITE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _enforce_keys(connection: Connection, *, on: bool) -> None:
    # Through the driver: the setting has no effect inside a transaction.
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        driver.execute(f"PRAGMA foreign_keys = {'ON' if on else 'OFF'}")


def upsert(
    session: Session,
    model: type[DeclarativeBase],
    rows: Sequence[Mapping[str, Any]],
    *,
    newer: Sequence[str] = (),
) -> None:
    """Insert rows by executemany; a row whose key exists is skipped.

    With `newer`, the row that is greater in those columns, compared in order, stands instead.
    """
    if not rows:
        return
    connection = session.connection()
    table = sa.inspect(model).local_table
    if not isinstance(table, sa.Table):
        raise TypeError(f"{model.__name__} is not a table")
    statement = _insert(connection, table)
    keys = [column.name for column in table.primary_key]
    if newer:
        excluded = statement.excluded
        wins = _ordered(connection, [excluded[name] for name in newer]) > _ordered(
            connection, [table.c[name] for name in newer]
        )
        values = {c.name: excluded[c.name] for c in table.columns if c.name not in keys}
        statement = statement.on_conflict_do_update(index_elements=keys, set_=values, where=wins)
    else:
        statement = statement.on_conflict_do_nothing()
    connection.execute(statement, [dict(row) for row in rows])


def _insert(connection: Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    # The dialect in use is loaded already; the other one is not worth the time of a command.
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


def _ordered(connection: Connection, columns: list[sa.ColumnElement[Any]]) -> sa.Tuple:
    """The columns as one comparable value; texts by code point on both databases."""
    if connection.dialect.name == "postgresql":
        columns = [
            sa.collate(column, "C") if isinstance(column.type, sa.String) else column
            for column in columns
        ]
    return sa.tuple_(*columns)

"""The engines that compute over archives: DuckDB in the process, or Spark behind Spark Connect.

Every statement is of the SQL that both run unchanged (no translation, no third library): views
over the files, aggregates, joins and CASE, with types written out. Tests run each on both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from gramwatt.service.fleet.parquet import duckdb_errors, load_duckdb
from gramwatt.service.fleet.places import ArchiveError

DUCKDB = "duckdb"
CONNECT_S = 10
"""How long a server of Spark Connect may take to answer at first [s]; its client waits for ten
minutes, also for what is no such server.
"""


class Engine(Protocol):
    """Runs SQL over files; raises ArchiveError."""

    name: str

    def view(self, table: str, paths: Sequence[Path]) -> None:
        """Let a table be the rows of these files."""
        ...

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Let a table have these rows, of expressions of SQL."""
        ...

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement, a portion of them in memory."""
        ...

    def close(self) -> None:
        """End the session."""
        ...


def open_engine(name: str) -> Engine:
    """Return the engine of a name, duckdb or sc://host:port; raises ArchiveError."""
    if name == DUCKDB:
        return DuckDB()
    if name.startswith("sc://"):
        return Spark(name)
    raise ArchiveError(f"{name!r} is no engine; write duckdb or sc://host:port")


class DuckDB:
    """DuckDB in this process."""

    name = DUCKDB

    def __init__(self) -> None:
        self._con = load_duckdb().connect()

    def view(self, table: str, paths: Sequence[Path]) -> None:
        """Let a table be the rows of these files."""
        names = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
        of_files = f"SELECT * FROM read_parquet([{names}])"
        with duckdb_errors():
            self._con.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {of_files}")

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Let a table have these rows, of expressions of SQL."""
        self._con.execute(_table(name, columns, rows))

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement, a portion of them in memory."""
        with duckdb_errors():
            result = self._con.execute(sql)
            while portion := result.fetchmany(2000):
                yield from portion

    def close(self) -> None:
        """End the session."""
        self._con.close()


class Spark:
    """A server of Spark Connect, which reads the files at the same paths."""

    def __init__(self, address: str) -> None:
        try:
            import grpc
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
            from pyspark.sql.connect.client import DefaultChannelBuilder
        except ImportError:
            text = "an engine of Spark Connect needs its client: pip install pyspark-client"
            raise ArchiveError(text, code="fleet-missing") from None
        self.name, self._errors = address, (PySparkException, OSError, RuntimeError)
        try:
            with DefaultChannelBuilder(address).toChannel() as channel:
                grpc.channel_ready_future(channel).result(timeout=CONNECT_S)
            self._session = SparkSession.builder.remote(address).create()
            self._session.conf.set("spark.sql.session.timeZone", "UTC")
        except grpc.FutureTimeoutError:
            text = f"{address} did not answer within {CONNECT_S} s; is that a Spark Connect server?"
            raise ArchiveError(text) from None
        except Exception as error:  # gRPC raises its own classes, by the release of the client
            raise ArchiveError(f"{address} did not answer: {_first_line(error)}") from None

    def view(self, table: str, paths: Sequence[Path]) -> None:
        """Let a table be the rows of these files."""
        frame = self._session.read.parquet(*(str(path.absolute()) for path in paths))
        frame.createOrReplaceTempView(table)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Let a table have these rows, of expressions of SQL."""
        self._session.sql(_table(name, columns, rows)).collect()

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement, a portion of them in memory."""
        try:
            for row in self._session.sql(sql).toLocalIterator():
                yield tuple(row)
        except self._errors as error:
            raise ArchiveError(f"{self.name} did not run it: {_first_line(error)}") from None

    def close(self) -> None:
        """End the session."""
        self._session.stop()


def _table(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    values = ", ".join(f"({', '.join(row)})" for row in rows)
    of_rows = f"SELECT * FROM (VALUES {values}) AS given({', '.join(columns)})"
    return f"CREATE OR REPLACE TEMP VIEW {name} AS {of_rows}"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]

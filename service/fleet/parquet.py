"""The tables of an archive as zstd Parquet, written and read by DuckDB; nothing else is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from gramwatt.service.fleet.places import ArchiveError

_OF_JOB = (("job", "BIGINT"), ("job_id", "VARCHAR"), ("project", "VARCHAR"))
TABLES = {
    "intervals": (
        *_OF_JOB,
        *(("node", "VARCHAR"), ("device_id", "VARCHAR"), ("writer", "VARCHAR"), ("seq", "BIGINT")),
        *(("start", "TIMESTAMPTZ"), ("end", "TIMESTAMPTZ"), ("energy_j", "DOUBLE")),
        *(("kind", "VARCHAR"), ("utilisation_mean", "DOUBLE"), ("utilisation_max", "DOUBLE")),
        *(("memory_peak_b", "DOUBLE"), ("power_max_w", "DOUBLE")),
        *(("profile", "VARCHAR"), ("extra", "VARCHAR")),
    ),
    "counts": (
        *_OF_JOB,
        *(("node", "VARCHAR"), ("writer", "VARCHAR"), ("seq", "BIGINT"), ("at", "TIMESTAMPTZ")),
        *(("unit", "VARCHAR"), ("amount", "DOUBLE"), ("phase", "VARCHAR"), ("extra", "VARCHAR")),
    ),
    "jobs": (
        *_OF_JOB,
        *(("state", "VARCHAR"), ("started_us", "BIGINT"), ("version", "BIGINT")),
        *(("revision", "BIGINT"), ("engine_version", "VARCHAR"), ("catalog_version", "VARCHAR")),
        *(("stored_b", "BIGINT"), ("is_summed", "BOOLEAN"), ("energy_kwh", "DOUBLE")),
        *(("operational_g", "DOUBLE"), ("embodied_g", "DOUBLE")),
        *(("texts", "VARCHAR"), ("numbers", "BLOB")),
    ),
    "energy": (
        *_OF_JOB,
        *(("zone", "VARCHAR"), ("quality", "VARCHAR"), ("hour", "BIGINT"), ("energy_j", "DOUBLE")),
        *(("intensity_g_per_kwh", "DOUBLE"), ("pue", "DOUBLE")),
        ("contract_g_per_kwh", "DOUBLE"),
    ),
    "embodied": (
        *_OF_JOB,
        *(("label", "VARCHAR"), ("tier", "VARCHAR"), ("te_g", "DOUBLE")),
        *(("lifetime_years", "DOUBLE"), ("embodied_g", "DOUBLE")),
    ),
}
"""Columns and types of each table. Times are UTC; `hour` counts from 1970."""
_ORDER = {
    "intervals": 'job, node, device_id, "start"',
    "counts": "job, node, writer, seq",
    "jobs": "started_us, job_id, job",
    "energy": "job, zone, hour",
    "embodied": "job",
}
_KINDS = {"BIGINT": "int64", "DOUBLE": "float64", "TIMESTAMPTZ": "int64", "BOOLEAN": "bool"}
_BATCH = 50_000
MEMORY = "2GB"
"""What DuckDB may use while a month is archived or read back; the rest it keeps on disk."""


def load_duckdb() -> ModuleType:
    """Return DuckDB's module; raises ArchiveError where it is not installed."""
    try:
        import duckdb
    except ImportError:
        text = "archives need DuckDB; install it: pip install 'gramwatt[fleet]'"
        raise ArchiveError(text, code="fleet-missing") from None
    return duckdb


@contextmanager
def duckdb_errors() -> Iterator[None]:
    """Raise ArchiveError for what DuckDB cannot write or read, such as on a full disk."""
    duckdb = load_duckdb()
    try:
        yield
    except (duckdb.Error, OSError) as error:
        raise ArchiveError(str(error).strip().splitlines()[0]) from error


class Tables:
    """Rows of a project on their way into files; they are kept in `folder`, not in memory."""

    def __init__(self, folder: Path) -> None:
        self._con = load_duckdb().connect(str(folder / "rows.duckdb"))
        self._con.execute(f"SET memory_limit = '{MEMORY}'")
        self._waiting: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES}
        self.clear()

    def clear(self) -> None:
        """Delete all rows."""
        for table, columns in TABLES.items():
            self._waiting[table].clear()
            named = ", ".join(f'"{name}" {kind}' for name, kind in columns)
            self._con.execute(f"CREATE OR REPLACE TABLE {table} ({named})")

    def add(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows; times are microseconds since 1970."""
        waiting = self._waiting[table]
        waiting.extend(rows)
        if len(waiting) >= _BATCH:
            self._flush(table)

    def add_files(self, table: str, paths: Sequence[Path], jobs: Sequence[int], who: str) -> None:
        """Add the rows that these jobs have in files, as rows of the project `who`."""
        if paths and jobs:
            self._con.execute(
                f"INSERT INTO {table} SELECT * REPLACE (? AS project) "
                f"FROM read_parquet(?) WHERE job IN (SELECT unnest(?))",
                [who, [str(path) for path in paths], list(jobs)],
            )

    def sums(self, table: str) -> tuple[int, float]:
        """Return how many rows there are, and the sum of their joules."""
        self._flush(table)
        ((rows, joules),) = self._con.execute(f"SELECT {sums_of(table)} FROM {table}").fetchall()
        return rows, joules

    def write(self, table: str, path: Path) -> None:
        """Write the rows of a table to a new file."""
        self._flush(table)
        rows = f"SELECT * FROM {table} ORDER BY {_ORDER[table]}"
        how = "FORMAT parquet, COMPRESSION zstd"
        self._con.execute(f"COPY ({rows}) TO '{_quoted(path)}' ({how})")

    def close(self) -> None:
        """Close the file that the rows are kept in."""
        self._con.close()

    def _flush(self, table: str) -> None:
        import numpy as np  # where rows are written, as where sums are made

        rows = self._waiting[table]
        if not rows:
            return
        batch: dict[str, Any] = {}
        picked = []
        columns = zip(TABLES[table], zip(*rows, strict=True), strict=True)
        for (name, kind), column in columns:
            batch[name] = np.array(column, dtype=_KINDS.get(kind, object))
            made = f'make_timestamptz("{name}")' if kind == "TIMESTAMPTZ" else f'"{name}"'
            picked.append(f"CAST({made} AS {kind})")
        self._con.register("batch", batch)
        self._con.execute(f"INSERT INTO {table} SELECT {', '.join(picked)} FROM batch")
        self._con.unregister("batch")
        rows.clear()


def sums_of(table: str) -> str:
    """Return the columns of SQL that count rows and sum joules."""
    joules = "energy_j" if any(name == "energy_j" for name, _ in TABLES[table]) else "0.0"
    return f"count(*), CAST(coalesce(fsum({joules}), 0.0) AS DOUBLE)"


def file_sums(table: str, path: Path) -> tuple[int, float]:
    """Return the rows of a file and the sum of their joules, as they are read back."""
    with duckdb_errors(), load_duckdb().connect() as con:
        wanted = f"SELECT {sums_of(table)} FROM read_parquet(?)"
        ((rows, joules),) = con.execute(wanted, [str(path)]).fetchall()
    return rows, joules


def read_table(
    table: str, paths: Sequence[Path], jobs: Sequence[int] | None = None
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of files in the order of jobs, of some jobs or all; times as `Tables.add`."""
    columns = (
        f'epoch_us("{name}")' if kind == "TIMESTAMPTZ" else f'"{name}"'
        for name, kind in TABLES[table]
    )
    yield from read_columns(table, paths, ", ".join(columns), jobs)


def read_columns(
    table: str, paths: Sequence[Path], columns: str, jobs: Sequence[int] | None = None
) -> Iterator[tuple[Any, ...]]:
    """Yield columns of files in the order of jobs, of some jobs or all; nothing of no file."""
    if not paths:
        return
    where = "true" if jobs is None else "job IN (SELECT unnest(?))"
    wanted = f"SELECT {columns} FROM read_parquet(?) WHERE {where} ORDER BY {_ORDER[table]}"
    with duckdb_errors(), load_duckdb().connect() as con:
        con.execute(f"SET memory_limit = '{MEMORY}'")
        names = [str(path) for path in paths]
        result = con.execute(wanted, [names] if jobs is None else [names, list(jobs)])
        while rows := result.fetchmany(2000):
            yield from rows


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")

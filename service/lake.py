"""Out to a lake: jobs, the rows of months and intervals as Parquet files, and months made of them.

`write` exports to a folder or an object store, for DuckDB, pandas, polars and Spark. `month_from`
makes the document of a month of such files, by the statements that the store is summed with. A
month has a manifest, which is taken away before its files are written and put back after them:
without it the month is not whole.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.collectors.settings.installation import install_command
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.sci.month.columns import ENDS, JOB_TERMS
from gramwatt.sci.month.columns import TABLES as MONTH_TABLES
from gramwatt.sci.month.document import month_document, months_before
from gramwatt.sci.month.documents import MonthDoc
from gramwatt.sci.month.month import previous_month
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.common.requests import MONTH
from gramwatt.service.container import Service
from gramwatt.service.months.statements import Execute
from gramwatt.service.store.base import Base
from gramwatt.service.store.columns import from_us, read_head
from gramwatt.service.store.journal import Device, Interval
from gramwatt.service.store.models import Job

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from obstore.store import ObjectStore

TABLES: Mapping[str, Mapping[str, str]] = {
    "jobs": {
        **dict.fromkeys(("month", "job_id", "project", "name"), "text"),
        **dict.fromkeys(("model_id", "kind", "zone", "region", "grade", "excluded"), "text?"),
        **{"state": "text", "started_at": "time", "ended_at": "time?"},
        **{"revision": "int", "provisional": "int"},
        **{f"{term}{end}": "float?" for term in (*JOB_TERMS, "total_g") for end in ENDS},
    },
    **MONTH_TABLES,
    "intervals": {
        **dict.fromkeys(("month", "job_id", "project", "node", "device_id"), "text"),
        **{"start": "time", "end": "time", "energy_j": "float", "kind": "text"},
        **dict.fromkeys(("utilisation_mean", "utilisation_max"), "float?"),
        **dict.fromkeys(("memory_peak_b", "power_max_w"), "float?"),
    },
}
"""The tables and their columns; energy in kWh or J, carbon in gCO2e, times in UTC.

`jobs` are the scored jobs that started in the month, `intervals` those that start in it.
"""
METHODS = tuple(table for table, of in TABLES.items() if "month" not in of)
"""Tables that are of no month."""
MANIFESTS = "whole"
"""The folder of the manifests: how many rows each table has of a month."""
MEMORY = "1GB"
"""What DuckDB may use; the rest it keeps on disk."""
_SQL = {"text": "STRING", "int": "BIGINT", "float": "DOUBLE", "time": "TIMESTAMPTZ"}
_NUMPY = {"text": "object", "int": "int64", "float": "float64", "time": "float64"}
_BATCH = 50_000


class LakeError(GramwattError, ValueError):
    """A lake that cannot be written or read; the message says why."""

    code = "lake"


def _columns(table: str) -> dict[str, str]:
    """Return the columns of a file and their kinds: its month is the name of its folder."""
    return {name: kind.rstrip("?") for name, kind in TABLES[table].items() if name != "month"}


def _typed(table: str) -> str:
    return ", ".join(f'"{name}" {_SQL[kind]}' for name, kind in _columns(table).items())


@contextmanager
def _errors(place: str) -> Iterator[None]:
    """Raise LakeError for what the libraries raise."""
    try:
        import duckdb
        from obstore.exceptions import BaseError
    except ImportError:
        text = f"a lake needs DuckDB and obstore; to install them: {install_command('parquet')}"
        raise LakeError(text) from None
    try:
        yield
    except (duckdb.Error, BaseError, OSError) as error:
        text = str(error).strip().partition("\n")[0]
        raise LakeError(f"{place}: {text}") from error


def _open(place: str) -> ObjectStore:
    """Return the folder, or the store of an address such as s3://bucket/prefix.

    How a store is reached is said by its usual variables, such as AWS_ACCESS_KEY_ID.
    """
    from obstore.store import LocalStore, from_url

    return from_url(place) if "://" in place else LocalStore(place, mkdir=True)


def _files(store: ObjectStore) -> set[str]:
    import obstore

    return {entry["path"] for batch in obstore.list(store) for entry in batch}


def write(service: Service, place: str, month: str | None = None) -> int:
    """Write all months, or one; returns how many of them have a row.

    PLACE gets `job_months/month=2026-05/part.parquet`, and each of TABLES alike. A file is replaced
    whole, and that of a month without rows is deleted. Raises LakeError.
    """
    with _errors(place), tempfile.TemporaryDirectory(prefix="gramwatt-lake-") as folder:
        import duckdb

        store = _open(place)
        with duckdb.connect(f"{folder}/rows.duckdb") as con, service.store.read() as session:
            con.execute(f"SET memory_limit = '{MEMORY}'")
            export = _Export(service, session, con, store, Path(folder) / "part.parquet")
            for table in METHODS:
                export.table(table, None)
            months = [month] if month else sorted({*_months(service), *export.months_written()})
            return sum(map(export.month, months))


class _Export:
    """One run: rows go from a session, through a table of DuckDB and a file, into a store."""

    def __init__(
        self,
        service: Service,
        session: Session,
        con: DuckDBPyConnection,
        store: ObjectStore,
        part: Path,
    ) -> None:
        self._service, self._session, self._con = service, session, con
        self._store, self._part = store, part
        self._written = _files(store)

    def months_written(self) -> Iterator[str]:
        """Yield the months that the store has files of."""
        for path in self._written:
            match = re.fullmatch(rf"(\w+)/month=({MONTH})/part.parquet", path)
            if match and match[1] in TABLES:
                yield match[2]

    def month(self, month: str) -> bool:
        """Write the files of a month; whether there is a row in it."""
        import obstore

        manifest = f"{MANIFESTS}/{month}.json"
        if manifest in self._written:
            obstore.delete(self._store, manifest)
        rows = {table: self.table(table, month) for table in TABLES if table not in METHODS}
        if any(rows.values()):
            obstore.put(self._store, manifest, msgspec.json.encode(rows))
        return any(rows.values())

    def table(self, table: str, month: str | None) -> int:
        """Write the file of a table, of a month if it is of months; return its rows."""
        import obstore

        name = _path(table, month) if month else f"{table}/part.parquet"
        self._con.execute(f"CREATE OR REPLACE TABLE rows ({_typed(table)})")
        number = sum(_insert(self._con, table, rows) for rows in self._rows(table, month))
        if number:
            quoted = str(self._part).replace("'", "''")
            rows = "SELECT * FROM rows ORDER BY ALL"
            self._con.execute(f"COPY ({rows}) TO '{quoted}' (FORMAT parquet, COMPRESSION zstd)")
            obstore.put(self._store, name, self._part)
        elif name in self._written:
            obstore.delete(self._store, name)
        return number

    def _rows(self, table: str, month: str | None) -> Iterator[Sequence[Sequence[Any]]]:
        """Yield the rows of a table in batches."""
        options: dict[str, Any] = {"yield_per": _BATCH}
        if table == "jobs" or table == "intervals":
            assert month is not None
            span_us = self._service.month_span_us(month)
            statement = (_jobs if table == "jobs" else _intervals)(*span_us)
            for batch in self._session.execute(statement, execution_options=options).partitions():
                yield [_job_row(row) for row in batch] if table == "jobs" else batch
            return
        source = Base.metadata.tables[table]
        chosen = sa.select(*(source.c[name] for name in _columns(table)))
        if month is not None:
            chosen = chosen.where(source.c.month == month)
        yield from self._session.execute(chosen, execution_options=options).partitions()


def _months(service: Service) -> Iterator[str]:
    """Yield the months in which a job starts, or an interval may."""
    spans = sa.select(Job.started_us, sa.func.coalesce(Job.ended_us, Job.heard_us)).distinct()
    with service.store.read() as session:
        rows = session.execute(spans).all()
    for first_us, last_us in rows:
        at, last = (from_us(us).astimezone(service.config.zone) for us in (first_us, last_us))
        number, end = at.year * 12 + at.month - 1, last.year * 12 + last.month - 1
        yield from (f"{n // 12:04d}-{n % 12 + 1:02d}" for n in range(number, end + 1))


def _jobs(start_us: int, end_us: int) -> sa.Select[*tuple[Any, ...]]:
    started = Job.started_us >= start_us, Job.started_us < end_us
    columns = sa.select(Job.job_id, Job.project, Job.model_id, Job.grade, Job.revision, Job.head)
    columns = columns.add_columns(Job.started_us, Job.ended_us)
    return columns.where(*started, Job.revision > 0)


def _job_row(row: sa.Row[Any]) -> tuple[Any, ...]:
    head = read_head(row.head)
    figures = (head.energy_kwh, head.operational_g, head.embodied_g, head.total_g)
    return (
        *(row.job_id, row.project, head.name, row.model_id, head.kind, head.zone, head.region),
        *(row.grade, head.excluded, head.state, row.started_us, row.ended_us, row.revision),
        int(head.provisional),
        *(end for f in figures for end in ((f.value, f.low, f.high) if f else (None,) * 3)),
    )


def _intervals(start_us: int, end_us: int) -> sa.Select[Any]:
    return (
        sa.select(Job.job_id, Job.project, Device.node, Device.device_id)
        .add_columns(Interval.start_us, Interval.end_us, Interval.energy_j, Interval.kind)
        .add_columns(Interval.utilisation_mean, Interval.utilisation_max)
        .add_columns(Interval.memory_peak_b, Interval.power_max_w)
        .join(Device, Device.id == Interval.device)
        .join(Job, Job.id == Device.job)
        .where(Interval.start_us >= start_us, Interval.start_us < end_us)
    )


def _insert(con: DuckDBPyConnection, table: str, rows: Sequence[Sequence[Any]]) -> int:
    """Insert rows whose times are microseconds since 1970; return how many."""
    import numpy as np  # where rows are written, as where sums are made

    if not rows:
        return 0
    batch, values = {}, []
    for (name, kind), column in zip(_columns(table).items(), zip(*rows, strict=True), strict=True):
        batch[name] = np.array(column, dtype=_NUMPY[kind])
        value = f'"{name}"'
        if kind in ("time", "float"):
            value = f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"
        if kind == "time":
            value = f"make_timestamptz(CAST({value} AS BIGINT))"
        values.append(value)
    con.register("batch", batch)
    con.execute(f"INSERT INTO rows SELECT {', '.join(values)} FROM batch")
    con.unregister("batch")
    return len(rows)


# Reading

Engine = Literal["duckdb", "spark"]
_READ: Mapping[str, str] = {
    "duckdb": "read_parquet('{}/**/*.parquet', hive_partitioning = true, "
    "hive_types_autocast = false)",
    "spark": "parquet.`{}`",
}


def month_from(
    place: str, month: str, project: str | None = None, engine: Engine = "duckdb"
) -> MonthDoc:
    """Return the document of a month, of a project or of all, out of a lake.

    What only a store knows is empty in it: running jobs, budgets, suggestions. Spark is reached by
    Spark Connect, where SPARK_REMOTE says, and reads the place by itself. Raises NoDataError for a
    month without a job, and LakeError for one whose export was cut off.
    """
    from gramwatt.service.months.sums import sum_month  # loads numpy

    with _errors(place), tempfile.TemporaryDirectory(prefix="gramwatt-lake-") as folder:
        store = _open(place)
        files = _files(store)
        months = [of for of in (month, *months_before(month)) if _path("job_months", of) in files]
        if month not in months:
            raise NoDataError(f"no job in {month} in {place}")
        for of in months:
            if f"{MANIFESTS}/{of}.json" not in files:
                raise LakeError(f"{place}: the export of {of} was cut off; run it again")
        root = place
        if "://" not in place:
            root = str(Path(place).resolve())
        elif engine == "duckdb":
            root = folder
            _fetch(store, files, months, Path(folder))
        with _run_by(engine, folder) as run:
            for table in MONTH_TABLES:
                rows = _rows_in(table, root, files, engine)
                run(f"CREATE OR REPLACE TEMP VIEW {table} AS {rows}", {})
            sums = {of: sum_month(run, of, project) for of in months}
    own = sums.pop(month)
    if not (own.totals.jobs or own.excluded):
        raise NoDataError(f"no job of project {project!r} in {month} in {place}")
    return month_document(own, sums.get(previous_month(month)), sums)


def _path(table: str, month: str) -> str:
    return f"{table}/month={month}/part.parquet"


def _rows_in(table: str, root: str, files: Collection[str], engine: Engine) -> str:
    """Return the statement that gives the rows of a table in the files under a root."""
    if any(file.startswith(f"{table}/") for file in files):
        folder = f"{root}/{table}".replace("'", "''")
        return f"SELECT * FROM {_READ[engine].format(folder)}"
    columns = TABLES[table].items()
    nothing = (f"CAST(NULL AS {_SQL[kind.rstrip('?')]}) AS {name}" for name, kind in columns)
    return f"SELECT {', '.join(nothing)} WHERE 1 = 0"


def _fetch(store: ObjectStore, files: set[str], months: Sequence[str], to: Path) -> None:
    """Copy the files of these months, which DuckDB reads here."""
    import obstore

    paths = {_path(table, of) for table in MONTH_TABLES for of in months}
    for file in sorted(files & {*paths, *(f"{table}/part.parquet" for table in METHODS)}):
        (to / file).parent.mkdir(parents=True, exist_ok=True)
        with (to / file).open("wb") as stream:
            for chunk in obstore.get(store, file):
                stream.write(chunk)


@contextmanager
def _run_by(engine: Engine, folder: str) -> Iterator[Execute]:
    """Give what runs statements on an engine; DuckDB keeps in the folder what memory does not."""
    if engine == "duckdb":
        import duckdb

        with duckdb.connect(config={"temp_directory": folder, "memory_limit": MEMORY}) as con:
            yield lambda sql, values: con.execute(*_named(sql, values, "$")).fetchall()
        return
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        text = "Spark needs its client; install it: pip install pyspark-client"
        raise LakeError(text) from None
    spark = SparkSession.builder.getOrCreate()
    try:
        yield lambda sql, values: spark.sql(*_named(sql, values, ":")).toLocalIterator()
    finally:
        spark.stop()


def _named(statement: str, values: Mapping[str, Any], mark: str) -> tuple[str, dict[str, Any]]:
    """Return a statement with the mark of an engine's parameters, and those that it has."""
    names = set(_PARAMETER.findall(statement))
    sql = _PARAMETER.sub(rf"{mark}\1", statement)
    return sql, {name: value for name, value in values.items() if name in names}


_PARAMETER = re.compile(r":([a-z_]+)")

"""Writes jobs and intervals as Parquet files by month, for DuckDB, pandas and Spark."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.base.errors import GramwattError
from gramwatt.service.container import Service
from gramwatt.service.months.report import MONTH
from gramwatt.service.store.documents import read_head
from gramwatt.service.store.models import Device, Interval, Job
from gramwatt.service.store.timestamps import from_us

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TABLES = {
    "jobs": {
        **dict.fromkeys(("job_id", "name", "project", "model_id", "kind", "state"), "VARCHAR"),
        **dict.fromkeys(("zone", "region", "grade", "excluded"), "VARCHAR"),
        **dict.fromkeys(("started_at", "ended_at"), "TIMESTAMPTZ"),
        **{"revision": "BIGINT", "provisional": "BOOLEAN"},
        **{
            f"{name}{end}": "DOUBLE"
            for name in ("energy_kwh", "operational_g", "embodied_g", "total_g")
            for end in ("", "_low", "_high")
        },
    },
    "intervals": {
        **dict.fromkeys(("job_id", "project", "node", "device_id"), "VARCHAR"),
        **dict.fromkeys(("start", "end"), "TIMESTAMPTZ"),
        **{"energy_j": "DOUBLE", "kind": "VARCHAR"},
        **dict.fromkeys(("utilisation_mean", "utilisation_max"), "DOUBLE"),
        **dict.fromkeys(("memory_peak_b", "power_max_w"), "DOUBLE"),
    },
}
"""Columns and types of each table; energy in kWh or J, carbon in gCO2e, times in UTC."""
_ORDER = {
    "jobs": "started_at, project, job_id",
    "intervals": 'job_id, project, node, device_id, "start"',
}
_NUMPY = {"DOUBLE": "float64", "BIGINT": "int64", "BOOLEAN": "bool", "TIMESTAMPTZ": "float64"}
_BATCH = 50_000
MEMORY = "1GB"
"""What DuckDB may use; the rest it keeps on disk."""


class ParquetError(GramwattError, ValueError):
    """An export that cannot be made; the message says why."""

    code = "parquet"


def export_parquet(service: Service, folder: Path, month: str | None = None) -> int:
    """Write the jobs that start in each month, or in one, and intervals; return how many months.

    `folder` gets `jobs/month=2026-05/part.parquet`, and `intervals/` alike. A file is replaced
    whole, and that of a month without rows is deleted. Raises ParquetError without DuckDB or where
    it fails, and OSError for a folder that cannot be written.
    """
    try:
        import duckdb
    except ImportError:
        text = "Parquet files need DuckDB; install it: pip install 'gramwatt[parquet]'"
        raise ParquetError(text) from None
    folder.mkdir(parents=True, exist_ok=True)
    months = [month] if month else sorted({*_months(service), *_written(folder)})
    number = 0
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as staging:
            for of_month in months:
                number += _export_month(service, folder, of_month, Path(staging))
    except duckdb.Error as error:
        raise ParquetError(str(error).strip().splitlines()[0]) from error
    return number


def _months(service: Service) -> Iterator[str]:
    """Yield the months in which a job starts, or an interval may."""
    spans = sa.select(Job.started_us, sa.func.coalesce(Job.ended_us, Job.heard_us)).distinct()
    with service.store.read() as session:
        rows = session.execute(spans).all()
    for first_us, last_us in rows:
        at, last = (from_us(us).astimezone(service.config.zone) for us in (first_us, last_us))
        number, end = at.year * 12 + at.month - 1, last.year * 12 + last.month - 1
        yield from (f"{n // 12:04d}-{n % 12 + 1:02d}" for n in range(number, end + 1))


def _written(folder: Path) -> Iterator[str]:
    """Yield the months that a folder has files of."""
    for path in folder.glob("*/month=*/part.parquet"):
        name = path.parent.name.removeprefix("month=")
        if path.parents[1].name in TABLES and re.fullmatch(MONTH, name):
            yield name


def _export_month(service: Service, folder: Path, month: str, staging: Path) -> bool:
    """Write the files of a month; whether there is a row in it."""
    import duckdb

    span_us, counts = service.month_span_us(month), []
    with duckdb.connect(str(staging / f"{month}.duckdb")) as con, service.store.read() as session:
        con.execute(f"SET memory_limit = '{MEMORY}'")
        for table, read in (("jobs", _jobs), ("intervals", _intervals)):
            columns = ", ".join(f'"{name}" {kind}' for name, kind in TABLES[table].items())
            con.execute(f"CREATE TABLE {table} ({columns})")
            counts.append(sum(_insert(con, table, rows) for rows in read(session, span_us)))
            path = folder / table / f"month={month}" / "part.parquet"
            if not counts[-1]:
                path.unlink(missing_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            part = staging / f"{table}-{month}.parquet"
            quoted = str(part).replace("'", "''")
            rows = f"SELECT * FROM {table} ORDER BY {_ORDER[table]}"
            con.execute(f"COPY ({rows}) TO '{quoted}' (FORMAT parquet, COMPRESSION zstd)")
            part.replace(path)
    return any(counts)


def _jobs(session: Session, span_us: tuple[int, int]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of the scored jobs that start in a span, in batches."""
    statement = sa.select(Job).where(
        Job.started_us >= span_us[0], Job.started_us < span_us[1], Job.revision > 0
    )
    options = statement.order_by(Job.id).execution_options(yield_per=_BATCH)
    for jobs in session.scalars(options).partitions():
        yield [_job_row(job) for job in jobs]


def _job_row(job: Job) -> tuple[Any, ...]:
    head = read_head(job.head)
    figures = (head.energy_kwh, head.operational_g, head.embodied_g, head.total_g)
    return (
        *(job.job_id, head.name, job.project, job.model_id, head.kind, head.state),
        *(head.zone, head.region, job.grade, head.excluded),
        *(job.started_us, job.ended_us, job.revision, head.provisional),
        *(of[end] if of else None for of in figures for end in ("value", "low", "high")),
    )


def _intervals(session: Session, span_us: tuple[int, int]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of the intervals that start in a span, in batches."""
    statement = (
        sa.select(Job.job_id, Job.project, Device.node, Device.device_id)
        .add_columns(Interval.start_us, Interval.end_us, Interval.energy_j, Interval.kind)
        .add_columns(Interval.utilisation_mean, Interval.utilisation_max)
        .add_columns(Interval.memory_peak_b, Interval.power_max_w)
        .join(Device, Device.id == Interval.device)
        .join(Job, Job.id == Device.job)
        .where(Interval.start_us >= span_us[0], Interval.start_us < span_us[1])
        .execution_options(yield_per=_BATCH)
    )
    for rows in session.execute(statement).partitions():
        yield [tuple(row) for row in rows]


def _insert(con: DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows whose times are microseconds since 1970; return how many."""
    import numpy as np  # where rows are written, as where sums are made

    if not rows:
        return 0
    batch, picked = {}, []
    for (name, kind), column in zip(TABLES[table].items(), zip(*rows, strict=True), strict=True):
        batch[name] = np.array(column, dtype=_NUMPY.get(kind, object))
        value = f'"{name}"'
        if kind in ("TIMESTAMPTZ", "DOUBLE"):
            value = f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"
        if kind == "TIMESTAMPTZ":
            value = f"make_timestamptz(CAST({value} AS BIGINT))"
        picked.append(value)
    con.register("batch", batch)
    con.execute(f"INSERT INTO {table} SELECT {', '.join(picked)} FROM batch")
    con.unregister("batch")
    return len(rows)

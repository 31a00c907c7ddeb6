"""Archives of a large fleet: size, speed of sums and restatements, and of archiving itself.

    python -m benchmarks.fleet [--devices 100000] [--minutes 1000] [--postgres-rows 2000000]

100 000 devices with 1 000 minutes each are 100 million rows of shapes (`shapes.py`). Wanted: at
most 6 bytes a row, a sum in 30 s and 4 GB, a restatement in 60 s, half of plain DuckDB's speed.
Beside them: PostgreSQL over a sample of the same rows, and `archive` out of an SQLite store.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.fleet.shapes import MONTH, fleet, opened, store_job
from gramwatt.service.fleet.archive import archive_month
from gramwatt.service.fleet.compute import ArchivedMonth, NewFactors
from gramwatt.service.fleet.engines import open_engine
from gramwatt.service.fleet.places import Folder

PLAIN = "SELECT project, count(*), SUM(energy_j) FROM read_parquet('{}') GROUP BY project"


def main() -> int:
    """Print every figure with the load of the machine."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--minutes", type=int, default=1_000)
    parser.add_argument("--postgres-rows", type=int, default=2_000_000)
    parser.add_argument("--engine", default="duckdb")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _measure(Path(folder), options)
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> None:
    _archiving(folder)
    place, made_s = _timed(lambda: fleet(folder, options.devices, options.minutes))
    rows = options.devices * options.minutes
    size = sum(path.stat().st_size for path in (place.path / "intervals").rglob("*.parquet"))
    whole = sum(path.stat().st_size for path in place.path.rglob("*.parquet"))
    _say(f"{rows} rows made and written in {made_s:.1f} s")
    _say(f"{size / rows:.2f} bytes a row of intervals, {whole / rows:.2f} with all tables")
    engine = open_engine(options.engine)
    month, opened_s = _timed(lambda: ArchivedMonth(place, MONTH, engine))
    _say(f"opened, with the digest of every file, in {opened_s:.1f} s")
    pattern = place.path / "intervals" / MONTH / "*.parquet"
    with duckdb.connect() as con:
        plain_s = min(
            _timed(lambda: con.execute(PLAIN.format(pattern)).fetchall())[1] for _ in range(3)
        )
    lines_s = min(_timed(lambda: list(month.lines()))[1] for _ in range(3))
    _say(
        f"lines by project: {lines_s:.2f} s, plain DuckDB {plain_s:.2f} s: "
        f"{plain_s / lines_s:.2f} of its speed"
    )
    _, sum_s = _timed(month.summed)
    _say(f"sum with ranges over {options.devices // 8} jobs: {sum_s:.1f} s")
    factors = NewFactors(annual={"DE": 250.0}, pue={"DE": 1.1}, lifetime_years=5.0)
    _, restated_s = _timed(lambda: month.restated(factors))
    _say(f"restatement: {restated_s:.1f} s")
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    _say(f"most memory of this process, the making of the files included: {peak_gb:.2f} GB")
    if options.postgres_rows:
        _postgres(folder, pattern, options.postgres_rows)


def _archiving(folder: Path) -> None:
    """Archive jobs of two boards over four days out of SQLite."""
    service = opened(folder / "store")
    for number in range(16):
        store_job(service, number, 4 * 1440, devices=2)
    outcome, seconds = _timed(lambda: archive_month(service, MONTH, Folder(folder / "of-store")))
    rows = outcome.manifest.rows("intervals")
    _say(f"archive out of SQLite: {rows} rows in {seconds:.1f} s, {rows / seconds:.0f} rows/s")
    service.store.close()
    shutil.rmtree(folder / "of-store")


def _postgres(folder: Path, pattern: Path, rows: int) -> None:
    """Sum a sample of the rows in PostgreSQL by the same statement."""
    from tests.service.processes import start_postgres

    server = start_postgres(folder / "postgres")
    with duckdb.connect() as con:
        path = folder / "sample.csv"
        path.touch(mode=0o644)
        wanted = (
            f"SELECT project, job, device_id, \"start\", energy_j FROM '{pattern}' LIMIT {rows}"
        )
        con.execute(f"COPY ({wanted}) TO '{path}' (HEADER false)").fetchall()
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE intervals (project text, job bigint, device_id text,"
            " start timestamptz, energy_j double precision)"
        )
        copying = "COPY intervals FROM STDIN (FORMAT csv)"
        with connection.cursor().copy(copying) as copy, path.open("rb") as stream:
            while chunk := stream.read(2**20):
                copy.write(chunk)
        connection.execute("ANALYZE intervals")
        sums = "SELECT project, count(*), sum(energy_j) FROM intervals GROUP BY project"
        seconds = min(_timed(lambda: connection.execute(sums).fetchall())[1] for _ in range(3))
        (size,) = connection.execute("SELECT pg_table_size('intervals')").fetchone() or (0,)
    server.cleanup()
    _say(
        f"PostgreSQL, sample of {rows} rows of five columns: {seconds:.2f} s, "
        f"{rows / seconds / 1e6:.1f} M rows/s, {size / rows:.0f} bytes a row without an index"
    )


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def _say(text: str) -> None:
    print(f"{text} (load {os.getloadavg()[0]:.1f})", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

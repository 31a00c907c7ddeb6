"""How long a month of many jobs takes: its sums on SQLite, PostgreSQL and DuckDB, of one set.

    python -m benchmarks.months [--jobs 100000] [--postgres postgresql://...]

A few dozen scored jobs give the rows, repeated under other names, projects and owners. It prints
the seconds and the memory from rows to sums, beside them the seconds of a bare GROUP BY, and at
last the ratio of each database to its limit and to DuckDB over the same rows. Exit code 1 where 100
000 jobs take more than 10 s on SQLite, 5 s on PostgreSQL, or 20 times as long as DuckDB, and where
a process that makes the month alone has more than 150 MB.
"""

from __future__ import annotations

import argparse
import csv
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.month.columns import TABLES, TRAITS
from gramwatt.sci.month.document import month_document
from gramwatt.sci.month.documents import MonthSums
from gramwatt.sci.month.rows import number_of, rows_of
from gramwatt.sci.suggest.jobs import class_of
from gramwatt.service.months import large
from gramwatt.service.months.rows import from_session
from gramwatt.service.months.statements import EFFECTS, Execute, month_scope, selecting
from gramwatt.service.months.sums import sum_month
from gramwatt.service.store.database import Store
from gramwatt.service.store.migrate import upgrade
from tests.documents import DAILY, scored
from tests.months import alike
from tests.random_jobs import random_job

MONTH, SEED = "2026-05", 39
ORIGINALS, PROJECTS, OWNERS = 60, 10, 20
METHODS = ("month_methods", "month_method_texts")
LIMITS_S = {"SQLite": 10.0, "PostgreSQL": 5.0}
MEMORY_MOST_MB = 150.0
DUCKDB_MOST = 20.0


def originals() -> list[JobDoc]:
    """Scored jobs of many kinds that have a part in the month."""
    draw, jobs = random.Random(SEED), []
    while len(jobs) < ORIGINALS:
        job = scored(random_job(draw, len(jobs))[1], DAILY)
        if any(day.day.startswith(MONTH) for day in job.days):
            jobs.append(job)
    return jobs


def copies(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of so many jobs, with the name of their table."""
    draw, methods = random.Random(SEED), set[int]()
    rows = [rows_of(job, class_of(job)) for job in originals()]
    for job in range(1, number + 1):
        of_job = rows[job % len(rows)]
        (month,) = (row for row in of_job["job_months"] if row["month"] == MONTH)
        if month["method"] not in methods:
            methods.add(month["method"])
            yield from ((table, row) for table in METHODS for row in of_job[table])
        own = {"project": f"project-{draw.randrange(PROJECTS)}", "job_id": f"job-{job:07d}"}
        traits = {**month, **own, "owner": f"user-{draw.randrange(OWNERS)}"}
        traits["traits"] = number_of([traits[n] for n in TRAITS] + [traits["total_g"] is None])
        for table in TABLES.keys() - set(METHODS):
            for row in of_job[table]:
                if row["month"] == MONTH:
                    new = {**row, **own, "job": job}
                    new |= {n: traits[n] for n in ("traits", "owner") if n in row}
                    yield table, new


def write(number: int, folder: Path) -> None:
    """Write the rows as CSV, a file a table."""
    files, writers = [], {}
    for table, columns in TABLES.items():
        files.append((folder / f"{table}.csv").open("w", newline=""))
        names = list(columns) if table in METHODS else ["job", *columns]
        writers[table] = csv.DictWriter(files[-1], names, extrasaction="ignore")
        writers[table].writeheader()
    for table, row in copies(number):
        writers[table].writerow(row)
    for file in files:
        file.close()


def into_store(store: Store, folder: Path) -> None:
    """Fill the tables of a store, whose jobs are not there."""
    with store.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        if store.is_sqlite:
            driver.execute("PRAGMA foreign_keys = OFF")
            driver.execute("BEGIN")
        else:
            driver.execute("SET session_replication_role = replica")
        for table in TABLES:
            with (folder / f"{table}.csv").open(newline="") as file:
                reader = csv.reader(file)
                names = next(reader)
                if store.is_sqlite:
                    marks = ", ".join("?" * len(names))
                    statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"
                    driver.executemany(statement, (_values(table, names, r) for r in reader))
                    continue
                copy = f"COPY {table} ({', '.join(names)}) FROM STDIN"
                with driver.cursor() as cursor, cursor.copy(copy) as stream:
                    for row in reader:
                        stream.write_row(_values(table, names, row))
        if not store.is_sqlite:
            driver.execute("ANALYZE")
        driver.execute("COMMIT")


def _values(table: str, names: Sequence[str], row: Sequence[str]) -> list[Any]:
    kinds = {"job": "int", **TABLES[table]}
    convert: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "text": str}
    pairs = [(value, kinds[name]) for name, value in zip(names, row, strict=True)]
    return [
        None if value == "" and kind.endswith("?") else convert[kind.rstrip("?")](value)
        for value, kind in pairs
    ]


def duck(folder: Path) -> Execute:
    """The same rows in DuckDB, from Parquet."""
    import duckdb

    connection = duckdb.connect()
    types = {"text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE"}
    for table, columns in TABLES.items():
        described = {"job": "BIGINT"} if table not in METHODS else {}
        described |= {name: types[kind.rstrip("?")] for name, kind in columns.items()}
        source = f"read_csv('{folder / table}.csv', header=true, columns={described})"
        target = folder / f"{table}.parquet"
        strings = ", ".join(
            f"coalesce({name}, '') AS {name}" if kind == "text" else name
            for name, kind in columns.items()
        )
        connection.execute(f"COPY (SELECT {strings} FROM {source}) TO '{target}' (FORMAT parquet)")
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{target}'")

    def execute(statement: str, values: Any) -> Any:
        used = {name: value for name, value in values.items() if f":{name}" in statement}
        for name in used:
            statement = statement.replace(f":{name}", f"${name}")
        return connection.execute(statement, used).fetchall()

    return execute


def memory_mb() -> float:
    """The most memory that this process has had [MB]; `ru_maxrss` has that of its parent too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def took(what: str, work: Callable[[], Any]) -> tuple[Any, float]:
    """Do the work and print how long it took; returns what it gave, and the seconds."""
    start, cpu = time.perf_counter(), time.process_time()
    result = work()
    memory = memory_mb()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    line = f"{what:<44} {seconds:7.2f} s {cpu:7.2f} s of CPU {memory:5.0f} MB at most so far"
    print(line, flush=True)
    return result, seconds


def measure(name: str, execute: Execute) -> tuple[MonthSums, float]:
    """Print how long the sums, a bare GROUP BY and the stored document take; returns the sums."""
    select = selecting(execute, *month_scope(MONTH))
    took(f"{name}: effects by input alone", lambda: sum(1 for _ in select(EFFECTS)))
    sums, seconds = took(f"{name}: rows to sums", lambda: sum_month(execute, MONTH))
    text = msgspec.json.encode(sums)
    took(
        f"{name}: stored sums to document ({len(text) / 1e6:.1f} MB)",
        lambda: month_document(msgspec.json.decode(text, type=MonthSums), sums),
    )
    return sums, seconds


def made_apart(url: str) -> float:
    """The most memory of a process that makes the month of a store and does nothing else [MB]."""
    command = [sys.executable, "-m", "benchmarks.months", "--sum", url]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> int:
    """Print the figures; 1 where one is beyond its limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--postgres")
    parser.add_argument("--sum", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sum:
        with Store(options.sum).read() as session:
            large.take_memory(session)
            large.sums_of(session, large.MonthScope(MONTH, None, *month_scope(MONTH)))
        print(memory_mb())
        return 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        took("rows made", lambda: write(options.jobs, folder))
        urls = [f"sqlite:///{folder / 'store.db'}", *filter(None, [options.postgres])]
        results, peaks = {}, {}
        for url in urls:
            store = Store(url)
            upgrade(store)
            name = "SQLite" if store.is_sqlite else "PostgreSQL"
            took(f"{name}: rows inserted", lambda store=store: into_store(store, folder))
            with store.read() as session:
                large.take_memory(session)
                results[name] = measure(name, from_session(session))
            peaks[name] = made_apart(url)
            store.close()
        size = (folder / "store.db").stat().st_size / 1e6
        print(f"{size:.0f} MB on SQLite")
        own, duckdb_s = measure("DuckDB", duck(folder))
    is_slow = False
    for name, (sums, seconds) in results.items():
        alike(sums.totals, own.totals)
        over_limit = seconds / (LIMITS_S[name] * max(1, options.jobs / 100_000))
        over_duckdb = seconds / duckdb_s
        print(f"{name}: {over_limit:.2f} of the limit, {over_duckdb:.1f} of DuckDB's time")
        print(f"  {peaks[name]:.0f} MB of the process of the month, limit {MEMORY_MOST_MB:.0f} MB")
        is_slow |= over_limit > 1 or over_duckdb > DUCKDB_MOST or peaks[name] > MEMORY_MOST_MB
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())

"""Many stored jobs made of a few: a stored job's rows, copied by the database itself.

The jobs to copy went through the product's own ingest and scoring, so every column of every table
has what those write. A copy has other keys, another id wherever the original's stands, and times
shifted by minutes in the columns, not within documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex

from gramwatt.service.store.database import Store, unlimited
from gramwatt.service.store.journal import Count, Device, Interval, Statement, Writer
from gramwatt.service.store.models import Job, JobLabel, Score
from gramwatt.service.store.months import OF_JOB

TABLES = (*(Job, JobLabel), *(Writer, Statement, Device, Interval, Count), Score)
"""The tables in which a scored job has rows, parents first, without the tables of months."""
OF_LISTS = ("jobs", "job_labels", *OF_JOB)
"""The tables that lists and months read; the others have what a job alone is asked for."""
NAMED = ("head", "line", "doc", "input_id")
"""Texts that the id of their job stands in."""
PORTION = 20_000


class Clone(NamedTuple):
    """A copy to make: its key in every table, its id, the job that it copies, and its shift.

    One that is not `whole` has rows in the tables of lists and months alone: a fifth of the bytes.
    """

    key: int
    job_id: str
    original: str
    shift_us: int
    whole: bool = True


def tables() -> list[Any]:
    """The tables with rows of a scored job, parents first."""
    return [*(model.__table__ for model in TABLES), *OF_JOB.values()]


def copy_jobs(store: Store, clones: Iterator[Clone]) -> None:
    """Store these copies; each original has one writer, one device and one score."""
    indexes = _indexes(store)
    store.close()  # SQLite leaves its log only while nobody else has the file open
    with store.engine.connect() as connection, unlimited(connection):
        driver: Any = connection.connection.driver_connection
        if store.is_sqlite:
            for setting in ("foreign_keys = OFF", "synchronous = OFF", "journal_mode = OFF"):
                driver.execute(f"PRAGMA {setting}")
            driver.execute("PRAGMA cache_size = -1000000")
            driver.execute("BEGIN")
        else:
            # Keys are right by construction; without this each row would be looked up.
            driver.execute("SET session_replication_role = replica")
        driver.execute("CREATE TEMPORARY TABLE originals AS " + _originals())
        driver.execute(
            "CREATE TEMPORARY TABLE clones (id BIGINT PRIMARY KEY, job_id TEXT, original TEXT,"
            " shift_us BIGINT, whole BOOLEAN)"
        )
        for index in indexes:  # built at once at the end, in the order of their keys
            driver.execute(f"DROP INDEX {index.name}")
        for table in tables():  # small copies, so that no table is read that grows meanwhile
            few = f"CREATE TEMPORARY TABLE few_{table.name} AS SELECT * FROM {table.name}"
            driver.execute(few)
        while portion := list(islice(clones, PORTION)):
            driver.execute("DELETE FROM clones")
            _insert(store, driver, "clones", ("id", *Clone._fields[1:]), portion)
            for table in tables():
                driver.execute(_copied(table))
        for index in indexes:
            driver.execute(str(CreateIndex(index).compile(dialect=store.engine.dialect)))
        for model in (Job, Writer, Device, Score):
            _set_sequence(store, driver, model.__tablename__)
        driver.execute("COMMIT")
    store.close()  # the next connection has the settings of the product


def _indexes(store: Store) -> list[sa.Index]:
    """The indexes of the tables; some are of one database alone."""
    ask = sa.inspect(store.engine).get_indexes
    names = {index["name"] for table in tables() for index in ask(table.name)}
    return [index for table in tables() for index in table.indexes if index.name in names]


def _originals() -> str:
    """Each job by id, with its keys as an owner of rows and with its id, which copies replace."""
    return (
        "SELECT jobs.job_id AS original, jobs.id AS jobs, writers.id AS writers,"
        " devices.id AS devices FROM jobs JOIN writers ON writers.job = jobs.id"
        " JOIN devices ON devices.job = jobs.id"
    )


def _copied(table: sa.Table) -> str:
    """The statement that copies a table's rows of the originals."""
    owner = "jobs"
    values = {}
    for column in table.c:
        values[column.name] = f"t.{column.name}"
        if column.name == "job":
            of, values["job"] = "job", "c.id"
        elif column.foreign_keys:
            (key,) = column.foreign_keys
            owner, of = key.column.table.name, column.name
            values[column.name] = "c.id"
        elif column.name == "id":
            values["id"] = "c.id"
        elif column.name == "job_id":
            values["job_id"] = "c.job_id"
        elif column.name.endswith("_us"):
            values[column.name] = f"t.{column.name} + c.shift_us"
        elif column.name in NAMED:
            values[column.name] = f"replace(t.{column.name}, c.original, c.job_id)"
    joined = f"t.{'id' if table.name == 'jobs' else of} = o.{owner}"
    return (
        f"INSERT INTO {table.name} ({', '.join(values)}) SELECT {', '.join(values.values())}"
        f" FROM clones c JOIN originals o ON o.original = c.original"
        f" JOIN few_{table.name} t ON {joined}"
        + ("" if table.name in OF_LISTS else " WHERE c.whole")
    )


def _insert(store: Store, driver: Any, table: str, columns: Sequence[str], rows: Any) -> None:
    """Insert rows: by COPY on PostgreSQL, else executemany."""
    named = ", ".join(f'"{column}"' for column in columns)
    if store.is_sqlite:
        marks = ", ".join("?" * len(columns))
        driver.executemany(f"INSERT INTO {table} ({named}) VALUES ({marks})", rows)
        return
    with driver.cursor() as cursor, cursor.copy(f"COPY {table} ({named}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _set_sequence(store: Store, driver: Any, table: str) -> None:
    """Let the next row that the product adds have the next key; SQLite does so by itself."""
    if not store.is_sqlite:
        sequence = f"pg_get_serial_sequence('{table}', 'id')"
        driver.execute(f"SELECT setval({sequence}, max(id)) FROM {table}")

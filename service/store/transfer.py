"""Copy a store: from one database to another, to a file while serving, and back from that file.

A copy is made from one state of the source, in one transaction of the target, in bounded memory,
and compared row by row before that transaction is committed. A backup is always one SQLite file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gramwatt.sci.base.errors import StoreError
from gramwatt.service.store.access import audit_unlocked
from gramwatt.service.store.database import Store
from gramwatt.service.store.migrate import SchemaError, is_current, refuse_other, upgrade
from gramwatt.service.store.postgres import unlimited
from gramwatt.service.store.tables import METADATA

BATCH = 2000
"""Rows read and written at a time."""
_CHECKSUM = 2**128

Progress = Callable[[int, int], None]
"""Called with the rows copied so far, and how many there are."""


class TransferError(StoreError):
    """A copy, backup or restore that was refused or failed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A table that was copied: how many rows, and the sum of their digests."""

    table: str
    rows: int
    checksum: str


def copy(
    source: Store, target: Store, *, replace: bool = False, progress: Progress | None = None
) -> list[Copied]:
    """Copy every table into an empty store and compare both; the tables with rows and checksums.

    With `replace` the target's rows are deleted in the same transaction. Raises TransferError, and
    leaves the target as it was.
    """
    if source.url == target.url:
        raise TransferError("both addresses are the same database")
    if not is_current(source):
        raise TransferError("the source is not up to date; run: gramwatt db upgrade")
    upgrade(target)
    with _snapshot(source) as reading, target.migrating() as writing:
        if replace:
            _clear(writing)
        elif filled := _filled(writing):
            raise TransferError(f"the target is not empty: it has rows in {filled}")
        report = _sum_over(progress, reading) if progress else lambda _rows: None
        copied = [_copy_table(table, reading, writing, report) for table in _tables()]
        for table, known in zip(_tables(), copied, strict=True):
            if (found := _summed(table, writing)) != known:
                raise TransferError(f"{table.name} differs after the copy: {known}, {found}")
        _set_sequences(writing)
    return copied


def backup(store: Store, path: Path) -> None:
    """Write the store as one SQLite file, complete and consistent also while others write.

    Raises TransferError when the file exists, and OSError when it cannot be written.
    """
    if path.exists():
        raise TransferError(f"{path} exists; name a file that does not")
    if store.path is not None and not store.path.exists():
        raise TransferError(f"there is no store at {store.path}")
    try:
        with _part_of(path) as part:
            if store.path is not None:
                _copy_pages(store.path, part)
            else:
                _copy_to_file(store, part)
            _settle(part)
            os.link(part, path)  # unlike a rename, it fails when the file has appeared meanwhile
    except FileExistsError:
        raise TransferError(f"{path} exists; name a file that does not") from None
    except sqlite3.Error as error:
        raise TransferError(f"cannot write {path}: {error}") from None


def restore(store: Store, path: Path, old: Path, *, replace: bool = False) -> bool:
    """Put a backup in the place of a store that nothing uses; True if the old one was kept.

    A store with jobs is replaced only with `replace`, and `old` is then a backup of it. Raises
    TransferError when the file is no backup or the store is in use; the store stays as it was.
    """
    _require_backup(path)
    upgrade(store)
    with store.read() as session:
        has_rows = _filled(session.connection()) is not None
    if has_rows and not replace:
        raise TransferError(
            "the store is not empty; --replace keeps a backup of it and replaces it"
        )
    if has_rows:
        backup(store, old)
    if store.path is not None:
        store.close()
        _replace_pages(store.path, path)
        upgrade(store)
    else:
        _require_alone(store)
        _restore_rows(store, path)
    return has_rows


def _tables() -> Sequence[sa.Table]:
    """Return every table with data, each after those it refers to."""
    return [table for table in METADATA.sorted_tables if not table.info.get("transient")]


@contextmanager
def _snapshot(store: Store) -> Iterator[Connection]:
    """Yield a connection whose every statement sees the state of one moment."""
    engine = store.engine
    if not store.is_sqlite:
        engine = engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
    with engine.connect() as connection, connection.begin(), unlimited(connection):
        yield connection


def _filled(connection: Connection) -> str | None:
    """Return the name of a table that has rows; None when none has."""
    for table in _tables():
        if connection.scalar(sa.select(sa.literal(1)).select_from(table).limit(1)):
            return table.name
    return None


def _clear(connection: Connection) -> None:
    with audit_unlocked(connection):
        if connection.dialect.name == "postgresql":
            quoted = connection.dialect.identifier_preparer.quote
            connection.exec_driver_sql(f"TRUNCATE {', '.join(quoted(t.name) for t in _tables())}")
            return
        for table in reversed(_tables()):
            connection.execute(sa.delete(table))


def _sum_over(progress: Progress, reading: Connection) -> Callable[[int], None]:
    """Return what passes on the rows of all tables so far, when it is called with further ones."""
    counts = (sa.select(sa.func.count()).select_from(table) for table in _tables())
    total = sum(reading.scalar(count) or 0 for count in counts)
    done = 0

    def report(rows: int) -> None:
        nonlocal done
        done += rows
        progress(done, total)

    return report


def _copy_table(
    table: sa.Table, reading: Connection, writing: Connection, report: Callable[[int], None]
) -> Copied:
    write = _write_postgres if writing.dialect.name == "postgresql" else _write_sqlite
    rows, checksum = 0, 0
    for batch in _batches(table, reading):
        write(table, batch, writing)
        rows += len(batch)
        checksum += sum(map(_digest, batch))
        report(len(batch))
    return Copied(table.name, rows, f"{checksum % _CHECKSUM:032x}")


def _summed(table: sa.Table, connection: Connection) -> Copied:
    rows, checksum = 0, 0
    for batch in _batches(table, connection):
        rows += len(batch)
        checksum += sum(map(_digest, batch))
    return Copied(table.name, rows, f"{checksum % _CHECKSUM:032x}")


def _batches(table: sa.Table, connection: Connection) -> Iterator[Sequence[tuple[Any, ...]]]:
    wanted = sa.select(table).execution_options(yield_per=BATCH)
    with connection.execute(wanted) as result:
        for batch in result.partitions():
            yield [tuple(row) for row in batch]


def _digest(row: tuple[Any, ...]) -> int:
    """Return a digest of one row; their sum does not depend on the order, which databases sort
    by.
    """
    return int.from_bytes(blake2b(repr(row).encode(), digest_size=16).digest())


def _write_sqlite(table: sa.Table, rows: Sequence[tuple[Any, ...]], writing: Connection) -> None:
    names = table.columns.keys()
    writing.execute(sa.insert(table), [dict(zip(names, row, strict=True)) for row in rows])


def _write_postgres(table: sa.Table, rows: Sequence[tuple[Any, ...]], writing: Connection) -> None:
    quoted = writing.dialect.identifier_preparer.quote
    columns = ", ".join(quoted(column.name) for column in table.columns)
    driver: Any = writing.connection.driver_connection
    with driver.cursor().copy(f"COPY {quoted(table.name)} ({columns}) FROM STDIN") as lines:
        for row in rows:
            lines.write_row(row)


def _set_sequences(connection: Connection) -> None:
    """Let PostgreSQL number new rows after the copied ones; SQLite does by itself."""
    if connection.dialect.name != "postgresql":
        return
    for table in _tables():
        column = table.autoincrement_column
        if column is None:
            continue
        sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
        newest = sa.select(sa.func.max(column)).scalar_subquery()
        connection.execute(sa.select(sa.func.setval(sequence, newest)).where(newest.is_not(None)))


def _copy_pages(source: Path, target: Path, mode: str = "rw") -> None:
    """SQLite's online backup in one step: writers of a WAL store go on meanwhile."""
    with _sqlite(source, mode) as reading, _sqlite(target) as writing:
        reading.backup(writing)


def _copy_to_file(store: Store, path: Path) -> None:
    made = Store(f"sqlite:///{path}")
    try:
        copy(store, made)
    finally:
        made.close()


def _settle(path: Path) -> None:
    """Make it one file without a log beside it, on the disk, and check its pages."""
    with _sqlite(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        _require_sound(connection, path)
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _require_backup(path: Path) -> None:
    """Raise TransferError unless the file is a sound store of this release."""
    if not path.is_file():
        raise TransferError(f"there is no file {path}")
    try:
        with _sqlite(path, "ro") as connection:
            _require_sound(connection, path)
            (found,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except (sqlite3.Error, TypeError) as error:
        raise TransferError(f"{path} is no backup of a store: {error}") from None
    try:
        refuse_other(found, "restore another backup")
    except SchemaError as error:
        raise TransferError(f"{path}: {error.message}") from None


def _require_sound(connection: sqlite3.Connection, path: Path) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise TransferError(f"{path} is damaged: {found}")


def _replace_pages(path: Path, backup_path: Path) -> None:
    """Replace the content of a store's file in one transaction, while no other has it open."""
    with _sqlite(path) as target, _sqlite(backup_path, "ro") as source:
        try:
            # Leaving the write-ahead log needs that no other connection is open at all.
            (mode,) = target.execute("PRAGMA journal_mode = DELETE").fetchone()
            target.execute("PRAGMA locking_mode = EXCLUSIVE")
            target.execute("BEGIN EXCLUSIVE")
            target.execute("COMMIT")
        except sqlite3.OperationalError:
            mode = "locked"
        if mode != "delete":
            raise TransferError(f"{path} is in use; stop what serves it and other commands first")
        source.backup(target)


def _require_alone(store: Store) -> None:
    """Raise TransferError while another session uses the PostgreSQL database."""
    others = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    store.close()
    with store.engine.connect() as connection:
        count = connection.scalar(others)
    if count:
        raise TransferError(
            f"{count} other session{'s use' if count > 1 else ' uses'} the database; "
            "stop the servers, schedulers and commands first"
        )


def _restore_rows(store: Store, path: Path) -> None:
    """Copy a backup of this release or an earlier one into PostgreSQL."""
    with _part_of(path) as part:
        _copy_pages(path, part, "ro")
        made = Store(f"sqlite:///{part}")
        try:
            upgrade(made)
            copy(made, store, replace=True)
        finally:
            made.close()


@contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    """Yield a new, empty file beside `path` that only its user can read, and that is deleted
    again.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        yield part
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{part}{end}").unlink(missing_ok=True)


@contextmanager
def _sqlite(path: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=5)
    try:
        yield connection
    finally:
        with suppress(sqlite3.Error):
            connection.close()

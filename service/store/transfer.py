"""Write a SQLite store to a file while it is served, and bring it back from that file.

PostgreSQL has its own tools for both, pg_dump and pg_restore.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa

from gramwatt.sci.figures.errors import StoreError
from gramwatt.service.store.database import Store
from gramwatt.service.store.migrate import SchemaError, refuse_other, upgrade
from gramwatt.service.store.serving import Listening
from gramwatt.service.store.tables import METADATA


class TransferError(StoreError):
    """A backup or restore that was refused or failed; the message says what to do."""


def backup(store: Store, path: Path) -> None:
    """Write a SQLite store to one file, complete and consistent also while others write.

    Raises TransferError when the file exists or the store is PostgreSQL, and OSError when it cannot
    be written.
    """
    source = _file_of(store, "back it up with pg_dump")
    if path.exists():
        raise TransferError(f"{path} exists; name a file that does not")
    if not source.exists():
        raise TransferError(f"there is no store at {source}")
    try:
        with _part_of(path) as part:
            _copy_pages(source, part)
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
    target = _file_of(store, "bring it back with pg_restore")
    _require_backup(path)
    upgrade(store)
    with store.read() as session:
        tables = [t for t in METADATA.sorted_tables if t is not Listening.__table__]
        first = (sa.select(sa.literal(1)).select_from(table).limit(1) for table in tables)
        has_rows = any(map(session.connection().scalar, first))
    if has_rows and not replace:
        raise TransferError(
            "the store is not empty; --replace keeps a backup of it and replaces it"
        )
    if has_rows:
        backup(store, old)
    store.close()
    _replace_pages(target, path)
    upgrade(store)
    return has_rows


def _file_of(store: Store, instead: str) -> Path:
    if store.path is None:
        raise TransferError(f"the store is a PostgreSQL database; {instead}")
    return store.path


def _copy_pages(source: Path, target: Path) -> None:
    """SQLite's online backup in one step: writers of a WAL store go on meanwhile."""
    with _sqlite(source) as reading, _sqlite(target) as writing:
        reading.backup(writing)


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
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except (sqlite3.Error, TypeError) as error:
        raise TransferError(f"{path} is not a backup of a store: {error}") from None
    try:
        refuse_other(revision, "restore another backup")
    except SchemaError as error:
        raise TransferError(f"{path}: {error.message}") from None


def _require_sound(connection: sqlite3.Connection, path: Path) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise TransferError(f"{path} is damaged: {verdict}")


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

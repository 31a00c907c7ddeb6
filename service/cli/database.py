"""The commands `gramwatt db upgrade`, `check`, `copy`, `backup` and `restore`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.collectors.common.files import why
from gramwatt.collectors.common.progress import bar, busy
from gramwatt.service.cli.common import DatabaseUrl, database_errors, open_service, stop

if TYPE_CHECKING:
    from gramwatt.service.store.database import Store

Address = Annotated[str, typer.Argument(help="sqlite:////path/file.db or postgresql://...")]


def upgrade(database_url: DatabaseUrl = None) -> None:
    """Create the tables, or bring them up to date."""
    from gramwatt.service.store import migrate

    with open_service(database_url) as service:
        changed = migrate.upgrade(service.store)
    print("upgraded" if changed else "up to date")


def check(database_url: DatabaseUrl = None) -> None:
    """Check that the tables are those of this release; exit code 1 when they are not."""
    from gramwatt.service.store.migrate import differences, is_current, require_known

    with open_service(database_url) as service:
        require_known(service.store)
        if not is_current(service.store):
            stop(1, "the database is not up to date; run: gramwatt db upgrade")
        changes = differences(service.store)
    if changes:
        stop(1, "the tables differ from this release:\n" + "\n".join(changes))
    print("up to date")


def copy(source: Address, target: Address) -> None:
    """Copy a store into an empty database, of either kind, and compare them row by row.

    The source may be in use: its state of one moment is copied. A copy that fails leaves nothing.
    """
    from gramwatt.service.store import transfer

    with _opened(source) as reading, _opened(target) as writing, database_errors():
        if reading.path is not None and not reading.path.exists():
            stop(1, f"there is no store at {reading.path}")
        with bar("copying") as report:
            copied = transfer.copy(reading, writing, progress=report)
    for table in copied:
        print(f"{table.table:<18} {table.rows:>12} rows  checksum {table.checksum}")
    print(f"copied {sum(table.rows for table in copied)} rows; every row is equal in both")


def backup(
    file: Annotated[Path, typer.Argument(help="A file that does not exist yet.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Write the store to one SQLite file, complete and consistent, also while it is served."""
    from gramwatt.service.store import transfer

    with open_service(database_url) as service:
        try:
            with busy("writing the backup"):
                transfer.backup(service.store, file)
        except OSError as error:
            stop(1, f"cannot write {file}: {why(error)}")
    print(file)


def restore(
    file: Annotated[Path, typer.Argument(help="What gramwatt db backup wrote.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a store with jobs; a backup of it is kept.")
    ] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Put a backup in the place of the store, while nothing uses it."""
    from gramwatt.service.store import migrate, transfer
    from gramwatt.service.tasks.leader import leader_of

    with open_service(database_url) as service:
        migrate.upgrade(service.store)
        beside = service.store.path or file
        old = beside.with_name(f"{beside.name}.before-restore-{service.now():%Y%m%dT%H%M%SZ}")
        leader = leader_of(service.store, "restore")
        if not leader.leads():
            stop(1, "the store is in use; stop gramwatt serve and gramwatt scheduler first")
        try:
            with busy("restoring"):
                kept = transfer.restore(service.store, file, old, replace=replace)
        except OSError as error:
            stop(1, f"cannot write: {why(error)}")
        finally:
            leader.resign()
    print(f"restored {file}" + (f"; what it replaced is in {old}" if kept else ""))


@contextmanager
def _opened(address: str) -> Iterator[Store]:
    from gramwatt.service.store.database import Store

    try:
        store = Store(address)
    except ValueError as error:
        stop(2, str(error))
    try:
        yield store
    finally:
        store.close()

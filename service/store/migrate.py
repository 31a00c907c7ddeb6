"""Bring the tables of a store up to date, from inside the installed package.

Alembic is imported only when there is something to do: it costs more than a short command.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gramwatt.collectors.settings import files
from gramwatt.sci.figures.errors import StoreError
from gramwatt.service.store.database import Store
from gramwatt.service.store.migrations import HEAD

if TYPE_CHECKING:
    from alembic.config import Config

_ADVISORY_KEY = 0x6772616D77
"""Key of the PostgreSQL lock that lets one process migrate at a time ("gramw" in ASCII)."""


class SchemaError(StoreError):
    """The tables are not those of this release; the message says what to do."""


def current(connection: Connection) -> str | None:
    """Return the revision that the tables are at; None for an empty database."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    row = connection.execute(sa.text("SELECT version_num FROM alembic_version")).first()
    return str(row[0]) if row else None


def is_current(store: Store) -> bool:
    """Return whether the tables are those of this release; creates no SQLite file."""
    if store.path is not None and not store.path.exists():
        return False
    with store.engine.connect() as connection:
        return current(connection) == HEAD


def require_known(store: Store) -> None:
    """Raise SchemaError for tables of another build; creates no SQLite file."""
    if store.path is not None and not store.path.exists():
        return
    with store.engine.connect() as connection:
        _refuse_other(store, current(connection))


def upgrade(store: Store) -> bool:
    """Create or upgrade the tables; safe from several processes at once. True if it changed any.

    Raises SchemaError for tables of a newer release or of an unreleased build, which stay.
    """
    if store.path is not None:
        _make_private(store.path)
    if is_current(store):
        return False
    from alembic import command

    with store.migrating() as connection:
        if not store.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_KEY)))
        if (revision := current(connection)) == HEAD:
            return False
        _refuse_other(store, revision)
        command.upgrade(_config(connection), "head")
        if (reached := current(connection)) != HEAD:
            raise SchemaError(f"the migrations ended at {reached}, not at {HEAD}; install again")
    return True


def differences(store: Store) -> list[str]:
    """Return what the tables have that the models lack, or the reverse; empty when equal."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from gramwatt.service.store.base import ONLY
    from gramwatt.service.store.tables import METADATA

    kind = store.url.get_backend_name()

    def is_here(item: Any, _name: str | None, _kind: str, _found: bool, _other: Any) -> bool:
        return bool(item.info.get(ONLY, kind) == kind)

    with store.engine.connect() as connection:
        opts = {"compare_type": True, "include_object": is_here}
        context = MigrationContext.configure(connection, opts=opts)
        return [str(change) for change in compare_metadata(context, METADATA)]


def _make_private(path: Path) -> None:
    """Create an empty file of mode 0600 if missing: SQLite itself applies only the umask.

    Its WAL and journal files get the file's mode (sqlite.org/src, findCreateFileMode).
    """
    files.folder(path.parent)
    if not str(path).startswith(("file:", ":memory:")):
        with suppress(OSError):  # it exists, or SQLite will report what is wrong
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def refuse_other(revision: str | None, otherwise: str) -> None:
    """Raise SchemaError for tables that this release did not make and cannot bring up to date.

    `otherwise` is what to do instead of bringing them along.
    """
    if revision in (None, HEAD):
        return
    if re.fullmatch(r"00[0-2]\d", revision):
        raise SchemaError(
            f"the store was made by a build before 0.1.0 (revision {revision}). With that build, "
            "or the last one that reads it, run: gramwatt export journals DIR; then here, for a "
            f"new store ({otherwise}): gramwatt import journals DIR"
        )
    raise SchemaError(
        f"the store was made by a newer gramwatt (revision {revision}); "
        f"upgrade gramwatt, or {otherwise}"
    )


def _refuse_other(store: Store, revision: str | None) -> None:
    setting, what = (
        ("GRAMWATT_HOME", "folder") if store.is_sqlite else ("GRAMWATT_DATABASE_URL", "database")
    )
    refuse_other(revision, f"set {setting} to another {what}")


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option(
        "script_location", str(resources.files("gramwatt.service.store") / "migrations")
    )
    config.attributes["connection"] = connection
    return config

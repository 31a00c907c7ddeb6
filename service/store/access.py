"""The tables of who may ask, projects, keys and browser sessions, and of who did what: the log.

Keys and cookies are random 256-bit texts, of which only the SHA-256 digest is stored: nothing can
be guessed from it, so no slow password hash is needed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Index, String
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.base import AutoKey, Base, Document, Label, Timestamp, Word


class Project(Base):
    """A project that was declared, so that it is listed before its first job."""

    __tablename__ = "projects"

    project: Mapped[Label] = mapped_column(primary_key=True)
    declared_us: Mapped[Timestamp]
    declared_by: Mapped[Label]


class ApiKey(Base):
    """A key that a person made. `projects` is a JSON list, null for every project.

    While a key is rotated there are two of its name, of which the older expires.

    `prefix` is the visible part of the key, by which it is found, and `origin` that of the key
    which it replaces by rotation, else its own.
    """

    __tablename__ = "api_keys"

    id: Mapped[AutoKey]
    name: Mapped[Word]
    prefix: Mapped[Word] = mapped_column(unique=True)
    origin: Mapped[Word]
    digest: Mapped[Word]
    scope: Mapped[Word]
    projects: Mapped[Document | None]
    created_us: Mapped[Timestamp]
    created_by: Mapped[Label]
    expires_us: Mapped[Timestamp | None]
    used_us: Mapped[Timestamp | None]


class BrowserSession(Base):
    """What lets a browser in: a link that works once, or the cookie that it was exchanged for.

    `signer` is the digest of the server's own key when the cookie was given out, empty where it had
    none: with another key the session is over.
    """

    __tablename__ = "browser_sessions"
    __table_args__ = (Index(None, "expires_us"),)

    digest: Mapped[Word] = mapped_column(primary_key=True)
    kind: Mapped[Word]
    name: Mapped[Label]
    scope: Mapped[Word]
    projects: Mapped[Document | None]
    started_us: Mapped[Timestamp]
    expires_us: Mapped[Timestamp]
    address: Mapped[Word] = mapped_column(default="")
    signer: Mapped[Word] = mapped_column(default="")


class AuditEntry(Base):
    """Who did what to what, when and from where; triggers refuse to change or delete a row."""

    __tablename__ = "audit"

    id: Mapped[AutoKey]
    at_us: Mapped[Timestamp]
    actor: Mapped[Label]
    credential: Mapped[Word] = mapped_column(default="")
    address: Mapped[Word]
    action: Mapped[Word]
    subject: Mapped[str] = mapped_column(String(1024))


@contextmanager
def audit_unlocked(connection: Connection) -> Iterator[None]:
    """Let old entries of the log be deleted, and a name in it be erased, by its owner."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ALTER TABLE audit DISABLE TRIGGER USER")
        yield
        connection.exec_driver_sql("ALTER TABLE audit ENABLE TRIGGER USER")
        return
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'"
    triggers = connection.exec_driver_sql(query).all()
    for name, _ in triggers:
        connection.exec_driver_sql(f"DROP TRIGGER {name}")
    yield
    for _, statement in triggers:
        connection.exec_driver_sql(statement)

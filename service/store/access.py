"""The tables of who may ask: projects, keys, browser sessions, and the log of
what was done with them.

Keys and cookies are random 256-bit texts, of which only the SHA-256 digest is stored: nothing can
be guessed from it, so no slow password hash is needed.
"""

import json
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import Index, String
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Mapped, Session, mapped_column

from gramwatt.sci.records.records import AnyRecord, JobRecord
from gramwatt.service.store.columns import upsert
from gramwatt.service.store.models import AutoKey, Base, Document, Label, Timestamp, Word


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


USER = "user"
"""The tag that says whose job it is."""
_ALIAS = re.compile(r"person-[0-9a-f]{12}")


class Person(Base):
    """The alias of a person and the name, null once it was erased."""

    __tablename__ = "people"

    alias: Mapped[Word] = mapped_column(primary_key=True)
    name: Mapped[Label | None] = mapped_column(unique=True)


def known_alias(session: Session, name: str) -> str | None:
    """Return the alias of a name; None for one that nothing has."""
    return session.scalar(sa.select(Person.alias).where(Person.name == name))


def alias_of(session: Session, name: str) -> str:
    """Return the alias of a name, a new one where nothing has that name; an alias is its own."""
    if _ALIAS.fullmatch(name):
        return name
    if (alias := known_alias(session, name)) is None:
        upsert(session, Person, [{"alias": f"person-{secrets.token_hex(6)}", "name": name}])
        alias = known_alias(session, name)  # of two that add it at once, one does
    assert alias is not None
    return alias


def with_aliases(session: Session, records: Iterable[AnyRecord]) -> list[AnyRecord]:
    """Return records in which no tag `user` is a name."""
    return [
        replace(record, tags={**record.tags, USER: alias_of(session, record.tags[USER])})
        if isinstance(record, JobRecord) and USER in record.tags
        else record
        for record in records
    ]


def with_names(session: Session, text: str) -> str:
    """Return a JSON text with names for aliases; the alias stays where its name was erased."""
    aliases = set(_ALIAS.findall(text))
    if not aliases:
        return text
    statement = sa.select(Person.alias, Person.name).where(Person.alias.in_(sorted(aliases)))
    names = {alias: json.dumps(name)[1:-1] for alias, name in session.execute(statement) if name}
    return _ALIAS.sub(lambda alias: names.get(alias[0], alias[0]), text)

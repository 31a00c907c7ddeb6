"""The table of the audit log."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import String
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.base import AutoKey, Base, Label, Timestamp, Word


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

"""The tables of the archive: what makes its ids, and which jobs it has, as they were then."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.models import Base, Document, JobKey, Word


class ArchiveKey(Base):
    """The secret that ids in archives are made of; one row, made with the first archive.

    Archives have ids in the place of names, and only a store with this row can tell whose they are.
    """

    __tablename__ = "archive_key"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    secret: Mapped[Word]


class ArchivedJob(Base):
    """A job whose lines of a month were read back from an archive, at this version and revision.

    `place` is the address of the archive that was read last.
    """

    __tablename__ = "archived_jobs"

    month: Mapped[str] = mapped_column(String(7), primary_key=True)
    job: Mapped[JobKey] = mapped_column(primary_key=True, autoincrement=False)
    version: Mapped[int] = mapped_column(BigInteger)
    revision: Mapped[int]
    place: Mapped[Document]


def archive_address(text: str) -> str:
    """Return the one way to write a place of archives: a whole path, or s3://bucket/prefix."""
    return text.rstrip("/") if text.startswith("s3://") else str(Path(text).absolute())

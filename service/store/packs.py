"""The table of the packs that were exported, so that each names the one before it."""

from __future__ import annotations

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.models import AutoKey, Base, Label, Timestamp, Word


class IssuedPack(Base):
    """A pack as it was first exported; rows are only ever added.

    `content` is the SHA-256 of all that it holds but its date and its predecessor, `before` that of
    the pack before it. The project is empty where the pack was not asked for by project.
    """

    __tablename__ = "issued_packs"
    __table_args__ = (Index(None, "name"),)

    id: Mapped[AutoKey]
    kind: Mapped[Word]
    name: Mapped[Label]
    project: Mapped[Label]
    content: Mapped[str] = mapped_column(String(64))
    sha256: Mapped[str] = mapped_column(String(64))
    before: Mapped[str | None] = mapped_column(String(64))
    issued_us: Mapped[Timestamp]

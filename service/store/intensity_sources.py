"""The tables of where grid intensity came from: imported files, and when providers were asked."""

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.base import AutoKey, Base, Label, Timestamp, Word


class IntensityFile(Base):
    """A file of intensity that was imported: its digest, publisher, days, and who did it when."""

    __tablename__ = "intensity_files"
    __table_args__ = (UniqueConstraint("zone", "signal", "basis", "sha256"),)

    id: Mapped[AutoKey]
    zone: Mapped[Word]
    signal: Mapped[Word]
    basis: Mapped[Word]
    sha256: Mapped[Word]
    name: Mapped[Label]
    publisher: Mapped[Label | None]
    licence: Mapped[Label | None]
    link: Mapped[Label | None]
    first_day: Mapped[int]
    last_day: Mapped[int]
    imported_us: Mapped[Timestamp]
    imported_by: Mapped[Label]


class IntensityQuestion(Base):
    """When the providers of a zone were last asked about a day and answered."""

    __tablename__ = "intensity_questions"

    zone: Mapped[Word] = mapped_column(primary_key=True)
    day: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    asked_us: Mapped[Timestamp]

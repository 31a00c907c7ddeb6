"""The tables of grid intensity over time: series, their days, what arrived, and where it came from:
imported files, and when providers were asked.
"""

from sqlalchemy import ForeignKey, LargeBinary, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.base import AutoKey, Base, Key, Label, Timestamp, Word


class IntensitySeries(Base):
    """Grid intensity of one zone, signal, basis and provider.

    `scope` says whether imports are traced (consumption) or not (production); empty where the file
    that was imported does not say. `licence` is that of the values.
    """

    __tablename__ = "intensity_series"
    __table_args__ = (UniqueConstraint("zone", "signal", "basis", "provider"),)

    id: Mapped[AutoKey]
    zone: Mapped[Word]
    signal: Mapped[Word]
    basis: Mapped[Word]
    provider: Mapped[Word]
    scope: Mapped[Word] = mapped_column(default="", server_default="")
    licence: Mapped[Label] = mapped_column(default="", server_default="")


class IntensityDay(Base):
    """One UTC day of a series in equal steps; rows are added, and those of forecasts replaced.

    `day` is its proleptic ordinal, `points` one double a step [gCO2e/kWh], NaN where not known.
    """

    __tablename__ = "intensity_days"

    series: Mapped[int] = mapped_column(
        Key, ForeignKey("intensity_series.id", ondelete="CASCADE"), primary_key=True
    )
    day: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    step_s: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    quality: Mapped[Word] = mapped_column(primary_key=True)
    fetched_us: Mapped[Timestamp] = mapped_column(primary_key=True)
    points: Mapped[bytes] = mapped_column(LargeBinary)


class IntensityArrival(Base):
    """Days of a zone of which points were stored, until the jobs of that time are due again.

    Written with the points, so that a transaction that commits late is not missed.
    """

    __tablename__ = "intensity_arrivals"

    id: Mapped[AutoKey]
    zone: Mapped[Word]
    first_day: Mapped[int]
    last_day: Mapped[int]


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

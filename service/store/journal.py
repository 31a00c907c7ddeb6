"""The tables of what jobs sent: who wrote, what ran, energy, counts, and what people declared.

Lines are never changed; an interval gives way only to a later line of the same identity. Only the
deletion of a whole job removes them.
"""

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Index,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.base import (
    AutoKey,
    Base,
    Document,
    Figure,
    Identifier,
    Key,
    Label,
    Timestamp,
    Word,
)
from gramwatt.service.store.models import JobKey


class Writer(Base):
    """A writer of a job on a node, and which of its sequence numbers have arrived.

    1 to `contiguous` have; `beyond` lists what lies above a gap, as JSON [[first, last], ...].
    """

    __tablename__ = "writers"
    __table_args__ = (UniqueConstraint("job", "node", "writer"),)

    id: Mapped[AutoKey]
    job: Mapped[JobKey]
    node: Mapped[Identifier]
    writer: Mapped[Identifier]
    contiguous: Mapped[int] = mapped_column(BigInteger)
    beyond: Mapped[Document]


class Statement(Base):
    """A `job`, `device`, `end` or window line as journaled: what ran, on what, and how it ended."""

    __tablename__ = "statements"

    writer: Mapped[int] = mapped_column(
        Key, ForeignKey("writers.id", ondelete="CASCADE"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    line: Mapped[Document]


class Device(Base):
    """A device that intervals of a job belong to; narrow keys keep the interval table small."""

    __tablename__ = "devices"
    __table_args__ = (UniqueConstraint("job", "node", "device_id"), Index(None, "device_id"))

    id: Mapped[AutoKey]
    job: Mapped[JobKey]
    node: Mapped[Identifier]
    device_id: Mapped[Identifier]


class Interval(Base):
    """Energy of one device over [start, end); the key is (job, node, device) and start.

    `extra` are the fields of its line that this release does not know, as JSON.
    """

    __tablename__ = "intervals"

    device: Mapped[int] = mapped_column(
        Key, ForeignKey("devices.id", ondelete="CASCADE"), primary_key=True
    )
    start_us: Mapped[Timestamp] = mapped_column(primary_key=True)
    end_us: Mapped[Timestamp]
    seq: Mapped[int] = mapped_column(BigInteger)
    writer: Mapped[Identifier]
    energy_j: Mapped[Figure]
    kind: Mapped[Word]
    utilisation_mean: Mapped[Figure | None]
    utilisation_max: Mapped[Figure | None]
    memory_peak_b: Mapped[Figure | None]
    power_max_w: Mapped[Figure | None]
    profile: Mapped[Document | None]
    extra: Mapped[Document | None]


class Count(Base):
    """Functional units since the writer's previous `count` line of the same unit and phase.

    `extra` as of an interval.
    """

    __tablename__ = "counts"

    writer: Mapped[int] = mapped_column(
        Key, ForeignKey("writers.id", ondelete="CASCADE"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    at_us: Mapped[Timestamp]
    unit: Mapped[Word]
    amount: Mapped[Figure]
    phase: Mapped[Label | None]
    counter: Mapped[Label | None]
    extra: Mapped[Document | None]


class Correction(Base):
    """A field that a person declared after the job; rows are only ever added.

    They are kept apart from the journal and applied whenever the job is scored.
    """

    __tablename__ = "corrections"
    __table_args__ = (Index(None, "job", "id"),)

    id: Mapped[AutoKey]
    job: Mapped[JobKey]
    made_us: Mapped[Timestamp]
    made_by: Mapped[Label]
    field: Mapped[Label]
    value: Mapped[Document]
    old: Mapped[Document]
    reason: Mapped[Label | None]


class OpenJournal(Base):
    """How far the journal of a node on this machine was read while its meter goes on.

    `positions` are the bytes read of each writer's final lines, `lines` the intervals that are
    still open, which only provisional scores use: they are replaced at each reading.
    """

    __tablename__ = "open_journals"

    job: Mapped[JobKey] = mapped_column(primary_key=True)
    node: Mapped[Identifier] = mapped_column(primary_key=True)
    positions: Mapped[Document]
    lines: Mapped[Document]

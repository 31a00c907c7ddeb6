"""The tables of codecarbon's clients: the runs that they announced, and their messages."""

from __future__ import annotations

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.models import Base, Document, Identifier, Timestamp

RUN_PREFIX = "codecarbon-"
"""How the id of a run's job begins; the run's own id follows."""


class CodecarbonRun(Base):
    """A run that a codecarbon client announced; it becomes a job with its first message.

    `doc` is what the client stated, `heard_us` when it last sent anything, by the server's clock.
    """

    __tablename__ = "codecarbon_runs"
    __table_args__ = (Index(None, "heard_us"),)

    id: Mapped[Identifier] = mapped_column(primary_key=True)
    heard_us: Mapped[Timestamp]
    doc: Mapped[Document]


class CodecarbonEmission(Base):
    """A message of a run and the time [start, end) it covers; its number orders its lines."""

    __tablename__ = "codecarbon_emissions"

    run: Mapped[str] = mapped_column(
        String(128), ForeignKey("codecarbon_runs.id", ondelete="CASCADE"), primary_key=True
    )
    sent_us: Mapped[Timestamp] = mapped_column(primary_key=True)
    start_us: Mapped[Timestamp]
    end_us: Mapped[Timestamp]
    number: Mapped[int] = mapped_column(BigInteger)

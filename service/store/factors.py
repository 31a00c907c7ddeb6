"""The table of one row that says how far scores follow the factors of today."""

from __future__ import annotations

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.models import Base, Label


class FactorBackfill(Base):
    """How far scores follow the factors that they are made of.

    All scores follow those of `done`. Those of jobs up to the key `job` follow those of `until`.
    """

    __tablename__ = "factor_backfill"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    done: Mapped[Label]
    until: Mapped[Label]
    job: Mapped[int] = mapped_column(BigInteger)

"""The table of who closed which month, and who opened it again."""

from __future__ import annotations

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.models import Base, Label, Timestamp


class MonthClosing(Base):
    """A month that was closed with the kept `revision` of its report; rows are only ever added.

    `number` counts the closings of a month. Null in `reopened_us` while it is closed.
    """

    __tablename__ = "month_closings"

    month: Mapped[str] = mapped_column(String(7), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[int]
    closed_us: Mapped[Timestamp]
    closed_by: Mapped[Label]
    reopened_us: Mapped[Timestamp | None]
    reopened_by: Mapped[Label | None]
    reason: Mapped[Label | None]

"""The tables of alerts and of the messages to deliver."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Index,
    String,
)
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.base import (
    AutoKey,
    Base,
    Document,
    Figure,
    Label,
    Timestamp,
    Word,
)


class Alert(Base):
    """A threshold [percent] that a project has reached in a month; `doc` is what is sent of it.

    It is of the budget as it was set then, of its `budget_version`.
    """

    __tablename__ = "alerts"

    project: Mapped[Label] = mapped_column(primary_key=True)
    month: Mapped[str] = mapped_column(String(7), primary_key=True)
    budget_version: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    threshold: Mapped[Figure] = mapped_column(primary_key=True)
    made_us: Mapped[Timestamp]
    doc: Mapped[Document]


class OutboxMessage(Base):
    """A message to deliver, and what became of it; `next_us` is when it is tried, or claimed until.

    `key` names the alert and the channel, so that no alert is sent twice by one channel.
    """

    __tablename__ = "outbox"
    __table_args__ = (Index(None, "sent_us", "next_us"),)

    id: Mapped[AutoKey]
    project: Mapped[Label]
    key: Mapped[str] = mapped_column(String(1024), unique=True)
    channel: Mapped[Word]
    target: Mapped[str] = mapped_column(String(2048))
    doc: Mapped[Document]
    made_us: Mapped[Timestamp]
    attempts: Mapped[int]
    next_us: Mapped[Timestamp | None]
    sent_us: Mapped[Timestamp | None]
    error: Mapped[Label | None]


def outbox_row(
    key: Sequence[object], project: str, to: tuple[str, str], doc: str, now_us: int
) -> dict[str, Any]:
    """Return the row of a new message to a channel and a target; with these its `key` is unique."""
    return {
        "project": project,
        "key": json.dumps([*key, *to]),
        "channel": to[0],
        "target": to[1],
        "doc": doc,
        "made_us": now_us,
        "attempts": 0,
        "next_us": now_us,
    }

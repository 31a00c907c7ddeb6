"""The tables of months, as `sci/month/columns.py` describes them, and the sums that are kept."""

import json
from collections.abc import Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import BigInteger, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.sci.month.columns import TABLES
from gramwatt.service.store.models import (
    AutoKey,
    Base,
    Document,
    Figure,
    Identifier,
    JobKey,
    Key,
    Label,
    Month,
    Timestamp,
    Word,
)

ALL = ""
"""How the store writes "every project"."""
_TYPES: dict[str, Any] = {"text": sa.Text(), "int": sa.BigInteger(), "float": sa.Double()}
_CLUSTERED = {"sqlite_with_rowid": False}
"""SQLite keeps the rows of such a table in the order of its key: those of a month together."""


class JobMonth(Base):
    """The figures of a job in a month, by its newest score."""

    __tablename__ = "job_months"
    __table_args__ = (
        sa.Index(None, "month", "project"),
        sa.Index(None, "job"),
        sa.Index(None, "model_id"),
    )

    month: Mapped[Month] = mapped_column(primary_key=True)
    job: Mapped[JobKey] = mapped_column(primary_key=True, autoincrement=False)
    project: Mapped[Label]
    job_id: Mapped[Identifier]
    model_id: Mapped[Label | None]
    excluded: Mapped[str | None] = mapped_column(sa.Text)
    revision: Mapped[int]
    total_g: Mapped[float | None] = mapped_column(sa.Double)


def _of_job(name: str, *key: str) -> type[Base]:
    """Return the model of a table with several rows a job and month."""
    columns: dict[str, Any] = {
        "month": mapped_column(sa.String(7), primary_key=True),
        "job": mapped_column(Key, primary_key=True, autoincrement=False),
        "project": mapped_column(sa.String(512), nullable=False),
        "job_id": mapped_column(sa.String(128), nullable=False),
    }
    for column in key:
        kind = _TYPES[TABLES[name][column]]
        columns[column] = mapped_column(kind, primary_key=True, autoincrement=False)
    title = "".join(word.title() for word in name.split("_"))
    about = {"__tablename__": name, "__table_args__": _CLUSTERED, "__module__": __name__}
    return cast(type[Base], type(title, (Base,), {**about, **columns}))


class MonthMethod(Base):
    """By what scores are made that are made alike."""

    __tablename__ = "month_methods"

    method: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)


class MonthMethodText(Base):
    """A text of a method, such as a source."""

    __tablename__ = "month_method_texts"

    method: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    what: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    text: Mapped[str] = mapped_column(sa.Text, primary_key=True)


OF_JOB: dict[str, type[Base]] = {
    "job_months": JobMonth,
    "month_effects": _of_job("month_effects", "input_id"),
    "month_days": _of_job("month_days", "day"),
    "month_counts": _of_job("month_counts", "unit"),
    "month_components": _of_job("month_components", "term", "component"),
    "month_factors": _of_job("month_factors", "number"),
}
"""The tables with rows of jobs."""
MODELS: dict[str, type[Base]] = {
    **OF_JOB,
    "month_methods": MonthMethod,
    "month_method_texts": MonthMethodText,
}
for _name, _model in MODELS.items():
    for _column, _kind in TABLES[_name].items():
        if _column not in _model.__table__.c:
            _type = _TYPES[_kind.rstrip("?")]
            setattr(_model, _column, mapped_column(_type, nullable=_kind.endswith("?")))


class MonthSum(Base):
    """The sums of a month of a project, or of all, as they were made last.

    `changes` counts what changed the month's rows. The document holds while that is `made_of`, the
    advice while it is `advised_of`.
    """

    __tablename__ = "month_sums"

    month: Mapped[Month] = mapped_column(primary_key=True)
    project: Mapped[Label] = mapped_column(primary_key=True)
    changes: Mapped[int] = mapped_column(sa.BigInteger)
    made_of: Mapped[int | None] = mapped_column(sa.BigInteger)
    document: Mapped[Document | None]
    advised_of: Mapped[int | None] = mapped_column(sa.BigInteger)
    advice: Mapped[Document | None]


class FactorBackfill(Base):
    """How far scores follow the factors that they are made of.

    All scores follow those of `done`. Those of jobs up to the key `job` follow those of `until`.
    """

    __tablename__ = "factor_backfill"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    done: Mapped[Label]
    until: Mapped[Label]
    job: Mapped[int] = mapped_column(BigInteger)


class Budget(Base):
    """What a project may emit in a month [gCO2e]; without a month, in every month without its own.

    With `covers`, JSON, it is a budget of that name: of several `projects`, or of a `cost_centre`.
    `thresholds` are percents as a JSON list; an alert goes to `webhook` and `email`, where set.
    `version` is a random number, another one when the limit or a receiver changes.
    """

    __tablename__ = "budgets"

    project: Mapped[Label] = mapped_column(primary_key=True)
    month: Mapped[str] = mapped_column(String(7), primary_key=True)
    covers: Mapped[Document | None]
    limit_g: Mapped[Figure]
    thresholds: Mapped[Document]
    webhook: Mapped[str | None] = mapped_column(String(2048))
    email: Mapped[Label | None]
    version: Mapped[int] = mapped_column(BigInteger)
    set_us: Mapped[Timestamp]
    set_by: Mapped[Label]


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

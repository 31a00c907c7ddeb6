"""The tables of months, as `sci/month/columns.py` describes them, and the sums that are kept."""

from __future__ import annotations

from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.sci.month.columns import TABLES
from gramwatt.service.store.models import (
    Base,
    Document,
    Identifier,
    JobKey,
    Key,
    Label,
    Month,
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

"""The tables of months, as `sci/month/columns.py` describes them, and the sums that are kept."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.sci.month.columns import TABLES
from gramwatt.service.store.base import (
    AutoKey,
    Base,
    Document,
    Figure,
    Identifier,
    Key,
    Label,
    Month,
    Timestamp,
    Word,
)
from gramwatt.service.store.models import Job

ALL = ""
"""How the store writes "every project"."""
_TYPES: dict[str, Any] = {"text": sa.Text(), "int": BigInteger(), "float": sa.Double()}
_LABELS: dict[str, Any] = {"month": String(7), "project": String(512), "job_id": String(128)}
"""Columns of texts that an index may hold."""


def _table(
    name: str,
    *key: str,
    own: Sequence[sa.Column[Any]],
    more: Sequence[sa.Index] = (),
    **options: Any,
) -> sa.Table:
    """Return a table of months with this key: the columns of `TABLES`, and `own` ones.

    It is a plain one: statements in SQL read it, and mapping its columns would take a tenth of the
    time of `gramwatt month`.
    """
    columns = {column.name: column for column in own}
    for column, kind in TABLES[name].items():
        columns.setdefault(
            column,
            sa.Column(
                column,
                _LABELS.get(column, _TYPES[kind.rstrip("?")]),
                primary_key=column in key,
                autoincrement=False,
                nullable=kind.endswith("?"),
            ),
        )
    ordered = (columns[column] for column in dict.fromkeys((*key, *columns)))
    return sa.Table(name, Base.metadata, *ordered, *more, **options)


def _key(name: str, *more: Any) -> sa.Column[Any]:
    return sa.Column(name, Key, *more, primary_key=True, autoincrement=False)


def _of_job(name: str, *key: str) -> sa.Table:
    """Return a table with several rows a job and month."""
    # SQLite keeps the rows of such a table in the order of its key: those of a month together.
    return _table(name, "month", "job", *key, own=(_key("job"),), sqlite_with_rowid=False)


OF_JOB: dict[str, sa.Table] = {
    "job_months": _table(
        "job_months",
        *("month", "job"),
        own=(
            _key("job", ForeignKey(Job.id, ondelete="CASCADE")),
            sa.Column("model_id", String(512)),
            sa.Column("revision", sa.Integer, nullable=False),
        ),
        more=(
            sa.Index(None, "month", "project"),
            sa.Index(None, "job"),
            sa.Index(None, "model_id"),
        ),
    ),
    "month_effects": _of_job("month_effects", "input_id"),
    "month_days": _of_job("month_days", "day"),
    "month_counts": _of_job("month_counts", "unit"),
    "month_components": _of_job("month_components", "term", "component"),
    "month_factors": _of_job("month_factors", "number"),
}
"""The tables with rows of jobs."""
METHODS: dict[str, sa.Table] = {
    "month_methods": _table("month_methods", "method", own=(_key("method"),)),
    "month_method_texts": _table(
        "month_method_texts", "method", "what", "text", own=(_key("method"),)
    ),
}
"""By what scores are made that are made alike; and the texts of that, such as a source."""


class JobMonth(Base):
    """A job in a month, by its newest score: the columns that lists and reports select.

    A restricted session sees mapped tables alone.
    """

    __table__ = OF_JOB["job_months"]
    __mapper_args__ = {
        "include_properties": (
            *("month", "job", "project", "job_id", "excluded", "revision"),
            *("energy_kwh", "operational_g", "embodied_g"),
        )
    }

    month: Mapped[str]
    job: Mapped[int]
    project: Mapped[str]
    job_id: Mapped[str]
    excluded: Mapped[str | None]


class MonthlyReport(Base):
    """A kept report of a month; the project is empty for the report over all projects.

    It never changes, but for `changes`: how often the rows of the month had changed when it was
    last known to hold (`MonthSum`).
    """

    __tablename__ = "monthly_reports"
    __table_args__ = (UniqueConstraint("month", "project", "revision"),)

    id: Mapped[AutoKey]
    month: Mapped[str] = mapped_column(String(7))
    project: Mapped[Label]
    revision: Mapped[int]
    made_us: Mapped[Timestamp]
    changes: Mapped[int] = mapped_column(BigInteger)
    doc: Mapped[Document]


class MonthlyReportJob(Base):
    """A job in the sums of a kept report: by which of its scores, and its part of the month.

    It has the fields of `sci.month.revised.JobRow` but the job's name of today. Rows never change,
    and stay when the job is deleted.
    """

    __tablename__ = "monthly_report_jobs"

    report: Mapped[int] = mapped_column(
        Key, ForeignKey("monthly_reports.id", ondelete="CASCADE"), primary_key=True
    )
    job_id: Mapped[Identifier] = mapped_column(primary_key=True)
    project: Mapped[Label] = mapped_column(primary_key=True)
    revision: Mapped[int]
    energy_kwh: Mapped[float | None]
    operational_g: Mapped[float | None]
    embodied_g: Mapped[float | None]
    cause: Mapped[Word | None]
    detail: Mapped[Label | None]


class MonthSum(Base):
    """The sums of a month of a project, or of all, as they were made last.

    `changes` counts what changed the month's rows. The document holds while that is `made_of`, the
    advice while it is `advised_of`.
    """

    __tablename__ = "month_sums"

    month: Mapped[Month] = mapped_column(primary_key=True)
    project: Mapped[Label] = mapped_column(primary_key=True)
    changes: Mapped[int] = mapped_column(BigInteger)
    made_of: Mapped[int | None] = mapped_column(BigInteger)
    document: Mapped[Document | None]
    advised_of: Mapped[int | None] = mapped_column(BigInteger)
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

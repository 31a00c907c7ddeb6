"""The tables of jobs, their scores, and what stays of a deleted job.

A score never changes. Only the deletion of a whole job removes it.
"""

from typing import Annotated, Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    ForeignKey,
    Index,
    String,
    UniqueConstraint,
    literal_column,
    or_,
)
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.base import (
    LABEL_MOST,
    ONLY,
    POSTGRESQL,
    AutoKey,
    Base,
    Document,
    Figure,
    Identifier,
    Key,
    Label,
    Timestamp,
    Word,
    partial_index,
)

BY_POINT: Any = {ONLY: POSTGRESQL, POSTGRESQL: {"ops": {"job_id": "varchar_pattern_ops"}}}
JobKey = Annotated[int, mapped_column(Key, ForeignKey("jobs.id", ondelete="CASCADE"))]
PENDING = "state = 'running' OR scored_version <> version"
"""Jobs that run, or have lines that their newest score lacks."""
REPORTED = "reporter IS NOT NULL"
"""Jobs that gramwatt's own meter does not report."""
OF_MODEL = (
    *("model_id", "project", "state", "revision", "version", "scored_version"),
    *("heard_us", "id"),
)
"""All that says whether sums over a model's runs still hold, so that no row of jobs is read."""

SORTED = ("ended_us", "duration_s", "energy_kwh", "total_g")
"""Columns by which lists sort jobs, beside their start."""


class Job(Base):
    """A job: its identity, what lists show and sort by, and how far it is scored.

    `started_us` is when it started; of an ended job of a clock that was ahead, when its lines came.
    `version` counts the batches that changed the job; the newest score was made of
    `scored_version`. `heard_us` is when the last new line arrived, by the server's clock.
    `silent_us` is when the server closed the job as lost; a later line clears it. `name` to
    `total_g` are those of `head`, for lists; a figure that is not known is null.
    `intervals_deleted_us` is when intervals
    and counts were deleted, because they had been kept long enough. `rescore_us` is when the
    score is to be made again, because intensity of its time is known better by then; null if it is
    final. `reporter` is who reports the job (`records.REPORTERS`), null for gramwatt's own meter.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        UniqueConstraint("job_id"),
        Index(None, "project", "started_us", "id"),
        Index(None, "state", "heard_us"),
        # Those of a list have the project, so that a caller's are seen without their rows.
        *(
            Index(f"ix_jobs_by_{name}", name, "started_us", "id", "project")
            for name in ("model_id", "state", "kind", "name")
        ),
        *(Index(f"ix_jobs_in_{name}", name, "id", "project") for name in ("started_us", *SORTED)),
        partial_index("ix_jobs_pending", "started_us", "id", "state", where=PENDING),
        Index("ix_jobs_of_model", *OF_MODEL),
        partial_index("ix_jobs_rescore", "rescore_us", "id", where="rescore_us IS NOT NULL"),
        partial_index("ix_jobs_reporter", "reporter", "id", where=REPORTED),
        Index(None, "project", "state", "started_us", "id"),
        *(Index(None, "project", name, "id") for name in SORTED),
        Index("ix_jobs_job_id_prefix", "job_id", info=BY_POINT).ddl_if(dialect=POSTGRESQL),
    )

    id: Mapped[AutoKey]
    job_id: Mapped[Identifier]
    project: Mapped[Label]
    model_id: Mapped[Label | None]
    state: Mapped[Word]
    started_us: Mapped[Timestamp]
    heard_us: Mapped[Timestamp]
    silent_us: Mapped[Timestamp | None]
    version: Mapped[int] = mapped_column(BigInteger)
    scored_version: Mapped[int] = mapped_column(BigInteger)
    revision: Mapped[int]
    head: Mapped[Document]
    grade: Mapped[Word | None]
    notices: Mapped[int]
    name: Mapped[Label | None]
    kind: Mapped[Word | None]
    ended_us: Mapped[Timestamp | None]
    duration_s: Mapped[Figure | None]
    energy_kwh: Mapped[Figure | None]
    total_g: Mapped[Figure | None]
    intervals_deleted_us: Mapped[Timestamp | None]
    rescore_us: Mapped[Timestamp | None]
    reporter: Mapped[Word | None]


class JobLabel(Base):
    """A tag, a part or a zone of a job, as `store.job_labels` writes it, so that lists find it.

    `project` and `started_us` are copied from the job, so that the indexes of a label have the
    order of a list, over all projects and in each.
    """

    __tablename__ = "job_labels"
    __table_args__ = (
        Index("ix_job_labels_in_order", "label", "started_us", "job", "project"),
        Index("ix_job_labels_of_project", "project", "label", "started_us", "job"),
    )

    job: Mapped[JobKey] = mapped_column(primary_key=True)
    label: Mapped[str] = mapped_column(String(LABEL_MOST), primary_key=True)
    project: Mapped[Label]
    started_us: Mapped[Timestamp]


class Score(Base):
    """A score revision: the whole document and its versions. Rows are only ever added.

    `series` holds what changes over time, which is long and read only by the job's own report.
    """

    __tablename__ = "scores"
    __table_args__ = (UniqueConstraint("job", "revision"),)

    id: Mapped[AutoKey]
    job: Mapped[JobKey]
    revision: Mapped[int]
    made_us: Mapped[Timestamp]
    reason: Mapped[Word]
    engine_version: Mapped[Word]
    catalog_version: Mapped[Word]
    conformance: Mapped[Word]
    doc: Mapped[Document]
    series: Mapped[Document]


class Provisional(Base):
    """The latest score of a job that still runs; replaced, because it is no revision."""

    __tablename__ = "provisionals"

    job: Mapped[JobKey] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(BigInteger)
    made_us: Mapped[Timestamp]
    doc: Mapped[Document]
    series: Mapped[Document]


class Deletion(Base):
    """What stays of a deleted job: its id and key, when, by whom and why, and its months.

    `grams` has what its newest score added to each month (`jobs/deletion.py`).
    """

    __tablename__ = "deletions"
    __table_args__ = (Index(None, "started_us"),)

    job_id: Mapped[Identifier] = mapped_column(primary_key=True)
    project: Mapped[Label]
    started_us: Mapped[Timestamp]
    deleted_us: Mapped[Timestamp]
    deleted_by: Mapped[Label]
    reason: Mapped[Label | None]
    grams: Mapped[Document]


def is_pending() -> ColumnElement[bool]:
    """Return whether a job runs, or has lines that its newest score lacks.

    Written as `PENDING` is, without a parameter: a partial index serves only its own condition.
    """
    runs = Job.state == literal_column("'running'")
    return or_(runs, Job.scored_version != Job.version)

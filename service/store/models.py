"""The tables: typed SQLAlchemy models for SQLite and PostgreSQL alike.

Times are integer microseconds UTC (`..._us`), because SQLite gives datetimes back without a zone.
Documents are JSON texts, kept exactly as the engine wrote them. Journal lines are never changed;
an interval gives way only to a later line of the same identity, a score to nothing. Only the
deletion of a whole job removes them.
"""

from typing import Annotated, Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    bindparam,
    literal,
    literal_column,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Key = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only in a column of type INTEGER."""

AutoKey = Annotated[int, mapped_column(Key, primary_key=True, autoincrement=True)]
JobKey = Annotated[int, mapped_column(Key, ForeignKey("jobs.id", ondelete="CASCADE"))]
Timestamp = Annotated[int, mapped_column(BigInteger)]
Identifier = Annotated[str, mapped_column(String(128))]
Label = Annotated[str, mapped_column(String(512))]
Word = Annotated[str, mapped_column(String(64))]
Figure = Annotated[float, mapped_column(Double)]
Document = Annotated[str, mapped_column(Text)]
Month = Annotated[str, mapped_column(String(7))]
PROJECTS = "gramwatt_projects"
"""Where a restricted session keeps its projects, and the parameter by which each statement gets
them: one set of conditions serves all, so that nothing is kept by what callers name.
"""
LABEL_MOST = 400
"""Characters of a label: an index of PostgreSQL holds up to 2704 bytes, and a character takes 4."""
ONLY = "only"
"""The kind of database in the `info` of an index that the other does without."""
POSTGRESQL = "postgresql"
"""Options of an index on PostgreSQL, in its `info`: `tables.py` gives them to it. To name them here
would load that dialect in every command, which takes a tenth of its time.
"""
BY_POINT: Any = {ONLY: POSTGRESQL, POSTGRESQL: {"ops": {"job_id": "varchar_pattern_ops"}}}
PENDING = "state = 'running' OR scored_version <> version"
"""Jobs that run, or have lines that their newest score lacks."""
REPORTED = "reporter IS NOT NULL"
"""Jobs that gramwatt's own meter does not report."""
OF_MODEL = (
    *("model_id", "state", "revision", "version", "scored_version"),
    *("heard_us", "id"),
)
"""All that says whether sums over a model's runs still hold, so that no row of jobs is read."""


def _partial(name: str, *columns: str, where: str) -> Index:
    """Return an index over the few rows that a task looks for."""
    options = {POSTGRESQL: {"where": text(where)}}
    return Index(name, *columns, sqlite_where=text(where), info=options)


class Base(DeclarativeBase):
    """Root of the models; constraint names are fixed, so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )

    @classmethod
    def of_projects(cls) -> ColumnElement[bool]:
        """Return the condition that a row is of the projects of a session (`restriction.py`).

        Rows of tables that have none are everybody's.
        """
        way = way_to_project(cls.__table__) if cls is not Base else ()
        return _is_of(cls.__table__.c, way) if way else true()


def way_to_project(table: Any) -> tuple[str, ...]:
    """Return the columns to follow from a table to a project, the last is `project`; none of a
    table that is of no project.
    """
    if "project" in table.c:
        return ("project",)
    for key in table.foreign_keys:
        if further := way_to_project(key.column.table):
            return (key.parent.name, *further)
    return ()


def _is_of(columns: Any, way: tuple[str, ...]) -> Any:
    """Return the condition that a row is of the session's projects; correlated, so that its own
    index leads.
    """
    column = columns[way[0]]
    if len(way) == 1:
        return column.in_(bindparam(PROJECTS, expanding=True))
    (key,) = column.foreign_keys
    parent = key.column.table.alias()
    rows = select(literal(1)).select_from(parent)
    return rows.where(parent.c[key.column.name] == column, _is_of(parent.c, way[1:])).exists()


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
        Index(None, "started_us", "id"),
        Index(None, "project", "started_us", "id"),
        Index(None, "state", "heard_us"),
        Index(None, "model_id", "started_us", "id"),
        _partial("ix_jobs_pending", "started_us", "id", "state", where=PENDING),
        Index("ix_jobs_of_model", *OF_MODEL),
        _partial("ix_jobs_rescore", "rescore_us", "id", where="rescore_us IS NOT NULL"),
        _partial("ix_jobs_reporter", "reporter", "id", where=REPORTED),
        Index(None, "state", "started_us", "id"),
        Index(None, "kind", "started_us", "id"),
        Index(None, "name", "started_us", "id"),
        Index(None, "ended_us", "id"),
        Index(None, "duration_s", "id"),
        Index(None, "energy_kwh", "id"),
        Index(None, "total_g", "id"),
        Index(None, "project", "state", "started_us", "id"),
        *(
            Index(None, "project", name, "id")
            for name in ("ended_us", "duration_s", "energy_kwh", "total_g")
        ),
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

    `started_us` is that of the job: the index of a label is in the order of a list.
    """

    __tablename__ = "job_labels"
    __table_args__ = (Index(None, "label", "started_us", "job"),)

    job: Mapped[JobKey] = mapped_column(primary_key=True)
    label: Mapped[str] = mapped_column(String(LABEL_MOST), primary_key=True)
    started_us: Mapped[Timestamp]


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


class KeptAnswer(Base):
    """The answer to a request with an `Idempotency-Key`; null while it is being answered.

    `caller` is the identity of who asked, as the service's `Caller` has it.
    """

    __tablename__ = "kept_answers"
    __table_args__ = (Index(None, "made_us"),)

    caller: Mapped[Label] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    made_us: Mapped[Timestamp]
    request: Mapped[Word]
    answer: Mapped[Document | None]


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

    The columns are those of `sci.month.revised.JobRow`. Rows never change, and stay when the job
    is deleted.
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


class TaskRun(Base):
    """One run of a periodic task; of each task only the newest are kept.

    `outcome` is running, done, failed, or interrupted when its process died or lost the lead.
    """

    __tablename__ = "task_runs"
    __table_args__ = (Index(None, "task", "id"),)

    id: Mapped[AutoKey]
    task: Mapped[Word]
    host: Mapped[Identifier]
    started_us: Mapped[Timestamp]
    ended_us: Mapped[Timestamp | None]
    outcome: Mapped[Word]
    error: Mapped[Label | None]


class Listening(Base):
    """Since when some server has listened without a break, and when one last said so; one row."""

    __tablename__ = "listening"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    since_us: Mapped[Timestamp]
    beat_us: Mapped[Timestamp]


def is_pending() -> ColumnElement[bool]:
    """Return whether a job runs, or has lines that its newest score lacks.

    Written as `PENDING` is, without a parameter: a partial index serves only its own condition.
    """
    runs = Job.state == literal_column("'running'")
    return or_(runs, Job.scored_version != Job.version)

"""The tables that a server alone needs: answers that it keeps, runs of its tasks, its leader."""

from sqlalchemy import (
    Index,
    String,
)
from sqlalchemy.orm import Mapped, mapped_column

from gramwatt.service.store.base import (
    AutoKey,
    Base,
    Document,
    Identifier,
    Label,
    Timestamp,
    Word,
)


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

"""What use cases answer, beside the documents of `gramwatt.sci.figures.document`.

Command and API print these shapes as they are.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from gramwatt.sci.figures.document import JobHead
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.month.documents import ModelDoc
from gramwatt.sci.month.revisions import RevisionChangeDoc


class Rejected(Struct):
    """A journal line that was refused: its number from 1, a code and a sentence."""

    line: int
    code: str
    message: str


class Acknowledged(Struct):
    """Highest sequence number up to which every line of a writer has arrived; 0 for none."""

    node: str
    writer: str
    seq: int


class IngestAnswer(Struct):
    """What became of an upload's lines.

    `rejected` lists the first 100; `rejected_count` is how many there were, `rejected_codes` by
    code.
    """

    accepted: int
    duplicate: int
    rejected: list[Rejected]
    rejected_count: int
    rejected_codes: dict[str, int]
    acknowledged: list[Acknowledged]


class JobsPage(Struct):
    """A page of jobs, newest first; `next_cursor` is null at the end."""

    jobs: list[JobHead]
    next_cursor: str | None


class JobsAnswer(JobsPage):
    """A page of jobs; on the first page of a `model_id`, `model` are the sums of all its runs.

    Those of more than 2 000 runs that changed since are there with `wait=sums` alone.
    """

    model: ModelDoc | UnsetType = UNSET


class DeletedJob(Struct):
    """The record of a deletion."""

    job_id: str
    deleted_at: str
    deleted_by: str
    reason: str | None


class RevisionRow(Struct):
    """One score revision: when and why it was made, by which versions, and its main figures.

    `change` is what differs from the revision before; null for the first.
    """

    revision: int
    made_at: str
    reason: str
    engine_version: str
    catalog_version: str
    conformance: str
    energy_kwh: Quantity | None
    total_g: Quantity | None
    change: RevisionChangeDoc | None


class RevisionsAnswer(Struct):
    """A page of a job's revisions, newest first."""

    revisions: list[RevisionRow]
    next_cursor: str | None


class IntervalRow(Struct):
    """Energy [J] of one device over [start, end), as it stands after all uploads."""

    node: str
    device_id: str
    start: str
    end: str
    energy_j: float
    kind: str
    utilisation_mean: float | None
    utilisation_max: float | None
    memory_peak_b: float | None
    power_max_w: float | None
    profile: dict[str, float]


class IntervalsAnswer(Struct):
    """A page of a job's intervals in order of time."""

    intervals: list[IntervalRow]
    next_cursor: str | None


class ProjectSummary(Struct):
    """One project: how many jobs it has, how many run, and when the newest started.

    A project that was declared and has no job yet has no such time.
    """

    project: str
    jobs: int
    running: int
    last_started_at: str | None


class ProjectsAnswer(Struct):
    """A page of projects by name."""

    projects: list[ProjectSummary]
    next_cursor: str | None

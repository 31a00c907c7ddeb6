"""Journals of every job written to a folder, and read into a store from one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.collectors.settings.files import whole_file
from gramwatt.sci.records.records import encode
from gramwatt.service.common.answers import IngestAnswer
from gramwatt.service.common.errors import DeletedJobError, IntervalsDeletedError
from gramwatt.service.container import Service
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.journal import counts_of, intervals_of, lines_of
from gramwatt.service.store.job_labels import TAG, label_text
from gramwatt.service.store.models import Job, JobLabel
from gramwatt.service.store.people import USER, known_alias, with_names

SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Exported:
    """Ids of the jobs that were written, and of those whose intervals are deleted."""

    written: list[str]
    left_out: list[str]


def export_journals(service: Service, folder: Path, user: str | None = None) -> Exported:
    """Write the lines of every job to a file `ID.jsonl` of the folder; raises OSError.

    With `user` of those that have it as their tag `user`.

    Lines are those that meters wrote, of an interval the last one. What people declared afterwards
    is no part of a journal, and a job whose intervals were deleted has none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = Exported([], [])
    with service.store.read() as session:
        wanted = sa.select(Job.id).order_by(Job.id)
        if user is not None:
            label = JobLabel.label == label_text(TAG, f"{USER}:{known_alias(session, user)}")
            wanted = wanted.join(JobLabel, JobLabel.job == Job.id).where(label)
        keys = session.scalars(wanted).all()
    for key in keys:
        with service.store.read() as session:
            job = session.get(Job, key)
            if job is None:  # deleted meanwhile
                continue
            name = job.job_id
            if job.intervals_deleted_us is not None:
                found.left_out.append(name)
                continue
            with whole_file(folder / f"{name}{SUFFIX}") as stream:
                stream.writelines(f"{line}\n".encode() for line in _lines(session, job))
            found.written.append(name)
    return found


def import_journals(service: Service, folder: Path) -> Iterator[tuple[str, IngestAnswer | str]]:
    """Store the files of `export_journals`; return each job's answer, or why it was refused.

    Importing again changes nothing. Raises OSError.
    """
    service = replace(service, score_later=None)
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        job_id = path.name.removesuffix(SUFFIX)
        with path.open("rb") as stream:
            try:
                yield job_id, ingest(service, job_id, (line.rstrip(b"\n") for line in stream))
            except (DeletedJobError, IntervalsDeletedError) as error:
                yield job_id, str(error)


def _lines(session: Session, job: Job) -> Iterator[str]:
    yield from (with_names(session, line) for line in lines_of(session, job))
    yield from map(encode, counts_of(session, job))
    yield from map(encode, intervals_of(session, job))

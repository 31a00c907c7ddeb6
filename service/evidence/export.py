"""Writes the bundle of a job or a month out of the store."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tempfile
import zipfile
from base64 import b64encode
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
import sqlalchemy as sa

from gramwatt import __version__
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.score.inputs import Recorder, ScoreInputs
from gramwatt.service.common.errors import (
    BusyError,
    DeletedJobError,
    ServiceError,
    StillRunsError,
    UnknownJobError,
)
from gramwatt.service.container import Service
from gramwatt.service.evidence.verify import (
    ABOUT,
    BEFORE,
    FILES_MOST,
    FORMAT,
    KEY_FILE,
    MONTH,
    MONTH_FILE,
    OF_JOB,
    OVERLAY,
    SIGNATURE,
    SIZES,
    SUMS,
    AboutDoc,
    Bundle,
    Progress,
    read_key,
)
from gramwatt.service.intensity.lookup import StoredIntensity
from gramwatt.service.jobs.documents import find_job, job_document, rescore
from gramwatt.service.jobs.journal import corrections_of, journal_of
from gramwatt.service.months.report import MONTH as MONTH_PATTERN
from gramwatt.service.months.report import month_report
from gramwatt.service.months.stored import month_made_of
from gramwatt.service.months.sums.keeping import read_rows
from gramwatt.service.months.sums.part import SUMMED, PartRow
from gramwatt.service.store.documents import as_stored
from gramwatt.service.store.models import Job, JobMonth, is_pending

JOBS_MOST = (FILES_MOST - 100) // len(OF_JOB)
REASON = "evidence"
"""Why the revision of a job was made that was scored again to be exported."""
TRIES, MONTH_TRIES = 3, 10
_EPOCH, _MODE = (1980, 1, 1, 0, 0, 0), 0o100644 << 16


def export(
    service: Service,
    stream: BinaryIO,
    kind: Literal["job", "month"],
    name: str,
    project: str | None = None,
    *,
    folder: Path | None = None,
    progress: Progress = iter,
) -> None:
    """Write the bundle of a job, or of a month of all projects or one, into an empty stream.

    Its files are put together in a temporary file in `folder`, as large as the bundle unpacked. It
    is signed where the home has a key. `progress` passes on the jobs' ids. Raises UnknownJobError,
    StillRunsError, ScoreError, NoDataError, ServiceError, BusyError, KeyFileError,
    EvidenceError for files above the bounds of a bundle, and ImportError without the extra.
    """
    key = read_key(service.config.home / KEY_FILE)
    with tempfile.TemporaryFile(dir=folder) as temporary:
        files = _Staged(temporary)
        if kind == MONTH:
            jobs = _add_month(service, files, name, project, progress)
        else:
            jobs = {job_id: _add_job(service, files, job_id) for job_id in progress([name])}
        about: AboutDoc = AboutDoc(
            format=FORMAT,
            kind=kind,
            id=name,
            project=project,
            made_by=f"gramwatt {__version__}",
            catalog_version=service.catalog.version,
            issuer=service.config.reports.statement(),
            jobs=jobs,
            without_journal=[n for n in jobs if f"jobs/{n}/{OF_JOB[0]}" not in files.places],
        )
        files.add(ABOUT, _as_json(about))
        if service.catalog.overlay is not None and service.config.overlay is not None:
            files.add(OVERLAY, service.config.overlay.read_bytes())
        digests = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files.places)}
        files.add(SUMS, "".join(f"{digests[name]}  {name}\n" for name in digests).encode())
        if key is not None:
            files.add(SIGNATURE, key.sign(files[SUMS]))
        files.write(stream)
    Bundle(stream)  # what cannot be verified is not written


class _Staged:
    """Files by name in a temporary stream, so that they need not fit into memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self._stream = stream

    def add(self, name: str, content: bytes) -> None:
        """Add a file, or put it in the place of the one with its name."""
        self.places[name] = self._stream.seek(0, io.SEEK_END), len(content)
        self._stream.write(content)

    def remove(self, job_id: str) -> None:
        """Remove the files of a job."""
        for name in OF_JOB:
            self.places.pop(f"jobs/{job_id}/{name}", None)

    def __getitem__(self, name: str) -> bytes:
        start, size_b = self.places[name]
        self._stream.seek(start)
        return self._stream.read(size_b)

    def write(self, stream: BinaryIO) -> None:
        """Write the archive: the same bytes for the same files."""
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(self.places):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.create_system, entry.external_attr = 3, _MODE
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, self[name])


def kind_of(service: Service, text: str) -> Literal["job", "month"]:
    """Return what a text names: a job by its whole id, a month, or else a job as it is typed."""
    with service.store.read() as session:
        if session.scalar(sa.select(Job.id).where(Job.job_id == text)) is not None:
            return "job"
    return "month" if re.fullmatch(MONTH_PATTERN, text) else "job"


def _add_month(
    service: Service, files: _Staged, month: str, project: str | None, progress: Progress
) -> dict[str, int]:
    """Add the document of a month, its jobs, and the parts of the month before; the jobs.

    Jobs are scored and deleted meanwhile. Those are added again, until the report has the sums of
    what was added. Raises BusyError where that never is.
    """
    added: dict[str, int] = {}
    for _ in range(MONTH_TRIES):
        month_report(service, month, project)  # raises NoDataError for a month without jobs
        made_of = month_made_of(service, month, project)
        revisions = _month_jobs(service, month, project)
        for job_id in added.keys() - revisions.keys():
            files.remove(job_id)
            del added[job_id]
        changed = [n for n, revision in revisions.items() if added.get(n) != revision]
        for job_id in progress(changed):
            with suppress(UnknownJobError, DeletedJobError, StillRunsError):
                added[job_id] = _add_job(service, files, job_id, bare_too=True)
        document = month_report(service, month, project, names=False)
        files.add(MONTH_FILE, _as_json(document))
        before = _parts_text(_parts_before(service, month, project))
        if len(before) <= SIZES[BEFORE]:  # beyond, what the month is compared with is not checked
            files.add(BEFORE, before)
        is_whole = added.keys() == revisions.keys()  # not if one ran again, and ended as before
        if is_whole and month_made_of(service, month, project) == made_of:
            return {job_id: added[job_id] for job_id in revisions}
    raise BusyError(f"the jobs of {month} change all the time; try again later")


def _month_jobs(service: Service, month: str, project: str | None) -> dict[str, int]:
    """Return the revision of each job that is summed, in the order of their start."""
    statement = sa.select(Job.job_id, Job.revision)
    statement = statement.join(JobMonth, JobMonth.job == Job.id)
    statement = statement.where(JobMonth.month == month, JobMonth.use == SUMMED, ~is_pending())
    if project is not None:
        statement = statement.where(JobMonth.project == project)
    with service.store.read() as session:
        rows = session.execute(statement.order_by(Job.started_us, Job.job_id)).all()
    if len(rows) > JOBS_MOST:
        text = f"month {month} has {len(rows)} jobs; an evidence bundle holds {JOBS_MOST}"
        raise ServiceError(text, "too-many-jobs")
    return {row.job_id: row.revision for row in rows}


def _add_job(service: Service, files: _Staged, job_id: str, *, bare_too: bool = False) -> int:
    """Add the score of a job and its inputs; its revision. With `bare_too`, the score alone where
    the intervals were deleted.
    """
    where = f"jobs/{job_id}"
    files.remove(job_id)
    with service.store.read() as session:
        is_bare = bare_too and find_job(session, job_id).intervals_deleted_us is not None
    if is_bare:
        document = job_document(service, job_id, names=False).document
    else:
        inputs, document = scored_inputs(service, job_id)
        files.add(f"{where}/{OF_JOB[0]}", inputs.journal().encode())
        files.add(f"{where}/{OF_JOB[1]}", _as_json(inputs.to_doc()))
    files.add(f"{where}/{OF_JOB[2]}", _as_json(document))
    return document.revision


def scored_inputs(service: Service, job_id: str) -> tuple[ScoreInputs, JobDoc]:
    """Return the inputs of a job's newest revision, and the document that they make.

    Where the catalog, the settings or the intensity are no longer those of that revision, the job
    is scored again first: its old inputs are gone. Raises UnknownJobError, StillRunsError or
    ScoreError.
    """
    for _ in range(TRIES):
        stored = job_document(service, job_id, names=False).document
        if stored.state == "running":
            raise StillRunsError(f"job {job_id!r} still runs; export it when it has ended")
        with service.store.read() as session:
            job = find_job(session, job_id)
            records, corrections = journal_of(session, job), corrections_of(session, job)
        inputs = ScoreInputs(
            tuple(records),
            stored.revision,
            tuple(corrections),
            service.config.lifetime_years,
            zone=service.config.zone,
            provisional=stored.provisional,
        )
        recorder = Recorder(StoredIntensity(service))
        document = inputs.score_with(service.catalog, recorder)
        inputs = replace(inputs, intensity=tuple(recorder.asked))
        if as_stored(document) == stored:
            return inputs, stored
        _, changed = rescore(service, job_id, REASON)
        if not changed:
            return inputs, stored
    raise BusyError(f"job {job_id!r} changes all the time; try again later")


def _parts_before(service: Service, month: str, project: str | None) -> list[PartRow]:
    """Return the parts of the jobs of the month before that its sums hold."""
    before = previous_month(month)
    with service.store.read() as session:
        open_jobs = session.scalars(sa.select(Job.id).where(is_pending()))
        rows = read_rows(session, before, project, list(open_jobs))
        parts = [PartRow(*row) for portion in rows for row in portion]
    return sorted(parts, key=lambda part: (part.started_us, part.job_id))


def _parts_text(parts: Iterable[PartRow]) -> bytes:
    """Return parts of jobs as lines of JSON."""
    lines = (
        {
            "job_id": part.job_id,
            "started_us": part.started_us,
            "texts": b64encode(part.texts).decode(),
            "numbers": b64encode(part.numbers).decode(),
        }
        for part in parts
    )
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def _as_json(document: object) -> bytes:
    """Return a document as readable JSON."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"

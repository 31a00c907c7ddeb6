"""Makes packs out of the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import sqlalchemy as sa

from gramwatt.sci.analysis.model_totals import model_totals
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.base.document import JobDoc, MethodDoc
from gramwatt.sci.score.inputs import Recorder, ScoreInputs
from gramwatt.service.container import Service
from gramwatt.service.rollups.keeping import read_rows
from gramwatt.service.rollups.part import SUMMED, PartRow
from gramwatt.service.store.models import Job, JobMonth, is_pending
from gramwatt.service.usecases.errors import BusyError, StillRunsError, TooManyJobsError
from gramwatt.service.usecases.intensity.lookup import StoredIntensity
from gramwatt.service.usecases.jobs.documents import find_job, job_document, rescore
from gramwatt.service.usecases.jobs.journal import corrections_of, journal_of
from gramwatt.service.usecases.months.report import MONTH as MONTH_PATTERN
from gramwatt.service.usecases.months.report import month_report
from gramwatt.service.usecases.packs import contents
from gramwatt.service.usecases.packs.archive import (
    CHECKSUMS,
    FILES_MOST,
    Collected,
    checksums,
    write,
)
from gramwatt.service.usecases.packs.signing import KEY_FILE, read_key, signed
from gramwatt.service.usecases.packs.wholes import (
    BEFORE,
    JOB,
    MODEL,
    MONTH,
    file_of,
    parts_text,
)

Each = Callable[[Sequence[str]], Iterable[str]]
REASON = "packed"
TRIES = 3
JOBS_MOST = {MODEL: 5_000, MONTH: (FILES_MOST - 100) // len(contents.OF_JOB)}
"""Jobs of a pack: the sums over a model have its scores in memory, those of a month do not."""


def make_pack(
    service: Service,
    stream: BinaryIO,
    kind: str,
    name: str,
    project: str | None = None,
    *,
    folder: Path | None = None,
    each: Each = iter,
) -> None:
    """Write the pack of a job, a model, or a month of all projects or one, into an empty stream.

    Its parts are put together in a temporary file in `folder`, whose size is that of the pack
    unpacked. It is signed where the home has a key to sign with. `each` passes on the jobs' ids, to
    show how far the work is. Raises UnknownJobError, StillRunsError, ScoreError, NoDataError,
    TooManyJobsError, or KeyFileError.
    """
    ids = [name] if kind == JOB else _job_ids(service, kind, name, project)
    with Collected(folder) as files:
        bare = [job_id for job_id in each(ids) if not _add_job(service, files, job_id, kind)]
        documents = contents.Documents(files, ids)
        whole: Any = None
        if kind == MODEL:
            whole = model_totals(name, documents, unscored=_runs(service, name) - len(ids))
        elif kind == MONTH:
            whole = month_report(service, name, project)
            files.add(BEFORE, parts_text(_parts_before(service, name, project)))
        if whole is not None:
            files.add(file_of(kind), contents.as_json(whole))
        for file, content in contents.derived(kind, documents, whole):
            files.add(file, content)
        about = contents.about(kind, name, project, documents, service.catalog)
        about["without_journal"] = bare
        _finish(service, about, documents, files)
        write(files, stream)


def _add_job(service: Service, files: Collected, job_id: str, kind: str) -> bool:
    """Add the score of a job and its inputs; False where those are gone, of a job among others."""
    if kind != JOB and has_no_intervals(service, job_id):
        document = job_document(service, job_id).document
        files.add(contents.score_file(job_id), contents.as_json(document))
        return False
    for name, content in contents.job_files(*scored_inputs(service, job_id)).items():
        files.add(name, content)
    return True


def kind_of(service: Service, text: str) -> str:
    """What a text names: a job by its whole id, a model, a month, or else a job as it is typed."""
    with service.store.read() as session:
        if session.scalar(sa.select(Job.id).where(Job.job_id == text)) is not None:
            return JOB
        if session.scalar(sa.select(Job.id).where(Job.model_id == text).limit(1)) is not None:
            return MODEL
    return MONTH if re.fullmatch(MONTH_PATTERN, text) else JOB


def _job_ids(service: Service, kind: str, name: str, project: str | None) -> list[str]:
    """The ids of the jobs that are summed, in order."""
    if kind == MODEL:
        wanted = sa.select(Job.job_id).where(Job.model_id == name, Job.state != "running")
        wanted = wanted.where(Job.revision > 0)
    else:
        month_report(service, name, project)  # adds jobs of an earlier release; or NoDataError
        wanted = sa.select(Job.job_id).join(JobMonth, JobMonth.job == Job.id)
        wanted = wanted.where(JobMonth.month == name, JobMonth.use == SUMMED, ~is_pending())
        wanted = wanted.where(JobMonth.project == project) if project is not None else wanted
    with service.store.read() as session:
        found = list(session.scalars(wanted.order_by(Job.started_us, Job.job_id)))
    if len(found) > (most := JOBS_MOST[kind]):
        raise TooManyJobsError(f"{kind} {name} has {len(found)} jobs; a pack holds {most}")
    return found


def _runs(service: Service, model_id: str) -> int:
    """How many runs a model has, scored or not."""
    runs = sa.select(sa.func.count()).select_from(Job).where(Job.model_id == model_id)
    with service.store.read() as session:
        return session.scalar(runs) or 0


def _parts_before(service: Service, month: str, project: str | None) -> list[PartRow]:
    """The parts of the jobs of the month before that its sums hold."""
    before = previous_month(month)
    with service.store.read() as session:
        open_jobs = session.scalars(sa.select(Job.id).where(is_pending()))
        rows = read_rows(session, before, project, list(open_jobs))
        return [PartRow(*row) for portion in rows for row in portion]


def has_no_intervals(service: Service, job_id: str) -> bool:
    """Whether a job's intervals were deleted: what it was scored from is gone."""
    with service.store.read() as session:
        return find_job(session, job_id).intervals_deleted_us is not None


def scored_inputs(service: Service, job_id: str) -> tuple[ScoreInputs, JobDoc]:
    """The inputs of a job's newest revision, and the document that they make.

    Where the catalog, the settings or the intensity are no longer those of that revision, the job
    is scored again first: its old inputs are gone. Raises UnknownJobError, StillRunsError or
    ScoreError.
    """
    for _ in range(TRIES):
        stored = job_document(service, job_id).document
        if stored["provisional"]:
            raise StillRunsError(f"job {job_id!r} still runs; it can be packed when it has ended")
        inputs, made = _computed(service, job_id, stored["revision"])
        if contents.normal(made) == contents.normal(stored):
            return inputs, stored
        _, changed = rescore(service, job_id, REASON)
        if not changed:
            return inputs, _in_todays_shape(made, stored)
    raise BusyError(f"job {job_id!r} changes all the time; try again later")


def _in_todays_shape(made: JobDoc, stored: JobDoc) -> JobDoc:
    """A score that an earlier release stored, which listed less of it, with its own versions."""
    method = stored["method"]
    engine, catalog = method["engine_version"], method["catalog_version"]
    own = {**made["method"], "engine_version": engine, "catalog_version": catalog}
    return {**made, "method": cast(MethodDoc, own)}


def _computed(service: Service, job_id: str, revision: int) -> tuple[ScoreInputs, JobDoc]:
    """The job's inputs as they are now, and their score."""
    with service.store.read() as session:
        job = find_job(session, job_id)
        records, corrections = journal_of(session, job), corrections_of(session, job)
    config = service.config
    given = ScoreInputs(
        tuple(records), revision, tuple(corrections), config.lifetime_years, zone=config.zone
    )
    recorder = Recorder(StoredIntensity(service))
    document = given.score_with(service.catalog, recorder)
    return replace(given, intensity=tuple(recorder.asked)), document


def _finish(service: Service, about: object, documents: Sequence[JobDoc], files: Collected) -> None:
    """Add what says how to read and check the files."""
    catalog = service.catalog
    files.add(contents.ABOUT, contents.as_json(about))
    files.add(contents.CATALOG, contents.as_json(contents.catalog_rows(catalog, documents)))
    if catalog.overlay is not None and service.config.overlay is not None:
        files.add(contents.OVERLAY, service.config.overlay.read_bytes())
    key_file = service.config.home / KEY_FILE
    key = read_key(key_file) if key_file.exists() else None
    if key is not None:
        for name, content in signed(files.digests, about, key).items():
            files.add(name, content)
    files.add(CHECKSUMS, checksums(files.digests))

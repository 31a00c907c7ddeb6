"""Makes packs out of the store."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.sci.analysis.model_totals import model_totals
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.base.document import JobDoc, MethodDoc
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.score.inputs import Recorder, ScoreInputs
from gramwatt.service.common.errors import (
    AmbiguousJobError,
    BusyError,
    DeletedJobError,
    StillRunsError,
    TooManyJobsError,
    UnknownJobError,
)
from gramwatt.service.container import Service
from gramwatt.service.intensity.lookup import StoredIntensity
from gramwatt.service.jobs.documents import find_job, job_document, rescore
from gramwatt.service.jobs.journal import corrections_of, journal_of
from gramwatt.service.months.pack_sums import (
    BEFORE,
    JOB,
    MODEL,
    MONTH,
    file_of,
    month_sums,
    parts_text,
)
from gramwatt.service.months.report import MONTH as MONTH_PATTERN
from gramwatt.service.months.report import month_report
from gramwatt.service.months.revisions import Ledger, kept_jobs, unpack_ledger
from gramwatt.service.months.stored import month_made_of
from gramwatt.service.months.sums.keeping import read_rows
from gramwatt.service.months.sums.part import SUMMED, PartRow
from gramwatt.service.packs import contents
from gramwatt.service.packs.archive import (
    CHECKSUMS,
    FILES_MOST,
    Collected,
    checksums,
    digest,
    digest_of,
    write,
)
from gramwatt.service.packs.issuing import issue
from gramwatt.service.packs.signing import KEY_FILE, key_id, read_key, signed
from gramwatt.service.packs.verify import COMPARED, differences, real_differences
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import Deletion, Job, JobMonth, Score, is_pending

Each = Callable[[Sequence[str]], Iterable[str]]
REASON = "packed"
TRIES = 3
MONTH_TRIES = 10
JOBS_MOST = {MODEL: 5_000, MONTH: (FILES_MOST - 100) // len(contents.OF_JOB)}
"""Jobs of a pack: the sums over a model have its scores in memory, those of a month do not."""


def make_pack(
    service: Service,
    stream: BinaryIO,
    kind: str,
    name: str,
    project: str | None = None,
    *,
    revision: int | None = None,
    folder: Path | None = None,
    each: Each = iter,
) -> None:
    """Write the pack of a job, a model, or a month of all projects or one, into an empty stream.

    With `revision`, that of the month's report that was kept under this number. Its parts are put
    together in a temporary file in `folder`, whose size is that of the pack unpacked. It is signed
    where the home has a key to sign with. `each` passes on the jobs' ids, to show how far the work
    is. Raises UnknownJobError, StillRunsError, ScoreError, NoDataError, TooManyJobsError,
    BusyError, or KeyFileError.
    """
    whole: Any = None
    gone: Sequence[str] = ()
    with Collected(folder) as files:
        if revision is not None:
            jobs, whole, gone = _add_kept_month(service, files, name, project, revision, each)
        elif kind == MONTH:
            jobs, whole = _add_month(service, files, name, project, each)
        else:
            service = service.of_project(project)
            ids = [name] if kind == JOB else _model_runs(service, name)
            jobs = {job_id: _add_job(service, files, job_id, kind) for job_id in each(ids)}
        documents = contents.Documents(files, list(jobs))
        if kind == MODEL:
            whole = model_totals(name, documents, unscored=_runs(service, name) - len(jobs))
        if whole is not None:
            files.add(file_of(kind), contents.as_json(whole))
        for file, content in contents.derived(kind, documents, whole):
            files.add(file, content)
        of_month = project if kind == MONTH else None
        about = contents.about(kind, name, of_month, documents, service.catalog)
        about["without_journal"] = [job_id for job_id, packed in jobs.items() if packed.bare]
        about["deleted"] = list(gone)
        about["revision"] = whole["revision"] if kind == MONTH else None
        about["issuer"] = service.config.reports.statement()
        _finish(service, about, documents, files, stream)


class _Packed(NamedTuple):
    """A job in a pack: its revision, and whether it is bare, without the inputs of its score."""

    revision: int
    bare: bool


def _add_month(
    service: Service, files: Collected, month: str, project: str | None, each: Each
) -> tuple[dict[str, _Packed], MonthDoc]:
    """Add the jobs of a month, and those of the month before as parts; the jobs and the report.

    Jobs are scored and deleted meanwhile. Those are added again, until the report has the sums of
    what was added. Raises BusyError where that never is.
    """
    packed: dict[str, _Packed] = {}
    for _ in range(MONTH_TRIES):
        month_report(service, month, project)  # raises NoDataError for a month without jobs
        made_of = month_made_of(service, month, project)
        revisions = _month_jobs(service, month, project)
        for job_id in packed.keys() - revisions.keys():
            files.remove(contents.folder(job_id))
            del packed[job_id]
        changed = [
            job_id
            for job_id, revision in revisions.items()
            if job_id not in packed or packed[job_id].revision != revision
        ]
        for job_id in each(changed):
            with suppress(UnknownJobError, DeletedJobError, StillRunsError):
                packed[job_id] = _add_job(service.of_project(project), files, job_id, MONTH)
        document = month_report(service, month, project)
        files.add(BEFORE, parts_text(_parts_before(service, month, project)))
        whole = packed.keys() == revisions.keys()  # not if one ran again, and ended as before
        if whole and month_made_of(service, month, project) == made_of:
            return {job_id: packed[job_id] for job_id in revisions}, document
    raise BusyError(f"the jobs of {month} change all the time; try again later")


def _add_kept_month(
    service: Service,
    files: Collected,
    month: str,
    project: str | None,
    revision: int,
    each: Each,
) -> tuple[dict[str, _Packed], MonthDoc, list[str]]:
    """Add the jobs of a kept report by the scores that it was made of; also those deleted since.

    A score that today's journal, intensity and settings no longer make is added without inputs. The
    month before is added where it still is what the report compares with.
    """
    document = month_report(service, month, project, revision=revision)  # or NoDataError
    of = service.for_every_project()
    with of.store.read() as session:
        ledger = unpack_ledger(kept_jobs(session, month, project, revision))
        known = {key: (job_id, on) for key, job_id, on in _jobs_of(session, ledger)}
        deletions = sa.select(Deletion.job_id, Deletion.job)
        gone = [job_id for job_id, key in session.execute(deletions) if key in ledger]
    _require_distinct(list(known.values()))
    _require_few(MONTH, month, len(known))
    keys = {job_id: key for key, (job_id, _) in known.items()}
    packed: dict[str, _Packed] = {}
    for job_id in each(list(keys)):
        found = _add_kept_job(of, files, keys[job_id], ledger[keys[job_id]])
        if found is not None:
            packed[job_id] = found
    before = _parts_before(of, month, project)
    if not gone:
        sums = contents.normal(month_sums(month, contents.Documents(files, list(packed)), before))
        stated = {name: value for name, value in document.items() if name in COMPARED}
        made = {name: sums[name] for name in stated}
        if real_differences(
            {**stated, "totals": document["totals"]}, {**made, "totals": sums["totals"]}
        ):
            return packed, document, gone
    files.add(BEFORE, parts_text(before))
    return packed, document, gone


KEYS_AT_ONCE = 200


def _jobs_of(session: Session, ledger: Ledger) -> Iterator[tuple[int, str, str]]:
    """Yield key, id and project of the jobs of a ledger that are there, in the order of start."""
    wanted = sa.select(Job.id, Job.job_id, Job.project, Job.started_us)
    keys, rows = sorted(ledger), list[Any]()
    for first in range(0, len(keys), KEYS_AT_ONCE):
        rows += session.execute(wanted.where(Job.id.in_(keys[first : first + KEYS_AT_ONCE])))
    for key, job_id, project, _ in sorted(rows, key=lambda row: (row[3], row[1])):
        yield key, job_id, project


def _add_kept_job(service: Service, files: Collected, key: int, revision: int) -> _Packed | None:
    """Add a revision of a score, with its inputs where they still make it; None if excluded."""
    wanted = sa.select(Score.doc, Score.series).where(Score.job == key, Score.revision == revision)
    with service.store.read() as session:
        stored = read_job(*session.execute(wanted).one())
        bare = session.get_one(Job, key).intervals_deleted_us is not None
    if stored["excluded"] is not None:
        return None
    if not bare:
        with suppress(ScoreError):
            inputs, made = _computed(service, stored, key)
            if not any(differences(stored, contents.normal(_by_versions_of(stored, made)))):
                for name, content in contents.job_files(inputs, stored).items():
                    files.add(name, content)
                return _Packed(revision, bare=False)
    files.add(contents.score_file(stored["job_id"]), contents.as_json(stored))
    return _Packed(revision, bare=True)


def _add_job(service: Service, files: Collected, job_id: str, kind: str) -> _Packed:
    """Add the score of a job and its inputs, unless those are gone, of a job among others."""
    if kind != JOB and has_no_intervals(service, job_id):
        document = job_document(service, job_id).document
        files.add(contents.score_file(job_id), contents.as_json(document))
        return _Packed(document["revision"], bare=True)
    inputs, document = scored_inputs(service, job_id)
    for name, content in contents.job_files(inputs, document).items():
        files.add(name, content)
    return _Packed(document["revision"], bare=False)


def kind_of(service: Service, text: str) -> str:
    """Return what a text names: a job by its whole id, a model, a month, or else a job as it is
    typed.
    """
    with service.store.read() as session:
        if session.scalar(sa.select(Job.id).where(Job.job_id == text)) is not None:
            return JOB
        if session.scalar(sa.select(Job.id).where(Job.model_id == text).limit(1)) is not None:
            return MODEL
    return MONTH if re.fullmatch(MONTH_PATTERN, text) else JOB


def _model_runs(service: Service, model_id: str) -> list[str]:
    """Return the ids of the scored runs of a model, in the order of their start."""
    wanted = sa.select(Job.job_id, Job.project)
    wanted = wanted.where(Job.model_id == model_id, Job.state != "running")
    wanted = wanted.where(Job.revision > 0).order_by(Job.started_us, Job.job_id)
    with service.store.read() as session:
        rows = session.execute(wanted).all()
    _require_distinct([(job_id, project) for job_id, project in rows])
    found = [job_id for job_id, _ in rows]
    _require_few(MODEL, model_id, len(found))
    return found


def _month_jobs(service: Service, month: str, project: str | None) -> dict[str, int]:
    """Return the revision of each job that is summed, in the order of their start."""
    wanted = sa.select(Job.job_id, Job.project, Job.revision).join(JobMonth, JobMonth.job == Job.id)
    wanted = wanted.where(JobMonth.month == month, JobMonth.use == SUMMED, ~is_pending())
    wanted = wanted.where(JobMonth.project == project) if project is not None else wanted
    with service.store.read() as session:
        rows = session.execute(wanted.order_by(Job.started_us, Job.job_id)).all()
    _require_distinct([(job_id, of) for job_id, of, _ in rows])
    found = {job_id: revision for job_id, _, revision in rows}
    _require_few(MONTH, month, len(found))
    return found


def _require_distinct(jobs: Sequence[tuple[str, str]]) -> None:
    """Raise AmbiguousJobError for an id in two projects: the files of a pack are named by ids."""
    times = Counter(job_id for job_id, _ in jobs)
    for name in (job_id for job_id, _ in jobs if times[job_id] > 1):
        raise AmbiguousJobError(name, [project for job_id, project in jobs if job_id == name])


def _require_few(kind: str, name: str, jobs: int) -> None:
    if jobs > (most := JOBS_MOST[kind]):
        raise TooManyJobsError(f"{kind} {name} has {jobs} jobs; a pack holds {most}")


def _runs(service: Service, model_id: str) -> int:
    """Return how many runs a model has, scored or not."""
    runs = sa.select(sa.func.count()).select_from(Job).where(Job.model_id == model_id)
    with service.store.read() as session:
        return session.scalar(runs) or 0


def _parts_before(service: Service, month: str, project: str | None) -> list[PartRow]:
    """Return the parts of the jobs of the month before that its sums hold."""
    before = previous_month(month)
    with service.store.read() as session:
        open_jobs = session.scalars(sa.select(Job.id).where(is_pending()))
        rows = read_rows(session, before, project, list(open_jobs))
        return [PartRow(*row) for portion in rows for row in portion]


def has_no_intervals(service: Service, job_id: str) -> bool:
    """Return whether a job's intervals were deleted: what it was scored from is gone."""
    with service.store.read() as session:
        return find_job(session, job_id).intervals_deleted_us is not None


def scored_inputs(service: Service, job_id: str) -> tuple[ScoreInputs, JobDoc]:
    """Return the inputs of a job's newest revision, and the document that they make.

    Where the catalog, the settings or the intensity are no longer those of that revision, the job
    is scored again first: its old inputs are gone. Raises UnknownJobError, StillRunsError or
    ScoreError.
    """
    for _ in range(TRIES):
        stored = job_document(service, job_id).document
        if stored["state"] == "running":
            raise StillRunsError(f"job {job_id!r} still runs; it can be packed when it has ended")
        inputs, made = _computed(service, stored)
        if contents.normal(made) == stored:
            return inputs, stored
        _, changed = rescore(service, job_id, REASON)
        if not changed:
            return inputs, stored
    raise BusyError(f"job {job_id!r} changes all the time; try again later")


def _by_versions_of(stored: JobDoc, made: JobDoc) -> JobDoc:
    """Return a score as if the versions of another had made it."""
    method = stored["method"]
    engine, catalog = method["engine_version"], method["catalog_version"]
    own = {**made["method"], "engine_version": engine, "catalog_version": catalog}
    return {**made, "method": cast(MethodDoc, own)}


def _computed(
    service: Service, stored: JobDoc, key: int | None = None
) -> tuple[ScoreInputs, JobDoc]:
    """Return the inputs of a job as they are now, and their score.

    With the key of the job, as of the stored score: without what was declared since.
    """
    with service.store.read() as session:
        job = find_job(session, stored["job_id"]) if key is None else session.get_one(Job, key)
        records, corrections = journal_of(session, job), corrections_of(session, job)
    if key is not None:
        corrections = corrections[: len(stored["corrections"])]
    config = service.config
    given = ScoreInputs(
        tuple(records),
        stored["revision"],
        tuple(corrections),
        config.lifetime_years,
        zone=config.zone,
        provisional=stored["provisional"],
    )
    recorder = Recorder(StoredIntensity(service))
    document = given.score_with(service.catalog, recorder)
    return replace(given, intensity=tuple(recorder.asked)), document


def _finish(
    service: Service,
    about: dict[str, Any],
    documents: Sequence[JobDoc],
    files: Collected,
    stream: BinaryIO,
) -> None:
    """Add what says how to read and check the files, write them, and note the pack as issued."""
    catalog = service.catalog
    files.add(contents.CATALOG, contents.as_json(contents.catalog_rows(catalog, documents)))
    if catalog.overlay is not None and service.config.overlay is not None:
        files.add(contents.OVERLAY, service.config.overlay.read_bytes())
    key_file = service.config.home / KEY_FILE
    key = read_key(key_file) if key_file.exists() else None
    signer = key_id(key.public_key()) if key is not None else ""
    whole = checksums(files.digests) + contents.as_json(about) + signer.encode()
    issued = issue(service, about["kind"], about["id"], about["project"], digest(whole))
    about.update(issued.doc())
    files.add(contents.ABOUT, contents.as_json(about))
    if key is not None:
        for name, content in signed(files.digests, about, key).items():
            files.add(name, content)
    files.add(CHECKSUMS, checksums(files.digests))
    write(files, stream)
    issued.keep(service, digest_of(stream))

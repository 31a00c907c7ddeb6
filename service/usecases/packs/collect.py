"""Makes packs out of the store."""

from __future__ import annotations

from dataclasses import replace

from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.score.inputs import Recorder, ScoreInputs
from gramwatt.service.container import Service
from gramwatt.service.usecases.errors import BusyError, StillRunsError
from gramwatt.service.usecases.intensity.lookup import StoredIntensity
from gramwatt.service.usecases.jobs import find_job, job_document, rescore
from gramwatt.service.usecases.journal import corrections_of, journal_of
from gramwatt.service.usecases.packs import contents
from gramwatt.service.usecases.packs.archive import CHECKSUMS, checksums, write

REASON = "packed"
TRIES = 3


def job_pack(service: Service, job_id: str) -> bytes:
    """The pack of a job that has ended; raises UnknownJobError, StillRunsError or ScoreError."""
    inputs, document = scored_inputs(service, job_id)
    files = contents.job_files(inputs, document)
    files |= contents.forms_of_job(document)
    files[contents.PDF] = contents.pdf_of_job(document)
    return _packed(service, "job", document["job_id"], [document], files)


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
        rescore(service, job_id, REASON)
    raise BusyError(f"job {job_id!r} changes all the time; try again later")


def _computed(service: Service, job_id: str, revision: int) -> tuple[ScoreInputs, JobDoc]:
    """The job's inputs as they are now, and their score."""
    with service.store.read() as session:
        job = find_job(session, job_id)
        records, corrections = journal_of(session, job), corrections_of(session, job)
    given = ScoreInputs(tuple(records), revision, tuple(corrections), service.config.lifetime_years)
    recorder = Recorder(StoredIntensity(service))
    document = given.score_with(service.catalog, recorder)
    return replace(given, intensity=tuple(recorder.asked)), document


def _packed(
    service: Service, kind: str, name: str, documents: list[JobDoc], files: dict[str, bytes]
) -> bytes:
    """The archive of the files, with what says how to read and check it."""
    catalog = service.catalog
    files[contents.ABOUT] = contents.as_json(contents.about(kind, name, documents, catalog))
    files[contents.CATALOG] = contents.as_json(contents.catalog_rows(catalog, documents))
    if catalog.overlay is not None and service.config.overlay is not None:
        files[contents.OVERLAY] = service.config.overlay.read_bytes()
    files[CHECKSUMS] = checksums(files)
    return write(files)

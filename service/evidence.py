"""Evidence bundles: a score or a month with everything that it is computed from, in one ZIP file.

`export` writes the bundle of a job or a month out of the store. `verify` reads one without store
and network: it checks sums and signature, scores the jobs again with the installed engine, sums the
month again, and names what differs.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import sqlite3
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast
from zoneinfo import ZoneInfo

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from gramwatt import __version__
from gramwatt.collectors.settings.files import replace_text, why
from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.sci.figures.formatting import jobs_text
from gramwatt.sci.figures.structs import convert, decode
from gramwatt.sci.month.columns import TABLES
from gramwatt.sci.month.document import Beside, month_document, months_before
from gramwatt.sci.month.documents import MarketFactor, MonthSums, StatementDoc
from gramwatt.sci.month.month import previous_month
from gramwatt.sci.month.rows import rows_of
from gramwatt.sci.records.records import LINE_MAX_B
from gramwatt.sci.score.inputs import ANNUAL, Recorder, ScoreInputs
from gramwatt.sci.score.version import VERSIONS
from gramwatt.sci.suggest.jobs import class_of
from gramwatt.service.common.errors import (
    BusyError,
    DeletedJobError,
    StillRunsError,
    UnknownJobError,
)
from gramwatt.service.common.requests import MONTH as MONTH_PATTERN
from gramwatt.service.container import Service
from gramwatt.service.intensity.lookup import StoredIntensity
from gramwatt.service.jobs.documents import find_job, job_document, rescore
from gramwatt.service.jobs.journal import corrections_of, journal_of
from gramwatt.service.months.cache import month_sums
from gramwatt.service.months.report import month_report, read_now
from gramwatt.service.months.revisions import job_rows
from gramwatt.service.store.columns import as_stored, to_text
from gramwatt.service.store.models import Job

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

FORMAT = 1
ABOUT, OVERLAY, MONTH, BEFORE = "evidence.json", "overlay.toml", "month.json", "months-before.json"
JOURNALS, INPUTS, SCORES = OF_JOBS = ("journals.ndjson", "inputs.ndjson", "scores.ndjson")
"""The lines of each job, what else it is scored from, and its document: in the order of ids."""
SUMS, SIGNATURE = "sha256sums", "sha256sums.sig"
KEY_FILE, PUBLIC_FILE = "signing.key", "signing.pub"
"""The Ed25519 key pair in the home folder."""
FILE = "the file"
"""The part of a bundle that is in none of its files."""

PACKED_MOST_B, DIRECTORY_MOST_B = 2**34, 4096
"""The largest bundle, and the largest list of its files at its end [B]."""
EXPANSION_MOST, EXPANDED_FREE_B = 100, 2**24
"""A bundle may unpack to EXPANDED_FREE_B [B], a larger one to EXPANSION_MOST times its size."""
DOCUMENT_MOST_B, ITEMS_MOST = 2**25, 500_000
"""The largest document [B], and the most values in it: a value takes far more memory than its
text."""
WHOLE: Mapping[str, int] = {
    **dict.fromkeys((ABOUT, OVERLAY, MONTH, BEFORE), DOCUMENT_MOST_B),
    **{SUMS: 4096, SIGNATURE: 64},
}
"""The largest size of each file that is read whole [B]; the others are read by the line."""
CHUNK_B = 2**20
SAME = 1e-9
"""Figures that differ by less, relative to them, are equal: libraries of mathematics differ in the
last digits, and so do sums in another order."""
DIFFERENCES_MOST = 10
"""How many differing figures of a document are named."""
OF_STORE = (
    *("revision", "issued_at", "revised", "complete", "jobs_running", "jobs_unscored"),
    *("jobs_to_rescore", "budgets", "suggestions", "advice", "examined_jobs", "followed"),
    *("excluded", "deletions", "statement"),
)
"""Fields of a month that do not follow from its jobs."""
UNPUBLISHED: Mapping[str, Any] = {
    **dict.fromkeys(("publisher", "edition", "licence", "link")),
    "files": [],
}
"""What a factor of a month is without the store, which knows its publisher."""
REASON = "evidence"
"""Why the revision of a job was made that was scored again to be exported."""
TRIES, MONTH_TRIES = 3, 10
_EPOCH, _MODE = (1980, 1, 1, 0, 0, 0), 0o100644 << 16
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, ArithmeticError, EOFError, OSError),
    *(RuntimeError, ValueError, LookupError),
)
"""What `zipfile` raises for a file that it cannot read."""
Progress = Callable[[int, int], None]


class EvidenceError(GramwattError, ValueError):
    """A file that is not an evidence bundle, or was altered; `part` names what is wrong."""

    code = "bad-evidence"

    def __init__(self, part: str, message: str) -> None:
        self.part = part
        super().__init__(f"{part}: {message}")


class KeyFileError(Exception):
    """A key file that cannot be used; the message is a sentence for people."""


class AboutDoc(Struct):
    """The content of evidence.json: what the bundle is of, and who made it with what."""

    format: int
    kind: Literal["job", "month"]
    id: str
    project: str | None
    jobs: int
    made_by: str
    catalog_version: str
    issuer: StatementDoc


# Export


def kind_of(service: Service, text: str) -> Literal["job", "month"]:
    """Return what a text names: a job by its whole id, a month, or else a job as it is typed."""
    with service.store.read() as session:
        if session.scalar(sa.select(Job.id).where(Job.job_id == text)) is not None:
            return "job"
    return "month" if re.fullmatch(MONTH_PATTERN, text) else "job"


def export(
    service: Service,
    stream: BinaryIO,
    kind: Literal["job", "month"],
    name: str,
    project: str | None = None,
    *,
    folder: Path | None = None,
    progress: Progress = lambda *_: None,
) -> None:
    """Write the bundle of a job, or of a month of all projects or one, into an empty stream.

    The jobs are put together in a temporary file in `folder`, as large as the bundle unpacked. The
    bundle is signed where the home has a key. `progress` gets the jobs done, of how many. Raises
    UnknownJobError, StillRunsError, ScoreError, NoDataError, BusyError, KeyFileError, EvidenceError
    for files above the bounds of a bundle, and ImportError without the extra.
    """
    key = read_key(service.config.home / KEY_FILE)
    with tempfile.TemporaryFile(dir=folder) as temporary:
        jobs = _Staged(temporary)
        if kind == "month":
            files = _add_month(service, jobs, name, project, progress)
        else:
            jobs.add(service, name)
            files = {}
        about = AboutDoc(
            format=FORMAT,
            kind=kind,
            id=name,
            project=project,
            jobs=len(jobs.revisions),
            made_by=f"gramwatt {__version__}",
            catalog_version=service.catalog.version,
            issuer=service.config.reports.statement(),
        )
        files[ABOUT] = _readable(about)
        if service.catalog.overlay is not None and service.config.overlay is not None:
            files[OVERLAY] = service.config.overlay.read_bytes()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            digests = {name: _write(archive, name, [files[name]]) for name in files}
            for name in OF_JOBS:
                digests[name] = _write(archive, name, jobs.pieces(name))
            sums = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()
            _write(archive, SUMS, [sums])
            if key is not None:
                _write(archive, SIGNATURE, [key.sign(sums)])
    Bundle(stream)  # what cannot be verified is not written


def _add_month(
    service: Service, jobs: _Staged, month: str, project: str | None, progress: Progress
) -> dict[str, bytes]:
    """Add the jobs of a month; returns its document, and the sums of the months before it.

    Jobs that are scored or deleted meanwhile are added again, until the table of the month's jobs
    names what was added. Raises BusyError where it never does.
    """
    for _ in range(MONTH_TRIES):
        month_report(service, month, project)  # raises NoDataError for a month without jobs
        with service.for_every_project().store.read() as session:
            rows = {row.job_id: row.revision for row in job_rows(session, month, project)}
        for job_id in jobs.revisions.keys() - rows.keys():
            jobs.remove(job_id)
        changed = [name for name in rows if jobs.revisions.get(name) != rows[name]]
        for number, job_id in enumerate(changed):
            progress(number, len(changed))
            with suppress(UnknownJobError, DeletedJobError, StillRunsError):
                jobs.add(service, job_id, bare_too=True)
        report = month_report(service, month, project, names=False)
        # What a kept report says of months before it is of the day on which it was kept.
        document = read_now(service.for_every_project(), month, project)
        for name in ("revision", "issued_at", "revised"):
            setattr(document, name, getattr(report, name))
        before = month_sums(service, months_before(month), project, MonthSums)
        with service.for_every_project().store.read() as session:
            now = {row.job_id: row.revision for row in job_rows(session, month, project)}
        if now == jobs.revisions:
            return {MONTH: _readable(document), BEFORE: _readable(before)}
    raise BusyError(f"the jobs of {month} change all the time; try again later")


def _write(archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes]) -> str:
    """Write a file, the same bytes for the same content; returns its SHA-256."""
    entry, digest = zipfile.ZipInfo(name, _EPOCH), hashlib.sha256()
    entry.create_system, entry.external_attr = 3, _MODE
    entry.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(entry, "w", force_zip64=True) as stream:
        for piece in pieces:
            stream.write(piece)
            digest.update(piece)
    return digest.hexdigest()


def _readable(document: object) -> bytes:
    """Return a document as readable JSON."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


class _Staged:
    """The lines of jobs in a temporary stream, so that they need not fit into memory.

    `revisions` are those of their scores, by id.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.revisions: dict[str, int] = {}
        self._places: dict[str, dict[str, tuple[int, int]]] = {}
        self._stream = stream

    def add(self, service: Service, job_id: str, *, bare_too: bool = False) -> None:
        """Add a job, or put it in the place of what it was. With `bare_too`, its score alone where
        its intervals were deleted.
        """
        self.remove(job_id)
        with service.store.read() as session:
            is_bare = bare_too and find_job(session, job_id).intervals_deleted_us is not None
        texts = {}
        if is_bare:
            document = job_document(service, job_id, names=False).document
        else:
            inputs, document = scored_inputs(service, job_id)
            texts[JOURNALS] = inputs.journal().encode()
            texts[INPUTS] = to_text({"job_id": job_id, **inputs.to_doc()}).encode() + b"\n"
        texts[SCORES] = to_text(document).encode() + b"\n"
        places = {}
        for name, text in texts.items():
            places[name] = self._stream.seek(0, io.SEEK_END), len(text)
            self._stream.write(text)
        self._places[job_id], self.revisions[job_id] = places, document.revision

    def remove(self, job_id: str) -> None:
        """Remove a job, if it was added."""
        self._places.pop(job_id, None)
        self.revisions.pop(job_id, None)

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield what the jobs have in a file, in the order of their ids."""
        for job_id in sorted(self._places):
            start, size_b = self._places[job_id].get(name, (0, 0))
            self._stream.seek(start)
            yield self._stream.read(size_b)


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


# The file


class Bundle:
    """The files of a bundle, each within bounds; the stream must stay open as long as it is used.

    Raises EvidenceError for a file that is not a bundle, before anything of it is unpacked.
    """

    def __init__(self, stream: BinaryIO) -> None:
        size_b = stream.seek(0, io.SEEK_END)
        if size_b > PACKED_MOST_B:
            raise EvidenceError(FILE, f"is larger than {PACKED_MOST_B} bytes")
        stream.seek(max(0, size_b - 98))
        if _directory_b(stream.read()) > DIRECTORY_MOST_B:  # which `zipfile` reads whole
            raise EvidenceError(FILE, f"has a list of files larger than {DIRECTORY_MOST_B} bytes")
        try:
            self._archive = zipfile.ZipFile(stream)
        except _UNREADABLE:
            raise EvidenceError(FILE, "cannot be read: it is not a whole ZIP archive") from None
        entries = self._archive.infolist()
        most_b = max(EXPANDED_FREE_B, EXPANSION_MOST * size_b)
        if (expanded_b := sum(entry.file_size for entry in entries)) > most_b:
            raise EvidenceError(FILE, f"unpacks to {expanded_b} bytes, {most_b} are allowed")
        self.entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            name = entry.filename
            if name not in (*WHOLE, *OF_JOBS):
                raise EvidenceError(FILE, f"has {name[:60]!a}, which is not of an evidence bundle")
            if name in self.entries:
                raise EvidenceError(name, "is there twice")
            if entry.file_size > WHOLE.get(name, most_b):
                raise EvidenceError(name, f"unpacks to more than {WHOLE[name]} bytes")
            # Of other kinds of compression the memory is not bounded; a bundle is not encrypted.
            if entry.compress_type not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
                raise EvidenceError(name, "is compressed in a way that a bundle is not")
            self.entries[name] = entry

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file, never more than its stated size; raises EvidenceError."""
        with self._reading(name) as (stream, rest_b):
            while rest_b >= 0 and (chunk := stream.read(min(CHUNK_B, rest_b + 1))):
                rest_b -= len(chunk)
                yield chunk
        if rest_b:
            raise EvidenceError(name, "was altered: its size is not the one stated")

    def lines(self, name: str, most_b: int) -> Iterator[bytes]:
        """Yield the lines of a file; raises EvidenceError for one longer than `most_b` [B]."""
        if name not in self.entries:
            return
        with self._reading(name) as (stream, _):
            while line := stream.readline(most_b + 1):
                if len(line) > most_b:
                    raise EvidenceError(name, f"has a line of more than {most_b} bytes")
                yield line

    @contextmanager
    def _reading(self, name: str) -> Iterator[tuple[BinaryIO, int]]:
        """Give a file as a stream, and its size [B]; raises EvidenceError."""
        if name not in self.entries:
            raise EvidenceError(name, "is missing")
        try:
            member = cast(io.RawIOBase, self._archive.open(self.entries[name]))
            with io.BufferedReader(member, CHUNK_B) as stream:
                yield cast(BinaryIO, stream), self.entries[name].file_size
        except EvidenceError:
            raise
        except _UNREADABLE:
            raise EvidenceError(name, "was altered: it cannot be unpacked") from None

    def text(self, name: str) -> bytes:
        """Return a file that is read whole; raises EvidenceError."""
        return b"".join(self.chunks(name))

    def check_sums(self) -> None:
        """Raise EvidenceError for the first file that is missing, foreign or altered."""
        stated: dict[str, str] = {}
        for line in self.text(SUMS).decode("ascii", "replace").splitlines():
            of_file, _, name = line.partition("  ")
            if not name:
                raise EvidenceError(SUMS, "has a line that is not a checksum and a name")
            stated[name] = of_file
        for name in sorted((self.entries.keys() - {SUMS, SIGNATURE}) | stated.keys()):
            if name not in stated:
                raise EvidenceError(name, f"is not in {SUMS}")
            digest = hashlib.sha256()
            for chunk in self.chunks(name):
                digest.update(chunk)
            if digest.hexdigest() != stated[name]:
                raise EvidenceError(name, f"was altered: its SHA-256 is not the one in {SUMS}")


def _directory_b(tail: bytes) -> int:
    """Return the size of the list of files of an archive [B], by its last 98 bytes."""
    end, wide = tail[-22:], tail[:-22]
    if end[:4] != b"PK\5\6" or end[-2:] != b"\0\0":  # no comment follows
        raise EvidenceError(FILE, "cannot be read: it is not a whole ZIP archive")
    if wide[56:60] == b"PK\6\7":
        return int.from_bytes(wide[40:48], "little")
    return int.from_bytes(end[12:16], "little")


def _parsed(name: str, text: bytes) -> dict[str, Any]:
    """Return a JSON object; raises EvidenceError for anything else, and for too many values."""
    if sum(map(text.count, (b",", b"[", b"{"))) > ITEMS_MOST:
        raise EvidenceError(name, f"has more than {ITEMS_MOST} values")
    try:
        document = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        raise EvidenceError(name, "is not JSON") from None
    if not isinstance(document, dict):
        raise EvidenceError(name, "is not a JSON object")
    return document


# Verification


@dataclass
class Verdict:
    """What a bundle holds against: what is equal, what differs, and what could not be scored again,
    each a sentence; and what is taken on trust, in three lines.
    """

    about: AboutDoc
    equal: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    trusted: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    """Versions that made the bundle's scores and are not installed here."""

    @property
    def outcome(self) -> Literal["proven", "altered", "proven-in-part"]:
        """Return the result in a word."""
        if self.wrong:
            return "altered"
        return "proven-in-part" if self.not_compared else "proven"


def verify(
    stream: BinaryIO, key: Ed25519PublicKey | None = None, progress: Progress = lambda *_: None
) -> Verdict:
    """Compute a bundle again; raises EvidenceError for a file that is not one, or was altered.

    With a key, the bundle must be signed with it. `progress` gets the jobs done, of how many.
    """
    bundle = Bundle(stream)
    bundle.check_sums()
    return _Check(bundle, key).verdict_over(progress)


class _JobLines:
    """The lines of a file by job, in the order of ids; lines that no score is of are named."""

    def __init__(self, bundle: Bundle, name: str, most_b: int, verdict: Verdict) -> None:
        self._name, self._verdict = name, verdict
        self._groups = groupby(bundle.lines(name, most_b), key=partial(_job_of, name))
        self._job_id, self._lines = next(self._groups, _NO_LINES)
        self._taken = False

    def of(self, job_id: str) -> Iterator[bytes]:
        """Return the lines of a job, none where it has none; of `_END` after the last job."""
        while self._taken or self._job_id < job_id:
            if not self._taken:
                text = f"{self._name}: has lines of {self._job_id[:60]}"
                self._verdict.wrong.append(f"{text}, which {SCORES} has not")
            self._job_id, self._lines = next(self._groups, _NO_LINES)
            self._taken = False
        if self._job_id != job_id:
            return iter(())
        self._taken = True
        return self._lines


_END = "\x7f"
"""Stands behind every id of a job."""
_NO_LINES: tuple[str, Iterator[bytes]] = (_END, iter(()))


class _OfJob(Struct):
    job_id: str


def _job_of(name: str, line: bytes) -> str:
    """Return the id of the job that a line of a file is of; raises EvidenceError for none."""
    try:
        job_id = decode(line, _OfJob).job_id
    except (ValueError, RecursionError):
        job_id = ""
    if not "" < job_id < _END:
        raise EvidenceError(name, "was altered: it has a line that names no job")
    return job_id


class _Check:
    """The check of one bundle."""

    def __init__(self, bundle: Bundle, key: Ed25519PublicKey | None) -> None:
        self.bundle = bundle
        self.about = self._about()
        self.verdict = Verdict(self.about)
        number = len(bundle.entries.keys() - {SUMS, SIGNATURE})
        self.verdict.equal.append(f"{number} files have the sums of {SUMS}")
        self.signed = self._check_signature(key)
        self.catalog = self._catalog()
        self.equal = self.bare = self.corrections = self.imported = 0
        self.rows = sqlite3.connect("")  # in a file of its own where memory is short
        for table, columns in TABLES.items():
            names = ", ".join(columns)
            once = "" if "month" in columns else f", UNIQUE ({names})"
            self.rows.execute(f"CREATE TABLE {table} ({names}{once})")

    def verdict_over(self, progress: Progress) -> Verdict:
        """Score every job again, sum the month again, and return what holds and what differs."""
        verdict, number = self.verdict, 0
        journals = _JobLines(self.bundle, JOURNALS, LINE_MAX_B + 1, verdict)
        inputs = _JobLines(self.bundle, INPUTS, DOCUMENT_MOST_B, verdict)
        last = ""
        for number, line in enumerate(self.bundle.lines(SCORES, DOCUMENT_MOST_B), 1):
            progress(number - 1, self.about.jobs)
            job_id = _job_of(SCORES, line)
            if job_id <= last:
                raise EvidenceError(SCORES, f"line {number} is not of the next job")
            last = job_id
            document = self._job(job_id, line, journals.of(job_id), inputs.of(job_id))
            try:
                if document is not None:
                    self._add(document)
            except Exception:  # of a score that is not computed again, whatever a stranger wrote
                verdict.wrong.append(f"{SCORES}: {job_id}: is malformed: it cannot be summed")
        journals.of(_END), inputs.of(_END)
        if number != self.about.jobs or (self.about.kind == "job" and last != self.about.id):
            verdict.wrong.append(f"{SCORES}: has other jobs than {ABOUT} says")
        if self.equal:
            scores = "the score" if self.equal == 1 else f"{self.equal} scores"
            verdict.equal.append(f"every figure of {scores}, scored again")
        rest = self._compare_month() if self.about.kind == "month" else []
        unused = {MONTH, BEFORE} if self.about.kind == "job" else set()
        foreign = sorted(unused & self.bundle.entries.keys())
        verdict.wrong += [f"{name}: is not a file of this bundle" for name in foreign]
        verdict.trusted = self._trusted(rest)
        return verdict

    def _about(self) -> AboutDoc:
        about = _parsed(ABOUT, self.bundle.text(ABOUT))
        if (stated := about.get("format")) != FORMAT:
            here = f"this release reads format {FORMAT}"
            raise EvidenceError(ABOUT, f"format {stated!r} is not known: {here}")
        try:
            return convert(about, AboutDoc)
        except msgspec.ValidationError as error:
            raise EvidenceError(ABOUT, f"does not say what the bundle holds: {error}") from None

    def _check_signature(self, key: Ed25519PublicKey | None) -> bool | None:
        """Return whether the bundle is signed with the key; None where that is not known."""
        if key is None:
            return None if SIGNATURE in self.bundle.entries else False
        from cryptography.exceptions import InvalidSignature

        if SIGNATURE not in self.bundle.entries:
            raise EvidenceError(SIGNATURE, "is missing: the bundle is not signed")
        try:
            key.verify(self.bundle.text(SIGNATURE), self.bundle.text(SUMS))
        except InvalidSignature:
            raise EvidenceError(SIGNATURE, "was not made with this key, or was altered") from None
        self.verdict.equal.append(f"{SUMS} is signed with this key")
        return True

    def _catalog(self) -> Catalog:
        """Return the catalog of this release with the overlay of the bundle."""
        if OVERLAY not in self.bundle.entries:
            return load_catalog()
        text = self.bundle.text(OVERLAY)
        if sum(map(text.count, (b",", b"[", b"{", b"="))) > ITEMS_MOST:
            raise EvidenceError(OVERLAY, f"has more than {ITEMS_MOST} values")
        try:
            return Catalog.with_overlay(text.decode())
        except (ValueError, RecursionError) as error:
            raise EvidenceError(OVERLAY, f"cannot be used: {error}") from None

    def _job(
        self, job_id: str, line: bytes, journal: Iterator[bytes], inputs: Iterator[bytes]
    ) -> JobDoc | None:
        """Return the document of a job, computed from its inputs; None where it cannot be."""
        name, verdict = f"{SCORES}: {job_id}", self.verdict
        stated = _parsed(name, line)
        text = next(inputs, None)
        if text is None and self.about.kind == "month":
            verdict.not_compared.append(f"{name}: its intervals were deleted: not scored again")
            self.bare += 1
            try:
                return convert(stated, JobDoc)
            except msgspec.ValidationError as error:
                raise EvidenceError(name, f"is not the document of a job: {error}") from None
        try:
            if text is None:
                raise EvidenceError(INPUTS, "it has no line there")
            beside = _parsed(INPUTS, text)
            job = ScoreInputs.from_texts(journal, beside, ZoneInfo)
            document = as_stored(job.score(self.catalog))
        except Exception as error:  # whatever a stranger wrote into the inputs
            reason = error.message if isinstance(error, GramwattError) else "inputs are malformed"
            verdict.wrong.append(f"{name}: cannot be scored again: {reason}")
            return None
        if next(inputs, None) is not None:
            verdict.wrong.append(f"{INPUTS}: {job_id} is there twice")
        self.corrections += bool(job.corrections)
        points = (point for query in job.intensity for point in query.points)
        self.imported += any(point.quality not in ANNUAL for point in points)
        self._accept_versions(stated, document)
        self.equal += self._is_equal(name, stated, normal(document))
        return document

    def _accept_versions(self, stated: Any, document: JobDoc) -> None:
        """Take the versions of a score as stated, and name those that are not installed here."""
        method, by = document.method, stated.get("method")
        for version in VERSIONS:
            other = by.get(version) if isinstance(by, dict) else None
            if isinstance(other, str) and other != getattr(method, version):
                text = f"{version} is {other[:40]}, and {getattr(method, version)} here"
                if text not in self.verdict.versions:
                    self.verdict.versions.append(text)
                setattr(method, version, other)

    def _add(self, document: JobDoc) -> None:
        """Add the rows of a job to those of the month."""
        for table, rows in rows_of(document, class_of(document)).items():
            of_month = [row for row in rows if row.get("month") in (None, self.about.id)]
            names = ", ".join(f":{name}" for name in TABLES[table])
            self.rows.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({names})", of_month)

    def _compare_month(self) -> list[str]:
        """Compare the month with the sums of its jobs; return the fields that are not their sums.

        What it says of months before follows from their sums, which are taken as stated.
        """
        from gramwatt.service.months.sums import sum_month  # loads numpy

        month, project = self.about.id, self.about.project
        stated = _parsed(MONTH, self.bundle.text(MONTH))
        sums = sum_month(self.rows.execute, month, project)
        try:
            before = convert(_parsed(BEFORE, self.bundle.text(BEFORE)), dict[str, MonthSums])
            last = before.get(previous_month(month))
            computed = normal(month_document(sums, last, before, _beside(stated)))
            for row in (row for of in (stated, computed) for row in of["factors"]):
                row |= UNPUBLISHED
        except Exception as error:  # whatever a stranger wrote into it
            if isinstance(error, EvidenceError):
                raise
            raise EvidenceError(MONTH, f"cannot be summed again: {error}") from None
        rest = {name: stated.pop(name, None) for name in OF_STORE}
        computed = {name: value for name, value in computed.items() if name not in OF_STORE}
        if self._is_equal(MONTH, stated, computed):
            self.verdict.equal.append(f"every figure of {MONTH} that is a sum, summed again")
        return [*(name for name in rest if rest[name]), f"the sums in {BEFORE}"]

    def _is_equal(self, name: str, stated: Any, computed: Any) -> bool:
        """Return whether a document is what was computed; where it is not, that is reported."""
        if json.dumps(stated) == json.dumps(computed):  # ten times as fast as every figure
            return True
        rows = list(differences(stated, computed))
        for place, ours, theirs in rows[:DIFFERENCES_MOST]:
            text = f"{name}: {place} is {_short(ours)}, computed again {_short(theirs)}"
            self.verdict.wrong.append(text)
        if len(rows) > DIFFERENCES_MOST:
            self.verdict.wrong.append(f"{name}: {len(rows) - DIFFERENCES_MOST} more differ")
        return not rows

    def _trusted(self, rest: Sequence[str]) -> list[str]:
        """Return what is taken on trust of records, factors and the issuer, a line each."""
        records = "The records: that meters and counters showed what the journals say"
        if self.corrections:
            records += f", and what people declared later of {jobs_text(self.corrections)}"
        if self.bare:
            records += f"; the scores of {jobs_text(self.bare)} without intervals, as stated"
        factors = f"The factors: the installed catalog {self.catalog.version}"
        if self.imported:
            factors += f"; intensity over time that {jobs_text(self.imported)} used, as imported"
        if OVERLAY in self.bundle.entries:
            factors += f"; the issuer's own entries in {OVERLAY}"
        by = self.about.issuer
        names = [name for name in (by.organisation, by.accountable, by.contact) if name]
        signed = {
            True: "the key is the one given",
            None: "it is signed, and not checked with whose key: give that with --key",
            False: "nobody signed it, so anybody could have written it",
        }
        issuer = f"The issuer, {', '.join(names) or 'who is not named'}: {signed[self.signed]}"
        if rest:
            issuer += f"; in {MONTH}, as the issuer's store had it: {', '.join(rest)}"
        return [
            f"{records}; place, PUE and unit, as declared.",
            f"{factors}; declared hardware lives.",
            f"{issuer}.",
        ]


def _beside(stated: Mapping[str, Any]) -> Beside:
    """Return what a month's figures follow from beside its jobs, as its document states it."""
    factors = {row["zone"]: row["factor_g_per_kwh"] for row in stated["market_based"]}
    return Beside(
        days=stated["compared_days"],
        open_months=[row["month"] for row in stated["trend"] if not row["complete"]],
        market_factors={
            zone: MarketFactor(of["value"], of["source"]) for zone, of in factors.items()
        },
    )


def normal(document: object) -> Any:
    """Return a document as it is after it was written and read as JSON."""
    return msgspec.json.decode(to_text(document))


def differences(stated: Any, computed: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the places where two JSON documents differ, with both values; None for one that is
    missing.

    1 and 1.0 are one number; True and 1 are not. Figures are one that differ by less than SAME.
    """
    if isinstance(stated, dict) and isinstance(computed, dict):
        for name in dict.fromkeys([*computed, *stated]):
            inner = f"{path}.{name}" if path else name
            if name in stated and name in computed:
                yield from differences(stated[name], computed[name], inner)
            else:
                yield inner, stated.get(name), computed.get(name)
    elif isinstance(stated, list) and isinstance(computed, list):
        for number in range(max(len(stated), len(computed))):
            ours, theirs = (x[number] if number < len(x) else None for x in (stated, computed))
            yield from differences(ours, theirs, f"{path}.{number}")
    elif not _is_same(stated, computed):
        yield path, stated, computed


def _is_same(stated: Any, computed: Any) -> bool:
    numbers = [isinstance(x, int | float) and not isinstance(x, bool) for x in (stated, computed)]
    if all(numbers):
        return math.isclose(stated, computed, rel_tol=SAME)
    return bool(stated == computed) and numbers[0] == numbers[1]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Keys


def make_key(home: Path) -> Path:
    """Make the key pair of a home unless it has one; returns the file of the public key.

    Raises KeyFileError for a pair that cannot be used, OSError where none can be written, and
    ImportError without the extra.
    """
    from cryptography.hazmat.primitives import serialization as pem
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = home / KEY_FILE, home / PUBLIC_FILE
    key = read_key(private)
    if key is None:
        key = Ed25519PrivateKey.generate()
        text = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
        replace_text(private, text.decode())
    form = pem.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(pem.Encoding.PEM, form))
    return public


def read_key(path: Path) -> Ed25519PrivateKey | None:
    """Return the private key in a file, None where there is no file.

    Raises KeyFileError for another file, and ImportError without the extra.
    """
    if not path.exists():
        return None
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise KeyFileError(f"{path} is not a valid key to sign with: {why(error)}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} is not an Ed25519 key")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Return the public key in a file; raises KeyFileError, and ImportError without the extra."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise KeyFileError(f"{path} is not a valid public key: {why(error)}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(f"{path} is not an Ed25519 key")
    return key

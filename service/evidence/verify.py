"""Reads and verifies a bundle, without store or network.

No file of a bundle is read before its size is known to be within bounds.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import struct
import zipfile
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from gramwatt.collectors.common.files import replace_text, why
from gramwatt.sci.analysis.documents import MarketFactor, StatementDoc
from gramwatt.sci.analysis.month import months_of, previous_month
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.formatting import jobs_text
from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.journal.records import LINE_MAX_B
from gramwatt.sci.score.inputs import ANNUAL, ScoreInputs
from gramwatt.service.months.sums.part import PartRow, parts_of
from gramwatt.service.store.documents import as_stored, to_text
from gramwatt.service.store.timestamps import to_us

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

FORMAT = 1
JOB, MONTH = "job", "month"
ABOUT, OVERLAY = "evidence.json", "overlay.toml"
MONTH_FILE, BEFORE = "month.json", "month-before.ndjson"
"""The month's document, and the parts of the jobs of the month before: `changes` stand on them."""
OF_JOB = ("journal.ndjson", "inputs.json", "score.json")
"""The files of each job: its lines, what else it is scored from, and its document."""
SUMS, SIGNATURE = "sha256sums", "sha256sums.sig"
KEY_FILE, PUBLIC_FILE = "signing.key", "signing.pub"
"""The Ed25519 key pair in the home folder."""
FILE = "the file"
"""The part of a bundle that is in none of its files."""

FILES_MOST = 300_100
PACKED_MOST_B = 2**34
DIRECTORY_MOST_B = 2**25
"""The largest bundle, and the largest list of its files at its end [B]."""
EXPANSION_MOST, EXPANDED_FREE_B = 100, 2**24
"""A bundle may unpack to EXPANDED_FREE_B [B], a larger one to EXPANSION_MOST times its size."""
DOCUMENT_MOST_B, ITEMS_MOST = 2**25, 500_000
"""The largest file that is parsed whole [B], and the most values in it: a value takes far more
memory than its text."""
SIZES: Mapping[str, int] = {
    OF_JOB[0]: 2**30,
    BEFORE: 2**25,
    SUMS: 200 * FILES_MOST,
    SIGNATURE: 64,
}
"""The largest files that are not documents [B]; all but the signature are read by the line."""
SUMS_LINE_MOST_B = 400
CHUNK_B = 2**20

SAME = 1e-9
"""Figures that differ by less, relative to them, are equal: libraries of mathematics differ in the
last digits, and so do sums in another order."""
DIFFERENCES_MOST = 10
"""How many differing figures of a file are named."""
VERSIONS = ("engine_version", "catalog_version")
COMPARED = frozenset(
    ("compared_days", "compared", "previous", "changes", "change_parts", "project_changes")
)
"""Fields of a month that depend on the month before."""
UNPUBLISHED: Mapping[str, Any] = {
    "publisher": None,
    "edition": None,
    "licence": None,
    "link": None,
    "files": [],
}
"""What a factor of a month is without the store, which knows its publisher."""
NEEDS = "signatures need the extra `signing`: pip install 'gramwatt[signing]'"

_NAME = re.compile(rf"jobs/([A-Za-z0-9][A-Za-z0-9._:\-]*)/({'|'.join(map(re.escape, OF_JOB))})")
_LINE = re.compile(rb"([0-9a-f]{64})  (\S+)\n")
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, ArithmeticError, EOFError, OSError),
    *(RuntimeError, ValueError, LookupError),
)
"""What `zipfile` raises for a file that it cannot read."""
Progress = Callable[[Sequence[str]], Iterable[str]]


class EvidenceError(GramwattError, ValueError):
    """A file that is not an evidence bundle, or was altered; `part` names what is wrong."""

    code = "bad-evidence"

    def __init__(self, part: str, message: str) -> None:
        self.part = part
        super().__init__(f"{part}: {message}")


class KeyFileError(Exception):
    """A key file that cannot be used; the message is a sentence for people."""


class AboutDoc(Struct):
    """The content of evidence.json; `without_journal` are jobs whose intervals were deleted."""

    format: int
    kind: Literal["job", "month"]
    id: str
    project: str | None
    made_by: str
    catalog_version: str
    issuer: StatementDoc
    jobs: dict[str, int]
    without_journal: list[str]


def normal(document: object) -> Any:
    """Return a document as it is after it was written and read as JSON."""
    return msgspec.json.decode(to_text(document))


def _job_of(name: str, stated: object) -> JobDoc:
    """Return the document of a job in a file of a bundle; raises EvidenceError for another one."""
    try:
        return msgspec.convert(stated, JobDoc)
    except msgspec.ValidationError as error:
        raise EvidenceError(name, f"is not the document of a job: {error}") from None


class Bundle:
    """The files of a bundle, each within bounds; the stream must stay open as long as it is used.

    Raises EvidenceError for a file that is not a bundle, before anything of it is unpacked.
    """

    def __init__(self, stream: BinaryIO) -> None:
        size_b = stream.seek(0, io.SEEK_END)
        if size_b > PACKED_MOST_B:
            raise EvidenceError(FILE, f"is larger than {PACKED_MOST_B} bytes")
        _require_few_files(stream, size_b)
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
            self._add(entry)

    def _add(self, entry: zipfile.ZipInfo) -> None:
        name = entry.filename
        fixed = (ABOUT, OVERLAY, MONTH_FILE, BEFORE, SUMS, SIGNATURE)
        if name not in fixed and not _NAME.fullmatch(name):
            raise EvidenceError(FILE, f"has {name[:60]!a}, which is not of an evidence bundle")
        if name in self.entries:
            raise EvidenceError(name, "is there twice")
        most_b = SIZES.get(name.rpartition("/")[2], DOCUMENT_MOST_B)
        if entry.file_size > most_b:
            raise EvidenceError(name, f"unpacks to more than {most_b} bytes")
        # Of other kinds of compression the memory is not bounded; a bundle is not encrypted.
        if entry.compress_type not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
            raise EvidenceError(name, "is compressed in a way that a bundle is not")
        self.entries[name] = entry

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file, never more than its size; raises EvidenceError."""
        if name not in self.entries:
            raise EvidenceError(name, "is missing")
        entry = self.entries[name]
        rest_b = entry.file_size
        try:
            with self._archive.open(entry) as stream:
                while rest_b >= 0 and (chunk := stream.read(min(CHUNK_B, rest_b + 1))):
                    rest_b -= len(chunk)
                    yield chunk
        except _UNREADABLE:
            raise EvidenceError(name, "was altered: it cannot be unpacked") from None
        if rest_b:
            raise EvidenceError(name, "was altered: its size is not the one stated")

    def lines(self, name: str, most_b: int) -> Iterator[bytes]:
        """Yield the lines of a file; raises EvidenceError for one longer than `most_b` [B]."""
        if name not in self.entries:
            raise EvidenceError(name, "is missing")
        try:
            member = cast(io.RawIOBase, self._archive.open(self.entries[name]))
            with io.BufferedReader(member, CHUNK_B) as stream:
                while line := stream.readline(most_b + 1):
                    if len(line) > most_b:
                        raise EvidenceError(name, f"has a line of more than {most_b} bytes")
                    yield line
        except EvidenceError:
            raise
        except _UNREADABLE:
            raise EvidenceError(name, "was altered: it cannot be unpacked") from None

    def document(self, name: str) -> Any:
        """Return a JSON file; raises EvidenceError for one that takes too much memory."""
        content = self.text(name)
        try:
            return msgspec.json.decode(content)
        except (ValueError, RecursionError):
            raise EvidenceError(name, "is not a JSON document") from None

    def text(self, name: str) -> bytes:
        """Return a file that is parsed whole; raises EvidenceError for too many values in it."""
        items, chunks = 0, []
        for chunk in self.chunks(name):
            items += sum(map(chunk.count, (b",", b"[", b"{", b"=")))
            if items > ITEMS_MOST:
                raise EvidenceError(name, f"has more than {ITEMS_MOST} values")
            chunks.append(chunk)
        return b"".join(chunks)

    def check_sums(self) -> None:
        """Raise EvidenceError for the first file that is missing, foreign or altered."""
        names = sorted(self.entries.keys() - {SUMS, SIGNATURE})
        for name, line in zip_longest(names, self.lines(SUMS, SUMS_LINE_MOST_B)):
            match = _LINE.fullmatch(line) if line is not None else None
            if line is not None and match is None:
                raise EvidenceError(SUMS, "has a line that is not a checksum and a name")
            stated = match[2].decode("ascii", "replace") if match else None
            if stated is None or (name is not None and name < stated):
                raise EvidenceError(name, f"is not in {SUMS}")
            if name != stated:
                raise EvidenceError(stated[:300], f"is missing, or {SUMS} is not sorted")
            digest = hashlib.sha256()
            for chunk in self.chunks(name):
                digest.update(chunk)
            if match is None or digest.hexdigest() != match[1].decode():
                raise EvidenceError(name, f"was altered: its SHA-256 is not the one in {SUMS}")

    def parts_before(self) -> list[PartRow] | None:
        """Return the parts of the month before, None without them; raises EvidenceError."""
        if BEFORE not in self.entries:
            return None
        try:
            rows = map(msgspec.json.decode, self.lines(BEFORE, SIZES[BEFORE]))
            return [
                PartRow(
                    number,
                    row["job_id"],
                    row["started_us"],
                    b64decode(row["texts"]),
                    b64decode(row["numbers"]),
                )
                for number, row in enumerate(rows)
            ]
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            if isinstance(error, EvidenceError):
                raise
            raise EvidenceError(BEFORE, "does not hold parts of jobs") from None


def _require_few_files(stream: BinaryIO, size_b: int) -> None:
    """Raise EvidenceError for a list of files that `zipfile` may not read: it reads any whole."""
    end_b, wide_b = 22, 76
    stream.seek(max(0, size_b - end_b - wide_b))
    tail = stream.read()
    wide, end = tail[:wide_b], tail[-end_b:]
    whole = end[:4] == b"PK\5\6" and end[-2:] == b"\0\0"  # no comment follows
    directory_b = int.from_bytes(end[12:16], "little")
    if wide[56:60] == b"PK\6\7":
        whole, end_b = whole and wide[:4] == b"PK\6\6", end_b + wide_b
        directory_b = int.from_bytes(wide[40:48], "little")
    if not whole or directory_b > size_b - end_b:
        raise EvidenceError(FILE, "cannot be read: it is not a whole ZIP archive")
    if directory_b > DIRECTORY_MOST_B:
        raise EvidenceError(FILE, f"has a list of files larger than {DIRECTORY_MOST_B} bytes")
    stream.seek(size_b - end_b - directory_b)
    if stream.read(directory_b).count(b"PK\1\2") > FILES_MOST:
        raise EvidenceError(FILE, f"has more than {FILES_MOST} files")


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
    """Versions of the bundle's scores that are not those of here."""

    @property
    def outcome(self) -> Literal["proven", "altered", "proven-in-part"]:
        """Return the result in a word."""
        if self.wrong:
            return "altered"
        return "proven-in-part" if self.not_compared else "proven"


def verify(
    stream: BinaryIO, key: Ed25519PublicKey | None = None, *, progress: Progress = iter
) -> Verdict:
    """Compute a bundle again; raises EvidenceError for a file that is not one, or was altered.

    With a key, the bundle must be signed with it. `progress` passes on the jobs' ids.
    """
    bundle = Bundle(stream)
    bundle.check_sums()
    return _Check(bundle, key).verdict_over(progress)


class _Check:
    """The check of one bundle; `rows` are the computed parts of the month, `heads` their jobs."""

    def __init__(self, bundle: Bundle, key: Ed25519PublicKey | None) -> None:
        self.bundle = bundle
        self.about = self._about()
        self.verdict = Verdict(self.about)
        number = len(bundle.entries.keys() - {SUMS, SIGNATURE})
        self.verdict.equal.append(f"{number} files have the sums of {SUMS}")
        self.signed = self._check_signature(key)
        self.catalog = self._catalog()
        self.rows: list[PartRow] = []
        self.names: dict[str, str] = {}
        self.equal = self.corrections = self.imported = 0

    def verdict_over(self, progress: Progress) -> Verdict:
        """Score every job again, sum the month again, and return what was found."""
        ids, verdict = list(self.about.jobs), self.verdict
        for number, job_id in enumerate(progress(ids)):
            document = self._job(job_id)
            try:
                if document is not None:
                    self._keep(number, document)
            except Exception:  # of a score that is not computed again, whatever a stranger wrote
                text = f"jobs/{job_id}/{OF_JOB[2]}: is malformed: it cannot be summed"
                verdict.wrong.append(text)
        if self.equal:
            scores = "the score" if self.equal == 1 else f"{self.equal} scores"
            verdict.equal.append(f"every figure of {scores}, scored again")
        rest: list[str] = []
        if self.about.kind == MONTH and len(self.names) == len(ids):
            try:
                rest = self._compare_month(ids)
            except EvidenceError:
                raise
            except Exception:  # whatever a stranger wrote into it
                verdict.wrong.append(f"{MONTH_FILE}: is malformed: nothing in it can be compared")
        verdict.wrong += [f"{name}: is not a file of this bundle" for name in self._foreign()]
        verdict.trusted = [self._trusted_records(), self._trusted_factors(), self._trusted(rest)]
        return verdict

    def _about(self) -> AboutDoc:
        about = self.bundle.document(ABOUT)
        stated = about.get("format") if isinstance(about, dict) else None
        if stated != FORMAT:
            here = f"this release reads format {FORMAT}"
            raise EvidenceError(ABOUT, f"format {stated!r} is not known: {here}")
        try:
            about = msgspec.convert(about, AboutDoc)
        except msgspec.ValidationError as error:
            raise EvidenceError(ABOUT, f"does not say what the bundle holds: {error}") from None
        if about.kind == JOB and (list(about.jobs) != [about.id]):
            raise EvidenceError(ABOUT, "names other jobs than its own")
        return about

    def _check_signature(self, key: Ed25519PublicKey | None) -> bool | None:
        """Return whether the bundle is signed with the key; None where that is not known."""
        if key is None:
            return None if SIGNATURE in self.bundle.entries else False
        from cryptography.exceptions import InvalidSignature

        if SIGNATURE not in self.bundle.entries:
            raise EvidenceError(SIGNATURE, "is missing: the bundle is not signed")
        try:
            key.verify(self.bundle.text(SIGNATURE), b"".join(self.bundle.chunks(SUMS)))
        except InvalidSignature:
            raise EvidenceError(SIGNATURE, "was not made with this key, or was altered") from None
        self.verdict.equal.append(f"{SUMS} is signed with this key")
        return True

    def _catalog(self) -> Catalog:
        """Return the catalog of this release with the overlay of the bundle."""
        if OVERLAY not in self.bundle.entries:
            return load_catalog()
        try:
            return Catalog.with_overlay(self.bundle.text(OVERLAY).decode())
        except EvidenceError:
            raise
        except (ValueError, RecursionError) as error:
            raise EvidenceError(OVERLAY, f"cannot be used: {error}") from None

    def _job(self, job_id: str) -> JobDoc | None:
        """Return the document of a job, computed from its inputs; None where it cannot be."""
        name, verdict = f"jobs/{job_id}/{OF_JOB[2]}", self.verdict
        stated = self.bundle.document(name)
        if job_id in self.about.without_journal and self.about.kind == MONTH:
            text = "its intervals were deleted, so it cannot be scored again"
            verdict.not_compared.append(f"{name}: {text}")
            return _job_of(name, stated)
        try:
            document = self._scored(job_id)
        except Exception as error:  # whatever a stranger wrote into the inputs
            reason = error.message if isinstance(error, GramwattError) else "inputs are malformed"
            verdict.wrong.append(f"jobs/{job_id}: cannot be scored again: {reason}")
            return None
        self._accept_versions(stated, document)
        self.equal += self._is_equal(name, stated, normal(document))
        return document

    def _scored(self, job_id: str) -> JobDoc:
        where = f"jobs/{job_id}"
        lines = self.bundle.lines(f"{where}/{OF_JOB[0]}", LINE_MAX_B + 1)
        inputs = ScoreInputs.from_texts(
            lines, self.bundle.document(f"{where}/{OF_JOB[1]}"), ZoneInfo
        )
        self.corrections += bool(inputs.corrections)
        points = (point for query in inputs.intensity for point in query.points)
        self.imported += any(point.quality not in ANNUAL for point in points)
        return as_stored(inputs.score(self.catalog))

    def _accept_versions(self, stated: Any, document: JobDoc) -> None:
        """Take the versions of a score as stated, and name those that are not the ones of here."""
        method = document.method
        by = stated.get("method") if isinstance(stated, dict) else None
        for version in VERSIONS:
            other = by.get(version) if isinstance(by, dict) else None
            if isinstance(other, str) and other != getattr(method, version):
                text = f"{version} is {other[:40]}, and {getattr(method, version)} here"
                if text not in self.verdict.versions:
                    self.verdict.versions.append(text)
                setattr(method, version, other)

    def _keep(self, number: int, document: JobDoc) -> None:
        """Keep a job's part of the month, if the bundle is of one."""
        if self.about.kind == MONTH:
            started_us = to_us(datetime.fromisoformat(document.started_at))
            part = parts_of(document).get(self.about.id)
            if part is not None:
                who = (number, document.job_id, started_us)
                self.rows.append(PartRow(*who, part.texts, part.numbers))
        self.names[document.job_id] = document.name

    def _compare_month(self, ids: Sequence[str]) -> list[str]:
        """Report figures of the month that are not sums over its jobs; return the other fields."""
        from gramwatt.service.months.sums.month import MonthSums

        month = self.about.id
        stated = self.bundle.document(MONTH_FILE)
        sums = MonthSums(month, [self.rows])
        top = [months_of(self._top(ids[number]))[month].head() for number in sums.top()]
        before = self.bundle.parts_before()
        earlier = MonthSums(previous_month(month), [before or []]).as_previous()
        factors = ((row["zone"], row["factor_g_per_kwh"]) for row in stated["market_based"])
        market = {zone: MarketFactor(of["value"], of["source"]) for zone, of in factors}
        own = sums.fields(earlier, market_factors=market)
        fields = {"month": month, "project": self.about.project, **own}
        for row in (row for limit in fields["grade_limits"] for row in limit.jobs):
            row.name = self.names[row.job_id]
        made = normal({**fields, "top_jobs": top})
        compared = COMPARED
        if before is None or stated.get("compared_days") is not None:
            # A month that goes on is compared by days, and the bundle has the month before whole.
            made = {name: value for name, value in made.items() if name not in COMPARED}
            text = "what the month is compared with is not among the jobs of the bundle"
            self.verdict.not_compared.append(f"{MONTH_FILE}: {text}")
            compared = frozenset()
        stated_sums = {name: value for name, value in stated.items() if name in made}
        # Who published a factor is known to the store; here it is compared as the jobs name it.
        stated_sums["factors"] = [{**row, **UNPUBLISHED} for row in stated_sums.get("factors", [])]
        if self._is_equal(MONTH_FILE, stated_sums, made):
            self.verdict.equal.append(f"every figure of {MONTH_FILE} that is a sum, summed again")
        return [name for name in stated if name not in made and name not in compared]

    def _top(self, job_id: str) -> JobDoc:
        if job_id in self.about.without_journal:
            name = f"jobs/{job_id}/{OF_JOB[2]}"
            return _job_of(name, self.bundle.document(name))
        return self._scored(job_id)

    def _is_equal(self, name: str, stated: Any, computed: Any) -> bool:
        """Return whether a file is what was computed; where it is not, that is reported."""
        if json.dumps(stated) == json.dumps(computed):  # ten times as fast as every figure
            return True
        rows = [row for row in differences(stated, computed) if not _is_nothing(row, stated)]
        for place, ours, theirs in rows[:DIFFERENCES_MOST]:
            text = f"{name}: {place} is {_short(ours)}, computed again {_short(theirs)}"
            self.verdict.wrong.append(text)
        if len(rows) > DIFFERENCES_MOST:
            self.verdict.wrong.append(f"{name}: {len(rows) - DIFFERENCES_MOST} more differ")
        return not rows

    def _foreign(self) -> list[str]:
        """Return the files that nothing was computed from."""
        jobs, is_month = self.about.jobs, self.about.kind == MONTH
        names = {ABOUT, OVERLAY, SUMS, SIGNATURE} | ({MONTH_FILE, BEFORE} if is_month else set())
        for job_id in jobs:
            bare = job_id in self.about.without_journal and is_month
            names |= {f"jobs/{job_id}/{name}" for name in (OF_JOB[2:] if bare else OF_JOB)}
        return sorted(self.bundle.entries.keys() - names)

    def _trusted_records(self) -> str:
        """Return what is taken on trust of records, as a line."""
        text = "The records: that meters and counters showed what the journals say"
        if self.corrections:
            text += f", and what people declared later of {jobs_text(self.corrections)}"
        if bare := self.about.without_journal:
            text += f"; the scores of {jobs_text(len(bare))} without intervals, as stated"
        return f"{text}; place, PUE and unit, as declared."

    def _trusted_factors(self) -> str:
        """Return what is taken on trust of factors, as a line."""
        text = f"The factors: the installed catalog {self.catalog.version}"
        if self.imported:
            text += f"; intensity over time that {jobs_text(self.imported)} used, as imported"
        if OVERLAY in self.bundle.entries:
            text += f"; the issuer's own entries in {OVERLAY}"
        return f"{text}; declared hardware lives."

    def _trusted(self, rest: Sequence[str]) -> str:
        """Return what is taken on trust of the issuer, as a line."""
        issuer = self.about.issuer
        names = [issuer.organisation, issuer.accountable, issuer.contact]
        text = f"The issuer, {', '.join(name for name in names if name) or 'who is not named'}: "
        if self.signed:
            text += "the key is the one given"
        elif self.signed is None:
            text += "it is signed, and not checked with whose key: give that with --key"
        else:
            text += "nobody signed it, so anybody could have written it"
        if rest:
            listed = ", ".join(rest)
            text += (
                f"; in {MONTH_FILE}, as the issuer's store had it: who published factors, {listed}"
            )
        return f"{text}."


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


def _is_nothing(difference: tuple[str, Any, Any], stated: Any) -> bool:
    """Return whether an effect of the change of a month differs by nothing beside its total."""
    path, ours, theirs = difference
    if not path.startswith("change_parts.") or not isinstance(ours, int | float):
        return False
    whole = stated["totals"]["total_g"]["value"]
    return isinstance(theirs, int | float) and abs(ours - theirs) <= SAME * whole


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Keys


def make_key(home: Path) -> Path:
    """Make the key pair of a home unless it has one; returns the file of the public key.

    Raises KeyFileError for a pair that cannot be used, OSError where none can be written, and
    ImportError without the extra.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    private, public = home / KEY_FILE, home / PUBLIC_FILE
    key = read_key(private)
    if key is None:
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        replace_text(private, pem.decode())
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    public.write_bytes(pem)
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

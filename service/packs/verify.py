"""Verifies a pack: computes everything in it again from its inputs, without store or network.

What it finds is one of three: proven, altered, or proven in part, where nothing is contradicted and
something could not be compared.
"""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypedDict, cast
from zoneinfo import ZoneInfo

import msgspec

from gramwatt import __version__
from gramwatt.sci.analysis.documents import StatementDoc
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.score.inputs import ScoreInputs
from gramwatt.service.months.pack_sums import (
    BEFORE,
    JOB,
    MODEL,
    MONTH,
    file_of,
    model_sums,
    month_sums,
    read_parts_text,
)
from gramwatt.service.packs import contents
from gramwatt.service.packs.archive import (
    CHECKSUMS,
    Collected,
    Files,
    PackError,
    digest,
    read,
    read_document,
)
from gramwatt.service.packs.believed import beliefs
from gramwatt.service.packs.forms import SAME, contradictions
from gramwatt.service.packs.signing import (
    NEEDS,
    PUBLIC_KEY,
    SIGNATURE,
    check_signature,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Each = Callable[[Sequence[str]], Iterable[str]]
VERSIONS = ("engine_version", "catalog_version")
"""Of a method; what counts is whether the rows used are the same (`_compare_catalog`)."""
DIFFERENCES_MOST = 10
"""How many differing figures of a file are named."""


Outcome = Literal["proven", "altered", "proven-in-part"]


class PackDoc(TypedDict):
    """The content of pack.json; `pack_before` is the SHA-256 of the pack before it."""

    format: int
    kind: Literal["job", "model", "month"]
    id: str
    project: str | None
    made_by: str
    catalog_version: str
    revisions: dict[str, int]
    rendered_with: dict[str, str]
    without_journal: list[str]
    deleted: list[str]
    revision: int | None
    issuer: StatementDoc
    issued_at: str
    pack_before: str | None


@dataclass
class Verdict:
    """What was found: what held, what is wrong, what was not compared, and what must still be
    believed, each a sentence.
    """

    about: PackDoc
    held: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    believed: list[str] = field(default_factory=list)
    scores_equal: int = 0
    figures_equal: int = 0
    other_versions: Counter[str] = field(default_factory=Counter)
    """How many scores name a version that is not that of here, by the words that say so."""

    @property
    def outcome(self) -> Outcome:
        """Return what was found in a word."""
        if self.wrong:
            return "altered"
        return "proven-in-part" if self.not_checked else "proven"


def verify(
    stream: BinaryIO,
    key: Ed25519PublicKey | None = None,
    *,
    folder: Path | None = None,
    each: Each = iter,
) -> Verdict:
    """Compute a pack again; raises PackError for a file that is none, or was altered.

    With a key, the pack must be signed with it. The scores computed are kept in a temporary file in
    `folder`; `each` passes on the jobs' ids, to show how far the work is.
    """
    files = read(stream)
    verdict = Verdict(_about(files))
    verdict.held.append(f"{len(files) - 1} files have the checksums of {CHECKSUMS}")
    _check_signature(files, key, verdict)
    with Collected(folder) as made:
        _compare(files, made, each, verdict)
    return verdict


def _about(files: Files) -> PackDoc:
    """Return pack.json; raises PackError for one of another form."""
    about = _json(files, contents.ABOUT)
    if not isinstance(about, dict) or about.get("format") != contents.FORMAT:
        stated = about.get("format") if isinstance(about, dict) else None
        here = f"this release reads format {contents.FORMAT}"
        raise PackError(contents.ABOUT, f"format {stated!r} is not known: {here}")
    try:
        found = msgspec.convert(about, PackDoc)
    except msgspec.ValidationError as error:
        raise PackError(contents.ABOUT, f"does not say what the pack holds: {error}") from None
    if found["kind"] == JOB and list(found["revisions"]) != [found["id"]]:
        raise PackError(contents.ABOUT, "names other jobs than its own")
    return found


def _compare(files: Files, made: Collected, each: Each, verdict: Verdict) -> None:
    """Compute everything again, the scores into `made`, and report what is equal and what not."""
    catalog = _catalog(files)
    ids = list(verdict.about["revisions"])
    for job_id in each(ids):
        document = _job(files, job_id, catalog, verdict)
        if document is not None:
            made.add(contents.score_file(job_id), json.dumps(document).encode())
    for text, number in verdict.other_versions.items():
        scores = "score whose" if number == 1 else "scores whose"
        verdict.held.append(f"{number} {scores} {text}: the figures were compared")
    if verdict.scores_equal:
        scores = "score" if verdict.scores_equal == 1 else f"{verdict.scores_equal} scores"
        text = f"every figure of the {scores}, computed again: {verdict.figures_equal} figures"
        verdict.held.append(text)
    if len(made) < len(ids):
        return
    documents = contents.Documents(made, ids)
    whole = file_of(verdict.about["kind"])
    with _malformed(contents.CATALOG, verdict):
        _compare_catalog(files, catalog, documents, verdict)
    with _malformed(whole, verdict):
        _compare_sums(files, documents, verdict)
    with _malformed(whole, verdict):
        _compare_derived(files, documents, verdict)
    with _malformed(whole, verdict):
        overlay = files.get(contents.OVERLAY)
        verdict.believed[:0] = beliefs(documents, overlay)


@contextmanager
def _malformed(name: str, verdict: Verdict) -> Iterator[None]:
    """Report a part that nothing can be computed of, whatever a stranger wrote into it."""
    try:
        yield
    except PackError:
        raise
    except Exception:  # of any kind: the part is not what this release writes
        text = f"{name}: is malformed: nothing can be computed again from what it says"
        if text not in verdict.wrong:
            verdict.wrong.append(text)


def differences(stated: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the places where two JSON documents differ, with both values; None for one that is
    missing.

    1 and 1.0 are one number; True and 1 are not. Figures are one that differ by less than SAME.
    """
    if isinstance(stated, dict) and isinstance(found, dict):
        for name in dict.fromkeys([*found, *stated]):
            inner = f"{path}.{name}" if path else name
            yield from differences(stated.get(name), found.get(name), inner)
    elif isinstance(stated, list) and isinstance(found, list):
        for number in range(max(len(stated), len(found))):
            one, other = (x[number] if number < len(x) else None for x in (stated, found))
            yield from differences(one, other, f"{path}.{number}")
    elif not _is_same(stated, found):
        yield path, stated, found


def _is_same(stated: Any, found: Any) -> bool:
    numbers = [isinstance(x, int | float) and not isinstance(x, bool) for x in (stated, found)]
    if all(numbers):
        return math.isclose(stated, found, rel_tol=SAME)
    return bool(stated == found) and numbers[0] == numbers[1]


def figures(document: Any) -> int:
    """Return how many numbers a document holds."""
    if isinstance(document, dict):
        return sum(figures(value) for value in document.values())
    if isinstance(document, list):
        return sum(figures(value) for value in document)
    return isinstance(document, int | float) and not isinstance(document, bool)


def _json(files: Files, name: str) -> Any:
    content = read_document(files, name)
    try:
        return msgspec.json.decode(content)
    except (ValueError, RecursionError):
        raise PackError(name, "is not a JSON document") from None


def _check_signature(files: Files, key: Ed25519PublicKey | None, verdict: Verdict) -> None:
    """Report who signed the pack, as far as that is known."""
    if SIGNATURE not in files:
        if key is not None:
            raise PackError(SIGNATURE, "is missing: the pack is not signed")
        verdict.believed.append(f"Nobody has signed this pack, so that {_issuer(verdict)}.")
        return
    try:
        signer = check_signature(files, key)
    except ImportError:
        verdict.not_checked.append(f"the signature: {NEEDS}")
        return
    verdict.held.append(f"every file is signed with the key {signer[:16]}")
    if key is None:
        text = "Whose key signed it was not checked (give the signer's with --key), so that"
        verdict.believed.append(f"{text} {_issuer(verdict)}.")


def _issuer(verdict: Verdict) -> str:
    """Return what a pack says of its issuer, as what somebody else could have written."""
    issuer, before = verdict.about["issuer"], verdict.about["pack_before"]
    names = [issuer["organisation"], issuer["accountable"], issuer["contact"]]
    named = ", ".join(name for name in names if name) or "an issuer who is not named"
    order = f"it follows the pack with the SHA-256 {before}" if before else "none was before it"
    day = verdict.about["issued_at"][:10]
    return f"anybody could have written that {named} issued it on {day} and that {order}"


def _catalog(files: Files) -> Catalog:
    """Return the catalog of this release with the overlay of the pack."""
    if contents.OVERLAY not in files:
        return load_catalog()
    content = read_document(files, contents.OVERLAY)
    try:
        return Catalog.with_overlay(content.decode())
    except ValueError as error:
        raise PackError(contents.OVERLAY, f"cannot be used: {error}") from None


def _job(files: Files, job_id: str, catalog: Catalog, verdict: Verdict) -> JobDoc | None:
    """Return the document of a job, computed from its inputs and compared; None where it cannot be.

    An equal one is as stated to the last digit, as forms and tables are made of it.
    """
    where = contents.folder(job_id)
    name = contents.score_file(job_id)
    stated = _json(files, name)
    if job_id in verdict.about["without_journal"] and verdict.about["kind"] != JOB:
        text = "the inputs that it was made of are kept no more; its score is as stated"
        verdict.not_checked.append(f"{name}: {text}")
        return cast(JobDoc, stated)
    rest, lines = _json(files, f"{where}/inputs.json"), f"{where}/journal.ndjson"
    if lines not in files:
        raise PackError(lines, "is missing")
    try:
        journal = io.BytesIO(files[lines])  # line by line: a copy of each would be held otherwise
        made = contents.normal(ScoreInputs.from_texts(journal, rest, ZoneInfo).score(catalog))
    except Exception as error:  # whatever a stranger wrote into the inputs
        reason = error.message if isinstance(error, GramwattError) else "its inputs are malformed"
        verdict.wrong.append(f"{where}: cannot be computed again: {reason}")
        return None
    _accept_versions(stated, made, verdict)
    if _is_equal(name, stated, made, verdict):
        verdict.scores_equal += 1
        verdict.figures_equal += figures(made)
        return cast(JobDoc, stated)
    return cast(JobDoc, made)


def _accept_versions(stated: Any, made: dict[str, Any], verdict: Verdict) -> None:
    """Take the versions of a score as stated, and count where they are not those of here."""
    method = stated.get("method") if isinstance(stated, dict) else None
    for version in VERSIONS:
        said = method.get(version) if isinstance(method, dict) else None
        if isinstance(said, str) and said != made["method"][version]:
            text = f"{version} is {said}, and {made['method'][version]} here"
            verdict.other_versions[text] += 1
            made["method"][version] = said


def _compare_file(name: str, stated: Any, found: Any, verdict: Verdict) -> None:
    """Report whether a file of the pack is what was computed again, or else where it differs."""
    if _is_equal(name, stated, found, verdict):
        verdict.held.append(f"{name}, computed again: {figures(found)} figures")


def _is_equal(name: str, stated: Any, found: Any, verdict: Verdict) -> bool:
    """Return whether a file is what was computed again; the places where it is not are reported."""
    if json.dumps(stated) == json.dumps(found):  # ten times as fast as a look at every figure
        return True
    different = real_differences(stated, found)
    for place, ours, theirs in different[:DIFFERENCES_MOST]:
        text = f"{name}: {place} is {_short(ours)}, computed again {_short(theirs)}"
        verdict.wrong.append(text)
    if len(different) > DIFFERENCES_MOST:
        verdict.wrong.append(f"{name}: {len(different) - DIFFERENCES_MOST} more differ")
    return not different


def real_differences(stated: Any, found: Any) -> list[tuple[str, Any, Any]]:
    """Return the places where a document of a pack differs from the one computed again."""
    return [row for row in differences(stated, found) if not _is_nothing(row, stated)]


def _is_nothing(difference: tuple[str, Any, Any], stated: Any) -> bool:
    """Return whether an effect of the change of a month differs by nothing beside the month's
    total.
    """
    path, ours, theirs = difference
    if not path.startswith("change_parts.") or not isinstance(ours, int | float):
        return False
    whole = stated["totals"]["total_g"]["value"]
    return isinstance(theirs, int | float) and abs(ours - theirs) <= SAME * whole


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _compare_catalog(
    files: Files, catalog: Catalog, documents: Sequence[JobDoc], verdict: Verdict
) -> None:
    """Report rows of the catalog that are not those of this release."""
    stated = _json(files, contents.CATALOG)
    found = contents.catalog_rows(catalog, documents)
    version = stated.get("version") if isinstance(stated, dict) else None
    if version != found["version"]:
        stated["version"] = found["version"]
        text = f"the catalog is {version} in the pack and {found['version']} here"
        verdict.held.append(f"{text}; the rows used were compared")
    _compare_file(contents.CATALOG, stated, found, verdict)


UNPUBLISHED: Mapping[str, Any] = {
    "publisher": None,
    "edition": None,
    "licence": None,
    "link": None,
    "files": [],
}
"""What a factor of a month is without the store and the catalog that name its publisher."""


COMPARED = {
    *("compared_days", "compared", "previous", "changes", "change_parts", "project_changes"),
}
"""What a month is compared with."""


def _compare_sums(files: Files, documents: Sequence[JobDoc], verdict: Verdict) -> None:
    """Report figures of a model or a month that are not the sums over its jobs."""
    kind, name = verdict.about["kind"], verdict.about["id"]
    if kind == JOB:
        return
    stated = _json(files, file_of(kind))
    if kind == MODEL:
        _compare_file(
            file_of(kind), stated, contents.normal(model_sums(name, documents, stated)), verdict
        )
        return
    if verdict.about["deleted"]:
        number = len(verdict.about["deleted"])
        gone = f"{number} of its jobs {'was' if number == 1 else 'were'} deleted since"
        verdict.not_checked.append(
            f"{file_of(kind)}: {gone}, so that its sums cannot be made again"
        )
        return
    before = files.get(BEFORE)
    try:
        parts = [] if before is None else read_parts_text(before)
    except (ValueError, LookupError, TypeError, RecursionError):
        verdict.wrong.append(f"{BEFORE}: is malformed: it is no list of parts of jobs")
        return
    sums = month_sums(name, documents, parts)
    made = contents.normal({"month": name, "project": verdict.about["project"], **sums})
    if before is None or stated.get("compared_days") is not None:
        # A month that went on is compared by days; the pack has the month before as a whole.
        made = {n: v for n, v in made.items() if n not in COMPARED}
        text = "what the month is compared with: the pack lacks those jobs of the month before"
        verdict.not_checked.append(f"{file_of(kind)}: {text}")
    stated_sums = {n: v for n, v in stated.items() if n in made}
    # Who published a factor the store knew; here it is compared as the jobs name it.
    stated_sums["factors"] = [{**row, **UNPUBLISHED} for row in stated_sums.get("factors", [])]
    _compare_file(file_of(kind), stated_sums, made, verdict)
    rest = ", ".join(n for n in stated if n not in made and n not in COMPARED)
    text = f"What {file_of(kind)} says beside the sums over its jobs ({rest})"
    verdict.believed.append(f"{text} is as the issuer's store had it.")
    if before is not None:
        text = "the jobs of the month before are in the pack as numbers only"
        verdict.believed.append(f"What the month is compared with is as stated: {text}.")


def _compare_derived(files: Files, documents: Sequence[JobDoc], verdict: Verdict) -> None:
    """Report forms and tables that do not follow from the scores.

    Of another release, figures are compared; what else it writes otherwise is named.
    """
    kind, own = verdict.about["kind"], verdict.about["made_by"] == f"gramwatt {__version__}"
    whole = None if kind == JOB else _json(files, file_of(kind))
    pdf = own and verdict.about["rendered_with"] == contents.renderers()
    wrong, names, before = [], set(), len(verdict.not_checked)
    for name, content in contents.derived(kind, documents, whole, pdf=pdf):
        names.add(name)
        if files.digests.get(name) == digest(content):
            continue
        if own or name not in files:
            wrong.append(f"{name}: does not follow from the score")
            continue
        for place, ours, theirs in contradictions(name, read_document(files, name), content):
            text = f"{name}: {place} is {_short(ours)}, computed again {_short(theirs)}"
            wrong.append(text)
        by = verdict.about["made_by"]
        verdict.not_checked.append(f"{name}: was written by {by}, and otherwise by {__version__}")
    if not pdf and contents.PDF in files:
        text = "was rendered by other releases, so that its text was not compared"
        verdict.not_checked.append(f"{contents.PDF}: {text}")
        names.add(contents.PDF)
    wrong += [f"{name}: is no file of such a pack" for name in _foreign(files, names, documents)]
    verdict.wrong += wrong
    if not wrong:
        compared = len(names) - (len(verdict.not_checked) - before)
        verdict.held.append(f"{compared} forms, tables and reports follow from the score")


def _foreign(files: Files, made: Set[str], documents: Sequence[JobDoc]) -> list[str]:
    """Return the files that nothing computed again accounts for."""
    known = {contents.ABOUT, contents.CATALOG, contents.OVERLAY, CHECKSUMS, *made}
    known |= {BEFORE, file_of(MODEL), file_of(MONTH), SIGNATURE, PUBLIC_KEY}
    for document in documents:
        where = contents.folder(document["job_id"])
        known |= {f"{where}/{name}" for name in contents.OF_JOB}
    return [name for name in files if name not in known]

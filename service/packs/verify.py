"""Verifies a pack: computes everything in it again from its inputs, without store or network."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from zoneinfo import ZoneInfo

import msgspec

from gramwatt import __version__
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
SAME = 1e-9
"""Figures that differ by less, relative to them, are equal: libraries of mathematics differ in the
last digits, and so do sums in another order."""
DIFFERENCES_MOST = 10
"""How many differing figures of a file are named."""


@dataclass
class Verdict:
    """What was found: what held, what is wrong, and what could not be checked, each a sentence."""

    about: Mapping[str, Any]
    held: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    scores_equal: int = 0
    figures_equal: int = 0
    other_versions: Counter[str] = field(default_factory=Counter)
    """How many scores name a version that is not that of here, by the words that say so."""

    @property
    def equal(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


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
    about = _json(files, contents.ABOUT)
    if not isinstance(about, dict) or about.get("format") != contents.FORMAT:
        stated = about.get("format") if isinstance(about, dict) else None
        here = f"this release reads format {contents.FORMAT}"
        raise PackError(contents.ABOUT, f"format {stated!r} is not known: {here}")
    verdict = Verdict(about)
    verdict.held.append(f"{len(files) - 1} files have the checksums of {CHECKSUMS}")
    _check_signature(files, key, verdict)
    with Collected(folder) as made:
        _compare(files, made, each, verdict)
    return verdict


def _compare(files: Files, made: Collected, each: Each, verdict: Verdict) -> None:
    """Compute everything again, the scores into `made`, and report what is equal and what not."""
    catalog = _catalog(files)
    ids = _job_ids(verdict.about)
    for job_id in each(ids):
        document = _job(files, job_id, catalog, verdict)
        if document is not None:
            made.add(contents.score_file(job_id), json.dumps(document).encode())
    for text, number in verdict.other_versions.items():
        scores = "score whose" if number == 1 else "scores whose"
        verdict.not_checked.append(f"{number} {scores} {text}: only the figures were compared")
    if verdict.scores_equal:
        scores = "score" if verdict.scores_equal == 1 else f"{verdict.scores_equal} scores"
        text = f"every figure of the {scores}, computed again: {verdict.figures_equal} figures"
        verdict.held.append(text)
    if len(made) < len(ids):
        return
    documents = contents.Documents(made, ids)
    try:
        _compare_catalog(files, catalog, documents, verdict)
        _compare_sums(files, documents, verdict)
        _compare_derived(files, documents, verdict)
    except PackError:
        raise
    except Exception as error:  # whatever a stranger wrote into the rest
        verdict.wrong.append(f"{contents.ABOUT}: cannot be computed again: {error!r}")


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
        verdict.not_checked.append("who made the pack: it is not signed")
        return
    try:
        signer = check_signature(files, key)
    except ImportError:
        verdict.not_checked.append(f"the signature: {NEEDS}")
        return
    verdict.held.append(f"every file is signed with the key {signer[:16]}")
    if key is None:
        verdict.not_checked.append("whose key that is: give the signer's with --key")


def _job_ids(about: Mapping[str, Any]) -> list[str]:
    """Return the jobs of the pack, in order."""
    revisions = about.get("revisions")
    if not isinstance(revisions, dict) or about.get("kind") not in (JOB, MODEL, MONTH):
        raise PackError(contents.ABOUT, "does not say what the pack holds")
    if about["kind"] == JOB and list(revisions) != [about.get("id")]:
        raise PackError(contents.ABOUT, "names other jobs than its own")
    return list(revisions)


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
    if job_id in verdict.about.get("without_journal", ()) and verdict.about["kind"] != JOB:
        text = "its intervals were deleted before the pack was made; its score is as stated"
        verdict.not_checked.append(f"{name}: {text}")
        return cast(JobDoc, stated)
    rest, lines = _json(files, f"{where}/inputs.json"), f"{where}/journal.ndjson"
    if lines not in files:
        raise PackError(lines, "is missing")
    try:
        journal = io.BytesIO(files[lines])  # line by line: a copy of each would be held otherwise
        made = contents.normal(ScoreInputs.from_texts(journal, rest, ZoneInfo).score(catalog))
    except Exception as error:  # whatever a stranger wrote into the inputs
        reason = error.message if isinstance(error, GramwattError) else repr(error)
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
    different = [row for row in differences(stated, found) if not _is_nothing(row, stated)]
    for place, ours, theirs in different[:DIFFERENCES_MOST]:
        text = f"{name}: {place} is {_short(ours)}, computed again {_short(theirs)}"
        verdict.wrong.append(text)
    if len(different) > DIFFERENCES_MOST:
        verdict.wrong.append(f"{name}: {len(different) - DIFFERENCES_MOST} more differ")
    return not different


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
        verdict.not_checked.append(f"{text}; the rows used were compared")
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
    sums = month_sums(name, documents, read_parts_text(files[BEFORE]))
    made = contents.normal({"month": name, "project": verdict.about.get("project"), **sums})
    if stated.get("compared_days") is not None:
        # A month that went on is compared by days; the pack has the month before as a whole.
        made = {n: v for n, v in made.items() if n not in COMPARED}
    stated_sums = {n: v for n, v in stated.items() if n in made}
    # Who published a factor the store knew; here it is compared as the jobs name it.
    stated_sums["factors"] = [{**row, **UNPUBLISHED} for row in stated_sums.get("factors", [])]
    _compare_file(file_of(kind), stated_sums, made, verdict)
    rest = ", ".join(n for n in stated if n not in made)
    verdict.not_checked.append(f"{file_of(kind)}: what the store knew beside the jobs ({rest})")
    verdict.not_checked.append(f"{BEFORE}: the jobs of the month before are in no pack of this one")


def _compare_derived(files: Files, documents: Sequence[JobDoc], verdict: Verdict) -> None:
    """Report forms and tables that do not follow from the scores."""
    if verdict.about.get("made_by") != f"gramwatt {__version__}":
        text = f"the forms were made by {verdict.about.get('made_by')}, this is {__version__}"
        verdict.not_checked.append(f"{text}: only their checksums were compared")
        return
    kind = verdict.about["kind"]
    whole = None if kind == JOB else _json(files, file_of(kind))
    pdf = verdict.about.get("rendered_with") == contents.renderers()
    wrong, names = [], set()
    for name, content in contents.derived(kind, documents, whole, pdf=pdf):
        names.add(name)
        if files.digests.get(name) != digest(content):
            wrong.append(f"{name}: does not follow from the score")
    if not pdf and contents.PDF in files:
        text = f"{contents.PDF} was rendered by other releases of {', '.join(contents.RENDERERS)}"
        verdict.not_checked.append(f"{text}: only its checksum was compared")
        names.add(contents.PDF)
    wrong += [f"{name}: is no file of such a pack" for name in _foreign(files, names, documents)]
    verdict.wrong += wrong
    if not wrong:
        verdict.held.append(f"{len(names)} forms, tables and reports follow from the score")


def _foreign(files: Files, made: Set[str], documents: Sequence[JobDoc]) -> list[str]:
    """Return the files that nothing computed again accounts for."""
    known = {contents.ABOUT, contents.CATALOG, contents.OVERLAY, CHECKSUMS, *made}
    known |= {BEFORE, file_of(MODEL), file_of(MONTH), SIGNATURE, PUBLIC_KEY}
    for document in documents:
        where = contents.folder(document["job_id"])
        known |= {f"{where}/{name}" for name in contents.OF_JOB}
    return [name for name in files if name not in known]

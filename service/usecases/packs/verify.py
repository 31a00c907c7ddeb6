"""Verifies a pack: computes everything in it again from its inputs, without store or network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from gramwatt import __version__
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.score.inputs import ScoreInputs
from gramwatt.service.usecases.packs import contents
from gramwatt.service.usecases.packs.archive import CHECKSUMS, PackError, read
from gramwatt.service.usecases.packs.signing import (
    NEEDS,
    PUBLIC_KEY,
    SIGNATURE,
    check_signature,
)
from gramwatt.service.usecases.packs.wholes import (
    BEFORE,
    JOB,
    MODEL,
    MONTH,
    file_of,
    model_sums,
    month_sums,
    read_parts_text,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

VERSIONS = ("engine_version", "catalog_version")
"""Of a method; what counts is whether the rows used are the same (`_compare_catalog`)."""
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

    @property
    def equal(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def verify(content: bytes, key: Ed25519PublicKey | None = None) -> Verdict:
    """Compute a pack again; raises PackError for a file that is none, or was altered.

    With a key, the pack must be signed with it.
    """
    files = read(content)
    about = _json(files, contents.ABOUT)
    if not isinstance(about, dict) or about.get("format") != contents.FORMAT:
        stated = about.get("format") if isinstance(about, dict) else None
        here = f"this release reads format {contents.FORMAT}"
        raise PackError(contents.ABOUT, f"format {stated!r} is not known: {here}")
    verdict = Verdict(about)
    verdict.held.append(f"{len(files) - 1} files have the checksums of {CHECKSUMS}")
    _check_signature(files, key, verdict)
    catalog = _catalog(files)
    documents = [_job(files, job_id, catalog, verdict) for job_id in _job_ids(about)]
    known = [document for document in documents if document is not None]
    if verdict.scores_equal:
        scores = "score" if verdict.scores_equal == 1 else f"{verdict.scores_equal} scores"
        text = f"every figure of the {scores}, computed again: {verdict.figures_equal} figures"
        verdict.held.append(text)
    if len(known) == len(documents):
        try:
            _compare_catalog(files, catalog, known, verdict)
            _compare_sums(files, known, verdict)
            _compare_derived(files, known, verdict)
        except PackError:
            raise
        except Exception as error:  # whatever a stranger wrote into the rest
            verdict.wrong.append(f"{contents.ABOUT}: cannot be computed again: {error!r}")
    return verdict


def differences(stated: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The places where two JSON documents differ, with both values; None for one that is missing.

    1 and 1.0 are one number; True and 1 are not.
    """
    if isinstance(stated, dict) and isinstance(found, dict):
        for name in dict.fromkeys([*found, *stated]):
            inner = f"{path}.{name}" if path else name
            yield from differences(stated.get(name), found.get(name), inner)
    elif isinstance(stated, list) and isinstance(found, list):
        for number in range(max(len(stated), len(found))):
            one, other = (x[number] if number < len(x) else None for x in (stated, found))
            yield from differences(one, other, f"{path}.{number}")
    elif stated != found or isinstance(stated, bool) != isinstance(found, bool):
        yield path, stated, found


def figures(document: Any) -> int:
    """How many numbers a document holds."""
    if isinstance(document, dict):
        return sum(figures(value) for value in document.values())
    if isinstance(document, list):
        return sum(figures(value) for value in document)
    return isinstance(document, int | float) and not isinstance(document, bool)


def _json(files: Mapping[str, bytes], name: str) -> Any:
    if name not in files:
        raise PackError(name, "is missing")
    try:
        return json.loads(files[name])
    except (ValueError, RecursionError):
        raise PackError(name, "is not a JSON document") from None


def _check_signature(
    files: Mapping[str, bytes], key: Ed25519PublicKey | None, verdict: Verdict
) -> None:
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
    """The jobs of the pack, in order."""
    revisions = about.get("revisions")
    if not isinstance(revisions, dict) or about.get("kind") not in (JOB, MODEL, MONTH):
        raise PackError(contents.ABOUT, "does not say what the pack holds")
    if about["kind"] == JOB and list(revisions) != [about.get("id")]:
        raise PackError(contents.ABOUT, "names other jobs than its own")
    return list(revisions)


def _catalog(files: Mapping[str, bytes]) -> Catalog:
    """The catalog of this release with the overlay of the pack."""
    if contents.OVERLAY not in files:
        return load_catalog()
    try:
        return Catalog.with_overlay(files[contents.OVERLAY].decode())
    except ValueError as error:
        raise PackError(contents.OVERLAY, f"cannot be used: {error}") from None


def _job(
    files: Mapping[str, bytes], job_id: str, catalog: Catalog, verdict: Verdict
) -> JobDoc | None:
    """The document of a job, computed from its inputs and compared; None where it cannot be."""
    where = contents.folder(job_id)
    name = contents.score_file(job_id)
    stated = _json(files, name)
    if job_id in verdict.about.get("without_journal", ()) and verdict.about["kind"] != JOB:
        text = "its intervals were deleted before the pack was made; its score is as stated"
        verdict.not_checked.append(f"{name}: {text}")
        return cast(JobDoc, stated)
    rest = _json(files, f"{where}/inputs.json")
    try:
        journal = files[f"{where}/journal.ndjson"].decode()
        made = contents.normal(ScoreInputs.from_texts(journal, rest, ZoneInfo).score(catalog))
    except Exception as error:  # whatever a stranger wrote into the inputs
        reason = error.message if isinstance(error, GramwattError) else repr(error)
        verdict.wrong.append(f"{where}: cannot be computed again: {reason}")
        return None
    _accept_versions(name, stated, made, verdict)
    if _is_equal(name, stated, made, verdict):
        verdict.scores_equal += 1
        verdict.figures_equal += figures(made)
    return cast(JobDoc, made)


def _accept_versions(name: str, stated: Any, made: dict[str, Any], verdict: Verdict) -> None:
    """Take the versions of a score as stated, and say so where they are not those of here."""
    method = stated.get("method") if isinstance(stated, dict) else None
    for version in VERSIONS:
        said = method.get(version) if isinstance(method, dict) else None
        if isinstance(said, str) and said != made["method"][version]:
            text = f"{name}: its {version} is {said}, and {made['method'][version]} here"
            verdict.not_checked.append(f"{text}; its figures were compared")
            made["method"][version] = said


def _compare(name: str, stated: Any, found: Any, verdict: Verdict) -> None:
    """Report whether a file of the pack is what was computed again, or else where it differs."""
    if _is_equal(name, stated, found, verdict):
        verdict.held.append(f"{name}, computed again: {figures(found)} figures")


def _is_equal(name: str, stated: Any, found: Any, verdict: Verdict) -> bool:
    """Whether a file is what was computed again; the places where it is not are reported."""
    different = list(differences(stated, found))
    for place, ours, theirs in different[:DIFFERENCES_MOST]:
        text = f"{name}: {place} is {_short(ours)}, computed again {_short(theirs)}"
        verdict.wrong.append(text)
    if len(different) > DIFFERENCES_MOST:
        verdict.wrong.append(f"{name}: {len(different) - DIFFERENCES_MOST} more differ")
    return not different


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _compare_catalog(
    files: Mapping[str, bytes], catalog: Catalog, documents: list[JobDoc], verdict: Verdict
) -> None:
    """Report rows of the catalog that are not those of this release."""
    stated = _json(files, contents.CATALOG)
    found = contents.catalog_rows(catalog, documents)
    version = stated.get("version") if isinstance(stated, dict) else None
    if version != found["version"]:
        stated["version"] = found["version"]
        text = f"the catalog is {version} in the pack and {found['version']} here"
        verdict.not_checked.append(f"{text}; the rows used were compared")
    _compare(contents.CATALOG, stated, found, verdict)


def _compare_sums(files: Mapping[str, bytes], documents: list[JobDoc], verdict: Verdict) -> None:
    """Report figures of a model or a month that are not the sums over its jobs."""
    kind, name = verdict.about["kind"], verdict.about["id"]
    if kind == JOB:
        return
    stated = _json(files, file_of(kind))
    if kind == MODEL:
        _compare(
            file_of(kind), stated, contents.normal(model_sums(name, documents, stated)), verdict
        )
        return
    sums = month_sums(name, documents, read_parts_text(files[BEFORE]))
    made = contents.normal({"month": name, "project": verdict.about.get("project"), **sums})
    _compare(file_of(kind), {n: v for n, v in stated.items() if n in made}, made, verdict)
    rest = ", ".join(n for n in stated if n not in made)
    verdict.not_checked.append(f"{file_of(kind)}: what the store knew beside the jobs ({rest})")
    verdict.not_checked.append(f"{BEFORE}: the jobs of the month before are in no pack of this one")


def _compare_derived(files: Mapping[str, bytes], documents: list[JobDoc], verdict: Verdict) -> None:
    """Report forms and tables that do not follow from the scores."""
    if verdict.about.get("made_by") != f"gramwatt {__version__}":
        text = f"the forms were made by {verdict.about.get('made_by')}, this is {__version__}"
        verdict.not_checked.append(f"{text}: only their checksums were compared")
        return
    kind = verdict.about["kind"]
    whole = None if kind == JOB else _json(files, file_of(kind))
    pdf = verdict.about.get("rendered_with") == contents.renderers()
    made = contents.derived(kind, documents, whole, pdf=pdf)
    if not pdf and contents.PDF in files:
        text = f"{contents.PDF} was rendered by other releases of {', '.join(contents.RENDERERS)}"
        verdict.not_checked.append(f"{text}: only its checksum was compared")
        made[contents.PDF] = files[contents.PDF]
    wrong = [name for name in made if files.get(name) != made[name]]
    verdict.wrong += [f"{name}: does not follow from the score" for name in wrong]
    wrong += (foreign := _foreign(files, made, documents))
    verdict.wrong += [f"{name}: is no file of such a pack" for name in foreign]
    if not wrong:
        verdict.held.append(f"{len(made)} forms, tables and reports follow from the score")


def _foreign(
    files: Mapping[str, bytes], made: Mapping[str, bytes], documents: list[JobDoc]
) -> list[str]:
    """The files that nothing computed again accounts for."""
    known = {contents.ABOUT, contents.CATALOG, contents.OVERLAY, CHECKSUMS, *made}
    known |= {BEFORE, file_of(MODEL), file_of(MONTH), SIGNATURE, PUBLIC_KEY}
    for document in documents:
        where = contents.folder(document["job_id"])
        known |= {f"{where}/{name}" for name in contents.OF_JOB}
    return [name for name in files if name not in known]

"""Verifies a pack: computes everything in it again from its inputs, without store or network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gramwatt import __version__
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.score.inputs import ScoreInputs
from gramwatt.service.usecases.packs import contents
from gramwatt.service.usecases.packs.archive import CHECKSUMS, PackError, read

DIFFERENCES_MOST = 10
"""How many differing figures of a file are named."""


@dataclass
class Verdict:
    """What was found: what held, what is wrong, and what could not be checked, each a sentence."""

    about: Mapping[str, Any]
    held: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def verify(content: bytes) -> Verdict:
    """Compute a pack again; raises PackError for a file that is none, or was altered."""
    files = read(content)
    about = _json(files, contents.ABOUT)
    if not isinstance(about, dict) or about.get("format") != contents.FORMAT:
        stated = about.get("format") if isinstance(about, dict) else None
        here = f"this release reads format {contents.FORMAT}"
        raise PackError(contents.ABOUT, f"format {stated!r} is not known: {here}")
    verdict = Verdict(about)
    verdict.held.append(f"{len(files) - 1} files have the checksums of {CHECKSUMS}")
    catalog = _catalog(files)
    documents = [_job(files, job_id, catalog, verdict) for job_id in sorted(about["revisions"])]
    whole = [document for document in documents if document is not None]
    if len(whole) == len(documents):
        _compare_catalog(files, catalog, whole, verdict)
        _compare_derived(files, whole, verdict)
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
    name = f"{where}/score.json"
    stated, rest = _json(files, name), _json(files, f"{where}/inputs.json")
    try:
        journal = files[f"{where}/journal.ndjson"].decode()
        document = ScoreInputs.from_texts(journal, rest).score(catalog)
        made = contents.normal(document)
    except Exception as error:  # whatever a stranger wrote into the inputs
        reason = error.message if isinstance(error, GramwattError) else repr(error)
        verdict.wrong.append(f"{where}: cannot be computed again: {reason}")
        return None
    # What counts is whether the rows used are the same (`_compare_catalog`).
    made["method"]["catalog_version"] = verdict.about.get("catalog_version")
    _compare(name, stated, made, verdict)
    return document


def _compare(name: str, stated: Any, found: Any, verdict: Verdict) -> None:
    """Report the places where a file of the pack differs from what was computed again."""
    different = list(differences(stated, found))
    for place, ours, theirs in different[:DIFFERENCES_MOST]:
        text = f"{name}: {place} is {_short(ours)}, computed again {_short(theirs)}"
        verdict.wrong.append(text)
    if len(different) > DIFFERENCES_MOST:
        verdict.wrong.append(f"{name}: {len(different) - DIFFERENCES_MOST} more differ")
    if not different:
        verdict.held.append(f"{name}: {figures(found)} figures, computed again, are equal")


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


def _compare_derived(files: Mapping[str, bytes], documents: list[JobDoc], verdict: Verdict) -> None:
    """Report forms and tables that do not follow from the scores."""
    if verdict.about.get("made_by") != f"gramwatt {__version__}":
        text = f"the forms were made by {verdict.about.get('made_by')}, this is {__version__}"
        verdict.not_checked.append(f"{text}: only their checksums were compared")
        return
    made = contents.forms_of_job(documents[0])
    if verdict.about.get("rendered_with") == contents.renderers():
        made[contents.PDF] = contents.pdf_of_job(documents[0])
    else:
        text = f"{contents.PDF} was rendered by other releases of {', '.join(contents.RENDERERS)}"
        verdict.not_checked.append(f"{text}: only its checksum was compared")
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
    known = {contents.ABOUT, contents.CATALOG, contents.OVERLAY, contents.PDF, CHECKSUMS, *made}
    for document in documents:
        where = contents.folder(document["job_id"])
        known |= {f"{where}/{name}" for name in contents.OF_JOB}
    return [name for name in files if name not in known]

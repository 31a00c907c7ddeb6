"""The files of a pack by name, and those that follow from its scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Literal, cast, overload

import msgspec

from gramwatt import __version__
from gramwatt.reports.exports.common import ExportError
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import LookupFailed
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.score.inputs import ScoreInputs
from gramwatt.service.months.pack_sums import MODEL, MONTH
from gramwatt.service.store.documents import to_text

FORMAT = 1
ABOUT, OVERLAY, CATALOG = "pack.json", "inputs/overlay.toml", "inputs/catalog.json"
PDF = "report.pdf"
OF_JOB = ("journal.ndjson", "inputs.json", "score.json")
"""The files of each job in its folder."""
NOT_MADE = "forms/not-made.txt"
RENDERERS = ("typst", "vl-convert-python")
"""Packages whose release decides the bytes of a PDF."""


def folder(job_id: str) -> str:
    """Return the folder of a job in a pack."""
    return f"jobs/{job_id}"


def score_file(job_id: str) -> str:
    """Return the file with the score of a job."""
    return f"{folder(job_id)}/{OF_JOB[-1]}"


def as_json(document: object) -> bytes:
    """Return a document as readable JSON; NaN and infinity have no place in it."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return msgspec.json.format(text.encode(), indent=1) + b"\n"


def normal(document: object) -> Any:
    """Return a document as it is after it was written and read as JSON."""
    return msgspec.json.decode(to_text(document))


def job_files(inputs: ScoreInputs, document: JobDoc) -> dict[str, bytes]:
    """Return the journal, the other inputs and the score of a job."""
    where = folder(document["job_id"])
    texts = (inputs.journal().encode(), as_json(inputs.to_doc()), as_json(document))
    return {f"{where}/{name}": text for name, text in zip(OF_JOB, texts, strict=True)}


def renderers() -> dict[str, str]:
    """Return the installed releases of RENDERERS."""
    return {name: metadata.version(name) for name in RENDERERS}


def about(
    kind: str, name: str, project: str | None, documents: Iterable[JobDoc], catalog: Catalog
) -> dict[str, Any]:
    """Return the content of pack.json."""
    jobs = {document["job_id"]: document["revision"] for document in documents}
    return {
        "format": FORMAT,
        "kind": kind,
        "id": name,
        "project": project,
        "made_by": f"gramwatt {__version__}",
        "catalog_version": catalog.version,
        "revisions": jobs,
        "rendered_with": renderers(),
    }


def catalog_rows(catalog: Catalog, documents: Iterable[JobDoc]) -> dict[str, Any]:
    """Return the rows of the catalog that the jobs' scores stand on, by name."""
    from gramwatt.sci.embodied.te import cpu_doc, hardware_doc

    found: dict[str, dict[str, Any]] = {
        "hardware": {},
        "cpus": {},
        "regions": {},
        "zones": {},
        "lifetimes": {"default": catalog.lifetime().to_doc()},
    }
    for document in documents:
        for device in document["devices"]:
            part = device["hardware"]
            if part is not None and device["class"] != "cpu":
                found["hardware"][part] = hardware_doc(catalog.hardware(part))
                found["lifetimes"][part] = catalog.lifetime(part).to_doc()
            elif device["class"] == "cpu":
                _add(found["cpus"], device["name"], lambda name: cpu_doc(catalog.cpu(name)))
        if document["region"]:
            _add(found["regions"], document["region"], lambda name: catalog.region(name).to_doc())
        zones = document["method"]["zones"] or ([document["zone"]] if document["zone"] else [])
        for zone in zones:
            _add(found["zones"], zone, lambda name: catalog.zone(name).to_doc())
        if not zones:
            found["zones"]["WORLD"] = catalog.world().to_doc()
    return {"version": catalog.version, **cast("dict[str, Any]", normal(found))}


def _add(rows: dict[str, Any], name: str, row: Callable[[str], dict[str, Any]]) -> None:
    """Add the row of a name that the catalog knows."""
    try:
        rows[name] = row(name)
    except LookupFailed:
        return


class Documents(Sequence[JobDoc]):
    """The scores of jobs, read from their files one at a time."""

    def __init__(self, files: Mapping[str, bytes], job_ids: Sequence[str]) -> None:
        self._files, self._job_ids = files, job_ids

    def __len__(self) -> int:
        return len(self._job_ids)

    @overload
    def __getitem__(self, place: int) -> JobDoc: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[JobDoc]: ...
    def __getitem__(self, place: int | slice) -> JobDoc | Sequence[JobDoc]:
        if isinstance(place, slice):
            return Documents(self._files, self._job_ids[place])
        return cast(JobDoc, json.loads(self._files[score_file(self._job_ids[place])]))


def derived(
    kind: str, documents: Sequence[JobDoc], whole: Any, *, pdf: bool = True
) -> Iterator[tuple[str, bytes]]:
    """Yield the forms, tables and report that follow from the scores and the sums over them.

    Those that cannot be made are named in a file of their own, with the reason.
    """
    not_made = []
    for name, make in _makers(kind, documents, whole).items():
        try:
            yield name, make().encode()
        except ExportError as error:
            not_made.append(f"{name}: {error.message}\n")
    if not_made:
        yield NOT_MADE, "".join(not_made).encode()
    if pdf and kind != MODEL:
        yield PDF, _report(kind, documents, whole, "pdf")


def _makers(kind: str, documents: Sequence[JobDoc], whole: Any) -> Mapping[str, Callable[[], str]]:
    """Return what makes each form and table, by the name of its file."""
    from gramwatt.reports.exports import (
        csv,
        impact_framework,
        modelcard,
    )

    if kind == MONTH:
        return {"tables/month.csv": lambda: _report(kind, documents, whole, "csv").decode()}
    makers = {"tables/figures.csv": lambda: csv.scicsv(*documents)}
    if kind != MODEL:
        [document] = documents
        makers |= {
            "forms/impact-framework.yml": lambda: impact_framework.manifest(document),
            "forms/model-card.md": lambda: modelcard.card(document),
        }
    return makers


def _report(
    kind: str, documents: Sequence[JobDoc], whole: Any, form: Literal["pdf", "csv"]
) -> bytes:
    """Return the report of a month, or of a job without suggestions: those depend on other jobs."""
    from gramwatt.service.rendering.reports import render_job, render_month

    if kind == MONTH:
        return render_month(whole, form)
    return render_job(documents[0], "pdf")

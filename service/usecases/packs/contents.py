"""The files of a pack by name, and those that follow from its scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any, cast

from gramwatt import __version__
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import LookupFailed
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.score.inputs import ScoreInputs
from gramwatt.service.store.documents import to_text

FORMAT = 1
ABOUT, README, OVERLAY, CATALOG = (
    "pack.json",
    "README.txt",
    "inputs/overlay.toml",
    "inputs/catalog.json",
)
SIGNATURE = "signature.json"
PDF = "report.pdf"
OF_JOB = ("journal.ndjson", "inputs.json", "score.json")
"""The files of each job in its folder."""
NOT_MADE = "forms/not-made.txt"
RENDERERS = ("typst", "vl-convert-python")
"""Packages whose release decides the bytes of a PDF."""


def folder(job_id: str) -> str:
    """The folder of a job in a pack."""
    return f"jobs/{job_id}"


def as_json(document: object) -> bytes:
    """A document as readable JSON; NaN and infinity have no place in it."""
    return (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def normal(document: object) -> Any:
    """A document as it is after it was written and read as JSON."""
    return json.loads(to_text(document))


def job_files(inputs: ScoreInputs, document: JobDoc) -> dict[str, bytes]:
    """The journal, the other inputs and the score of a job."""
    where = folder(document["job_id"])
    texts = (inputs.journal().encode(), as_json(inputs.to_doc()), as_json(document))
    return {f"{where}/{name}": text for name, text in zip(OF_JOB, texts, strict=True)}


def renderers() -> dict[str, str]:
    """The installed releases of RENDERERS."""
    return {name: metadata.version(name) for name in RENDERERS}


def about(kind: str, name: str, documents: Iterable[JobDoc], catalog: Catalog) -> dict[str, Any]:
    """The content of pack.json."""
    jobs = {document["job_id"]: document["revision"] for document in documents}
    return {
        "format": FORMAT,
        "kind": kind,
        "id": name,
        "made_by": f"gramwatt {__version__}",
        "catalog_version": catalog.version,
        "revisions": jobs,
        "rendered_with": renderers(),
    }


def catalog_rows(catalog: Catalog, documents: Iterable[JobDoc]) -> dict[str, Any]:
    """The rows of the catalog that the jobs' scores stand on, by name."""
    from gramwatt.sci.embodied.documents import cpu_doc, hardware_doc

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


def forms_of_job(document: JobDoc) -> dict[str, bytes]:
    """The forms and tables of a job; those that cannot be made are named with the reason."""
    from gramwatt.reports.exports import csv, imp, impact_framework, modelcard
    from gramwatt.reports.exports.common import ExportError

    makers: Mapping[str, Callable[[JobDoc], str]] = {
        "forms/impact-framework.yml": impact_framework.manifest,
        "forms/imp.yml": imp.imp,
        "forms/model-card.md": modelcard.card,
        "tables/figures.csv": csv.scicsv,
    }
    files: dict[str, bytes] = {}
    not_made = []
    for name, maker in makers.items():
        try:
            files[name] = maker(document).encode()
        except ExportError as error:
            not_made.append(f"{name}: {error.message}\n")
    if not_made:
        files[NOT_MADE] = "".join(not_made).encode()
    return files


def pdf_of_job(document: JobDoc) -> bytes:
    """The job's report without suggestions, which depend on other jobs and on the day."""
    from gramwatt.service.usecases.rendering import render_job

    return render_job(document, "pdf")

"""Suggestions for measured jobs: what the meter saw becomes the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from gramwatt.sci.advice.documents import AdviceDoc, SuggestionDoc
from gramwatt.sci.advice.engine import suggest
from gramwatt.sci.advice.prediction.calibration import (
    OwnRow,
    accelerators_of,
    is_synthetic,
    mean_power_w,
    workload_of,
)
from gramwatt.sci.advice.prediction.rows import CLASSES
from gramwatt.sci.advice.request import (
    LARGEST,
    METHODS,
    PRECISIONS,
    SuggestQuestion,
    parse_suggestion,
)
from gramwatt.sci.base.document import JobDoc, SavingDoc
from gramwatt.sci.base.errors import GramwattError, LookupFailed
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.units import gib_from_bytes, h_from_s
from gramwatt.sci.catalog.catalog import Catalog

TOP = 3
"""Suggestions shown in reports."""
REPORTED = ("lower",)
JOBS_LOOKED_AT = 100
"""Jobs of a month that are looked at, those with the most carbon: each takes some 10 ms."""
NAME_MOST = 200
"""Longest name of a framework that a question may hold."""
SPOKEN = {
    **dict.fromkeys(("float32", "single"), "fp32"),
    **dict.fromkeys(("float16", "half"), "fp16"),
    **dict.fromkeys(("bfloat16",), "bf16"),
}
"""Other names of precisions, as frameworks write them."""


def for_job(
    document: JobDoc,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    candidates: Sequence[str] | None = None,
) -> AdviceDoc:
    """Suggestions for a scored job; an empty answer with a notice where no accelerator ran."""
    question = _known_here(question_of(document, candidates), document, catalog)
    if question is None:
        text = "The job ran on no accelerator of the catalog, or on several kinds of them."
        notice = Notice("advice-not-applicable", text, "suggestions")
        return {"suggestions": [], "estimate": None, "notices": [notice.to_doc()]}
    return suggest(question, catalog, own, workload_of(document), ran=True)


def question_of(
    document: JobDoc, candidates: Sequence[str] | None = None
) -> SuggestQuestion | None:
    """The question that a job document asks; None without accelerators of one known part."""
    devices = accelerators_of(document)
    names = {device["hardware"] for device in devices}
    name = next(iter(names), None)
    if len(names) != 1 or name is None:
        return None
    asked: dict[str, Any] = {
        "hardware": name,
        "count": len(devices),
        "kind": document["kind"],
        "hours": h_from_s(document["duration_s"]) if document["duration_s"] else None,
        "mean_power_w": mean_power_w(document) or None,
        "peak_memory_gb": _peak_memory_gib(document),
        "utilisation": _utilisation(document),
        "units": {s["unit"]: s["count"] for s in document["sci"] if s["count"] > 0},
        "zone": document["zone"],
        "candidates": list(candidates) if candidates is not None else None,
        **_tagged(document),
        **software_of(document),
    }
    region = document["region"]
    if region and ":" in region:
        asked |= {"region": region, "zone": None}
    return parse_suggestion(asked)


def _known_here(
    question: SuggestQuestion | None, document: JobDoc, catalog: Catalog
) -> SuggestQuestion | None:
    """The question as far as this catalog knows its names: it may not be the one that scored."""
    if question is None or question.hardware is None:
        return None
    try:
        catalog.hardware(question.hardware)
    except LookupFailed:
        return None
    try:
        if question.region:
            catalog.region(question.region)
    except LookupFailed:
        return replace(question, region=None, zone=document["zone"])
    return question


def for_month(
    documents: Iterable[JobDoc], catalog: Catalog, own: Sequence[OwnRow] = (), most: int = 10
) -> list[SavingDoc]:
    """The largest certain savings of a month's jobs, one a job, at most `most`, best first.

    The `JOBS_LOOKED_AT` jobs with the most carbon are looked at; a job that only a synthetic meter
    saw is not.
    """
    ranked = sorted(documents, key=lambda job: (-_grams(job), job["job_id"]))
    real = [document for document in ranked if not is_synthetic(document)]
    asked = (_saving(document, catalog, own) for document in real[:JOBS_LOOKED_AT])
    found = [saving for saving in asked if saving is not None]
    found.sort(key=lambda saving: (-saving["saved_g"]["value"], saving["job_id"]))
    return found[:most]


def _grams(document: JobDoc) -> float:
    return document["total_g"]["value"] if document["total_g"] else 0.0


def _saving(document: JobDoc, catalog: Catalog, own: Sequence[OwnRow]) -> SavingDoc | None:
    """The best certain saving of a job; None where there is none, or no advice."""
    try:
        answer = for_job(document, catalog, own)
    except GramwattError:
        return None
    for one in answer["suggestions"]:
        if one["verdict"] in REPORTED and one["saved_g"] is not None:
            return {
                "job_id": document["job_id"],
                "name": document["name"],
                "project": document["project"],
                "action": one["action"],
                "target": one["target"],
                "saved_g": one["saved_g"],
                "carbon_ratio": one["carbon_ratio"],
                "reason": one["reasons"][0] if one["reasons"] else one["operating_point"],
            }
    return None


def report_lines(advice: AdviceDoc, most: int = TOP) -> list[SuggestionDoc]:
    """The suggestions that a report shows: certain savings, else that the job should stay."""
    lower = [one for one in advice["suggestions"] if one["verdict"] in REPORTED]
    kept = [one for one in advice["suggestions"] if one["action"] == "keep"]
    return lower[:most] or kept[:1]


def software_of(document: JobDoc) -> dict[str, str]:
    """Framework and precision of the job: tags of these names, else what the job's record says.

    A tag is the user's own word; the record's may be what the meter's client found loaded.
    """
    found = {}
    for name, said in (("framework", _framework), ("precision", _precision)):
        told = (said(document["tags"].get(name)), said(document.get(name)))
        known = next((text for text in told if text), None)
        if known:
            found[name] = known
    return found


def _framework(text: object) -> str | None:
    return text if isinstance(text, str) and text.strip() and len(text) <= NAME_MOST else None


def _precision(text: object) -> str | None:
    spoken = text.lower() if isinstance(text, str) else ""
    spoken = SPOKEN.get(spoken, spoken)
    return spoken if spoken in PRECISIONS else None


def _tagged(document: JobDoc) -> dict[str, Any]:
    """What else tags say of the run; a tag that means nothing here is left alone."""
    tags = document["tags"]
    found: dict[str, Any] = {}
    for name, choices in (("method", METHODS), ("workload_class", CLASSES)):
        if tags.get(name) in choices:
            found[name] = tags[name]
    for name in ("batch_size", "model_parameters"):
        try:
            number = float(tags.get(name, ""))
        except ValueError:
            continue
        if 0 < number <= LARGEST:
            found[name] = number
    return found


def _peak_memory_gib(document: JobDoc) -> float | None:
    peaks = [device["peak_memory_b"] for device in accelerators_of(document)]
    known = [peak for peak in peaks if peak]
    return gib_from_bytes(max(known)) if known else None


def _utilisation(document: JobDoc) -> float | None:
    shares = [device["mean_utilisation"] for device in accelerators_of(document)]
    known = [share for share in shares if share is not None]
    return min(1.0, sum(known) / len(known)) if known and len(known) == len(shares) else None

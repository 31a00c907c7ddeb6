"""Suggestions for measured jobs: what the meter saw becomes the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

from gramwatt.sci.advice.documents import AdviceDoc, SuggestionDoc
from gramwatt.sci.advice.engine import suggest
from gramwatt.sci.advice.learning import OwnRow, accelerators_of, mean_power_w, workload_of
from gramwatt.sci.advice.question import PRECISIONS, SuggestQuestion, parse_suggestion
from gramwatt.sci.catalog import Catalog
from gramwatt.sci.document import JobDoc
from gramwatt.sci.notices import Notice
from gramwatt.sci.units import gib_from_bytes, h_from_s

TOP = 3
"""Suggestions shown in reports."""
REPORTED = ("lower",)


class JobSaving(TypedDict):
    """One certain saving of a month: the job, what to do, and the suggestion itself."""

    job_id: str
    name: str
    project: str
    suggestion: SuggestionDoc


def for_job(
    document: JobDoc,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    candidates: Sequence[str] | None = None,
) -> AdviceDoc:
    """Suggestions for a scored job; an empty answer with a notice where no accelerator ran."""
    question = question_of(document, candidates)
    if question is None:
        text = "The job ran on no accelerator of the catalog, or on several kinds of them."
        notice = Notice("advice-not-applicable", text, "suggestions")
        return {"suggestions": [], "estimate": None, "notices": [notice.to_doc()]}
    return suggest(question, catalog, own, workload_of(document))


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
        "zone": None if document["region"] else document["zone"],
        "region": document["region"],
        "candidates": list(candidates) if candidates is not None else None,
        **_tagged(document),
    }
    return parse_suggestion(asked)


def for_month(
    documents: Iterable[JobDoc], catalog: Catalog, own: Sequence[OwnRow] = (), most: int = 10
) -> list[JobSaving]:
    """The largest certain savings of a month's jobs, at most `most`, best first."""
    found: list[tuple[float, JobSaving]] = []
    for document in documents:
        for one in for_job(document, catalog, own)["suggestions"]:
            if one["verdict"] in REPORTED and one["saved_g"] is not None:
                saving: JobSaving = {
                    "job_id": document["job_id"],
                    "name": document["name"],
                    "project": document["project"],
                    "suggestion": one,
                }
                found.append((one["saved_g"]["value"], saving))
                break
    found.sort(key=lambda item: (-item[0], item[1]["job_id"]))
    return [saving for _, saving in found[:most]]


def report_lines(advice: AdviceDoc, most: int = TOP) -> list[SuggestionDoc]:
    """The suggestions that a report shows: certain savings, else that the job should stay."""
    lower = [one for one in advice["suggestions"] if one["verdict"] in REPORTED]
    kept = [one for one in advice["suggestions"] if one["action"] == "keep"]
    return lower[:most] or kept[:1]


def _tagged(document: JobDoc) -> dict[str, Any]:
    """What tags say of the run: framework, precision, batch_size, model_parameters, method."""
    tags, found = document["tags"], {}
    for name in ("framework", "method", "workload_class"):
        if tags.get(name):
            found[name] = tags[name]
    if tags.get("precision") in PRECISIONS:
        found["precision"] = tags["precision"]
    for name in ("batch_size", "model_parameters"):
        try:
            number = float(tags.get(name, ""))
        except ValueError:
            continue
        if number > 0:
            found[name] = number  # type: ignore[assignment]
    return found


def _peak_memory_gib(document: JobDoc) -> float | None:
    peaks = [device["peak_memory_b"] for device in accelerators_of(document)]
    known = [peak for peak in peaks if peak]
    return gib_from_bytes(max(known)) if known else None


def _utilisation(document: JobDoc) -> float | None:
    shares = [device["mean_utilisation"] for device in accelerators_of(document)]
    known = [share for share in shares if share is not None]
    return min(1.0, sum(known) / len(known)) if known and len(known) == len(shares) else None

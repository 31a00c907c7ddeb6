"""What the exports share: their error, names in the form's spelling, and parts of a document."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gramwatt.sci.base.document import (
    DeviceDoc,
    JobDoc,
    SciDoc,
)
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.notices import CODES

CATEGORIES = {
    "training": "ml-training",
    "fine-tuning": "ml-training",
    "inference": "ml-inference",
    "data-prep": "data-processing",
}
"""Category in the GSF form by kind of job; any other kind is `other`."""


class ExportError(GramwattError, ValueError):
    """The job cannot be written in this format; the message names what is missing."""

    code = "not-exportable"


def category(document: JobDoc) -> str:
    """Return the category of the GSF form for the job's kind."""
    return CATEGORIES.get(document["kind"], "other")


def kebab(text: str) -> str:
    """Return the text in lower-case letters, digits and single hyphens, 3 to 100 characters
    long.
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:90].strip("-")
    return name if len(name) >= 3 else f"job-{name or '0'}"


def scored_unit(document: JobDoc) -> SciDoc:
    """Return the first functional unit: the declared one, or the job itself."""
    return document["sci"][0]


def require_terms(document: JobDoc) -> None:
    """Raise ExportError if energy or embodied carbon is unknown."""
    unknown = [
        name
        for name, figure in (
            ("energy", document["energy_kwh"]),
            ("embodied carbon", document["embodied_g"]),
        )
        if figure is None
    ]
    if unknown:
        raise ExportError(
            f"job {document['job_id']!r} has no score to export: {' and '.join(unknown)} not known"
        )


def hardware_used(devices: Iterable[DeviceDoc]) -> str:
    """Return the accelerators as `8 x NVIDIA H100`, or the CPUs of a job without accelerators."""
    known = [d for d in devices if d["class"] in ("gpu", "accelerator", "module")]
    chosen = known or [d for d in devices if d["class"] == "cpu"]
    names = dict.fromkeys(device["name"] for device in chosen)
    counts = {name: sum(d["name"] == name for d in chosen) for name in names}
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def caution(document: JobDoc) -> str:
    """Return a warning for readings of a synthetic meter, empty for readings of
    hardware.
    """
    synthetic = any(notice["code"] == "meter-synthetic" for notice in document["notices"])
    return CODES["meter-synthetic"] if synthetic else ""

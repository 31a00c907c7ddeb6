"""What the exports share: the error, names, and figures out of a job document."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gramwatt.sci.base.document import DeviceDoc, JobDoc, SciDoc
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.notices import CODES

CATEGORIES = {
    "training": "ml-training",
    "fine-tuning": "ml-training",
    "inference": "ml-inference",
    "data-prep": "data-processing",
}
"""Kinds of job under the categories of the GSF form; every other kind is `other`."""


class ExportError(GramwattError, ValueError):
    """A job that cannot be written in the format asked for; the message says what is missing."""

    code = "not-exportable"


def category(document: JobDoc) -> str:
    """The form's category of this kind of job."""
    return CATEGORIES.get(document["kind"], "other")


def kebab(text: str) -> str:
    """Lower-case letters, digits and single hyphens, 3 to 100 of them, as the form's names want."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:90].strip("-")
    return name if len(name) >= 3 else f"job-{name or '0'}"


def scored_unit(document: JobDoc) -> SciDoc:
    """The first functional unit, the declared one where there is one."""
    return document["sci"][0]


def require_terms(document: JobDoc) -> None:
    """Raise ExportError where energy or embodied carbon is unknown, or the terms were not kept."""
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
    # Documents stored before these fields existed lack them.
    if not {"steps", "embodied_terms"} <= set(document):
        raise ExportError(
            f"job {document['job_id']!r} was scored by a version that kept no terms; score it again"
        )


def hardware_used(devices: Iterable[DeviceDoc]) -> str:
    """Accelerators as '8 x NVIDIA H100', else the processors."""
    known = [d for d in devices if d["class"] in ("gpu", "accelerator", "module")]
    chosen = known or [d for d in devices if d["class"] == "cpu"]
    names = dict.fromkeys(device["name"] for device in chosen)
    counts = {name: sum(d["name"] == name for d in chosen) for name in names}
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def caution(document: JobDoc) -> str:
    """A sentence where readings are not of hardware, so that nobody takes the export for real."""
    synthetic = any(notice["code"] == "meter-synthetic" for notice in document["notices"])
    return CODES["meter-synthetic"] if synthetic else ""

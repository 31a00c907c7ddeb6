"""Documents as the store keeps them: JSON texts, kept exactly as the engine wrote them."""

from __future__ import annotations

import json
from typing import cast

from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.sci.base.document import JobDoc, JobHead

_OVER_TIME = ("series", "steps", "intensity")
"""What is long in a job document and read only by the job's own report and exports."""

_NOTHING_OVER_TIME = {
    "series": [],
    "steps": {"edges": [], "reserved_s": [], "devices": []},
    "intensity": [],
}
_HEAD_FIELDS = tuple(JobHead.__annotations__)


def to_text(document: object) -> str:
    """Return the document as compact JSON; NaN and infinity have no place in it."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def split_job(document: JobDoc) -> tuple[str, str]:
    """Return a job document as two texts: without what changes over time, and that part alone."""
    rest = {name: value for name, value in document.items() if name not in _OVER_TIME}
    over_time = {name: value for name, value in document.items() if name in _OVER_TIME}
    return to_text(rest), to_text(over_time)


def read_job(text: str, series: str = "{}") -> JobDoc:
    """Return the job document of two texts; empty over time without the second."""
    return cast(JobDoc, {**_NOTHING_OVER_TIME, **json.loads(text), **json.loads(series)})


def head_text(document: JobDoc) -> str:
    """Return the fields of a job document that lists show, figures without their effects."""
    head = {name: value for name, value in document.items() if name in _HEAD_FIELDS}
    for name, value in head.items():
        if isinstance(value, dict) and "effects" in value:
            head[name] = {key: of_key for key, of_key in value.items() if key != "effects"}
    return to_text(head)


def read_head(text: str) -> JobHead:
    """Return the head of a job as lists show it."""
    return cast(JobHead, json.loads(text))


def read_month(text: str) -> MonthDoc:
    """Return the document of a month."""
    return cast(MonthDoc, json.loads(text))

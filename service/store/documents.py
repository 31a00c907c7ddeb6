"""Documents as the store keeps them: JSON texts, kept exactly as the engine wrote them."""

from __future__ import annotations

import msgspec
from msgspec.structs import asdict, replace

from gramwatt.sci.figures.document import IntensityUsedDoc, JobDoc, JobHead, SeriesPoint, StepsDoc
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.month.documents import MonthDoc


class _OverTime(msgspec.Struct):
    """What is long in a job document and read only by the job's own report and exports."""

    series: list[SeriesPoint]
    steps: StepsDoc
    intensity: list[IntensityUsedDoc]


_job, _over_time = msgspec.json.Decoder(JobDoc), msgspec.json.Decoder(_OverTime)
_head, _month = msgspec.json.Decoder(JobHead), msgspec.json.Decoder(MonthDoc)


def to_text(document: object) -> str:
    """Return the document as compact JSON."""
    return msgspec.json.encode(document).decode()


def split_job(document: JobDoc) -> tuple[str, str]:
    """Return a job document as two texts: without what changes over time, and that part alone."""
    over_time = _OverTime(document.series, document.steps, document.intensity)
    nothing = _OverTime([], StepsDoc([], [], []), [])
    return to_text(replace(document, **asdict(nothing))), to_text(over_time)


def read_job(text: str, series: str | None = None) -> JobDoc:
    """Return the job document of two texts; empty over time without the second."""
    document = _job.decode(text)
    if series is None:
        return document
    return replace(document, **asdict(_over_time.decode(series)))


def as_stored(document: JobDoc) -> JobDoc:
    """Return a document as it is once it was stored."""
    return _job.decode(msgspec.json.encode(document))


def head_text(document: JobDoc) -> str:
    """Return the fields of a job document that lists show, figures without their effects."""
    head = {name: getattr(document, name) for name in JobHead.__struct_fields__}
    for name, value in head.items():
        if isinstance(value, Quantity):
            head[name] = value.bare()
    return to_text(head)


def read_head(text: str) -> JobHead:
    """Return the head of a job as lists show it."""
    return _head.decode(text)


def read_month(text: str) -> MonthDoc:
    """Return the document of a month."""
    return _month.decode(text)

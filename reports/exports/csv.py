"""A job as tidy CSV: one figure a row, with its range, kind and source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import get_args

from msgspec import Struct, to_builtins
from msgspec.structs import fields

from gramwatt.reports.delimited import delimited
from gramwatt.sci.figures.document import DeviceDoc, JobDoc
from gramwatt.sci.figures.quantity import Quantity

COLUMNS = (
    "job_id",
    "revision",
    "level",
    "device_id",
    "class",
    "name",
    "start",
    "end",
    "figure",
    "value",
    "low",
    "high",
    "unit",
    "kind",
    "source",
    "node",
)
_UNIT = re.compile(r"_(g_per_kwh|kwh|g|j|years)$")
STEP_KIND, STEP_SOURCE = "derived", "energy of the step, shared by time"

Row = dict[str, object]


def scicsv(*documents: JobDoc) -> str:
    """Return the documents as CSV: figures of a job, of each device, then energy and intensity by
    step.

    An unknown figure is an empty cell, never 0.
    """
    rows = (
        {"job_id": document.job_id, "revision": document.revision, **row}
        for document in documents
        for row in _rows(document)
    )
    cells = ([row.get(name) for name in COLUMNS] for row in rows)
    return delimited(COLUMNS, cells)


def _rows(document: JobDoc) -> Iterator[Row]:
    span = {"start": document.started_at, "end": document.ended_at}
    for row in _job(document):
        yield {"level": "job", "name": document.name, **span, **row}
    for device in document.devices:
        for row in _figures(device):
            yield {"level": "device", **_identity(device), **span, **row}
    yield from _steps(document)


def _job(document: JobDoc) -> Iterable[Row]:
    yield from _figures(document)
    yield from _figures(document.method)
    for row in document.sci:
        count = row.count
        yield {"figure": "count", "value": count, "low": count, "high": count, "unit": row.unit}
        yield _figure("sci", row.g_per_unit)


def _figures(part: Struct) -> Iterator[Row]:
    """Yield each figure among the fields of a part, without its unit in the name."""
    for name in _figure_names(type(part)):
        yield _figure(_UNIT.sub("", name), getattr(part, name))


@cache
def _figure_names(of: type[Struct]) -> tuple[str, ...]:
    """Return the fields of a class that hold a figure, which take long to resolve."""
    return tuple(
        field.name for field in fields(of) if Quantity in (field.type, *get_args(field.type))
    )


def _steps(document: JobDoc) -> Iterator[Row]:
    steps = document.steps
    spans = list(zip(steps.edges, steps.edges[1:], strict=False))
    by_id = {(device.node, device.device_id): device for device in document.devices}
    for device in steps.devices:
        identity = _identity(by_id[device.node, device.device_id])
        figures = zip(spans, device.energy_j, device.intensity_g_per_kwh, strict=True)
        for (start, end), joules, intensity in figures:
            common = {"level": "step", **identity, "start": start, "end": end}
            common |= {"kind": STEP_KIND, "source": STEP_SOURCE}
            yield {**common, "figure": "energy", "value": joules, "unit": "J"}
            yield {**common, "figure": "intensity", "value": intensity, "unit": "gCO2e/kWh"}


def _identity(device: DeviceDoc) -> Row:
    return {
        "device_id": device.device_id,
        "node": device.node,
        "class": device.device_class,
        "name": device.name,
    }


def _figure(name: str, figure: Quantity | None) -> Row:
    return {"figure": name, **(to_builtins(figure) if figure else {})}

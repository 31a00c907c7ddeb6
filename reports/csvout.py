"""Reports as CSV: one tidy table, a figure a line, with its range, unit, kind and source."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from gramwatt.sci.document import DayDoc, JobDoc, JobHead, MonthDoc, MonthTotals
from gramwatt.sci.quantity import QuantityDoc

HEADER = ("section", "name", "figure", "value", "low", "high", "unit", "kind", "source")
Line = tuple[str, str, str, QuantityDoc | None]


def month_csv(document: MonthDoc) -> str:
    """The month: totals, last month's totals, projects, days and top jobs."""
    return _write(_month_lines(document))


def job_csv(document: JobDoc) -> str:
    """The job: terms, scores, devices, days and inputs."""
    return _write(_job_lines(document))


def _month_lines(document: MonthDoc) -> Iterable[Line]:
    yield from _terms("total", document["month"], document["totals"])
    if document["previous"] is not None:
        yield from _terms("previous", document["month"], document["previous"])
    for row in document["projects"]:
        name = f"{row['project']}/{row['unit']}"
        yield "project", name, "energy_kwh", row["energy_kwh"]
        yield "project", name, "total_g", row["total_g"]
        yield "project", name, "g_per_unit", row["g_per_unit"]
    yield from _days(document["days"])
    for job in document["top_jobs"]:
        yield from _terms("job", job["job_id"], job)


def _terms(section: str, name: str, document: JobHead | MonthTotals) -> Iterable[Line]:
    yield section, name, "energy_kwh", document["energy_kwh"]
    yield section, name, "operational_g", document["operational_g"]
    yield section, name, "embodied_g", document["embodied_g"]
    yield section, name, "total_g", document["total_g"]


def _days(days: Iterable[DayDoc]) -> Iterable[Line]:
    for day in days:
        yield "day", day["day"], "energy_kwh", day["energy_kwh"]
        yield "day", day["day"], "operational_g", day["operational_g"]
        yield "day", day["day"], "embodied_g", day["embodied_g"]


def _job_lines(document: JobDoc) -> Iterable[Line]:
    yield from _terms("total", document["job_id"], document)
    for row in document["sci"]:
        yield "sci", row["unit"], "g_per_unit", row["g_per_unit"]
    for device in document["devices"]:
        yield "device", device["device_id"], "energy_j", device["energy_j"]
        yield "device", device["device_id"], "embodied_g", device["embodied_g"]
    yield from _days(document["days"])
    for item in document["method"]["inputs"]:
        yield "input", item["what"], "", item["figure"]


def _write(lines: Iterable[Line]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for section, name, figure, quantity in lines:
        shown = _fields(quantity)
        writer.writerow((section, _inert(name), figure, *shown))
    return out.getvalue()


def _fields(quantity: QuantityDoc | None) -> tuple[str, ...]:
    """Full precision; an unknown figure is an empty field, never 0."""
    if quantity is None:
        return ("", "", "", "", "unknown", "")
    ends = (repr(quantity["value"]), repr(quantity["low"]), repr(quantity["high"]))
    return (*ends, quantity["unit"], quantity["kind"], _inert(quantity["source"]))


def _inert(name: str) -> str:
    """A text that no spreadsheet runs as a formula."""
    return f"'{name}" if name[:1] in ("=", "+", "-", "@", "\t", "\r") else name

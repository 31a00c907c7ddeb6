"""The monthly report as tidy CSV: one figure a row, with its range, unit, kind and source.

Counts and shares have neither range, kind nor source.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from gramwatt.reports.printable import clean
from gramwatt.sci.base.document import JobHead, MonthDoc, MonthTotals, QualityDoc
from gramwatt.sci.base.quantity import QuantityDoc

HEADER = ("section", "name", "figure", "value", "low", "high", "unit", "kind", "source")
Row = tuple[str, str, str, QuantityDoc | float | None]


def month_csv(document: MonthDoc) -> str:
    """The month as CSV: every figure in full precision; an unknown one is empty, never 0."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for section, name, figure, quantity in _rows(document):
        writer.writerow((section, _inert(name), _inert(figure), *_fields(quantity)))
    return out.getvalue()


def _rows(document: MonthDoc) -> Iterable[Row]:
    yield from _totals("total", document["month"], document["totals"])
    yield from _pending(document)
    if document["previous"] is not None:
        yield from _totals("previous", document["month"], document["previous"])
    for row in document["projects"]:
        name = f"{row['project']}/{row['unit']}"
        yield "project", name, "jobs", float(row["jobs"])
        yield "project", name, "count", row["count"]
        yield "project", name, "energy_kwh", row["energy_kwh"]
        yield "project", name, "total_g", row["total_g"]
        yield "project", name, "g_per_unit", row["g_per_unit"]
    for day in document["days"]:
        yield "day", day["day"], "energy_kwh", day["energy_kwh"]
        yield "day", day["day"], "operational_g", day["operational_g"]
        yield "day", day["day"], "embodied_g", day["embodied_g"]
    for job in document["top_jobs"]:
        yield from _terms("job", job["job_id"], job)
    for saving in document["suggestions"]:
        what = f"{saving['job_id']}/{saving['action']}"
        what += f"/{saving['target']}" if saving["target"] else ""
        yield "suggestion", what, "saved_g", saving["saved_g"]
        yield "suggestion", what, "carbon_ratio", saving["carbon_ratio"]
    for state, totals in document["by_state"].items():
        yield from _totals("state", state, totals)
    for name, n in document["conformance"].items():
        yield "conformance", name, "jobs", float(n)
    for code, n in document["notice_counts"].items():
        yield "notice", code, "jobs", float(n)
    for left_out in document["excluded"]:
        yield "excluded", left_out["job_id"], left_out["reason"], 1.0
    yield "deleted", document["month"], "jobs", float(document["deleted"])
    yield from _quality(document["data_quality"])


def _pending(document: MonthDoc) -> Iterable[Row]:
    """Whether the month is complete, and the jobs that it lacks."""
    month = document["month"]
    yield "total", month, "complete", float(document["complete"])
    for section, jobs in (
        ("running", document["jobs_running"]),
        ("unscored", document["jobs_unscored"]),
    ):
        yield "total", month, f"jobs_{section}", float(jobs["jobs"])
        for row in jobs["named"]:
            yield section, row["job_id"], "energy_kwh", row["energy_kwh"]


def _totals(section: str, name: str, totals: MonthTotals) -> Iterable[Row]:
    yield section, name, "jobs", float(totals["jobs"])
    yield section, name, "jobs_ended", float(totals["jobs_ended"])
    yield section, name, "jobs_unknown", float(totals["jobs_unknown"])
    yield from _terms(section, name, totals)


def _quality(quality: QualityDoc) -> Iterable[Row]:
    for what, shares in (
        ("energy", quality["energy"]),
        ("intensity", quality["intensity"]),
        ("embodied", quality["embodied"]),
    ):
        for name, share in shares.items():
            yield "quality", what, name, share


def _terms(section: str, name: str, document: JobHead | MonthTotals) -> Iterable[Row]:
    yield section, name, "energy_kwh", document["energy_kwh"]
    yield section, name, "operational_g", document["operational_g"]
    yield section, name, "embodied_g", document["embodied_g"]
    yield section, name, "total_g", document["total_g"]


def _fields(quantity: QuantityDoc | float | None) -> tuple[str, ...]:
    """The fields from `value` to `source`."""
    if quantity is None:
        return ("", "", "", "", "unknown", "")
    if isinstance(quantity, int | float):
        return (repr(quantity), "", "", "1", "", "")
    ends = (repr(quantity["value"]), repr(quantity["low"]), repr(quantity["high"]))
    return (*ends, quantity["unit"], quantity["kind"], _inert(quantity["source"]))


def _inert(text: str) -> str:
    """The text without control codes, with a quote before what a spreadsheet reads as a formula."""
    name = clean(text)
    return f"'{name}" if name.lstrip()[:1] in ("=", "+", "-", "@") else name

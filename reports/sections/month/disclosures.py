"""Where the figures of a month belong in reporting frameworks, as dated data, and the statement."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from gramwatt import __version__
from gramwatt.reports.model import Block, Cell, Column, Facts, Heading, Pair, Table
from gramwatt.reports.sections.common import DECLARED, cell
from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.sci.base.formatting import UNKNOWN, jobs_text, text, value_text

NOT_ADVICE = (
    "This is not legal advice. The rows say where a figure could go, as of their dates; what your "
    "report needs is for your accountant or counsel to decide."
)
NOBODY = "nobody named: set GRAMWATT_ACCOUNTABLE"


def disclosure_section(document: MonthDoc) -> list[Block]:
    """Return the figures by reporting framework."""
    columns = (
        Column("Framework", weight=1.7),
        Column("Item", weight=1.7),
        Column("Figure here", "right", 1.2),
        Column("Note", weight=2.6),
    )
    rows = tuple(
        (
            Pair(row["framework"], f"as of {row['as_of']}"),
            row["item"],
            _figure(document, row["figure"]),
            Pair(row["note"], row["source"]),
        )
        for row in _rows()
    )
    return [
        Heading("Reporting frameworks"),
        Table("Where the figures belong", columns, rows, NOT_ADVICE),
    ]


def statement_section(document: MonthDoc, stamp: str) -> list[Block]:
    """Return who answers for the report, and what it is."""
    said = document["statement"]
    revision = document["revision"]
    before = document["revised"]
    which = "not final: the month may still change" if revision is None else f"{revision}"
    if before is not None:
        which += (
            f"; revision {before['revision']} had {jobs_text(before['jobs'])} and "
            f"{text(before['total_g'])}"
        )
    facts = (
        ("Organisation", said["organisation"] or UNKNOWN),
        ("Accountable", said["accountable"] or NOBODY),
        ("Contact", said["contact"] or UNKNOWN),
        ("Prepared by", f"gramwatt {__version__}, from its meters' journals"),
        ("Report", stamp),
        ("Revision", which),
        ("Scores", DECLARED),
        ("Assurance", "none: not assured by a third party"),
        ("Accounting", "location-based; no offsets, credits or contracts are counted"),
    )
    return [Heading("Statement"), Facts(facts, quoted=True)]


def _figure(document: MonthDoc, name: str) -> Cell:
    totals = document["totals"]
    boundary, _, field = name.partition("_")
    if boundary in ("own", "cloud"):
        return _of_boundary(document, boundary, field)
    if name == "models":
        made = [row for row in document["models"] if row["persona"] == "provider"]
        known = [f"{row['model_id']}: {value_text(row['facility_kwh'])}" for row in made[:3]]
        more = f" and {len(made) - 3} more" if len(made) > 3 else ""
        return "; ".join(known) + more or "no model named"
    if name == "sections":
        return "this report"
    return cell(totals[name])  # type: ignore[literal-required]


def _of_boundary(document: MonthDoc, boundary: str, field: str) -> Cell:
    """Return a figure of the jobs on own sites, or of those in clouds."""
    found = [row for row in document["by_boundary"] if row["boundary"] == boundary]
    if not found:
        return f"no job {'in a cloud' if boundary == 'cloud' else 'on an own site'}"
    if field == "market_g":
        memo = found[0]["market_based"]
        return cell(memo["market_g"]) if memo else "no contract declared"
    return cell(found[0][field])  # type: ignore[literal-required]


@cache
def _rows() -> tuple[dict[str, str], ...]:
    """Return the rows of `reports/data/disclosures.csv`."""
    data = resources.files("gramwatt.reports").joinpath("data/disclosures.csv").read_text("utf-8")
    return tuple(csv.DictReader(data.splitlines()))

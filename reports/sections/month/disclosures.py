"""Where the figures of a month belong in reporting frameworks, as dated data, and the statement."""

from __future__ import annotations

from gramwatt import __version__
from gramwatt.reports.model import Block, Column, Facts, Heading, Pair, Table
from gramwatt.reports.sections.common import DECLARED, cell
from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.sci.analysis.yearly import YearDoc
from gramwatt.sci.base.formatting import UNKNOWN, jobs_text, minute_text, text

NOT_ADVICE = (
    "This is not legal advice. The rows say where a figure could go, as of their dates; what your "
    "report needs is for your accountant or counsel to decide."
)
NONE = "none"
NOBODY = "nobody named: set GRAMWATT_ACCOUNTABLE"


def disclosure_section(document: MonthDoc | YearDoc) -> list[Block]:
    """Return the figures by reporting framework."""
    columns = (
        Column("Framework", weight=1.5),
        Column("Item", weight=1.5),
        Column("Figure here", "right", 1.2),
        Column("What it covers; in small print what not", weight=3.0),
    )
    rows = tuple(
        (
            Pair(row["framework"], f"as of {row['as_of']}"),
            row["item"],
            cell(row["figure"]) if row["figure"] else NONE,
            Pair(row["covers"] or "nothing", f"{row['lacks']}. {row['source']}"),
        )
        for row in document["frameworks"]
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
        ("Issued", issued(document)),
        ("Organisation", said["organisation"] or UNKNOWN),
        ("Accountable", said["accountable"] or NOBODY),
        ("Contact", said["contact"] or UNKNOWN),
        ("Prepared by", f"gramwatt {__version__}, from its meters' journals"),
        ("Report", stamp),
        ("Revision", which),
        ("Scores", DECLARED),
        ("Assurance", "none: not assured by a third party"),
        (
            "Accounting",
            "scores are location-based; no offsets or credits are counted",
        ),
    )
    return [Heading("Statement"), Facts(facts, quoted=True)]


def issued(document: MonthDoc) -> str:
    """Return when and by whom the report was issued."""
    if document["issued_at"] is None:
        return "not yet, as the month may still change"
    by = document["statement"]["organisation"] or "an organisation that is not named"
    return f"{minute_text(document['issued_at'])} UTC by {by}"

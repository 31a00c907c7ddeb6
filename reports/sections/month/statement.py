"""Who answers for the report of a month, and what it is."""

from __future__ import annotations

from gramwatt import __version__
from gramwatt.reports.model import Block, Facts, Heading
from gramwatt.reports.sections.common import DECLARED
from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.sci.base.formatting import UNKNOWN, jobs_text, minute_text, text

NOBODY = "nobody named: set GRAMWATT_ACCOUNTABLE"


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

"""What became of a month after it was reported: closings, the bridge to now, deleted jobs."""

from __future__ import annotations

from gramwatt.reports.model import Block, Cell, Column, Facts, Heading, Table
from gramwatt.reports.sections.common import cell
from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.sci.analysis.trail import ClosingDoc, RestatementDoc
from gramwatt.sci.base.formatting import UNKNOWN, minute_text, value_text

IDS_SAID = 5
"""Jobs that a row names; the month's JSON has all."""
MAX_ROWS = 50
CAUSES = {
    "late-records": "late lines",
    "corrected": "corrections",
    "intensity": "intensity",
    "catalog": "catalog",
    "engine": "engine",
    "settings": "settings",
    "deleted": "deletions",
}


def restated_blocks(document: MonthDoc) -> list[Block]:
    """Return closings, the bridge and deleted jobs; empty for a month without any."""
    blocks: list[Block] = []
    if document["closings"]:
        rows = tuple(row for closing in document["closings"] for row in _closing(closing))
        blocks.append(Facts(rows, quoted=True))
    if document["restatement"]:
        blocks.append(_bridge(document["restatement"]))
    if document["deletions"]:
        blocks.append(_deletions(document))
    return [Heading("Closing and restatement"), *blocks] if blocks else []


def _closing(closing: ClosingDoc) -> list[tuple[str, str]]:
    when = minute_text(closing["closed_at"])
    rows = [("Closed", f"{when} UTC by {closing['closed_by']}, revision {closing['revision']}")]
    if closing["reopened_at"] is not None:
        when = minute_text(closing["reopened_at"])
        why = f"{when} UTC by {closing['reopened_by']}: {closing['reason']}"
        rows.append(("Opened again", why))
    return rows


def _bridge(found: RestatementDoc) -> Table:
    columns = (
        Column("Cause", weight=0.9),
        Column("Change", "right", 1.1),
        Column("What", weight=1.8),
        Column("Jobs", weight=1.8),
        Column("Who and when", weight=1.2),
    )
    first: tuple[Cell, ...] = (f"revision {found['from_revision']}", _g(found["old_g"]), "", "", "")
    last: tuple[Cell, ...] = ("now", _g(found["new_g"]), "", "", "")
    rows = [
        (
            CAUSES[step["cause"]],
            cell(step["change_g"]),
            ": ".join(filter(None, (step["what"], step["reason"]))),
            _ids(step["jobs"]),
            ", ".join(filter(None, (step["person"], step["day"]))),
        )
        for step in found["steps"]
    ]
    note = "The steps add up to the change of the total. Jobs: the month's JSON names all."
    title = f"From revision {found['from_revision']} to this report"
    return Table(title, columns, (first, *rows, last), note)


def _ids(jobs: list[str]) -> str:
    more = [f"{len(jobs) - IDS_SAID} more"] if len(jobs) > IDS_SAID else []
    return ", ".join([*jobs[:IDS_SAID], *more])


def _g(figure: object) -> str:
    return value_text(figure) if figure else UNKNOWN  # type: ignore[arg-type]


def _deletions(document: MonthDoc) -> Table:
    columns = (
        Column("Job", weight=1.8),
        Column("Project", weight=1.2),
        Column("Carbon", "right", 0.9),
        Column("By", weight=1.1),
        Column("When, UTC", weight=1.1),
        Column("Reason", weight=1.5),
    )
    found = document["deletions"]
    rows = tuple(
        (
            row["job_id"],
            row["project"],
            cell(row["total_g"]),
            row["deleted_by"],
            minute_text(row["deleted_at"]),
            row["reason"] or "",
        )
        for row in found[:MAX_ROWS]
    )
    left = len(found) - len(rows)
    note = f"And {left} more; the month's JSON has all." if left else ""
    return Table("Deleted jobs, in no figure", columns, rows, note)

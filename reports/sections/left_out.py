"""What a month leaves out: jobs that people excluded, with the reason, and deleted ones."""

from __future__ import annotations

from gramwatt.reports.model import Block, Column, Heading, NoticeBlock, Table
from gramwatt.sci.base.document import MonthDoc

MAX_ROWS = 50


def left_out_warnings(document: MonthDoc) -> list[Block]:
    """A warning that counts excluded and deleted jobs; empty where there are none."""
    counts = {"left out by hand": len(document["excluded"]), "deleted": document["deleted"]}
    texts = [f"{count} {_jobs(count)} {how}" for how, count in counts.items() if count]
    if not texts:
        return []
    text = f"{' and '.join(texts)}: no figure of this month holds them."
    return [NoticeBlock("warning", "", text)]


def left_out_blocks(document: MonthDoc) -> list[Block]:
    """A table of the excluded jobs and why; empty where there are none."""
    excluded = document["excluded"]
    if not excluded:
        return []
    columns = (
        Column("Job", weight=1.4),
        Column("Project", weight=1.0),
        Column("Reason", weight=1.6),
    )
    rows = tuple((row["name"], row["project"], row["reason"]) for row in excluded[:MAX_ROWS])
    left = len(excluded) - len(rows)
    note = f"The first {MAX_ROWS} of {len(excluded)}; the month's JSON has all." if left else ""
    return [Heading("Left out"), Table("Jobs left out of the month", columns, rows, note)]


def _jobs(count: int) -> str:
    return "job was" if count == 1 else "jobs were"

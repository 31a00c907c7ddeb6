"""Jobs of a month that none of its sums holds yet: they run, or have no score."""

from __future__ import annotations

from gramwatt.reports.model import Block, Cell, Column, Heading, NoticeBlock, Pair, Table
from gramwatt.reports.sections.common import cell
from gramwatt.sci.base.document import MonthDoc, PendingDoc
from gramwatt.sci.base.formatting import text

IDS_SAID = 3
"""Jobs that a sentence names."""
NOT_OVER = "The month is not over: its figures will grow."


def incomplete(document: MonthDoc) -> list[str]:
    """Sentences on why the month is not complete; empty for a complete one."""
    running, unscored = document["jobs_running"], document["jobs_unscored"]
    found = []
    if running["jobs"]:
        found.append(_sentence(running, "still runs", "still run"))
    if unscored["jobs"]:
        found.append(_sentence(unscored, "is not scored", "are not scored"))
    return found if found or document["complete"] else [NOT_OVER]


def pending_warnings(document: MonthDoc) -> list[Block]:
    """A warning for each reason why the month is not complete."""
    return [NoticeBlock("warning", "", sentence) for sentence in incomplete(document)]


def pending_blocks(document: MonthDoc) -> list[Block]:
    """A table of the jobs that are missing; empty where there are none."""
    kinds = (("running", document["jobs_running"]), ("not scored", document["jobs_unscored"]))
    rows: list[tuple[Cell, ...]] = [
        (
            Pair(row["name"], row["job_id"] if row["name"] != row["job_id"] else ""),
            row["project"],
            state,
            cell(row["energy_kwh"]),
        )
        for state, jobs in kinds
        for row in jobs["named"]
    ]
    if not rows:
        return []
    columns = (
        Column("Job", weight=2.2),
        Column("Project", weight=1.2),
        Column("State", weight=0.9),
        Column("Energy so far", "right", 1.2),
    )
    more = sum(jobs["jobs"] for _, jobs in kinds) - len(rows)
    note = f"And {more} more with less energy." if more else ""
    return [
        Heading("Not in the sums"),
        Table("Running and unscored jobs", columns, tuple(rows), note),
    ]


def _sentence(jobs: PendingDoc, one: str, several: str) -> str:
    count, energy_kwh = jobs["jobs"], jobs["energy_kwh"]
    ids = [row["job_id"] for row in jobs["named"][:IDS_SAID]]
    ids += [f"{count - len(ids)} more"] if count > len(ids) else []
    verb = f"1 job {one}" if count == 1 else f"{count} jobs {several}"
    known = "not known" if energy_kwh is None else text(energy_kwh)
    return (
        f"{verb} ({', '.join(ids)}) and {'is' if count == 1 else 'are'} in no sum. "
        f"Energy so far in this month: {known}."
    )

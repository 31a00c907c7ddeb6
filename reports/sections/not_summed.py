"""Jobs of a month that no sum of it holds: running, without a score, excluded or deleted."""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.reports.model import Block, Cell, Column, Heading, NoticeBlock, Table
from gramwatt.reports.sections.common import cell, job_cell
from gramwatt.sci.analysis.documents import ExcludedDoc, MonthDoc, PendingDoc
from gramwatt.sci.analysis.trail import DeletedRow
from gramwatt.sci.base.formatting import minute_text, text

IDS_SAID = 3
"""Jobs that a sentence names."""
MAX_ROWS = 50
"""Excluded or deleted jobs that a table names."""
WHOSE = (Column("Job", weight=2.2), Column("Project", weight=1.2))
NOT_OVER = "The month is not over: its figures will grow."


def incomplete(document: MonthDoc) -> list[str]:
    """Sentences on why the month is not complete; empty for a complete one."""
    running, unscored = document.jobs_running, document.jobs_unscored
    found = []
    if running.jobs:
        found.append(_sentence(running, "still runs", "still run"))
    if unscored.jobs:
        found.append(_sentence(unscored, "is not scored", "are not scored"))
    if waiting := document.jobs_to_rescore:
        one = waiting == 1
        jobs = (
            f"{waiting} {'job' if one else 'jobs'} of it or its trend {'waits' if one else 'wait'}"
        )
        found.append(
            f"{jobs} to be scored again, by a server within minutes; till then it is mixed."
        )
    return found if found or document.complete else [NOT_OVER]


def not_summed_warnings(document: MonthDoc) -> list[Block]:
    """Return a warning for each reason why the month is not complete, and one for what people took
    out.
    """
    counts = {"left out by hand": len(document.excluded), "deleted": document.deleted}
    taken = [f"{n} {'job was' if n == 1 else 'jobs were'} {how}" for how, n in counts.items() if n]
    sentences = incomplete(document)
    if taken:
        sentences.append(f"{' and '.join(taken)}: in no figure of this month.")
    return [NoticeBlock("warning", "", sentence) for sentence in sentences]


def not_summed_blocks(document: MonthDoc) -> list[Block]:
    """Tables of the jobs that no sum holds, with why; empty where there are none."""
    tables = [*_pending(document), *_excluded(document.excluded)]
    if document.deletions:
        tables.append(_deletions(document.deletions))
    return [Heading("Not in the sums"), *tables] if tables else []


def _pending(document: MonthDoc) -> list[Block]:
    kinds = (("running", document.jobs_running), ("not scored", document.jobs_unscored))
    rows: list[tuple[Cell, ...]] = [
        (job_cell(row), row.project, state, cell(row.energy_kwh))
        for state, jobs in kinds
        for row in jobs.named
    ]
    if not rows:
        return []
    columns = (*WHOSE, Column("State", weight=0.9), Column("Energy so far", "right", 1.2))
    more = sum(jobs.jobs for _, jobs in kinds) - len(rows)
    note = f"And {more} more with less energy." if more else ""
    return [Table("Running and unscored jobs", columns, tuple(rows), note)]


def _excluded(excluded: Sequence[ExcludedDoc]) -> list[Block]:
    if not excluded:
        return []
    columns = (*WHOSE, Column("Reason", weight=2.1))
    rows = tuple((job_cell(row), row.project, row.reason) for row in excluded[:MAX_ROWS])
    left = len(excluded) - len(rows)
    note = f"The first {MAX_ROWS} of {len(excluded)}; the month's JSON has all." if left else ""
    return [Table("Jobs left out of the month", columns, rows, note)]


def _deletions(deletions: Sequence[DeletedRow]) -> Table:
    columns = (
        Column("Job", weight=1.8),
        Column("Project", weight=1.2),
        Column("Carbon", "right", 0.9),
        Column("By", weight=1.1),
        Column("When, UTC", weight=1.1),
        Column("Reason", weight=1.5),
    )
    rows = tuple(
        (
            row.job_id,
            row.project,
            cell(row.total_g),
            row.deleted_by,
            minute_text(row.deleted_at),
            row.reason or "",
        )
        for row in deletions[:MAX_ROWS]
    )
    left = len(deletions) - len(rows)
    note = f"And {left} more; the month's JSON has all." if left else ""
    return Table("Deleted jobs, in no figure", columns, rows, note)


def _sentence(jobs: PendingDoc, one: str, several: str) -> str:
    count, energy_kwh = jobs.jobs, jobs.energy_kwh
    ids = [row.job_id for row in jobs.named[:IDS_SAID]]
    ids += [f"{count - len(ids)} more"] if count > len(ids) else []
    verb = f"1 job {one}" if count == 1 else f"{count} jobs {several}"
    known = "not known" if energy_kwh is None else text(energy_kwh)
    return (
        f"{verb} ({', '.join(ids)}) and {'is' if count == 1 else 'are'} in no sum. "
        f"Energy so far in this month: {known}."
    )

"""What to do, by hardware, class of work and action, and what became of the last suggestions."""

from __future__ import annotations

from gramwatt.reports.model import Block, Cell, Column, Heading, Pair, Table, Text
from gramwatt.reports.sections.common import cell
from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.sci.analysis.month_rows import (
    AdviceRow,
    FollowedRow,
)
from gramwatt.sci.base.formatting import jobs_text
from gramwatt.sci.base.quantity import QuantityDoc

FIRST_ROWS = 3
"""Rows of advice on the first page."""
WORDS = {
    "change-hardware": "move to {target}",
    "power-cap": "cap the power",
    "stop-idle": "release idle accelerators",
    "leave-device": "run it on processors alone",
    "avoid-failed": "find out why runs failed",
    "avoid-killed": "cancel runs earlier",
    "avoid-lost": "find out why runs were lost",
    "share": "share the accelerator",
    "mixed-precision": "mixed precision",
    "batching": "larger batches",
    "quantise": "quantise",
    "consolidate": "consolidate",
    "fewer-nodes": "fewer nodes",
    "shift-region": "run in {target}",
    "checkpoint": "write checkpoints",
    "spot": "use spare capacity",
}
OUTCOMES = {
    "followed": "followed: none is left as it was",
    "partly": "partly followed",
    "not-followed": "not followed",
    "no-such-work": "no such work this month",
    None: "leaves no trace in the jobs",
}
CONFIDENCE = (
    "Confidence is high where both parts were measured, medium for a model of the class of work, "
    "low for a rule of thumb. An action is named only where its whole range saves."
)


def action_text(action: str, target: str | None) -> str:
    """Return an action in words."""
    return WORDS.get(action, action.replace("-", " ")).format(target=target or "another part")


def first_advice(document: MonthDoc) -> list[Block]:
    """Return the actions that would save most, for the first page."""
    if not document.advice:
        return [Text(f"What to do: {_nothing(document)}")]
    rows = tuple(_short(row) for row in document.advice[:FIRST_ROWS])
    return [Table("What to do: the actions that save most", SHORT, rows)]


def advice_section(document: MonthDoc) -> list[Block]:
    """Return every action, and what became of those of the month before."""
    heading = Heading("Suggestions")
    blocks: list[Block] = [heading]
    if document.advice:
        rows = tuple((*_short(row), row.reason) for row in document.advice)
        columns = (*SHORT, Column("Why", weight=2.6))
        blocks.append(Table("Actions by hardware and work", columns, rows, _scope(document)))
    else:
        blocks.append(Text(_nothing(document)))
    return [*blocks, *_followed(document)]


SHORT = (
    Column("Project and jobs", weight=2.4),
    Column("Action", weight=1.7),
    Column("Jobs", "right", 0.9),
    Column("Saves in a month", "right", 1.3),
    Column("Confidence", weight=1.0),
)


def _short(row: AdviceRow) -> tuple[Cell, ...]:
    return (
        Pair(_jobs(row), f"{row.work} on {row.hardware}"),
        Pair(_upper(action_text(row.action, row.target)), _ratio(row.carbon_ratio)),
        Pair(str(row.jobs), f"of {row.jobs_of_work}"),
        cell(row.saved_g),
        row.confidence,
    )


def _jobs(row: AdviceRow) -> str:
    """Return projects with their jobs: "vision: resnet, vit and 3 more"."""
    by_project: dict[str, dict[str, None]] = {}
    for job in row.named:
        by_project.setdefault(job.project, {})[job.name] = None
    said = "; ".join(f"{project}: {', '.join(names)}" for project, names in by_project.items())
    left = row.jobs - len(row.named)
    return f"{said} and {left} more" if left > 0 else said


def _scope(document: MonthDoc) -> str:
    jobs = document.examined_jobs
    return (
        f"{jobs} {'job was' if jobs == 1 else 'jobs were'} examined: those with the most carbon of "
        f"each work. A saving is the sum over these jobs, not over all that are like them. "
        "Idle time, and runs without a result, are sums over all jobs; of these runs the saving is "
        "at most what they used. "
        f"{CONFIDENCE}"
    )


def _nothing(document: MonthDoc) -> str:
    jobs = document.examined_jobs
    if not jobs:
        return "No job could be examined."
    verb = "was" if jobs == 1 else "were"
    return f"No action saves for certain in the {jobs_text(jobs)} that {verb} examined."


def _followed(document: MonthDoc) -> list[Block]:
    rows = document.followed
    if not rows:
        return []
    columns = (
        Column("Suggested last month", weight=2.4),
        Column("Jobs as they were, then and now", "right", 1.4),
        Column("On the target, then and now", "right", 1.4),
        Column("Outcome", weight=1.8),
    )
    lines = tuple(_line(row) for row in rows)
    caption = "What became of last month's suggestions"
    return [Table(caption, columns, lines, "By the jobs of this month; why is not known.")]


def _line(row: FollowedRow) -> tuple[Cell, ...]:
    swap = row.target is not None and row.outcome is not None
    return (
        Pair(_upper(action_text(row.action, row.target)), f"{row.hardware}, {row.work}"),
        f"{row.jobs_before}, {row.jobs_now}",
        f"{row.target_before}, {row.target_now}" if swap else "no target",
        OUTCOMES[row.outcome],
    )


def _ratio(figure: QuantityDoc | None) -> str:
    if figure is None:
        return ""
    least, most = 1 - figure["high"], 1 - figure["low"]
    return f"{100 * least:.0f} to {100 * most:.0f} % less carbon"


def _upper(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"

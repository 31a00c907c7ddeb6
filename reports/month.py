"""The report of one month: totals, change, projects, models, jobs and statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gramwatt import __version__
from gramwatt.reports.model import (
    Block,
    Cell,
    Column,
    Document,
    Facts,
    Figure,
    Figures,
    Heading,
    NoticeBlock,
    PageBreak,
    Pair,
    Table,
    Text,
)
from gramwatt.reports.sections.advice import saving_blocks
from gramwatt.reports.sections.change import against, change_table
from gramwatt.reports.sections.common import (
    DECLARED,
    STATUS,
    cell,
    job_cell,
    method_blocks,
    quality_blocks,
    reference,
    status,
    terms,
)
from gramwatt.reports.sections.daily import day_blocks, month_name
from gramwatt.reports.sections.not_summed import not_summed_blocks, not_summed_warnings
from gramwatt.sci.base.document import JobHead, ModelRow, MonthDoc, ProjectRow
from gramwatt.sci.base.formatting import count_text, duration
from gramwatt.sci.base.notices import CODES

FIRST_PROJECTS = 8
"""Rows of the project table that fit on the first page."""
STATES = ("completed", "failed", "killed", "lost", "running")
"""States of jobs, in the order of their rows."""


def build(document: MonthDoc) -> Document:
    """The report of a month document."""
    scope = f"Project {document['project']}" if document["project"] else "All projects"
    jobs = document["totals"]["jobs"]
    what = f"{document['month']}, {document['project'] or 'all projects'}"
    stamp = reference(document, what)
    blocks: list[Block] = [
        *_warnings(document),
        *_summary(document),
        *not_summed_blocks(document),
    ]
    if jobs:
        blocks += [PageBreak(), *_details(document)]
    blocks += _statement(stamp)
    return Document(
        f"Energy and carbon of AI jobs, {month_name(document['month'])}",
        f"{scope}; {_jobs(document)}; times are UTC.",
        f"{document['month']}-01",
        tuple(blocks),
        stamp,
    )


def _jobs(document: MonthDoc) -> str:
    jobs, ended = document["totals"]["jobs"], document["totals"]["jobs_ended"]
    text = f"{jobs} {'job' if jobs == 1 else 'jobs'}"
    return text if ended == jobs else f"{text}, of which {ended} ended in this month"


def _details(document: MonthDoc) -> list[Block]:
    projects = document["projects"]
    all_projects: list[Block] = []
    if len(projects) > FIRST_PROJECTS:
        all_projects = [Heading("SCI by project"), _projects(projects, "All projects and units")]
    return [
        *all_projects,
        *_models(document["models"]),
        *_top_jobs(document["top_jobs"]),
        *saving_blocks(document["suggestions"]),
        *day_blocks(document["month"], document["days"]),
        *_outcomes(document),
        *quality_blocks(document["data_quality"]),
        *_notices(document),
        *_method(document),
    ]


def _warnings(document: MonthDoc) -> list[Block]:
    blocks = not_summed_warnings(document)
    jobs = document["totals"]["jobs"]
    without = document["notice_counts"].get("zone-unknown", 0)
    if without:
        text = (
            f"{without} of {jobs} jobs have no known grid zone. The world average intensity "
            "is used for them, and they are not SCI scores."
        )
        blocks.append(NoticeBlock("warning", "zone-unknown", text))
    unknown = document["totals"]["jobs_unknown"]
    if unknown:
        text = (
            f"{unknown} of {jobs} jobs have a term that is not known; the sums hold the known "
            "parts only."
        )
        blocks.append(NoticeBlock("warning", "energy-unmeasured", text))
    return blocks


def _summary(document: MonthDoc) -> list[Block]:
    totals = document["totals"]
    if not totals["jobs"]:
        return [Heading("Summary"), Text("No job of this month is scored.")]
    quality = document["data_quality"]["grade"]
    grade = Figure("Data quality", f"grade {quality}", note="A best, D worst")
    figures = terms(totals)
    before = document["previous"]
    if before is not None:
        note = against(totals["total_g"], before["total_g"], document["changes"]["total_g"])
        figures["total_g"] = replace(figures["total_g"], note=note)
    return [
        Heading("Summary"),
        Figures((*figures.values(), grade)),
        change_table(document),
        _projects(_largest(document["projects"]), "SCI by project and unit"),
    ]


def _largest(rows: Sequence[ProjectRow]) -> list[ProjectRow]:
    def grams(row: ProjectRow) -> float:
        return row["total_g"]["value"] if row["total_g"] else 0.0

    return sorted(rows, key=grams, reverse=True)[:FIRST_PROJECTS]


def _projects(rows: Sequence[ProjectRow], caption: str) -> Table:
    columns = (
        Column("Project", weight=1.6),
        Column("Jobs", "right", 0.5),
        Column("Units (R)", "right", 1.2),
        Column("Energy", "right", 1.1),
        Column("Carbon", "right", 1.1),
        Column("SCI", "right", 1.5),
        Column("Status", weight=1.2),
    )
    lines = tuple(
        (
            row["project"],
            str(row["jobs"]),
            Pair(count_text(row["count"]), row["unit"]),
            cell(row["energy_kwh"]),
            cell(row["total_g"]),
            cell(row["g_per_unit"]),
            status(row["conformance"]),
        )
        for row in rows
    )
    note = (
        "SCI is the sum of carbon over the sum of R, not a mean of the jobs' scores. The status is "
        "that of the least conforming job."
    )
    return Table(caption, columns, lines, note)


def _models(rows: Sequence[ModelRow]) -> list[Block]:
    """Runs by model; the runs that make a model and those that use it have separate rows."""
    if not rows:
        return []
    columns = (
        Column("Model", weight=2),
        Column("Side"),
        Column("Runs", "right", 0.6),
        Column("Not finished", "right", 0.8),
        Column("Energy", "right", 1.2),
        Column("Carbon", "right", 1.3),
    )
    lines = tuple(
        (
            row["model_id"],
            row["persona"],
            str(row["jobs"]),
            str(row["unfinished"]),
            cell(row["energy_kwh"]),
            cell(row["total_g"]),
        )
        for row in rows
    )
    note = (
        "Runs that failed, were killed or got lost count in full. Making a model (provider) and "
        "using it (consumer) are never added. `gramwatt jobs --model ID` sums over all months."
    )
    return [Heading("Models"), Table("Runs by model, in this month", columns, lines, note)]


def _top_jobs(jobs: Sequence[JobHead]) -> list[Block]:
    columns = (
        Column("Job", weight=2.2),
        Column("Project", weight=1.2),
        Column("State", weight=0.9),
        Column("Duration", "right", 0.9),
        Column("Energy", "right", 1.1),
        Column("Carbon", "right", 1.2),
    )
    lines: tuple[tuple[Cell, ...], ...] = tuple(
        (
            job_cell(job),
            job["project"],
            job["state"],
            duration(job["duration_s"]),
            cell(job["energy_kwh"]),
            cell(job["total_g"]),
        )
        for job in jobs
    )
    note = "Energy and carbon are those of this month, the duration is the whole job's."
    return [Heading("Jobs with the most carbon"), Table("Top jobs", columns, lines, note)]


def _outcomes(document: MonthDoc) -> list[Block]:
    by_state = document["by_state"]
    order = [*STATES, *sorted(set(by_state) - set(STATES))]
    rows = tuple(
        (
            state,
            str(by_state[state]["jobs"]),
            cell(by_state[state]["energy_kwh"]),
            cell(by_state[state]["total_g"]),
        )
        for state in order
        if state in by_state
    )
    columns = (
        Column("State"),
        Column("Jobs", "right"),
        Column("Energy", "right", 1.4),
        Column("Carbon", "right", 1.4),
    )
    counts = document["conformance"]
    known = [name for name in STATUS if name in counts]
    kinds = tuple((status(name), str(counts[name])) for name in known)
    note = "Failed, killed and lost jobs count in full."
    return [
        Heading("How the jobs ended and how they score"),
        Table("Jobs, energy and carbon by state", columns, rows, note),
        Table("Jobs by conformance", (Column("Status"), Column("Jobs", "right")), kinds),
    ]


def _notices(document: MonthDoc) -> list[Block]:
    counts = sorted(document["notice_counts"].items(), key=lambda item: (-item[1], item[0]))
    if not counts:
        return [Heading("Notices"), Text("There are none.")]
    first = {notice["code"]: notice["message"] for notice in reversed(document["notices"])}
    rows = tuple((Pair(CODES.get(code, first[code]), code), str(n)) for code, n in counts)
    columns = (Column("Notice", weight=6), Column("Jobs", "right"))
    note = "Each job's report has its own notices, with the figures they touch."
    return [Heading("Notices"), Table("Jobs with each notice", columns, rows, note)]


def _method(document: MonthDoc) -> list[Block]:
    method = document["method"]
    blocks: list[Block] = [*method_blocks(method)] if method else []
    note = "The method is that of the last job of the month; each job's report has its own."
    rows = tuple((source,) for source in document["sources"])
    table = Table("Sources of the figures", (Column("Source"),), rows)
    return [*blocks, Text(note), Heading("Sources"), table]


def _statement(stamp: str) -> list[Block]:
    facts = (
        ("Prepared by", f"gramwatt {__version__}, from its meters' journals"),
        ("Report", stamp),
        ("Scores", DECLARED),
        ("Assurance", "none: not assured by a third party"),
        ("Accounting", "location-based; no offsets, credits or contracts are counted"),
    )
    return [Heading("Statement"), Facts(facts)]

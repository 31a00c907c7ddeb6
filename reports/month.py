"""The report of one month: page one tells what happened, the sections below hold the evidence."""

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
    Links,
    NoticeBlock,
    Pair,
    Table,
    Text,
    anchor,
)
from gramwatt.reports.sections.change import (
    against,
    change_table,
    compared,
    first_days,
    nothing_compared,
)
from gramwatt.reports.sections.common import (
    DECLARED,
    STATUS,
    cell,
    job_cell,
    method_blocks,
    quality_blocks,
    reference,
    source_keys,
    status,
    terms,
)
from gramwatt.reports.sections.daily import day_blocks, month_name
from gramwatt.reports.sections.month.accounts import (
    boundary_section,
    component_section,
    ledger_section,
)
from gramwatt.reports.sections.month.advice import advice_section, first_advice
from gramwatt.reports.sections.month.change import EFFECTS, change_parts, project_changes, story
from gramwatt.reports.sections.month.factors import factor_section
from gramwatt.reports.sections.month.trend import trend_chart, trend_table
from gramwatt.reports.sections.not_summed import not_summed_blocks, not_summed_warnings
from gramwatt.sci.analysis.documents import BudgetUse, ModelRow, MonthDoc, ProjectRow
from gramwatt.sci.base.document import JobHead
from gramwatt.sci.base.formatting import (
    UNKNOWN,
    count_text,
    duration,
    grams,
    jobs_text,
    marked,
    minute_text,
    number,
    percent,
    shown,
    text,
    value_text,
)
from gramwatt.sci.base.notices import CODES
from gramwatt.sci.base.quantity import is_estimate

STATES = ("completed", "failed", "killed", "lost", "running")
"""States of jobs, in the order of their rows."""
FIRST_BUDGETS = 4
"""Rows of the budgets on the first page."""
NOBODY = "nobody named: set GRAMWATT_ACCOUNTABLE"
BUDGET_STATUS = {
    "within": "within the budget",
    "threshold-reached": "threshold reached",
    "spent": "spent",
    "unknown": "not known: a term of some job is not known",
}

REASONS = {
    "late-records": "jobs or lines that arrived late",
    "corrected": "corrections",
    "deleted": "deleted jobs",
    "intensity": "intensity of the grid",
    "method": "engine, catalog or settings",
    "not-known": "scores made again, why is not known",
}
"""Why jobs of a month changed since a revision of its report, in words."""
OTHER_REASON = "months before it, budgets, suggestions or settings"


def build(document: MonthDoc) -> Document:
    """Return the report of a month document."""
    scope = f"Project {document.project}" if document.project else "All projects"
    jobs = document.totals.jobs
    what = f"{document.month}, {document.project or 'all projects'}"
    if document.revision is not None:
        what += f", revision {document.revision}"
    stamp = reference(document, what)
    zone = document.method.time_zone if document.method else "UTC"
    blocks: list[Block] = [*_warnings(document), *_first_page(document)]
    if jobs:
        blocks += _details(document)
    else:
        blocks += not_summed_blocks(document)
    blocks += _statement(document, stamp)
    return Document(
        f"Energy and carbon of AI jobs, {month_name(document.month)}",
        f"{scope}; {_jobs(document)}; days and months in {zone}. Issued: {_issued(document)}.",
        (document.issued_at or "")[:10],
        tuple(blocks),
        stamp,
        glossary=True,
    )


def build_short(document: MonthDoc, whole: str) -> Document:
    """Return page one of the report and its projects, with links to the sections of the `whole`.

    `whole` is the address of the page that has them all.
    """
    report = build(document)
    if not document.totals.jobs:
        return report
    short: list[Block] = [
        *_warnings(document),
        *_first_page(document),
        Heading("SCI by project"),
        _projects(document.projects, "SCI by project and unit"),
        *not_summed_blocks(document),
    ]
    here = [block.text for block in short if isinstance(block, Heading)]
    names = [block.text for block in report.blocks if isinstance(block, Heading)]
    sections = [
        block.text for block in report.blocks if isinstance(block, Heading) and block.level == 1
    ]
    links = tuple(
        (name, f"{whole}#{anchor(name)}")
        for name in sections
        if name not in here and names.count(name) == 1
    )
    return replace(report, blocks=(*short, Heading("The whole report"), Links(links)))


def _jobs(document: MonthDoc) -> str:
    jobs, ended = document.totals.jobs, document.totals.jobs_ended
    text = f"{jobs} {'job' if jobs == 1 else 'jobs'}"
    return text if ended == jobs else f"{text}, of which {ended} ended in this month"


def _details(document: MonthDoc) -> list[Block]:
    return [
        Heading("Against the previous month"),
        change_table(document),
        *([Text(EFFECTS)] if document.change_parts else []),
        *not_summed_blocks(document),
        *boundary_section(document),
        *component_section(document),
        *factor_section(document),
        Heading("SCI by project"),
        _projects(document.projects, "SCI by project and unit"),
        *_models(document.models),
        *_top_jobs(document.top_jobs),
        *ledger_section(document),
        *_outcomes(document),
        *trend_table(document),
        *day_blocks(document.month, document.days),
        *_all_budgets(document.budgets),
        *advice_section(document),
        *quality_blocks(document.data_quality, limits=document.grade_limits),
        *_notices(document),
        *_method(document),
    ]


def _warnings(document: MonthDoc) -> list[Block]:
    blocks = not_summed_warnings(document)
    jobs = document.totals.jobs
    without = document.notice_counts.get("zone-unknown", 0)
    if without:
        text = (
            f"No grid zone is known of {without} of {jobs} jobs. The world average intensity is "
            "used for them, and their scores are not SCI scores."
        )
        blocks.append(NoticeBlock("warning", "zone-unknown", text))
    unknown = document.totals.jobs_unknown
    if unknown:
        text = (
            f"A term of {unknown} of {jobs} jobs is not known; the sums hold the known parts only."
        )
        blocks.append(NoticeBlock("warning", "energy-unmeasured", text))
    return blocks


def _first_page(document: MonthDoc) -> list[Block]:
    """Totals, budgets, trend, what changed, and what to do."""
    if not document.totals.jobs:
        return [Heading("Summary"), Text(_nil(document))]
    return [
        Heading("Summary"),
        *_replaces(document),
        *story(document),
        Figures(_figures(document)),
        *_budgets(document.budgets[:FIRST_BUDGETS], "Against budget"),
        *trend_chart(document),
        *_change(document),
        *first_advice(document),
    ]


def _nil(document: MonthDoc) -> str:
    """Return why the report of a month has no figure."""
    if document.jobs_running.jobs or document.jobs_unscored.jobs:
        return "No job of this month is scored."
    what = f" of project {document.project}" if document.project else ""
    so_far = "" if document.complete else " so far"
    return (
        f"Nil report: no job{what} was recorded in {month_name(document.month)}{so_far}. What "
        "ran without gramwatt's meter is not known."
    )


def _replaces(document: MonthDoc) -> list[Block]:
    before = document.revised
    if before is None:
        return []
    old, new = before.total_g, document.totals.total_g
    why = ", ".join(REASONS[reason] for reason in before.reasons) or OTHER_REASON
    if old == new and before.jobs == document.totals.jobs:
        said = (
            f"This report replaces revision {before.revision}. The month's total is the same. "
            f"What changed: {why}."
        )
        return [NoticeBlock("info", "", said)]
    change = ""
    if old and new and old["value"] > 0:
        change = marked(f" Total: {100 * (new['value'] / old['value'] - 1):+.1f} %") + "."
    said = (
        f"This report replaces revision {before.revision}, which had "
        f"{jobs_text(before.jobs)} and {text(old)}. What changed: {why}.{change}"
    )
    return [NoticeBlock("info", "", said)]


def _figures(document: MonthDoc) -> tuple[Figure, ...]:
    totals, before = document.totals, document.previous
    figures = terms(totals)
    now = compared(document)
    if before is not None and now is not None:
        ratio = document.changes["total_g"]
        note = against(now.total_g, before.total_g, ratio, first_days(document))
        figures["total_g"] = replace(figures["total_g"], note=note)
    grade = document.data_quality.grade
    shares = document.data_quality.energy
    measured = f"{percent(shares.get('measured', 0.0))} of energy measured"
    quality = Figure(
        "Data quality",
        f"grade {grade}",
        span=measured if shares else "no energy was read",
        note=_provisional(document),
    )
    return (*figures.values(), quality)


def _provisional(document: MonthDoc) -> str:
    """Return the share of the month's energy that is in no sum yet, or whose carbon may change."""
    early = _not_final(document)
    waiting = [of.energy_kwh for of in (document.jobs_running, document.jobs_unscored)]
    jobs = document.jobs_running.jobs + document.jobs_unscored.jobs
    if not jobs:
        nothing = "nothing provisional" if document.complete else "the month is not over"
        return early or nothing
    energy = document.totals.energy_kwh
    known = sum(figure["value"] for figure in waiting if figure)
    whole = known + (energy["value"] if energy else 0.0)
    share = f"{percent(known / whole)} of energy" if whole else jobs_text(jobs)
    return "; ".join(filter(None, (f"{share} provisional, in no sum", early)))


def _not_final(document: MonthDoc) -> str:
    """Return the share of the energy in the sums whose grid intensity is not final; empty for
    none.
    """
    found, whole = document.provisional, document.totals.energy_kwh
    if not found.jobs:
        return ""
    part = found.energy_kwh
    share = jobs_text(found.jobs)
    if part and whole and whole["value"] > 0:
        share = f"{percent(part['value'] / whole['value'])} of energy"
    return f"{share} provisional: its grid intensity is not final"


def _change(document: MonthDoc) -> list[Block]:
    if document.previous is None or compared(document) is None:
        return [Text(nothing_compared(document))]
    if document.change_parts is None:
        return [Text("What changed is not known: a term of one of the months is not.")]
    return [*change_parts(document.change_parts), *project_changes(document)]


def _all_budgets(rows: Sequence[BudgetUse]) -> list[Block]:
    return [Heading("Budgets"), *_budgets(rows, "All budgets")] if len(rows) > FIRST_BUDGETS else []


def _budgets(rows: Sequence[BudgetUse], caption: str) -> list[Block]:
    if not rows:
        return []
    columns = (
        Column("Project", weight=1.6),
        Column("Budget", "right"),
        Column("Spent", "right", 1.2),
        Column("Share", "right", 0.7),
        Column("Status", weight=1.8),
    )
    lines = tuple(
        (
            row.project,
            f"{number(row.limit_kg, 4)} kg CO2e",
            cell(grams(row.spent_kg)),
            percent(row.spent_share) if row.spent_share is not None else "",
            BUDGET_STATUS[row.status] + _open(row),
        )
        for row in rows
    )
    return [Table(caption, columns, lines)]


def _open(row: BudgetUse) -> str:
    return "; its range holds the limit" if row.range_holds_limit else ""


def _projects(rows: Sequence[ProjectRow], caption: str) -> Table:
    columns = (
        Column("Project", weight=1.4),
        Column("Jobs", "right", 0.5),
        Column("Units (R)", "right", 1.2),
        Column("Energy", "right", 1.1),
        Column("Carbon", "right", 1.3),
        Column("SCI", "right", 1.5),
        Column("Status", weight=1.2),
    )
    lines = tuple(
        (
            row.project,
            str(row.jobs),
            # Of jobs whose carbon is not known no unit is in the sum.
            Pair(count_text(row.count), row.unit) if row.total_g else UNKNOWN,
            cell(row.energy_kwh),
            cell(row.total_g),
            cell(row.g_per_unit),
            status(row.conformance),
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
        Column("Energy", "right", 1.2),
        Column("Carbon", "right", 1.3),
        Column("Of it not finished", "right", 1.3),
    )
    lines = tuple(
        (
            row.model_id,
            row.persona,
            str(row.jobs),
            cell(row.energy_kwh),
            cell(row.total_g),
            _unfinished(row),
        )
        for row in rows
    )
    note = (
        "Runs that failed, were killed or got lost count in full. Making a model (provider) and "
        "using it (consumer) are never added. All months of a model: gramwatt jobs --model ID."
    )
    return [Heading("Models"), Table("Runs by model, in this month", columns, lines, note)]


def _unfinished(row: ModelRow) -> Cell:
    if not row.unfinished:
        return "no run"
    runs = f"{row.unfinished} {'run' if row.unfinished == 1 else 'runs'}"
    figure = row.unfinished_g
    span = shown(figure).span if figure else ""
    return Pair(value_text(figure), ", ".join(filter(None, (span, runs))), is_estimate(figure))


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
            Pair(job.project, job.tags.get("user", "")),
            job.state,
            duration(job.duration_s),
            cell(job.energy_kwh),
            cell(job.total_g),
        )
        for job in jobs
    )
    note = "Energy and carbon are those of this month, the duration is the whole job's."
    return [Heading("Jobs with the most carbon"), Table("Top jobs", columns, lines, note)]


def _outcomes(document: MonthDoc) -> list[Block]:
    by_state = document.by_state
    order = [*STATES, *sorted(set(by_state) - set(STATES))]
    rows = tuple(
        (
            state,
            str(by_state[state].jobs),
            cell(by_state[state].energy_kwh),
            cell(by_state[state].total_g),
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
    counts = document.conformance
    known = [name for name in STATUS if name in counts]
    kinds = tuple((status(name), str(counts[name])) for name in known)
    note = "Failed, killed and lost jobs count in full."
    return [
        Heading("How the jobs ended and how they score"),
        Table("Jobs, energy and carbon by state", columns, rows, note),
        Table("Jobs by conformance", (Column("Status"), Column("Jobs", "right")), kinds),
    ]


def _notices(document: MonthDoc) -> list[Block]:
    counts = sorted(document.notice_counts.items(), key=lambda item: (-item[1], item[0]))
    if not counts:
        return [Heading("Notices"), Text("There are none.")]
    first = {notice.code: notice.message for notice in reversed(document.notices)}
    rows = tuple((Pair(CODES.get(code, first[code]), code), str(n)) for code, n in counts)
    columns = (Column("Notice", weight=6), Column("Jobs", "right"))
    note = "Each job's report has its own notices, with the figures they touch."
    return [Heading("Notices"), Table("Jobs with each notice", columns, rows, note)]


def _method(document: MonthDoc) -> list[Block]:
    method = document.method
    blocks: list[Block] = [*method_blocks(method)] if method else []
    note = "Intensity and PUE are means over the month; each job's report has its own."
    rows = tuple((source,) for source in document.sources)
    table = Table("Sources of the figures", (Column("Source"),), rows)
    keys = source_keys(document.sources)
    return [*blocks, Text(note), Heading("Sources"), table, *keys]


def _statement(document: MonthDoc, stamp: str) -> list[Block]:
    """Return who answers for the report, and what it is."""
    said = document.statement
    revision = document.revision
    before = document.revised
    which = "not final: the month may still change" if revision is None else f"{revision}"
    if before is not None:
        which += (
            f"; revision {before.revision} had {jobs_text(before.jobs)} and {text(before.total_g)}"
        )
    facts = (
        ("Issued", _issued(document)),
        ("Organisation", said.organisation or UNKNOWN),
        ("Accountable", said.accountable or NOBODY),
        ("Contact", said.contact or UNKNOWN),
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


def _issued(document: MonthDoc) -> str:
    """Return when and by whom the report was issued."""
    if document.issued_at is None:
        return "not yet, as the month may still change"
    by = document.statement.organisation or "an organisation that is not named"
    return f"{minute_text(document.issued_at)} UTC by {by}"

"""The report of one month: page one tells what happened, the sections below hold the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec.structs import asdict

from gramwatt.reports import month_sections as details
from gramwatt.reports.charts import stack, trend_columns
from gramwatt.reports.model import (
    Block,
    Chart,
    Document,
    Figure,
    Figures,
    Heading,
    Links,
    Listing,
    NoticeBlock,
    Pair,
    Table,
    Text,
)
from gramwatt.reports.month_sections import (
    NO_DIFFERENCE,
    against,
    change,
    compared,
    first_days,
    month_name,
    nothing_compared,
    signed,
)
from gramwatt.reports.sections import (
    Field,
    Section,
    capitalised,
    contents,
    data_table,
    reference,
    scope,
    table,
    terms,
)
from gramwatt.sci.figures.formatting import (
    jobs_text,
    marked,
    number,
    percent,
    prefix,
    significant_digits,
    text,
    value_text,
)
from gramwatt.sci.figures.printable import isolated
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.month.documents import MonthDoc, TrendRow
from gramwatt.sci.month.month import previous_month
from gramwatt.sci.month.month_rows import ProjectChange
from gramwatt.sci.month.revised import change_lines

FIRST_BUDGETS, FIRST_PROJECTS, FIRST_ADVICE = 4, 3, 3
"""Rows of the tables on the first page."""
FIRST_CAUSES = 2
"""Effects that the sentence names."""
FEWEST_MONTHS = 6
"""Months on the axis of the trend where fewer have jobs."""
EFFECTS = {
    "volume_g": ("Volume", "more work", "less work"),
    "efficiency_g": ("Efficiency", "more energy per unit", "less energy per unit"),
    "grid_g": ("Grid", "grid and PUE", "grid and PUE"),
    "hardware_g": ("Hardware", "more embodied carbon per unit", "less embodied carbon per unit"),
    "method_g": ("Method", "another method", "another method"),
}
"""Name of each effect on the change, and what it was where it added and where it took off."""


def build(document: MonthDoc) -> Document:
    """Return the report of a month document."""
    return _report(document, contents(_sections(document), document))


def build_short(document: MonthDoc, whole: str) -> Document:
    """Return page one of the report and its projects, with links to the sections of the `whole`.

    `whole` is the address of the page that has them all.
    """
    sections = _sections(document)
    short = [section for section in sections if section.short]
    links = tuple(
        (section.title, f"{whole}#{section.anchor}")
        for section in sections
        if not section.short and section.when(document)
    )
    blocks = contents(short, document)
    return _report(document, [*blocks, Heading("The whole report"), Links(links)])


def _report(document: MonthDoc, blocks: Sequence[Block]) -> Document:
    projects = isolated(document.project) if document.project else "all projects"
    revision = "" if document.revision is None else f", revision {document.revision}"
    zone = document.method.time_zone if document.method else "UTC"
    totals = document.totals
    jobs = jobs_text(totals.jobs)
    if totals.jobs != totals.jobs_ended:
        jobs += f", of which {totals.jobs_ended} ended in this month"
    issued = details.issued(document)
    return Document(
        f"Energy and carbon of AI jobs, {month_name(document.month)}",
        f"{scope(document.project)}; {jobs}; days and months in {zone}. Issued: {issued}.",
        (document.issued_at or "")[:10],
        (*_warnings(document), *blocks),
        reference(document, f"{document.month}, {projects}{revision}"),
        glossary=True,
    )


def _warnings(document: MonthDoc) -> list[Block]:
    blocks = details.not_summed_warnings(document)
    jobs, unknown = document.totals.jobs, document.totals.jobs_unknown
    placeless = document.notice_counts.get("zone-unknown", 0)
    if placeless:
        sentence = (
            f"No grid zone is known of {placeless} of {jobs} jobs. The world average intensity is "
            "used for them, and their scores are not SCI scores."
        )
        blocks.append(NoticeBlock("warning", "zone-unknown", sentence))
    if unknown:
        sentence = (
            f"A term of {unknown} of {jobs} jobs is not known; the sums hold the known parts only."
        )
        blocks.append(NoticeBlock("warning", "energy-unmeasured", sentence))
    return blocks


def _first_page(document: MonthDoc) -> list[Block]:
    """Totals, budgets, trend, what changed, and what to do."""
    return [
        *_replaced(document),
        *_story(document),
        Figures(_figures(document)),
        *_budgets(document),
        *_trend(document),
        *_change(document),
        _first_advice(document),
    ]


def _nil(document: MonthDoc) -> list[Block]:
    """Return why the report of a month has no figure."""
    if document.jobs_running.jobs or document.jobs_unscored.jobs:
        return [Text("No job of this month is scored.")]
    project = f" of project {isolated(document.project)}" if document.project else ""
    so_far = "" if document.complete else " so far"
    sentence = (
        f"Nil report: no job{project} was recorded in {month_name(document.month)}{so_far}. What "
        "ran without gramwatt's meter is not known."
    )
    return [Text(sentence)]


def _replaced(document: MonthDoc) -> list[Block]:
    """Return which revision the report replaces, and what changed as a line each."""
    before = document.revised
    if before is None:
        return []
    old, new = before.total_g, document.totals.total_g
    had = f"which had {jobs_text(before.jobs)} and {text(old)}."
    if old and new and old.value > 0:
        had += marked(f" Total: {100 * (new.value / old.value - 1):+.1f} %") + "."
    notice = NoticeBlock("info", "", f"This report replaces revision {before.revision}, {had}")
    return [notice, Listing(tuple(change_lines(before.changes)))]


def _story(document: MonthDoc) -> list[Block]:
    """Return one sentence: how the total changed, and the effects that certainly moved it most."""
    parts, totals, before = document.change_parts, compared(document), document.previous
    if parts is None or before is None or totals is None:
        return []
    then = f"{month_name(previous_month(document.month))}{first_days(document)}"
    total = change(totals.total_g, before.total_g, document.changes["total_g"])
    if total.text == NO_DIFFERENCE:
        moved = [
            f"{isolated(row.project)} {_moved(row).text}"
            for row in _certain(document)[:FIRST_CAUSES]
        ]
        projects = f" in the sum; by project: {', '.join(moved)}" if moved else ""
        return [Text(f"No reliable difference from {then}{projects}.", strong=True)]
    figures: Mapping[str, Quantity] = asdict(parts)
    sure = [name for name in EFFECTS if figures[name].low > 0 or figures[name].high < 0]
    sure.sort(key=lambda name: -abs(figures[name].value))
    causes = "; ".join(_cause(name, figures[name]) for name in sure[:FIRST_CAUSES])
    sentence = f"Carbon against {then}: {total.text}."
    if causes:
        sentence += f" {capitalised(causes)}."
    return [Text(sentence, strong=True)]


def _cause(name: str, figure: Quantity) -> str:
    _, more, less = EFFECTS[name]
    if figure.value > 0:
        return f"{more} added {value_text(figure)}"
    return f"{less} took off {value_text(figure.scaled(-1.0))}"


def _figures(document: MonthDoc) -> tuple[Figure, ...]:
    figures = terms(document.totals)
    now, before = compared(document), document.previous
    if before is not None and now is not None:
        ratio = document.changes["total_g"]
        note = against(now.total_g, before.total_g, ratio, first_days(document))
        figures["total_g"] = replace(figures["total_g"], note=note)
    quality = document.data_quality
    measured = f"{percent(quality.energy.get('measured', 0.0))} of energy measured"
    grade = Figure(
        "Data quality",
        f"grade {quality.grade}",
        span=measured if quality.energy else "no energy was read",
        note=_provisional(document),
    )
    return (*figures.values(), grade)


def _provisional(document: MonthDoc) -> str:
    """Return the share of the month's energy that is in no sum yet, or whose carbon may change."""
    early, energy = document.provisional, document.totals.energy_kwh
    summed = energy.value if energy else 0.0
    parts = []
    pending = document.jobs_running, document.jobs_unscored
    jobs = sum(row.jobs for row in pending)
    if jobs:
        waiting = sum(row.energy_kwh.value for row in pending if row.energy_kwh)
        whole = waiting + summed
        share = f"{percent(waiting / whole)} of energy" if whole else jobs_text(jobs)
        parts.append(f"{share} provisional, in no sum")
    if early.jobs:
        share = jobs_text(early.jobs)
        if early.energy_kwh and summed > 0:
            share = f"{percent(early.energy_kwh.value / summed)} of energy"
        parts.append(f"{share} provisional: its grid intensity is not final")
    nothing = "nothing provisional" if document.complete else "the month is not over"
    return "; ".join(parts) or nothing


def _budgets(document: MonthDoc) -> list[Block]:
    rows = document.budgets[:FIRST_BUDGETS]
    return [details.budget_table("Against budget", rows)] if rows else []


def _first_advice(document: MonthDoc) -> Block:
    rows = document.advice[:FIRST_ADVICE]
    if rows:
        return details.advice_table("What to do: the actions that save most", rows)
    return Text(f"What to do: {details.no_advice(document)}")


def _trend(document: MonthDoc) -> list[Block]:
    """Operational and embodied carbon of up to twelve months, with the range of each total."""
    rows = [(row, row.total_g) for row in document.trend if row.total_g is not None]
    if not rows:
        return []
    size, unit = prefix(max(total_g.high for _, total_g in rows), "gCO2e")
    bars = [
        bar
        for row, _ in rows
        for bar in stack(
            _short_name(row.month),
            month_name(row.month),
            {"operational": row.operational_g, "embodied": row.embodied_g},
            size,
            final=row.complete,
        )
    ]
    breaks = [_short_name(row.month) for row, _ in rows if row.method_break]
    spec = trend_columns(
        bars,
        [_total(row, total_g, size) for row, total_g in rows],
        names=_axis(rows[0][0].month, document.month),
        y_title=unit,
        breaks=breaks,
    )
    caption = "Carbon by month; the thin lines are ranges"
    if any(bar["estimated"] for bar in bars):
        caption += ", striped bars are estimated"
    if not all(row.complete for row, _ in rows):
        caption += ", dashed bars are months that may still change"
    if breaks:
        caption += ", a dashed line is a change of method"
    months = "; ".join(f"{row.month}: {text(total_g)}" for row, total_g in rows)
    data = data_table(caption, ("Month", "Carbon"), [(row.month, total) for row, total in rows])
    return [Chart(caption, f"Columns of carbon by month: {months}.", spec, data)]


def _total(row: TrendRow, total_g: Quantity, size: float) -> dict[str, object]:
    value, low, high = (end / size for end in (total_g.value, total_g.low, total_g.high))
    label = number(value, significant_digits(value, low, high))
    ends = {"value": value, "low": low, "high": high}
    return {"name": _short_name(row.month), **ends, "label": label}


def _axis(first: str, last: str) -> list[str]:
    names = [last]
    while len(names) < FEWEST_MONTHS or names[0] > first:
        names.insert(0, previous_month(names[0]))
    return [_short_name(name) for name in names]


def _short_name(month: str) -> str:
    """`2026-05` -> `May 26`."""
    return f"{month_name(month)[:3]} {month[2:4]}"


def _change(document: MonthDoc) -> list[Block]:
    """Return what the change is made of, and which projects certainly changed."""
    if document.previous is None or compared(document) is None:
        return [Text(nothing_compared(document))]
    if document.change_parts is None:
        return [Text("What changed is not known: a term of one of the months is not.")]
    figures: Mapping[str, Quantity] = asdict(document.change_parts)
    blocks: list[Block] = [_effects(figures)]
    certain = _certain(document)[:FIRST_PROJECTS]
    if len(document.project_changes) > 1 and certain:
        projects = table(
            "Projects that certainly changed",
            certain,
            Field("Project", lambda row: row.project, 1.4),
            Field("This month", lambda row: row.total_g, 1.2, "right"),
            Field("Before", lambda row: row.previous_g, 1.2, "right"),
            Field("Change", lambda row: _moved(row), 1.4, "right"),
        )
        blocks.append(projects)
    return blocks


def _certain(document: MonthDoc) -> list[ProjectChange]:
    """Return the projects that certainly changed, the largest difference first."""
    rows = (row for row in document.project_changes if row.total_g and row.previous_g)
    return [row for row in rows if row.change and _moved(row).text != NO_DIFFERENCE]


def _moved(row: ProjectChange) -> Pair:
    return change(row.total_g, row.previous_g, row.change)


def _effects(figures: Mapping[str, Quantity]) -> Table:
    """Return the effects side by side, in one unit, printed so that they add up to the change."""
    size, unit = prefix(max(abs(figure.value) for figure in figures.values()), "gCO2e")
    values = [figures[name].value / size for name in EFFECTS]
    whole = figures["change_g"].value / size
    places = details.decimals(values)
    amounts = [*details.adding_up(values, whole, places), whole]
    cells = [
        Pair(signed(amount, places), _span(figures[name], size, places))
        for name, amount in zip((*EFFECTS, "change_g"), amounts, strict=True)
    ]
    titles = (*(name for name, *_ in EFFECTS.values()), "Change")
    return data_table(f"What the change is made of, in {unit}", titles, [cells])


def _span(figure: Quantity, size: float, places: int) -> str:
    low, high = (signed(end / size, places) for end in (figure.low, figure.high))
    return f"{low} to {high}" if figure.low != figure.high else ""


def _sections(document: MonthDoc) -> tuple[Section[MonthDoc], ...]:
    return SECTIONS if document.totals.jobs else NIL


_NOT_SUMMED = Section("Not in the sums", details.not_summed, details.has_jobs_outside, short=True)
_STATEMENT = Section("Statement", details.statement)
NIL: tuple[Section[MonthDoc], ...] = (Section("Summary", _nil, short=True), _NOT_SUMMED, _STATEMENT)
"""Sections of a month without a scored job."""
SECTIONS: tuple[Section[MonthDoc], ...] = (
    Section("Summary", _first_page, short=True),
    Section("Against the previous month", details.comparison),
    _NOT_SUMMED,
    Section("Boundary", details.boundary, lambda month: month.boundary),
    Section("Components of the score", details.components, details.has_components),
    Section("Emission factors", details.factors, lambda month: month.factors),
    Section("SCI by project", details.projects, short=True),
    Section("Models", details.models, lambda month: month.models),
    Section("Jobs with the most carbon", details.top_jobs),
    Section("Waste ledger", details.ledger),
    Section("Chargeback", details.chargeback),
    Section("How the jobs ended and how they score", details.outcomes),
    Section("Trend", details.trend),
    Section("Day by day", details.days),
    Section("Budgets", details.budgets, lambda month: len(month.budgets) > FIRST_BUDGETS),
    Section("Suggestions", details.advice),
    Section("Data quality", details.quality),
    Section("Notices", details.notices),
    Section("Method and boundary", details.method, lambda month: month.method),
    Section("Sources", details.sources),
    _STATEMENT,
)
"""Every section of a month, in order; page one, which is the short report too, comes first."""

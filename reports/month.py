"""The report of one month: page one answers; annex A has the accounts, B is for the auditor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import Protocol

from msgspec.structs import asdict

from gramwatt.reports import month_sections as details
from gramwatt.reports.charts import (
    bar,
    stack,
    steps,
    tip,
    trend_columns,
    waterfall,
    waterfall_total,
)
from gramwatt.reports.model import (
    Block,
    Chart,
    Column,
    Document,
    Figure,
    Figures,
    Heading,
    Links,
    NoticeBlock,
    Pair,
    Table,
    Text,
)
from gramwatt.reports.month_sections import (
    FIRST_ADVICE,
    METERED_GRADES,
    MOSTLY,
    NO_DIFFERENCE,
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
    counted,
    data_table,
    first_of,
    metered,
    reference,
    scope,
    table,
    terms,
)
from gramwatt.sci.figures.formatting import (
    GRADE_WORDS,
    NARROW_SPACE,
    against,
    grams,
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
from gramwatt.sci.figures.quantity import EIGHT_IN_TEN, Quantity, is_change
from gramwatt.sci.figures.units import g_from_kg
from gramwatt.sci.month.documents import (
    AdviceRow,
    BudgetUse,
    MonthDoc,
    ProjectChange,
    ProjectCharge,
    TermsDoc,
    TrendRow,
)
from gramwatt.sci.month.month import previous_month
from gramwatt.sci.month.revised import change_lines

FIRST_BUDGETS, FIRST_PROJECTS = 4, 4
"""Rows of the tables on the first page."""
FIRST_CAUSES = 2
"""Effects that the sentence names."""
FEWEST_MONTHS = 6
"""Months on the axis of the trend where fewer have jobs."""
ODDS = (
    (0.9, ""),
    (0.7, " (likely)"),
    (0.6, " (more likely than not)"),
    (0.0, " (too close to call)"),
)
"""What follows a statement that holds with a probability, from each lower end on."""
EFFECTS = {
    "volume_g": ("Amount of work", "more work", "less work"),
    "efficiency_g": ("Energy per unit", "more energy per unit", "less energy per unit"),
    "grid_g": ("Grid, cooling", "grid and cooling", "grid and cooling"),
    "hardware_g": ("Hardware", "more hardware per unit", "less hardware per unit"),
    "method_g": ("Method", "another method", "another method"),
}
"""Name of each effect on the change, and what it was where it added and where it took off."""
A, B = "Annex A: accounts", "Annex B: for the auditor"


def build(document: MonthDoc) -> Document:
    """Return the report of a month document."""
    return _report(document, contents(_sections(document), document))


def build_short(document: MonthDoc, whole: str) -> Document:
    """Return page one of the report, with links to the sections of the `whole`.

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


# Page one


def _first_page(document: MonthDoc) -> list[Block]:
    """Return the answer, totals, trend, what changed, what to do, budgets and projects."""
    sentences = [headline(document), causes(document), by_project(document)]
    return [
        Text(" ".join(filter(None, sentences)), strong=True),
        Figures(_figures(document)),
        *_replaced(document),
        *trend(document.trend, document.month),
        *_change(document),
        _first_advice(document),
        *([budget_table("Budgets", document.budgets[:FIRST_BUDGETS])] if document.budgets else []),
        *_projects(document),
    ]


def headline(document: MonthDoc) -> str:
    """Return the month in a sentence: its carbon with the range, and how much that changed."""
    whole, totals, before = document.totals.total_g, compared(document), document.previous
    if not document.totals.jobs:
        return _nil(document)
    if whole is None:
        return "The carbon of this month is not known."
    sentence = f"{text(whole)}{'' if document.complete else ' so far'}"
    ratio = document.changes.get("total_g")
    if totals is None or before is None or ratio is None:
        return f"{sentence} from {jobs_text(document.totals.jobs)}."
    then, days = month_name(previous_month(document.month)), first_days(document)
    if not is_change(ratio.low, ratio.high):
        moved = [f"{isolated(row.project)} {_moved(row).text}" for row in _certain(document)]
        projects = f"; by project: {', '.join(moved[:FIRST_CAUSES])}" if moved else ""
        return f"{sentence}, {NO_DIFFERENCE} from {then}{days}{projects}."
    return f"{sentence}, {against(ratio.value, f'in {then}')}{days}."


def causes(document: MonthDoc) -> str:
    """Return what certainly moved the carbon most, as a sentence; "" where nothing did."""
    ratio = document.changes.get("total_g")
    if document.change_parts is None or ratio is None or not is_change(ratio.low, ratio.high):
        return ""
    figures: Mapping[str, Quantity] = asdict(document.change_parts)
    sure = [name for name in EFFECTS if figures[name].low > 0 or figures[name].high < 0]
    sure.sort(key=lambda name: -abs(figures[name].value))
    text = "; ".join(_cause(name, figures[name]) for name in sure[:FIRST_CAUSES])
    return f"{capitalised(text)}." if text else ""


def by_project(document: MonthDoc) -> str:
    """Return how the projects that certainly changed did, the largest difference first; "" where
    the headline has them, or nothing changed.
    """
    ratio, rows = document.changes.get("total_g"), _certain(document)
    if ratio is None or not is_change(ratio.low, ratio.high) or len(document.by_project) < 2:
        return ""
    moved = ", ".join(f"{isolated(row.project)} {_moved(row).text}" for row in rows[:FIRST_CAUSES])
    return f"By project: {moved}." if moved else ""


def _cause(name: str, figure: Quantity) -> str:
    _, more, less = EFFECTS[name]
    if figure.value > 0:
        return f"{more} added {value_text(figure)}"
    return f"{less} took off {value_text(figure.scaled(-1.0))}"


def _nil(document: MonthDoc) -> str:
    """Return why the report of a month has no figure."""
    if document.jobs_running.jobs or document.jobs_unscored.jobs:
        return "No job of this month is scored."
    project = f" of project {isolated(document.project)}" if document.project else ""
    so_far = "" if document.complete else " so far"
    return (
        f"Nil report: no job{project} was recorded in {month_name(document.month)}{so_far}. What "
        "ran without gramwatt's meter is not known."
    )


def _replaced(document: MonthDoc) -> list[Block]:
    """Return which revision the report replaces, and what changed as a line each."""
    before = document.revised
    if before is None:
        return []
    old, new = before.total_g, document.totals.total_g
    had = f"which had {jobs_text(before.jobs)} and {text(old)}."
    if old and new and old.value > 0:
        had += marked(f" Total: {100 * (new.value / old.value - 1):+.1f} %") + "."
    what = "; ".join(change_lines(before.changes))
    words = f"This report replaces revision {before.revision}, {had} {capitalised(what)}"
    return [NoticeBlock("info", "", f"{words.rstrip('. ')}.")]


def _figures(document: MonthDoc) -> tuple[Figure, ...]:
    quality = document.data_quality
    cooled = document.boundary.full_kwh if document.boundary else None
    figures = sums(document.totals, metered(quality), cooled)
    state = "final" if document.complete else "may still change"
    words = f"{GRADE_WORDS.get(quality.grade, 'not known')} (grade {quality.grade})"
    waiting = _waiting(document)
    quality_text = words if quality.energy else "no energy was read"
    return (*figures, Figure("State of these figures", state, span=quality_text, note=waiting))


def sums(totals: TermsDoc, read: float, cooled: Quantity | None) -> tuple[Figure, ...]:
    """Return the terms as headline figures; `read` is the share of the energy that is metered.

    `cooled` is the energy of the whole site. A sum that is mostly metered is not called estimated.
    """
    figures = terms(totals)
    share = f"{percent(read)} metered"
    notes = {"total_g": f"{share} energy", "operational_g": share, "energy_kwh": share}
    if cooled is not None:
        notes["energy_kwh"] += f"; {value_text(cooled)} with cooling"
    if read >= MOSTLY:
        for name, note in notes.items():
            figures[name] = replace(figures[name], note=note, estimated=False)
    order = "total_g", "energy_kwh", "operational_g", "embodied_g"
    return tuple(figures[name] for name in order)


def _waiting(document: MonthDoc) -> str:
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
        parts.append(f"{share} in no sum yet")
    if early.jobs:
        share = jobs_text(early.jobs)
        if early.energy_kwh and summed > 0:
            share = f"{percent(early.energy_kwh.value / summed)} of energy"
        parts.append(f"grid intensity of {share} may still change")
    return "; ".join(parts)


def trend(rows: Sequence[TrendRow], last: str, first: str | None = None) -> list[Block]:
    """Return carbon by month, of electricity and of hardware, with the range of each total.

    `last` and `first` are the ends of the axis; without `first` it has months with jobs, and some
    before.
    """
    scored = [(row, row.total_g) for row in rows if row.total_g is not None]
    if not scored:
        return []
    size, unit = prefix(max(total_g.high for _, total_g in scored), "gCO2e")
    bars = [
        bar
        for row, _ in scored
        for bar in stack(
            _short_name(row.month),
            month_name(row.month),
            {"electricity": row.operational_g, "hardware": row.embodied_g},
            size,
            is_metered=row.grade in METERED_GRADES,
            final=row.complete,
        )
    ]
    breaks = [_short_name(row.month) for row, _ in scored if row.method_break]
    totals = [_total(row, total_g, size) for row, total_g in scored]
    names = _axis(first or scored[0][0].month, last)
    wide, slim = (
        trend_columns(bars, totals, names=names, y_title=unit, breaks=breaks, narrow=narrow)
        for narrow in (False, True)
    )
    caption = "Carbon by month; the thin lines are ranges"
    if any(bar["estimated"] for bar in bars):
        caption += ", striped bars are estimated"
    if not all(row.complete for row, _ in scored):
        caption += ", dashed bars are months that may still change"
    if breaks:
        caption += ", a dashed line is a change of method"
    months = "; ".join(f"{row.month}: {text(total_g)}" for row, total_g in scored)
    data = data_table(caption, ("Month", "Carbon"), [(row.month, total) for row, total in scored])
    alt = f"Columns of carbon by month: {months}."
    return [Chart(caption, alt, wide, data, narrow=slim)]


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
    """Return what the change is made of."""
    before, now = document.previous, compared(document)
    if before is None or now is None:
        return [Text(nothing_compared(document))]
    if document.change_parts is None:
        return [Text("What changed is not known: a term of one of the months is not.")]
    if before.total_g is None or now.total_g is None:
        return []
    figures = {name: of for name, of in asdict(document.change_parts).items() if of.value}
    return [_effects(document.month, before.total_g, now.total_g, figures)]


def _effects(
    month: str, before_g: Quantity, now_g: Quantity, figures: Mapping[str, Quantity]
) -> Chart | Table:
    """Return the effects from one month to the next as a waterfall, in one unit, printed so that
    they add up; a table where a column would fall below 0.
    """
    size, unit = prefix(max(before_g.value, now_g.value), "gCO2e")
    moved = [name for name in EFFECTS if name in figures]
    values = [figures[name].value / size for name in moved]
    places = details.decimals([*values, now_g.value / size])
    moves = details.adding_up(values, (now_g.value - before_g.value) / size, places)
    start = round(before_g.value / size, places)
    cells = [
        Pair(details.fixed(start, places), ""),
        *(
            Pair(signed(step, places), _span(figures[name], size, places))
            for name, step in zip(moved, moves, strict=True)
        ),
        Pair(details.fixed(start + sum(moves), places), ""),
    ]
    names = [EFFECTS[name][0] for name in moved]
    titles = [month_name(previous_month(month)), *names, month_name(month)]
    columns = tuple(Column(title, "right") for title in titles)
    caption = f"From one month to the next, in {unit}"
    data = Table(caption, columns, (tuple(cells),))
    levels = list(accumulate(moves, initial=start))
    if min(levels) < 0:
        return data
    quantities = [before_g, *(figures[name] for name in moved), now_g]
    ends = [(0.0, start), *pairwise(levels), (0.0, levels[-1])]
    kinds = ["total", *("more" if step > 0 else "less" for step in moves), "total"]
    return _drawn_effects(data, list(zip(titles, ends, kinds, cells, quantities, strict=True)))


def _drawn_effects(
    data: Table, rows: Sequence[tuple[str, tuple[float, float], str, Pair, Quantity]]
) -> Chart:
    """Return the waterfall of a table's effects: columns, for a phone bars."""
    wide, bars, totals = [], [], []
    for title, (start, end), kind, cell, figure in rows:
        words = tip(title, figure)
        drawn = {"name": title, "start": start, "end": end, "kind": kind}
        wide.append({**drawn, "label": cell.text, "below": cell.below, "tip": words})
        low, high = sorted((start, end))
        bars.append({**bar(title, low, high, 1.0, words, estimated=False), "kind": kind})
        label = f"{cell.text} ({cell.below})" if cell.below else cell.text
        totals.append(waterfall_total(title, high, high, 1.0, label))
    alt = "; ".join(f"{title} {cell.text}" for title, _, _, cell, _ in rows)
    spec, narrow = steps(wide), waterfall(bars, totals, narrow=True)
    return Chart(data.caption, f"Waterfall: {alt}.", spec, data, narrow=narrow)


def _span(figure: Quantity, size: float, places: int) -> str:
    low, high = (signed(end / size, places) for end in (figure.low, figure.high))
    return f"{low} to {high}" if figure.low != figure.high else ""


def _projects(document: MonthDoc) -> list[Block]:
    """Return the projects with the most carbon, with their change."""
    rows = sorted(document.by_project, key=lambda row: -(row.total_g.value if row.total_g else 0))
    if len(rows) < 2:
        return []
    changes = {row.project: row for row in document.project_changes}

    def moved(row: ProjectCharge) -> Pair:
        change = changes.get(row.project)
        return Pair("new", "") if change is None or change.previous_g is None else _moved(change)

    projects = table(
        "Projects",
        rows[:FIRST_PROJECTS],
        Field("Project", lambda row: row.project, 1.6),
        Field("Jobs", lambda row: row.jobs, 0.6, "right"),
        Field("Energy", lambda row: row.energy_kwh, 1.1, "right"),
        Field("Carbon", counted, 1.2, "right"),
        *(
            [Field(f"Against {month_name(previous_month(document.month))}", moved, 1.5, "right")]
            if document.previous and compared(document)
            else []
        ),
        note=first_of(FIRST_PROJECTS, len(rows), "month"),
    )
    return [projects]


def _certain(document: MonthDoc) -> list[ProjectChange]:
    """Return the projects that certainly changed, the largest difference first."""
    rows = (row for row in document.project_changes if row.total_g and row.previous_g)
    return [row for row in rows if row.change and is_change(row.change.low, row.change.high)]


def _moved(row: ProjectChange) -> Pair:
    return change(row.total_g, row.previous_g, row.change)


# Budgets


def budget_table(caption: str, rows: Sequence[BudgetUse]) -> Table:
    """Return budgets with what was used of each."""
    return table(
        caption,
        rows,
        Field("Budget of", lambda row: row.project, 1.6),
        Field("Used", lambda row: grams(row.spent_kg), 1.1, "right"),
        Field("Limit", lambda row: f"{number(row.limit_kg, 4)} kg CO2e", 1.1, "right"),
        Field("Share", lambda row: _spent_share(row), 0.7, "right"),
        Field("How it stands", lambda row: budget_verdict(row), 2.2),
    )


def _spent_share(row: BudgetUse) -> str:
    return "" if row.spent_share is None else percent(row.spent_share)


class Used(Protocol):
    """A budget [kgCO2e], and what was used of it."""

    limit_kg: float
    spent_kg: Quantity | None

    @property
    def status(self) -> str:
        """Return `unknown` where a term of some job is not known."""


def budget_verdict(row: Used) -> str:
    """Return how a budget stands: "over budget by about 80 kg CO2e (likely)".

    What is in brackets goes by the odds that the figure's range gives (`ODDS`).
    """
    spent = row.spent_kg
    if spent is None:
        return "not known: a term of some job is not known"
    over = odds_over(spent, row.limit_kg)
    word = next(word for least, word in ODDS if max(over, 1 - over) >= least)
    rest_g = abs(g_from_kg(spent.value - row.limit_kg))
    size, unit = prefix(rest_g, "gCO2e")
    rest = f"{number(rest_g / size, 2)}{NARROW_SPACE}{unit}"
    if over >= 0.5:
        return f"over budget by about {rest}{word}"
    missing = "; a term of some job is not known" if row.status == "unknown" else ""
    return f"within budget, about {rest} left{word}{missing}"


def odds_over(figure: Quantity, limit: float) -> float:
    """Return the probability that a figure is above a limit in its unit.

    Each side of the value is half of a normal distribution whose tenth lies beyond that end of the
    range. Exact figures are above or not.
    """
    side = figure.high if limit > figure.value else figure.low
    width = abs(side - figure.value) / EIGHT_IN_TEN
    if not width:
        return 1.0 if figure.value > limit else 0.0
    return 1 - NormalDist().cdf((limit - figure.value) / width)


# What to do


def summary_lines(document: MonthDoc) -> list[str]:
    """Return the month in ten lines for a terminal: page one's answers, each a line.

    Its carbon and what moved it, energy, projects, budgets, what to do, and what is not final.
    """
    of = f", project {isolated(document.project)}" if document.project else ""
    answer = " ".join(filter(None, [headline(document), causes(document)]))
    if not document.totals.jobs:
        return [answer]
    cooled = document.boundary.full_kwh if document.boundary else None
    energy = (
        f"{text(document.totals.energy_kwh)}, {percent(metered(document.data_quality))} metered"
    )
    energy += f"; {value_text(cooled)} with cooling" if cooled else ""
    worst = sorted(document.budgets, key=lambda row: -(row.spent_share or 0.0))
    waiting = _waiting(document)
    if not document.complete:
        waiting = f"may still change: {waiting}" if waiting else "may still change"
    rows = [
        ("Energy", f"{energy}; {jobs_text(document.totals.jobs)}"),
        ("Projects", _projects_line(document)),
        *(("Budget", _budget_line(row)) for row in worst[:FIRST_CAUSES]),
        *(
            ("To do", _saving(row, value_text(row.saved_g)))
            for row in document.advice[:FIRST_ADVICE]
        ),
        ("State", "final" if document.complete else waiting),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows if value]
    short = [line.replace("\u00a0CO2e", "") for line in lines]  # the first line has it
    return [f"{month_name(document.month)}{of}: {answer}", *short]


def _saving(row: AdviceRow, saved: str) -> str:
    return f"{details.action(row)} ({details.jobs_of(row)}): saves {saved}"


def _budget_line(row: BudgetUse) -> str:
    share = f"{_spent_share(row)} of " if row.spent_share is not None else "limit "
    return f"{isolated(row.project)}: {share}{number(row.limit_kg, 4)} kg, {budget_verdict(row)}"


def _projects_line(document: MonthDoc) -> str:
    """Return the largest projects with their carbon and its change."""
    rows = sorted(document.by_project, key=lambda row: -(row.total_g.value if row.total_g else 0))
    if len(rows) < 2:
        return ""
    changes = {row.project: row for row in document.project_changes}
    parts = []
    for row in rows[:FIRST_ADVICE]:
        change = changes.get(row.project)
        moved = f" ({_moved(change).text})" if change and change.previous_g else ""
        parts.append(f"{isolated(row.project)} {value_text(row.total_g)}{moved}")
    more = len(rows) - len(parts)
    return ", ".join([*parts, *([f"{more} more"] if more else [])])


def _first_advice(document: MonthDoc) -> Block:
    rows = document.advice[:FIRST_ADVICE]
    if rows:
        return details.advice_table("What to do: the actions that save most", rows)
    return Text(f"What to do: {details.no_advice(document)}")


def _sections(document: MonthDoc) -> tuple[Section[MonthDoc], ...]:
    return SECTIONS if document.totals.jobs else NIL


_NOT_SUMMED = ("Not in the sums", details.not_summed, details.has_jobs_outside)
NIL: tuple[Section[MonthDoc], ...] = (
    Section("Summary", lambda month: [Text(_nil(month))], short=True),
    Section(*_NOT_SUMMED, short=True),
    Section("Statement", details.statement),
)
"""Sections of a month without a scored job."""
SECTIONS: tuple[Section[MonthDoc], ...] = (
    Section("Summary", _first_page, short=True),
    Section(*_NOT_SUMMED, annex=A),
    Section("Where the carbon comes from", details.components, details.has_components, annex=A),
    Section("Day by day", details.days, annex=A),
    Section("Against the month before", details.comparison, annex=A),
    Section("Carbon per unit of work", details.projects, annex=A),
    Section("Projects and owners", details.chargeback, annex=A),
    Section("Models", details.models, lambda month: month.models, annex=A),
    Section("Jobs with the most carbon", details.top_jobs, annex=A),
    Section("What became of the work", details.ledger, annex=A),
    Section(
        "Budgets",
        lambda month: [budget_table("All budgets", month.budgets)],
        lambda month: len(month.budgets) > FIRST_BUDGETS,
        annex=A,
    ),
    Section("More on actions", details.advice, details.has_advice, annex=A),
    Section("Statement", details.statement, annex=B),
    Section("Emission factors", details.factors, lambda month: month.factors, annex=B),
    Section("How the figures are known", details.quality, annex=B),
    Section("Notices", details.notices, lambda month: month.notice_counts, annex=B),
    Section("Method and boundary", details.method, lambda month: month.method, annex=B),
    Section("Methods of the last twelve months", details.methods, details.has_methods, annex=B),
    Section("Sources", details.sources, annex=B),
)
"""Every section of a month, in order; page one, which is the short report too, comes first."""

"""The annexes of a month's report: what the carbon is made of, accounts, and what it rests on."""

from __future__ import annotations

import math
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from gramwatt.reports.charts import PARTS, columns, ranged_bars, stack, tip
from gramwatt.reports.model import Block, Cell, Chart, Facts, NoticeBlock, Pair, Table, Text
from gramwatt.reports.sections import (
    DECLARED,
    STATUS,
    Amount,
    Field,
    capitalised,
    counted,
    data_table,
    first_of,
    job_cell,
    metered,
    method_blocks,
    printed,
    quality_blocks,
    saving,
    source_blocks,
    status,
    table,
)
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.figures.formatting import (
    NARROW_SPACE,
    UNKNOWN,
    duration,
    jobs_text,
    marked,
    minute_text,
    number,
    percent,
    percent_digits,
    prefix,
    shown,
    text,
    value_text,
)
from gramwatt.sci.figures.notices import CODES
from gramwatt.sci.figures.printable import isolated
from gramwatt.sci.figures.quantity import Quantity, is_change, is_estimate
from gramwatt.sci.month.documents import (
    AdviceRow,
    ChargeRow,
    ComponentRow,
    ExcludedDoc,
    FactorRow,
    FollowedRow,
    LedgerRow,
    ModelRow,
    MonthDay,
    MonthDoc,
    MonthTotals,
    PendingDoc,
    PendingJobRow,
    ProjectRow,
    TopJob,
    TrendRow,
)
from gramwatt.sci.score.assess import GRADE_NEEDS

Totalled = Literal["total_g", "operational_g", "embodied_g", "energy_kwh"]

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
MANY_TIMES = 10.0
"""From here on a change is printed as a multiple, not in percent."""
NO_DIFFERENCE = "no reliable difference"
MINUS = "\N{MINUS SIGN}"
DIGITS = 4
"""Digits of factors, so that the product in each row can be followed."""
MOSTLY = 0.5
"""Share of the energy from which on, if a meter read it, a sum is not called estimated."""
METERED_GRADES = tuple(
    name
    for name, needs in GRADE_NEEDS
    if any(block == "energy" and least >= MOSTLY for block, _, least in needs)
)
"""Grades that need as much: where only the grade of a month is at hand, it says the same."""
FIRST_ADVICE = 3
"""Actions on page one."""
FIRST_IDS, MAX_ROWS = 3, 50
"""Jobs outside the sums that a sentence, and that a table names."""
MAX_ACTIONS = 6
"""Actions that a report has."""
CLASSES = {
    "gpu": "GPUs",
    "accelerator": "other accelerators",
    "module": "modules (processor and GPU)",
    "cpu": "processors",
    "ram": "memory",
    "host": "hosts",
    "overhead": "overhead of the building (PUE)",
    "other": "not divided",
}
OUTCOMES = {
    "completed": "Completed",
    "idle": "Reserved without work",
    "sweep": "Hyperparameter search",
    "failed": "Failed",
    "killed": "Stopped",
    "lost": "Lost",
}
"""What became of the work, in words."""
ACTIONS = {
    "change-hardware": "move to {target}",
    "power-cap": "cap the power",
    "fewer-devices": "move to {target}",
    "instance": "move to {target}",
    "slice": "move to {target}",
    "release-idle": "release idle accelerators",
    "input-pipeline": "feed the accelerators faster",
    "leave-device": "run it on processors alone",
    "avoid-failed": "find out why runs failed",
    "avoid-killed": "cancel runs earlier",
    "avoid-lost": "find out why runs were lost",
    "share": "share the accelerator",
    "mixed-precision": "mixed precision",
    "batching": "larger batches",
    "quantise": "quantise",
    "fewer-nodes": "fewer nodes",
    "region": "run in {target}",
    "checkpoint": "write checkpoints",
    "spot": "use spare capacity",
    "time": "run in greener hours",
}
FOLLOWED = {
    "followed": "followed: none is left as it was",
    "partly": "partly followed",
    "not-followed": "not followed",
    "no-such-work": "no such work this month",
}
SIDES = {"provider": "made it", "consumer": "used it", "other": "other work"}
"""What runs did with a model, by persona."""
EFFECTS = (
    "On page one, hardware is embodied carbon per unit; method is other versions of engine or "
    "catalog, and another kind or source of intensity."
)
PROJECTS: tuple[Field[ProjectRow], ...] = (
    Field("Project", lambda row: row.project, 1.4),
    Field("Jobs", lambda row: row.jobs, 0.5, "right"),
    # Of jobs whose carbon is not known no unit is in the sum.
    Field(
        "Units (R)",
        lambda row: Amount(row.count, row.unit) if row.total_g else None,
        1.2,
        "right",
        below="Unit",
    ),
    Field("Energy", lambda row: row.energy_kwh, 1.1, "right", unit="kWh"),
    Field("Carbon", lambda row: row.total_g, 1.3, "right", unit="kg CO2e"),
    Field("SCI", lambda row: row.g_per_unit, 1.5, "right", unit="kg CO2e per unit"),
    Field("Status", lambda row: status(row.conformance), 1.2),
)
CHARGES: tuple[Field[ChargeRow], ...] = (
    Field("Project", lambda row: row.project, 1.6),
    Field("Owner", lambda row: row.owner or "no owner given", 1.3),
    Field("Jobs", lambda row: row.jobs, 0.6, "right"),
    Field("Energy", lambda row: row.energy_kwh, 1.1, "right", unit="kWh"),
    Field("Carbon", lambda row: row.total_g, 1.2, "right", unit="kg CO2e"),
)
DAYS: tuple[Field[MonthDay], ...] = (
    Field("Day", lambda row: row.day),
    Field("Energy", lambda row: row.energy_kwh, align="right", unit="kWh"),
    Field("Operational", lambda row: row.operational_g, align="right", unit="kg CO2e"),
    Field("Embodied", lambda row: row.embodied_g, align="right", unit="kg CO2e"),
)
"""Columns that the tables of the report share with the tables of numbers (`tables.py`)."""


def month_name(month: str) -> str:
    """`2026-05` -> `May 2026`."""
    return f"{MONTHS[int(month[5:]) - 1]} {month[:4]}"


# Against the previous month


def comparison(document: MonthDoc) -> list[Block]:
    """Return the terms of both months with their changes; a sentence without a previous month."""
    now, before = compared(document), document.previous
    if before is None or now is None:
        return [Text(nothing_compared(document))]
    last_month = next((row.grade for row in document.trend[-2:-1]), "")
    reads = metered(document.data_quality) >= MOSTLY, last_month in METERED_GRADES
    names: dict[str, Totalled] = {
        "Total": "total_g",
        "Carbon of electricity": "operational_g",
        "Making the hardware": "embodied_g",
        "Energy": "energy_kwh",
    }
    more = now.jobs - before.jobs
    days = first_days(document)
    terms = table(
        "Terms of both months",
        [
            (name, getattr(now, term), getattr(before, term), document.changes[term], term)
            for name, term in names.items()
        ],
        Field("What", lambda row: row[0], 1.2),
        Field(f"This month{days}", lambda row: whole(row[1], row[4], reads[0]), 1.2, "right"),
        Field(f"Before{days}", lambda row: whole(row[2], row[4], reads[1]), 1.2, "right"),
        Field("Change", lambda row: change(*row[1:4]), 1.4, "right"),
        last=[("Jobs", str(now.jobs), str(before.jobs), _with_sign(more, f"{abs(more)}"))],
        note="A change is stated only where its range leaves out no change; what both months share "
        f"cancels. {EFFECTS}",
    )
    return [terms]


def whole(figure: Quantity | None, term: str, is_metered: bool) -> Pair:
    """Return a sum as a cell; without the mark of an estimate where it is mostly metered."""
    cell = Pair(value_text(figure), shown(figure).span if figure else "", is_estimate(figure))
    return replace(cell, estimated=False) if is_metered and term != "embodied_g" else cell


def compared(document: MonthDoc) -> MonthTotals | None:
    """Return what is compared of the month: all of it, or its first days while it goes on.

    None where no job ran in those.
    """
    return document.totals if document.compared_days is None else document.compared


def first_days(document: MonthDoc) -> str:
    """Return which days of both months are compared, as an addition; empty for whole months."""
    days = document.compared_days
    return f", days 1 to {days}" if days else ""


def nothing_compared(document: MonthDoc) -> str:
    """Return why the month is compared with nothing."""
    if document.compared_days == 0:
        return "No day of this month is over yet, so it is compared with none."
    if compared(document) is None:
        days = f"days 1 to {document.compared_days}"
        return f"No job of this month ran on {days}, which are what would be compared."
    return f"There is no previous month to compare with{first_days(document)}."


def change(new: Quantity | None, old: Quantity | None, ratio: Quantity | None) -> Pair:
    """Return the change in percent with its range; `NO_DIFFERENCE` if that holds no change."""
    if new is None or old is None:
        return Pair(UNKNOWN, "")
    if ratio is None:
        return Pair("from nothing", "") if new.value > 0 else Pair(NO_DIFFERENCE, "")
    # The words once, where both ends are many times as much.
    low = ratio.low
    first = number(low, 2) if low >= MANY_TIMES else _percent(low)
    span = f"{first} to {_percent(ratio.high)}"
    if not is_change(ratio.low, ratio.high):
        return Pair(NO_DIFFERENCE, span if ratio.low < ratio.high else "")
    return Pair(_percent(ratio.value), span)


def _percent(ratio: float) -> str:
    if ratio >= MANY_TIMES:
        return f"{number(ratio, 2)} times as much"
    share = ratio - 1
    amount = number(abs(share) * 100, percent_digits(ratio, 2))
    return _with_sign(share, f"{amount}{NARROW_SPACE}%")


def _with_sign(amount: float, size: str) -> str:
    return size if amount == 0 else f"{'+' if amount > 0 else MINUS}{size}"


def decimals(values: Sequence[float]) -> int:
    """Decimals that show the largest value with three digits."""
    most = max(map(abs, values), default=0.0)
    return max(0, 2 - math.floor(math.log10(most))) if most > 0 else 0


def adding_up(values: Sequence[float], whole: float, places: int) -> list[float]:
    """Return the values rounded so that they add up to the rounded whole, none by more than one
    step.
    """
    step = 10.0**-places
    rounded = [math.floor(value / step) for value in values]
    missing = round(whole / step) - sum(rounded)
    by_rest = sorted(range(len(values)), key=lambda n: rounded[n] - values[n] / step)
    for place in by_rest[: max(0, missing)]:
        rounded[place] += 1
    return [count * step for count in rounded]


def fixed(value: float, places: int) -> str:
    """Return a number with so many decimals."""
    return marked(f"{abs(value):,.{places}f}".replace(",", NARROW_SPACE))


def signed(value: float, places: int) -> str:
    """Return a number with its sign and so many decimals; 0 without a sign."""
    digits = fixed(value, places)
    return _with_sign(value, digits) if any(c in "123456789" for c in digits) else "0"


# Jobs that no sum holds


def incomplete(document: MonthDoc) -> list[str]:
    """Sentences on why the month is not complete; empty for a complete one."""
    sentences = [
        _pending_sentence(jobs, singular, several)
        for jobs, singular, several in (
            (document.jobs_running, "still runs", "still run"),
            (document.jobs_unscored, "is not scored", "are not scored"),
        )
        if jobs.jobs
    ]
    if waiting := document.jobs_to_rescore:
        verb = "waits" if waiting == 1 else "wait"
        sentences.append(
            f"{jobs_text(waiting)} of it or its trend {verb} to be scored again, by a server "
            "within minutes; till then it is mixed."
        )
    if sentences or document.complete:
        return sentences
    return ["The month is not over: its figures will grow."]


def _pending_sentence(jobs: PendingDoc, singular: str, plural: str) -> str:
    count = jobs.jobs
    ids = [row.job_id for row in jobs.named[:FIRST_IDS]]
    ids += [f"{count - len(ids)} more"] if count > len(ids) else []
    return (
        f"{jobs_text(count)} {singular if count == 1 else plural} ({', '.join(ids)}) and "
        f"{'is' if count == 1 else 'are'} in no sum. "
        f"Energy so far in this month: {text(jobs.energy_kwh)}."
    )


def not_summed_warnings(document: MonthDoc) -> list[Block]:
    """Return a warning for each reason why the month is not complete, and one for what people took
    out.
    """
    counts = {"left out by hand": len(document.excluded), "deleted": len(document.deletions)}
    outside = [
        f"{n} {'job was' if n == 1 else 'jobs were'} {how}" for how, n in counts.items() if n
    ]
    sentences = incomplete(document)
    if outside:
        sentences.append(f"{' and '.join(outside)}: in no figure of this month.")
    return [NoticeBlock("warning", "", sentence) for sentence in sentences]


def has_jobs_outside(document: MonthDoc) -> bool:
    """Return whether a job of the month that no sum holds is named."""
    return bool(pending_jobs(document) or document.excluded or document.deletions)


def pending_jobs(document: MonthDoc) -> list[tuple[str, PendingJobRow]]:
    """Return the running and unscored jobs that are named, each with which of the two it is."""
    kinds = (("running", document.jobs_running), ("not scored", document.jobs_unscored))
    return [(state, row) for state, jobs in kinds for row in jobs.named]


def not_summed(document: MonthDoc) -> list[Block]:
    """Tables of the jobs that no sum holds, with why."""
    tables: list[Block] = []
    if pending := pending_jobs(document):
        more = document.jobs_running.jobs + document.jobs_unscored.jobs - len(pending)
        tables.append(_pending(pending, more))
    if excluded := document.excluded:
        tables.append(_excluded(excluded))
    if rows := document.deletions:
        deletions = table(
            "Deleted jobs, in no figure",
            rows[:MAX_ROWS],
            Field("Job", lambda row: row.job_id, 1.8),
            Field("Project", lambda row: row.project, 1.2),
            Field("Carbon", lambda row: row.total_g, 0.9, "right"),
            Field("By", lambda row: row.deleted_by, 1.1),
            Field("When, UTC", lambda row: minute_text(row.deleted_at), 1.1),
            Field("Reason", lambda row: row.reason or "", 1.5),
            note=first_of(MAX_ROWS, len(rows), "month"),
        )
        tables.append(deletions)
    return tables


def _pending(rows: Sequence[tuple[str, PendingJobRow]], more: int) -> Table:
    return table(
        "Running and unscored jobs",
        rows,
        Field("Job", lambda row: job_cell(row[1]), 2.2),
        Field("Project", lambda row: row[1].project, 1.2),
        Field("State", lambda row: row[0], 0.9),
        Field("Energy so far", lambda row: row[1].energy_kwh, 1.2, "right"),
        note=f"And {more} more with less energy." if more else "",
    )


def _excluded(rows: Sequence[ExcludedDoc]) -> Table:
    return table(
        "Jobs left out of the month",
        rows[:MAX_ROWS],
        Field("Job", job_cell, 2.2),
        Field("Project", lambda row: row.project, 1.2),
        Field("Reason", lambda row: row.reason, 2.1),
        note=first_of(MAX_ROWS, len(rows), "month"),
    )


# Accounts


def has_components(document: MonthDoc) -> bool:
    """Return whether the month's carbon is divided by component."""
    return bool(document.components) and document.totals.total_g is not None


def components(document: MonthDoc) -> list[Block]:
    """Return the carbon by component, which sum to the total, and what a narrower boundary has."""
    rows, total_g = document.components, document.totals.total_g
    if total_g is None:
        return []
    caption = "Carbon by component, which sum to the total; the thin lines are ranges"
    caption += ", striped bars are estimated" if any(is_estimate(row.g) for row in rows) else ""
    size, unit = prefix(max(row.g.high for row in rows), "gCO2e")
    bars = [
        {
            "name": component_name(row),
            "value": row.g.value / size,
            "low": row.g.low / size,
            "high": row.g.high / size,
            "label": f"{value_text(row.g)}, {share_text(row.g, total_g)}",
            "tip": tip(component_name(row), row.g),
            "estimated": is_estimate(row.g),
        }
        for row in rows
    ]
    lines = [(component_name(row), row.g, share_text(row.g, total_g)) for row in rows]
    lines.append(("Total", total_g, percent(1.0)))
    data = data_table("Components", ("Component", "Carbon", "Share"), lines)
    alt = "; ".join(f"{component_name(row)} {text(row.g)}" for row in rows)
    chart = Chart(caption, f"Bars of carbon: {alt}.", ranged_bars(bars, x_title=unit), data)
    of = document.boundary
    if of is None:
        return [chart]
    narrow = (
        f"The accelerators' electricity alone, as many reports count, is {text(of.narrow_kwh)} and "
        f"{text(of.narrow_g)}. Water and abiotic depletion (ADPe) have no sourced factor."
    )
    return [chart, Text(narrow)]


def component_name(row: ComponentRow) -> str:
    """Return a component in words."""
    name = CLASSES.get(row.component, row.component)
    if row.component == "overhead":
        return name
    return f"{name}, {'electricity' if row.part == 'operational' else 'embodied'}"


def factors(document: MonthDoc) -> list[Block]:
    """Return the factors with their publishers, and the market-based memo in one line."""
    totals = document.totals
    note = (
        "Energy x PUE x factor = carbon in each row, and the rows sum to the month's electricity."
    )
    embodied = printed(totals.embodied_g)
    energy, carbon = _whole(document)
    last: list[tuple[Cell, ...]] = [
        ("embodied", "", "", "", embodied, ""),
        ("total", energy, "", "", carbon, ""),
    ]
    memo = "; ".join(
        f"{row.zone} {text(row.energy_kwh)} x {value_text(row.factor_g_per_kwh)} "
        f"({row.factor_g_per_kwh.source}) = {text(row.market_g)}"
        for row in document.market_based
    )
    rows = table(
        "Energy x PUE x factor",
        document.factors,
        Field("Zone", lambda row: row.zone, 0.8),
        Field("Energy", lambda row: row.energy_kwh, 1.0, "right"),
        Field("PUE", lambda row: number(row.pue.value, DIGITS), 0.5, "right"),
        Field("Factor, g/kWh", _factor, 1.0, "right"),
        Field("Carbon", lambda row: row.operational_g, 1.2, "right"),
        Field("Factor by", lambda row: Pair(row.publisher or row.source, _files(row)), 1.6),
        note=" ".join((note, *dict.fromkeys(filter(None, map(_published, document.factors))))),
        last=last,
    )
    blocks: list[Block] = [rows]
    if memo:
        sentence = f"Memo, in no score and no total: market-based, energy with PUE. {memo}."
        blocks.append(Text(sentence))
    return blocks


def _factor(row: FactorRow) -> Pair:
    factor = row.factor_g_per_kwh
    value, low, high = (number(end, DIGITS) for end in (factor.value, factor.low, factor.high))
    return Pair(value, f"{low} to {high}")


def _published(row: FactorRow) -> str:
    """Return publisher, edition, licence and link of a factor as a sentence."""
    edition = None if row.files else row.edition
    words = [*filter(None, (edition, row.licence, row.link))]
    return f"{row.publisher or row.source}: {'; '.join(words)}." if words else ""


def _files(row: FactorRow) -> str:
    """Return the names and digests of the imported files of a factor."""
    return "; ".join(
        f"{file.name}, sha256 {file.sha256[:12]}, imported {file.imported_at[:10]} "
        f"by {file.imported_by}"
        for file in row.files
    )


def projects(document: MonthDoc) -> list[Block]:
    """Return sum(C) over sum(R) of each project and unit."""
    note = "All carbon over all work, not a mean of scores; the status of the least conforming job."
    return [table("SCI by project and unit", document.projects, *PROJECTS, note=note)]


def models(document: MonthDoc) -> list[Block]:
    """Runs by model; the runs that make a model and those that use it have separate rows."""
    runs = table(
        "Runs by model, in this month",
        document.models,
        Field("Model", lambda row: row.model_id, 2),
        Field("Jobs", lambda row: SIDES.get(row.persona, row.persona)),
        Field("Runs", lambda row: row.jobs, 0.6, "right"),
        Field("Energy", lambda row: row.energy_kwh, 1.2, "right"),
        Field("Carbon", lambda row: row.total_g, 1.3, "right"),
        Field("Of it not finished", _unfinished, 1.3, "right"),
        note="Runs without a result count in full. Making a model and using it are never added. "
        "All months of a model: gramwatt jobs --model-id ID.",
    )
    return [runs]


def _unfinished(row: ModelRow) -> Cell:
    if not row.unfinished:
        return "no run"
    runs = f"{row.unfinished} {'run' if row.unfinished == 1 else 'runs'}"
    figure = row.unfinished_g
    span = shown(figure).span if figure else ""
    return Pair(value_text(figure), ", ".join(filter(None, (span, runs))), is_estimate(figure))


def top_jobs(document: MonthDoc) -> list[Block]:
    """Return the jobs with the most carbon, and whose they are."""
    jobs = table(
        "Top jobs",
        document.top_jobs,
        Field("Job", job_cell, 2.2),
        Field("Project", lambda job: Pair(job.project, job.owner or ""), 1.2),
        Field("Duration", _duration, 0.9, "right"),
        Field("Energy", lambda job: job.energy_kwh, 1.1, "right"),
        Field("Carbon", lambda job: counted(job), 1.2, "right"),
        note="Energy and carbon are of this month, the duration of the whole job.",
    )
    return [jobs]


def _duration(job: TopJob) -> Pair:
    return Pair(duration(job.duration_s), "" if job.state == "completed" else job.state)


def ledger(document: MonthDoc) -> list[Block]:
    """Return what became of the work."""
    note = (
        "Reserved without work: accelerators with a mean use below 5 % over a completed job. "
        "Search: completed runs with the tag sweep."
    )
    unseen = document.idle_not_seen_kwh
    if unseen is not None:
        note += f" Accelerators without a reading of utilisation used {text(unseen)}."
    total_g = document.totals.total_g
    rows: Sequence[LedgerRow] = document.ledger
    outcomes = table(
        "Carbon by outcome",
        rows,
        Field("Outcome", lambda row: OUTCOMES.get(row.outcome, row.outcome), 2.0),
        Field("Jobs", lambda row: f"{'in ' * (row.outcome == 'idle')}{row.jobs}", 0.6, "right"),
        Field("Energy", lambda row: row.energy_kwh, 1.2, "right"),
        Field("Carbon", lambda row: row.total_g, 1.3, "right"),
        Field("Share", lambda row: share_text(row.total_g, total_g), 0.7, "right"),
        note=note,
        last=[("Total", *_total(document))],
    )
    return [outcomes]


def chargeback(document: MonthDoc) -> list[Block]:
    """Return who used how much."""
    total_g = document.totals.total_g
    owners = table(
        "By project and owner",
        document.chargeback,
        *CHARGES,
        Field("Share", lambda row: share_text(row.total_g, total_g), 0.7, "right"),
        note="The owner is the tag user of the job.",
        last=[("Total", "", *_total(document))],
    )
    return [owners]


def _total(document: MonthDoc) -> tuple[Cell, ...]:
    """Return the last cells of a sum's row: jobs, energy, carbon and the whole share."""
    totals = document.totals
    share = share_text(totals.total_g, totals.total_g)
    return str(totals.jobs), *_whole(document), share


def _whole(document: MonthDoc) -> tuple[Pair, Pair]:
    """Return energy and carbon of the month as cells."""
    totals, read = document.totals, metered(document.data_quality) >= MOSTLY
    return whole(totals.energy_kwh, "energy_kwh", read), whole(totals.total_g, "total_g", read)


def share_text(figure: Quantity | None, whole: Quantity | None) -> str:
    """Return which part a figure is of a whole, in percent; "" where one is not known."""
    if figure is None or whole is None or whole.value <= 0:
        return ""
    return percent(figure.value / whole.value)


# Over time


def methods(document: MonthDoc) -> list[Block]:
    """Return by what the last twelve months are scored."""
    months = table(
        "Versions of engine and catalog; signal and basis of the intensity",
        document.trend,
        Field(
            "Month",
            lambda row: month_name(row.month) + ("" if row.complete else ", may still change"),
            1.2,
        ),
        Field("Carbon", lambda row: row.total_g, 1.2, "right"),
        Field("Data", lambda row: f"grade {row.grade}", 0.7),
        Field("Method", _methods, 1.9),
        note="Months of different methods compare with care only. Earlier months are as they are "
        "scored today, not as they were first reported.",
    )
    return [months]


def has_methods(document: MonthDoc) -> bool:
    """Return whether a month of the trend is scored by another method than the one before."""
    return any(row.method_break for row in document.trend)


def _methods(row: TrendRow) -> str:
    methods = "; ".join(", ".join(method) for method in row.methods)
    return f"changed: {methods}" if row.method_break else methods


def days(document: MonthDoc) -> list[Block]:
    """Return a chart of operational and embodied carbon by day, with all days of the month on its
    axis.
    """
    rows = document.days
    if not rows:
        return [Text("No day has a figure.")]
    month = document.month
    names = [str(n + 1) for n in range(monthrange(int(month[:4]), int(month[5:]))[1])]
    most = max(rows, key=_grams)
    size, unit = prefix(_grams(most), "gCO2e")
    bars = [
        bar
        for day in rows
        for bar in stack(
            str(int(day.day[8:])),
            day.day,
            {"electricity": day.operational_g, "hardware": day.embodied_g},
            size,
            is_metered=metered(document.data_quality) >= MOSTLY,
        )
    ]
    striped = "; striped: estimated" if any(bar["estimated"] for bar in bars) else ""
    caption = f"Carbon by day, of electricity and hardware{striped}"
    x_title = f"day of {month_name(month)}"
    spec = columns(bars, x_title=x_title, y_title=unit, parts=PARTS, names=names)
    alt = (
        f"Stacked columns of the carbon of electricity and hardware on {len(rows)} days with jobs; "
        f"most on {most.day}."
    )
    return [Chart(caption, alt, spec, table(caption, rows, *DAYS))]


def _grams(day: MonthDay) -> float:
    return sum(figure.value for figure in (day.operational_g, day.embodied_g) if figure)


# Suggestions


def advice(document: MonthDoc) -> list[Block]:
    """Return actions by hardware and class of work, and what became of the month before's."""
    blocks: list[Block] = []
    first, more = document.advice[:FIRST_ADVICE], document.advice[FIRST_ADVICE:MAX_ACTIONS]
    if more:
        note = first_of(MAX_ACTIONS, len(document.advice), "month")
        blocks.append(advice_table("The next actions", more, reasons=True, note=note))
    if first:
        count = document.examined_jobs
        reasons = "; ".join(dict.fromkeys(row.reason for row in first))
        words = (
            f"Those on page one rest on this: {reasons}. {jobs_text(count)} "
            f"{'was' if count == 1 else 'were'} examined, the largest of each work; idle time and "
            "runs without a result are of all jobs. Likely: at least 7 in 10; sure: 9 in 10."
        )
        blocks.append(Text(words))
    traced = [row for row in document.followed if row.outcome is not None]
    if traced:
        followed = table(
            "What became of last month's suggestions",
            traced,
            Field("Suggested last month", lambda row: Pair(action(row), work_text(row)), 2.4),
            Field(
                "Jobs as they were, then and now",
                lambda row: f"{row.jobs_before}, {row.jobs_now}",
                1.4,
                "right",
            ),
            Field("As suggested, then and now", _on_target, 1.4, "right"),
            Field("Outcome", lambda row: FOLLOWED.get(row.outcome or "", ""), 1.8),
            note="By the jobs of this month; why is not known.",
        )
        blocks.append(followed)
    return blocks


def has_advice(document: MonthDoc) -> bool:
    """Return whether there is more on actions than page one has."""
    return bool(document.advice) or any(row.outcome is not None for row in document.followed)


def advice_table(
    caption: str, rows: Sequence[AdviceRow], *, reasons: bool = False, note: str = ""
) -> Table:
    """Return actions with the jobs that they are for and what they would save in a month."""
    return table(
        caption,
        rows,
        Field("Action", lambda row: Pair(action(row), work_text(row)), 3.0),
        Field(
            "For", lambda row: Pair(jobs_of(row), capitalised(row.reason) if reasons else ""), 3.0
        ),
        Field("Jobs", lambda row: Pair(str(row.jobs), f"of {row.jobs_of_work}"), 0.6, "right"),
        Field("Saves", saving, 1.5, "right"),
        Field("How sure", lambda row: row.confidence, 0.8),
        note=note,
    )


def no_advice(document: MonthDoc) -> str:
    """Return why no action is suggested."""
    jobs = document.examined_jobs
    if not jobs:
        return "No job could be examined."
    verb = "was" if jobs == 1 else "were"
    return f"No action is likely to save in the {jobs_text(jobs)} that {verb} examined."


def jobs_of(row: AdviceRow) -> str:
    """Return projects with their jobs: "vision: resnet, vit and 3 more"."""
    by_project: dict[str, dict[str, None]] = {}
    for job in row.named:
        by_project.setdefault(isolated(job.project), {})[isolated(job.name)] = None
    named = "; ".join(f"{project}: {', '.join(jobs)}" for project, jobs in by_project.items())
    more = row.jobs - len(row.named)
    return f"{named} and {more} more" if more > 0 else named


def action(row: AdviceRow | FollowedRow) -> str:
    """Return an action in words."""
    words = ACTIONS.get(row.action, row.action.replace("-", " "))
    return capitalised(words.format(target=part_text(row.target or "another part")))


def work_text(row: AdviceRow | FollowedRow) -> str:
    """Return a class of work with its devices: "training on NVIDIA L4"."""
    return f"{row.work} on {part_text(row.hardware)}"


def part_text(name: str) -> str:
    """Return parts, joined by " + ", as people write them; other names stay as they are."""
    labels = {part.id: part.label for part in load_catalog().all_hardware()}
    return " + ".join(labels.get(part, part) for part in name.split(" + "))


def _on_target(row: FollowedRow) -> str:
    return f"{row.target_before}, {row.target_now}" if row.target is not None else ""


# What the figures rest on


def quality(document: MonthDoc) -> list[Block]:
    """Return the grade, what a better one lacks, and how the jobs score."""
    counts = document.conformance
    scores = ", ".join(f"{status(name)} {counts[name]}" for name in STATUS if name in counts)
    return [
        *quality_blocks(document.data_quality, limits=document.grade_limits),
        Text(f"Jobs by score: {scores}."),
    ]


def notices(document: MonthDoc) -> list[Block]:
    """Return how many jobs have each notice."""
    counts = sorted(document.notice_counts.items(), key=lambda item: (-item[1], item[0]))
    if not counts:
        return []
    rows = table(
        "Jobs with each notice",
        counts,
        Field("Notice", lambda row: row[0], 1.6),
        Field("What it says", lambda row: CODES.get(row[0], ""), 4.4),
        Field("Jobs", lambda row: row[1], 0.6, "right"),
    )
    return [rows]


def method(document: MonthDoc) -> list[Block]:
    """Return the standard, the means of the month and the boundary."""
    return method_blocks(document.method) if document.method else []


def sources(document: MonthDoc) -> list[Block]:
    """Return the sources of the figures, with links."""
    return source_blocks(document.sources)


def statement(document: MonthDoc) -> list[Block]:
    """Return who answers for the report, and what it is."""
    by, before = document.statement, document.revised
    revision = "not final: the month may still change"
    if document.revision is not None:
        revision = f"{document.revision}"
    if before is not None:
        had = f"{jobs_text(before.jobs)} and {text(before.total_g)}"
        revision += f"; revision {before.revision} had {had}"
    facts = (
        ("Organisation", by.organisation or UNKNOWN),
        ("Accountable", by.accountable or "nobody named: set GRAMWATT_ACCOUNTABLE"),
        ("Contact", by.contact or UNKNOWN),
        ("Revision", revision),
        ("Scores", DECLARED),
        ("Assurance", "none: not assured by a third party"),
        ("Accounting", "scores are location-based; no offsets or credits are counted"),
    )
    return [Facts(facts, quoted=True)]


def issued(document: MonthDoc) -> str:
    """Return when and by whom the report was issued."""
    if document.issued_at is None:
        return "not yet" + ("" if document.complete else ", as the month may still change")
    organisation = document.statement.organisation
    by = f" by {isolated(organisation)}" if organisation else ""
    return f"{minute_text(document.issued_at)} UTC{by}"

"""The monthly report, for the people who answer for the emissions."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence

from gramwatt import __version__
from gramwatt.reports.charts import bars, chart, data_table
from gramwatt.reports.document import (
    Block,
    Column,
    Document,
    Facts,
    Figures,
    Heading,
    NoticeBlock,
    Table,
    Text,
)
from gramwatt.reports.sections import (
    known_or,
    method_blocks,
    notice_blocks,
    quality_blocks,
    status,
    terms,
)
from gramwatt.sci.document import DayDoc, JobHead, MonthDoc, MonthTotals, ProjectRow
from gramwatt.sci.figures import NARROW_SPACE, UNKNOWN, count_text, duration, text
from gramwatt.sci.quantity import QuantityDoc

NO_DIFFERENCE = "no reliable difference: the ranges overlap"
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def build(document: MonthDoc) -> Document:
    """The report of a month document."""
    year, number_of = document["month"].split("-")
    title = f"Energy and carbon of AI jobs, {MONTHS[int(number_of) - 1]} {year}"
    whose = f"Project {document['project']}" if document["project"] else "All projects"
    subtitle = f"{whose}; {document['totals']['jobs']} jobs."
    blocks: list[Block] = [*_warnings(document), *_summary(document)]
    if document["totals"]["jobs"]:
        blocks += [
            *_projects(document["projects"]),
            *_top(document["top_jobs"]),
            *_days(document["days"]),
            *_outcomes(document),
            *quality_blocks(document["data_quality"]),
            *_notices(document),
            *_method(document),
        ]
    blocks += _statement(document)
    return Document(title, subtitle, f"{document['month']}-01", tuple(blocks))


def _warnings(document: MonthDoc) -> list[Block]:
    blocks: list[Block] = []
    if not document["complete"]:
        said = "The month had not ended, or jobs were still running, when this was made."
        blocks.append(NoticeBlock("warning", "", said))
    without = document["notice_counts"].get("zone-unknown", 0)
    if without:
        said = (
            f"{without} of {document['totals']['jobs']} jobs have no known grid zone. The world "
            "average intensity stands in for theirs, and they are not SCI scores."
        )
        blocks.append(NoticeBlock("warning", "zone-unknown", said))
    unknown = document["totals"]["jobs_unknown"]
    if unknown:
        said = f"{unknown} jobs have a term that is not known; the sums hold the known parts only."
        blocks.append(NoticeBlock("warning", "energy-unmeasured", said))
    return blocks


def _summary(document: MonthDoc) -> list[Block]:
    if not document["totals"]["jobs"]:
        return [Heading("Summary"), Text("No job was measured in this month.")]
    return [
        Heading("Summary"),
        Figures(terms(document["totals"])),
        *_change(document["totals"], document["previous"]),
    ]


def _change(now: MonthTotals, before: MonthTotals | None) -> list[Block]:
    if before is None:
        return [Text("There is no month before to compare with.")]
    figures = (
        ("Energy", now["energy_kwh"], before["energy_kwh"]),
        ("Operational carbon", now["operational_g"], before["operational_g"]),
        ("Embodied carbon", now["embodied_g"], before["embodied_g"]),
        ("Total", now["total_g"], before["total_g"]),
    )
    rows = [(name, text(new), text(old), change(new, old)) for name, new, old in figures]
    rows.insert(0, ("Jobs", str(now["jobs"]), str(before["jobs"]), _counted(now, before)))
    columns = (
        Column("What"),
        Column("This month", "right", 1.4),
        Column("Month before", "right", 1.4),
        Column("Change", "right", 1.6),
    )
    return [Table("Against the month before", columns, tuple(rows))]


def _counted(now: MonthTotals, before: MonthTotals) -> str:
    return f"{now['jobs'] - before['jobs']:+d}"


def change(new: QuantityDoc | None, old: QuantityDoc | None) -> str:
    """The change in percent, or that the ranges overlap and none can be told."""
    if new is None or old is None:
        return UNKNOWN
    if new["low"] <= old["high"] and old["low"] <= new["high"]:
        return NO_DIFFERENCE
    if old["value"] == 0:
        return "from nothing"
    return f"{(new['value'] / old['value'] - 1) * 100:+.0f}{NARROW_SPACE}%"


def _projects(rows: Sequence[ProjectRow]) -> list[Block]:
    columns = (
        Column("Project", weight=1.3),
        Column("Per", weight=0.8),
        Column("Jobs", "right", 0.6),
        Column("R", "right", 1.0),
        Column("Energy", "right", 1.6),
        Column("Carbon", "right", 1.7),
        Column("SCI", "right", 1.9),
        Column("Status", weight=1.4),
    )
    lines = tuple(
        (
            row["project"],
            row["unit"],
            str(row["jobs"]),
            count_text(row["count"]),
            text(row["energy_kwh"]),
            text(row["total_g"]),
            text(row["g_per_unit"]),
            status(row["conformance"]),
        )
        for row in rows
    )
    note = "SCI is the sum of carbon over the sum of R, not a mean of the jobs' scores."
    return [Heading("SCI by project"), Table("Projects and units", columns, lines, note)]


def _top(jobs: Sequence[JobHead]) -> list[Block]:
    columns = (
        Column("Job", weight=1.8),
        Column("Project"),
        Column("State", weight=0.9),
        Column("Took", "right", 0.9),
        Column("Energy", "right", 1.5),
        Column("Carbon", "right", 1.7),
    )
    lines = tuple(
        (
            f"{job['name']} ({job['job_id']})" if job["name"] != job["job_id"] else job["name"],
            job["project"],
            job["state"],
            duration(job["duration_s"]),
            text(job["energy_kwh"]),
            text(job["total_g"]),
        )
        for job in jobs
    )
    note = "Whole jobs, with their parts outside this month."
    return [Heading("Jobs with the most carbon"), Table("Top jobs", columns, lines, note)]


def _days(days: Sequence[DayDoc]) -> list[Block]:
    rows, lines = [], []
    for day in days:
        parts = (("operational", day["operational_g"]), ("embodied", day["embodied_g"]))
        for part, figure in parts:
            if figure is not None:
                rows.append({"name": day["day"][8:], "part": part, "value": figure["value"]})
        lines.append(
            (
                day["day"],
                text(day["energy_kwh"]),
                text(day["operational_g"]),
                text(day["embodied_g"]),
            )
        )
    caption = "Carbon by day, operational and embodied"
    table = data_table(caption, ("Day", "Energy", "Operational", "Embodied"), lines)
    names = [f"{day:02d}" for day in range(1, _length(days[0]["day"]) + 1)] if days else []
    spec = bars(rows, names, x_title="day of the month", y_title="carbon [gCO2e]")
    most = max(lines, key=lambda line: _grams(days, line[0]))[0] if lines else ""
    alt = f"Stacked bars of operational and embodied carbon for {len(days)} days; most on {most}."
    return [Heading("Day by day"), chart(caption, alt, spec, table)]


def _length(day: str) -> int:
    """Days in the month of `day` (YYYY-MM-DD)."""
    return monthrange(int(day[:4]), int(day[5:7]))[1]


def _grams(days: Sequence[DayDoc], name: str) -> float:
    day = next(day for day in days if day["day"] == name)
    figures = (day["operational_g"], day["embodied_g"])
    return sum(figure["value"] for figure in figures if figure)


def _outcomes(document: MonthDoc) -> list[Block]:
    states = tuple((state, str(n)) for state, n in sorted(document["states"].items()))
    kinds = tuple((status(name), str(n)) for name, n in sorted(document["conformance"].items()))
    return [
        Heading("How the jobs ended and how they score"),
        Table("Jobs by state", (Column("State"), Column("Jobs", "right")), states),
        Table("Jobs by conformance", (Column("Status"), Column("Jobs", "right")), kinds),
    ]


def _notices(document: MonthDoc) -> list[Block]:
    counts = sorted(document["notice_counts"].items(), key=lambda item: (-item[1], item[0]))
    rows = tuple((code, str(n)) for code, n in counts)
    if not rows:
        return [Heading("Notices"), Text("There are none.")]
    table = Table("Jobs with each notice", (Column("Notice"), Column("Jobs", "right")), rows)
    firsts = {notice["code"]: notice for notice in reversed(document["notices"])}
    return [Heading("Notices"), table, *notice_blocks(firsts.values())]


def _method(document: MonthDoc) -> list[Block]:
    method = document["method"]
    blocks: list[Block] = [*method_blocks(method)] if method else []
    rows = tuple((source,) for source in document["sources"])
    return [*blocks, Table("Sources of the figures", (Column("Source"),), rows)]


def _statement(document: MonthDoc) -> list[Block]:
    facts = (
        ("Prepared by", f"gramwatt {__version__}"),
        ("Report", f"{document['month']}, {known_or(document['project'], 'all projects')}"),
        ("Assurance", "none: self-declared, not assured by a third party"),
        ("Accounting", "location-based; no offsets, credits or contracts are counted"),
    )
    return [Heading("Statement"), Facts(facts)]

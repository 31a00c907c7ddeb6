"""Write docs/reference/: what the code has the words of, so that no page repeats them.

    python scripts/reference.py

A test holds that the pages are as this would write them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_type_hints

import msgspec

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"


def table(titles: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table in Markdown."""
    lines = [list(titles), *(list(row) for row in rows)]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    cells.insert(1, ["---"] * len(cells[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def notices() -> str:
    """Return every notice: what it says, what it does to the figures, what to do."""
    from gramwatt.sci.figures.notices import CODES, HELP

    rows = ((f"`{code}`", f"{text} {HELP.get(code, '')}".strip()) for code, text in CODES.items())
    return (
        "# Notices\n\nA notice is a coded remark, stored with a score and printed in its report. "
        "Its `field` names the figure\nthat it concerns; null is all. *A deviation*: the score "
        "lists one.\n\n" + table(("code", "meaning, and what to do"), rows)
    )


def settings() -> str:
    """Return every setting of the service with its default."""
    from gramwatt.service.config import ServiceConfig, settings_of
    from gramwatt.service.status import value_text

    rows = (
        (f"`{row.variable}`", value_text(row.variable, value) or "", row.meaning)
        for row, value in settings_of(ServiceConfig(home=Path("home"), database_url=""))
    )
    return (
        "# Settings of the service\n\nThose of a job: [configuration](../configuration.md). In a "
        "list of names, a space, comma or percent sign in\na name is written as in an address: "
        "`Carbon%20Admins`. Every value is checked at the start.\n\n"
        + table(("variable", "default", "meaning"), rows)
    )


def server() -> str:
    """Return metrics, periodic tasks and codes of errors."""
    from gramwatt.service.api.problems import CODES
    from gramwatt.service.jobs.local_spool import open_store
    from gramwatt.service.metrics import Metrics
    from gramwatt.service.status import store_measures
    from gramwatt.service.tasks.runs import task_measures
    from gramwatt.service.tasks.table import TASKS, period

    with TemporaryDirectory() as home:
        service = open_store(Path(home))
        measures = [*store_measures(service), *task_measures(service)]
        service.store.close()
    counted = [
        (family.name + ("_total" if family.type == "counter" else ""), family.documentation)
        for family in Metrics().registry.collect()
    ]
    metrics = counted + [(row.name, row.help) for row in measures]
    tasks = ((name, period(task.every.total_seconds()), task.what) for name, task in TASKS.items())
    codes = ((f"`{code}`", status, text) for code, (status, text) in CODES.items())
    return (
        "# Metrics, tasks and errors of the server\n\n"
        "## Metrics\n\nOf `/metrics`, for Prometheus ([watching](../deploy.md#watching)).\n\n"
        + table(("metric", ""), ((f"`{name}`", text) for name, text in metrics))
        + "\n## Periodic tasks\n\n[Who does them](../deploy.md#periodic-work).\n\n"
        + table(("task", "every", "does"), tasks)
        + "\n## Codes of errors\n\nOf `application/problem+json` ([API](../api.md#errors)).\n\n"
        + table(("code", "status", "meaning"), codes)
    )


def journal() -> str:
    """Return the fields of every type of line, with their bounds."""
    from gramwatt.sci.figures.checks import meaning
    from gramwatt.sci.records.records import TYPES, Record

    common = {field.name for field in msgspec.structs.fields(Record)}
    parts = ["# Fields of the journal\n\nWhat they are for: [the journal](../journal.md).\n"]
    every = {"every line": (Record, set[str]()), **{k: (v, common) for k, v in TYPES.items()}}
    for name, (kind, left_out) in every.items():
        types = get_type_hints(kind, include_extras=True)
        rows = (
            (
                f"`{field.encode_name}`",
                "required" if field.required else "",
                meaning(types[field.name]),
            )
            for field in msgspec.structs.fields(kind)
            if field.name not in left_out and field.name != "extra"
        )
        parts.append(f"\n## {name}\n\n" + table(("field", "", "is"), rows))
    return "".join(parts)


def columns() -> str:
    """Return the columns of the CSV of a job and of the tables of a month."""
    from gramwatt.reports.exports.csv import COLUMNS
    from gramwatt.reports.tables import SHEETS, titles_of

    rows = ((f"`{name}`", "; ".join(titles_of(fields))) for name, fields in SHEETS.items())
    return (
        "# Columns of tables\n\n## A job\n\nOne figure a row ([exports](../exports.md#csv)): "
        + ", ".join(f"`{name}`" for name in COLUMNS)
        + ".\n\n## A month\n\nThe sheets of the Excel file, and the CSV files of the zip "
        "([reports](../reports.md#the-tables)).\n\n" + table(("table", "columns"), rows)
    )


def zones() -> str:
    """Return the zones with cloud regions that two publishers have a value of."""
    from gramwatt.sci.catalog.regions import RegionRow
    from gramwatt.sci.figures.csv_data import rows
    from gramwatt.sci.grid.zones import CountryRow, ZoneRow

    newest = {row.zone: row for row in sorted(rows(ZoneRow), key=lambda row: row.year)}
    regions: dict[str, list[str]] = {}
    for region in rows(RegionRow):
        regions.setdefault(region.zone, []).append(f"`{region.id}`")
    lines = []
    for country in sorted(rows(CountryRow), key=lambda row: row.name):
        own = newest.get(country.alpha2)
        if own and country.g_per_kwh and country.alpha2 in regions:
            figures = f"{country.g_per_kwh:g} ({country.year})", f"{own.g_per_kwh:g} ({own.year})"
            change = f"{(own.g_per_kwh / country.g_per_kwh - 1) * 100:+.0f} %"
            lines.append((country.name, *figures, change, len(regions[own.zone])))
    return (
        "# Two values of a zone\n\nWhat is generated in a country (Ember; the value of its regions "
        "until November 2026 where the catalog\nhad no other) and what is used in it "
        "(Electricity Maps, ODbL 1.0; the value that counts now), gCO2e/kWh, with the\nnumber of "
        "cloud regions there. O of the same job changes as the value does.\n\n"
        + table(("zone", "generated", "used", "change", "regions"), lines)
    )


PAGES: Mapping[str, Callable[[], str]] = {
    "notices": notices,
    "settings": settings,
    "server": server,
    "journal": journal,
    "columns": columns,
    "zones": zones,
}


def main() -> int:
    """Write the pages; return 0."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / f"{name}.md").write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The jobs that make most of a month's carbon, by id, and what keys of sources stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gramwatt.reports.model import Block, Column, Heading, Pair, Table
from gramwatt.reports.sections.common import cell
from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.sci.analysis.trail import RegisterRow
from gramwatt.sci.base.csv_data import rows as csv_rows
from gramwatt.sci.base.formatting import minute_text

MATERIAL = 0.8
"""The share of the month's carbon that the named jobs make."""
MAX_ROWS = 40
_LISTED = re.compile(r"\(([^()]*)\)|, ([\w-]+)$")
"""Where a source names keys: in parentheses, or at its end."""


def register_section(document: MonthDoc) -> list[Block]:
    """Return the jobs that make most of the carbon; empty where the register is not at hand."""
    found = [row for row in document["jobs"] if row["counted"]]
    if not found:
        return []
    whole = document["totals"]["total_g"]
    named: list[RegisterRow] = []
    summed = 0.0
    for row in found:
        if len(named) == MAX_ROWS or (whole and summed >= MATERIAL * whole["value"]):
            break
        named.append(row)
        summed += row["total_g"]["value"] if row["total_g"] else 0.0
    columns = (
        Column("Job and score", weight=2.2),
        Column("Project", weight=1.0),
        Column("Started, UTC", weight=1.2),
        Column("Zone", weight=0.8),
        Column("Energy", "right", 1.0),
        Column("Carbon", "right", 1.0),
    )
    jobs, month = document["totals"]["jobs"], document["month"]
    note = (
        f"{len(named)} of {jobs} jobs, the largest. All are in the register: "
        f"/v1/reports/monthly/{month}/jobs, as JSON or CSV, with links to score, journal and "
        "revisions of each."
    )
    return [Heading("Register"), Table("Jobs by id", columns, tuple(map(_row, named)), note)]


def _row(row: RegisterRow) -> tuple[str | Pair, ...]:
    return (
        Pair(row["job_id"], f"score revision {row['score_revision']}"),
        row["project"],
        minute_text(row["started_at"]),
        Pair(row["zone"] or "not known", row["place"]),
        cell(row["energy_kwh"]),
        cell(row["total_g"]),
    )


def source_keys(sources: Iterable[str]) -> list[Block]:
    """Return what the keys in sources stand for, with links; empty where they name none."""
    names = [a or b for source in sources for a, b in _LISTED.findall(source)]
    met = {key for name in names for key in name.split(", ")}
    rows = tuple(
        (row.text("key"), row.text("title"), row.text("licence"), row.text("url"))
        for row in csv_rows("sources.csv")
        if row.text("key") in met
    )
    columns = (
        Column("Key", weight=0.9),
        Column("Title", weight=2.4),
        Column("Licence", weight=0.9),
        Column("Link", weight=2.0),
    )
    return [Table("What the keys stand for", columns, rows)] if rows else []

"""The factor table of a month: zone, place, contract, energy x PUE x factor = carbon."""

from __future__ import annotations

from gramwatt.reports.model import Block, Cell, Column, Heading, Pair, Table
from gramwatt.reports.sections.common import cell
from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.sci.analysis.trail import FactorRow
from gramwatt.sci.base.formatting import number, value_text

NOTE = (
    "Energy x PUE x factor = carbon in each row, and the rows sum to the month's electricity. A "
    "contract is a memo: it is in no figure of the row."
)
DIGITS = 4


def factor_section(document: MonthDoc) -> list[Block]:
    """Return the factors with their publishers; empty for a month without known electricity."""
    found = document["factors"]
    if not found:
        return []
    columns = (
        Column("Zone", weight=0.8),
        Column("Contract", "right", 0.8),
        Column("Energy", "right", 1.0),
        Column("PUE", "right", 0.5),
        Column("Factor, g/kWh", "right", 1.0),
        Column("Carbon", "right", 1.2),
        Column("Factor by", weight=2.0),
    )
    totals = document["totals"]
    ends: list[tuple[Cell, ...]] = [
        ("embodied", "", "", "", "", cell(totals["embodied_g"]), ""),
        ("total", "", cell(totals["energy_kwh"]), "", "", cell(totals["total_g"]), ""),
    ]
    rows = (*map(_row, found), *ends)
    return [Heading("Emission factors"), Table("Energy x PUE x factor", columns, rows, NOTE)]


def _row(row: FactorRow) -> tuple[Cell, ...]:
    contract = row["contract_g_per_kwh"]
    factor = row["factor_g_per_kwh"]
    span = f"{number(factor['low'], DIGITS)} to {number(factor['high'], DIGITS)}"
    return (
        Pair(row["zone"], row["place"]),
        "" if contract is None else value_text(contract),
        cell(row["energy_kwh"]),
        number(row["pue"]["value"], DIGITS),
        Pair(number(factor["value"], DIGITS), span),
        cell(row["operational_g"]),
        Pair(row["publisher"] or row["source"], _published(row)),
    )


def _published(row: FactorRow) -> str:
    """Return edition, licence and link of a factor, and the digests of imported files."""
    files = (
        f"{file['name']}, sha256 {file['sha256'][:12]}, imported {file['imported_at'][:10]} "
        f"by {file['imported_by']}"
        for file in row["files"]
    )
    edition = None if row["files"] else row["edition"]
    return "; ".join(filter(None, (edition, *files, row["licence"], row["link"])))

"""The factor table of a month: zone, energy x PUE x factor = carbon."""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.reports.model import Block, Cell, Column, Heading, Pair, Table, Text
from gramwatt.reports.sections.common import cell
from gramwatt.sci.analysis.documents import MarketRow, MonthDoc
from gramwatt.sci.analysis.trail import FactorRow
from gramwatt.sci.base.formatting import number, text, value_text

NOTE = "Energy x PUE x factor = carbon in each row, and the rows sum to the month's electricity."
DIGITS = 4


def factor_section(document: MonthDoc) -> list[Block]:
    """Return the factors with their publishers; empty for a month without known electricity."""
    found = document.factors
    if not found:
        return []
    columns = (
        Column("Zone", weight=0.8),
        Column("Energy", "right", 1.0),
        Column("PUE", "right", 0.5),
        Column("Factor, g/kWh", "right", 1.0),
        Column("Carbon", "right", 1.2),
        Column("Factor by", weight=2.0),
    )
    totals = document.totals
    ends: list[tuple[Cell, ...]] = [
        ("embodied", "", "", "", cell(totals.embodied_g), ""),
        ("total", cell(totals.energy_kwh), "", "", cell(totals.total_g), ""),
    ]
    rows = (*map(_row, found), *ends)
    table = Table("Energy x PUE x factor", columns, rows, NOTE)
    return [Heading("Emission factors"), table, *_memo(document.market_based)]


def _memo(rows: Sequence[MarketRow]) -> list[Block]:
    """Return the market-based memo in one line; empty where no factor is set."""
    if not rows:
        return []
    parts = "; ".join(
        f"{row.zone} {text(row.energy_kwh)} x "
        f"{value_text(row.factor_g_per_kwh)} "
        f"({row.factor_g_per_kwh['source']}) = {text(row.market_g)}"
        for row in rows
    )
    return [Text(f"Memo, in no score and no total: market-based, energy with PUE. {parts}.")]


def _row(row: FactorRow) -> tuple[Cell, ...]:
    factor = row.factor_g_per_kwh
    span = f"{number(factor['low'], DIGITS)} to {number(factor['high'], DIGITS)}"
    return (
        row.zone,
        cell(row.energy_kwh),
        number(row.pue["value"], DIGITS),
        Pair(number(factor["value"], DIGITS), span),
        cell(row.operational_g),
        Pair(row.publisher or row.source, _published(row)),
    )


def _published(row: FactorRow) -> str:
    """Return edition, licence and link of a factor, and the digests of imported files."""
    files = (
        f"{file.name}, sha256 {file.sha256[:12]}, imported {file.imported_at[:10]} "
        f"by {file.imported_by}"
        for file in row.files
    )
    edition = None if row.files else row.edition
    return "; ".join(filter(None, (edition, *files, row.licence, row.link)))

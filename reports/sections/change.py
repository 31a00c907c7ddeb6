"""The change against the previous month, or that the ranges show no reliable difference."""

from __future__ import annotations

from gramwatt.reports.model import Block, Cell, Column, Pair, Table, Text
from gramwatt.reports.sections.common import cell
from gramwatt.sci.base.document import MonthDoc
from gramwatt.sci.base.formatting import NARROW_SPACE, UNKNOWN, number, value_text
from gramwatt.sci.base.quantity import QuantityDoc

NO_DIFFERENCE = "no reliable difference"
MINUS = "\N{MINUS SIGN}"


def change_table(document: MonthDoc) -> Block:
    """A table of the terms of both months with their changes; a text without a previous month."""
    now, before = document["totals"], document["previous"]
    if before is None:
        return Text("There is no previous month to compare with.")
    figures = (
        ("Total carbon", now["total_g"], before["total_g"]),
        ("Operational carbon", now["operational_g"], before["operational_g"]),
        ("Embodied carbon", now["embodied_g"], before["embodied_g"]),
        ("Energy", now["energy_kwh"], before["energy_kwh"]),
    )
    rows: list[tuple[Cell, ...]] = [
        (name, cell(new), cell(old), change(new, old)) for name, new, old in figures
    ]
    more = now["jobs"] - before["jobs"]
    rows.append(("Jobs", str(now["jobs"]), str(before["jobs"]), _signed(more, f"{abs(more)}")))
    columns = (
        Column("What", weight=1.2),
        Column("This month", "right", 1.2),
        Column("Previous month", "right", 1.2),
        Column("Change", "right", 1.4),
    )
    note = "A change is stated only where the ranges of the two months do not overlap."
    return Table("Against the previous month", columns, tuple(rows), note)


def change(new: QuantityDoc | None, old: QuantityDoc | None) -> Pair:
    """The change in percent and as an amount; `NO_DIFFERENCE` if the ranges overlap."""
    if new is None or old is None:
        return Pair(UNKNOWN, "")
    by = _amount(new, old)
    if new["low"] <= old["high"] and old["low"] <= new["high"]:
        return Pair(NO_DIFFERENCE, "" if by is None else f"the middle values differ by {by}")
    if old["value"] == 0:
        return Pair(by or UNKNOWN, "from nothing")
    share = new["value"] / old["value"] - 1
    return Pair(_signed(share, f"{number(abs(share) * 100, 2)}{NARROW_SPACE}%"), by or "")


def against(new: QuantityDoc | None, old: QuantityDoc | None) -> str:
    """The change as a phrase."""
    found = change(new, old)
    if found.text == UNKNOWN:
        return "change against the previous month not known"
    return f"{found.text} against the previous month"


def _amount(new: QuantityDoc, old: QuantityDoc) -> str | None:
    """The difference with the digits that its range supports; None for equal values."""
    low, high = new["low"] - old["high"], new["high"] - old["low"]
    by = new["value"] - old["value"]
    if by == 0:
        return None
    if by < 0:
        low, high = -high, -low
    size: QuantityDoc = {**new, "value": abs(by), "low": low, "high": high}
    return _signed(by, value_text(size))


def _signed(amount: float, size: str) -> str:
    return size if amount == 0 else f"{'+' if amount > 0 else MINUS}{size}"

"""The change against the previous month, or that the ranges show no reliable difference."""

from __future__ import annotations

from typing import Literal

from gramwatt.reports.model import Block, Cell, Column, Pair, Table, Text
from gramwatt.reports.sections.common import cell
from gramwatt.sci.analysis.documents import MonthDoc, MonthTotals
from gramwatt.sci.base.formatting import NARROW_SPACE, UNKNOWN, number
from gramwatt.sci.base.quantity import QuantityDoc, is_change

Totalled = Literal["total_g", "operational_g", "embodied_g", "energy_kwh"]
MANY_TIMES = 10.0
"""From here on a change is printed as a multiple, not in percent."""
NO_DIFFERENCE = "no reliable difference"
MINUS = "\N{MINUS SIGN}"


def change_table(document: MonthDoc) -> Block:
    """Return a table of the terms of both months with their changes; a text without a previous
    month.
    """
    now, before = compared(document), document.previous
    if before is None or now is None:
        return Text(nothing_compared(document))
    names: dict[str, Totalled] = {
        "Total carbon": "total_g",
        "Operational carbon": "operational_g",
        "Embodied carbon": "embodied_g",
        "Energy": "energy_kwh",
    }
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            cell(getattr(now, term)),
            cell(getattr(before, term)),
            change(getattr(now, term), getattr(before, term), document.changes[term]),
        )
        for name, term in names.items()
    ]
    more = now.jobs - before.jobs
    rows.append(("Jobs", str(now.jobs), str(before.jobs), _signed(more, f"{abs(more)}")))
    columns = (
        Column("What", weight=1.2),
        Column(f"This month{first_days(document)}", "right", 1.2),
        Column(f"Previous month{first_days(document)}", "right", 1.2),
        Column("Change", "right", 1.4),
    )
    note = (
        "A change has a range of its own, in which meters, parts and annual intensities that both "
        "months share cancel; hours with one annual value count as if they had one intensity. It "
        "is stated only where that range leaves out no change."
    )
    return Table("Against the previous month", columns, tuple(rows), note)


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
    days = first_days(document)
    if compared(document) is None:
        return f"No job of this month is in what is compared{days}."
    return f"There is no previous month to compare with{days}."


def change(new: QuantityDoc | None, old: QuantityDoc | None, ratio: QuantityDoc | None) -> Pair:
    """Return the change in percent with its range; `NO_DIFFERENCE` if that holds no change."""
    if new is None or old is None:
        return Pair(UNKNOWN, "")
    if ratio is None:
        return Pair("from nothing", "") if new["value"] > 0 else Pair(NO_DIFFERENCE, "")
    # The words once, where both ends are many times as much.
    low = ratio["low"]
    span = f"{number(low, 2) if low >= MANY_TIMES else _percent(low)} to {_percent(ratio['high'])}"
    if not is_change(ratio["low"], ratio["high"]):
        return Pair(NO_DIFFERENCE, span if ratio["low"] < ratio["high"] else "")
    return Pair(_percent(ratio["value"]), span)


def against(
    new: QuantityDoc | None, old: QuantityDoc | None, ratio: QuantityDoc | None, days: str = ""
) -> str:
    """Return the change as a phrase; `days` are those of both months that are compared."""
    found = change(new, old, ratio)
    if new is None or old is None:
        return f"change against the previous month{days} not known"
    many = ratio is not None and ratio["value"] >= MANY_TIMES and found.text != NO_DIFFERENCE
    than = "as in" if many else "against"
    return f"{found.text} {than} the previous month{days}"


def _percent(ratio: float) -> str:
    if ratio >= MANY_TIMES:
        return f"{number(ratio, 2)} times as much"
    share = ratio - 1
    return _signed(share, f"{number(abs(share) * 100, 2)}{NARROW_SPACE}%")


def _signed(amount: float, size: str) -> str:
    return size if amount == 0 else f"{'+' if amount > 0 else MINUS}{size}"

"""Carbon by day of the month."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence

from gramwatt.reports.charts import columns, data_table, tip
from gramwatt.reports.model import Block, Cell, Chart, Heading, Text
from gramwatt.reports.sections.common import cell
from gramwatt.sci.base.document import DayDoc
from gramwatt.sci.base.formatting import prefix
from gramwatt.sci.base.quantity import is_estimate

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
PARTS = ("operational", "embodied")


def month_name(month: str) -> str:
    """`2026-05` -> `May 2026`."""
    year, number = month.split("-")
    return f"{MONTHS[int(number) - 1]} {year}"


def day_blocks(month: str, days: Sequence[DayDoc]) -> list[Block]:
    """Return a chart of operational and embodied carbon by day, with all days of the month on its
    axis.
    """
    heading = Heading("Day by day")
    if not days:
        return [heading, Text("No day has a figure.")]
    year, number = (int(part) for part in month.split("-"))
    names = [str(day) for day in range(1, monthrange(year, number)[1] + 1)]
    most = max(days, key=_grams)
    size, unit = prefix(_grams(most), "gCO2e")
    rows = [
        {
            "name": str(int(day.day[8:])),
            "part": part,
            "rank": PARTS.index(part),
            "value": figure["value"] / size,
            "tip": tip(f"{day.day}, {part}", figure),
            "estimated": is_estimate(figure),
        }
        for day in days
        for part, figure in zip(PARTS, (day.operational_g, day.embodied_g), strict=True)
        if figure is not None
    ]
    striped = "; striped: estimated" if any(row["estimated"] for row in rows) else ""
    caption = f"Carbon by day, operational and embodied{striped}"
    table = data_table(caption, ("Day", "Energy", "Operational", "Embodied"), _lines(days))
    spec = columns(
        rows, x_title=f"day of {month_name(month)}", y_title=unit, parts=PARTS, names=names
    )
    alt = (
        f"Stacked columns of operational and embodied carbon on {len(days)} days with jobs; most "
        f"on {most.day}."
    )
    return [heading, Chart(caption, alt, spec, table)]


def _lines(days: Sequence[DayDoc]) -> list[tuple[Cell, ...]]:
    return [
        (
            day.day,
            cell(day.energy_kwh),
            cell(day.operational_g),
            cell(day.embodied_g),
        )
        for day in days
    ]


def _grams(day: DayDoc) -> float:
    return sum(figure["value"] for figure in (day.operational_g, day.embodied_g) if figure)

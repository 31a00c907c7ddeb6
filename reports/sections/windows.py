"""Windows: the energy of each named part of a job, and per unit counted in it."""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.reports.model import Block, Cell, Column, Table
from gramwatt.reports.sections.common import cell
from gramwatt.sci.base.document import WindowDoc
from gramwatt.sci.base.formatting import UNKNOWN, count_text, duration
from gramwatt.sci.journal.records import parse_time

MAX_ROWS = 50
SHORT = "below resolution"


def window_blocks(windows: Sequence[WindowDoc], most: int | None = None) -> list[Block]:
    """Return a table of the first `most` windows in order of time; empty for a job without any."""
    if not windows:
        return []
    columns = (
        Column("Window", weight=2.0),
        Column("Duration", "right", 0.8),
        Column("Energy", "right", 1.2),
        Column("Count", "right", 1.2),
        Column("Energy per unit", "right", 1.4),
    )
    rows = tuple(_row(window) for window in windows[: most or MAX_ROWS])
    left = len(windows) - len(rows)
    note = f"The first {len(rows)} of {len(windows)}; the job's JSON has all." if left else ""
    return [Table("Energy of the job's windows", columns, rows, note)]


def _row(window: WindowDoc) -> tuple[Cell, ...]:
    duration_s = (parse_time(window.end) - parse_time(window.start)).total_seconds()
    counts = ", ".join(f"{count_text(n)} {unit}" for unit, n in window.counts.items())
    if window.energy_j is None:
        missing = SHORT if window.below_resolution else UNKNOWN
        return window.name, duration(duration_s), missing, counts, ""
    per_unit = next((figure for figure in window.energy_j_per_unit.values() if figure), None)
    return (
        window.name,
        duration(duration_s),
        cell(window.energy_kwh or window.energy_j),
        counts,
        cell(per_unit) if per_unit else "",
    )

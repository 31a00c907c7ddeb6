"""What a job would have emitted at other hours and in other zones: known only afterwards."""

from __future__ import annotations

from typing import cast

from gramwatt.reports.model import Block, Column, Heading, Table, Text
from gramwatt.reports.sections.common import cell
from gramwatt.sci.advice.documents import AdviceDoc, JobAdviceDoc, WaitedDoc
from gramwatt.sci.base.formatting import duration, minute_text, text

COLUMNS = (
    Column("The same run", weight=2.0),
    Column("Operational carbon", "right"),
    Column("Over the present", "right"),
)
NOTE = (
    "Hindsight, from the intensity that came: no plan could have known it. The project's zones are "
    "those in which its jobs have run."
)
UNKNOWN_HOURS = "The intensity of these hours is not known, so what waiting saved is not known."


def waited_blocks(advice: AdviceDoc | None) -> list[Block]:
    """Return what waiting and pauses saved; empty for a job that did neither."""
    found = cast("JobAdviceDoc", advice).get("hindsight") if advice else None
    return [Text(line) for line in waited_lines(found["waited"])] if found else []


def hindsight_blocks(advice: AdviceDoc | None) -> list[Block]:
    """Return the best hour and other zones; empty where nothing is known."""
    found = cast("JobAdviceDoc", advice).get("hindsight") if advice else None
    if not found:
        return []
    rows = []
    if (best := found["best"]) is not None:
        name = f"at the best start of the past 28 days, {minute_text(best['start'])} UTC"
        rows.append((name, cell(best["operational_g"]), cell(best["ratio"])))
    for row in found["zones"]:
        name = f"in {row['zone']}" + (", by its annual value" if row["quality"] == "annual" else "")
        rows.append((name, cell(row["operational_g"]), cell(row["ratio"])))
    table = Table("The same run at another time or place", COLUMNS, tuple(rows), NOTE)
    return [Heading("In hindsight"), table] if rows else []


def waited_lines(waited: WaitedDoc | None) -> list[str]:
    """Return what waiting and pauses saved against starting at once, in sentences."""
    if waited is None:
        return []
    spans = {"waited": waited["waited_s"], "was paused for": waited["paused_s"]}
    said = " and ".join(f"{verb} {duration(s)}" for verb, s in spans.items() if s)
    if waited["at_once_g"] is None or waited["saved_ratio"] is None:
        return [f"The job {said}. {UNKNOWN_HOURS}"] if said else []
    low, value, high = (round(100 * waited["saved_ratio"][end]) for end in ("low", "value", "high"))
    verb = "saved" if value >= 0 else "cost"
    if value < 0:
        low, value, high = -high, -value, -low
    lines = [
        f"The job {said or 'began at once'}. Against starting at once without a pause, that {verb} "
        f"{value} % ({low} to {high} %): {text(waited['actual_g'])} instead of "
        f"{text(waited['at_once_g'])} of operational carbon."
    ]
    if waited["best_start"] is not None:
        lines.append(
            f"The best start in hindsight was {minute_text(waited['best_start'])} UTC, with "
            f"{text(waited['best_g'])}."
        )
    return lines

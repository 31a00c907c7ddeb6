"""The report of a comparison: two sides of runs, what moved, and whether the change is reliable."""

from __future__ import annotations

from gramwatt.reports.charts import bar, tip, waterfall, waterfall_total
from gramwatt.reports.model import Block, Chart, Document, Figures, Text
from gramwatt.reports.sections import (
    Field,
    Section,
    contents,
    data_table,
    headline,
    reference,
    table,
)
from gramwatt.sci.figures.formatting import number, percent, prefix, text
from gramwatt.sci.figures.printable import isolated
from gramwatt.sci.figures.quantity import is_estimate
from gramwatt.sci.month.repeated import RunsComparisonDoc, RunsDoc

TERMS = {
    "energy": "Energy per unit",
    "intensity": "Grid intensity",
    "pue": "Site overhead (PUE)",
    "embodied": "Hardware per unit",
}
BEFORE, AFTER = "Before", "After"
HOW = (
    "Each side is the carbon of its runs over the work of its runs. The effects of the terms are "
    "split by the logarithmic mean Divisia index and add up to the change. Ranges hold eight times "
    "in ten; in that of the ratio, what both sides share cancels."
)


def build(document: RunsComparisonDoc, date: str) -> Document:
    """Return the report of a comparison, dated YYYY-MM-DD."""
    names = " and ".join(_name(side) for side in (document.before, document.after))
    return Document(
        f"Carbon per {isolated(document.unit)}: after against before",
        f"Runs compared: {names}.",
        date,
        tuple(contents(SECTIONS, document)),
        reference(document, f"comparison in {isolated(document.unit)}"),
        names=(document.unit,),
    )


def _summary(document: RunsComparisonDoc) -> list[Block]:
    figures = (
        headline(BEFORE, document.before.g_per_unit),
        headline(AFTER, document.after.g_per_unit),
        headline("After over before", document.ratio),
    )
    return [Text(document.text, strong=True), Figures(figures)]


def _name(side: RunsDoc) -> str:
    runs = side.runs
    return runs[0].job_id if len(runs) == 1 else f"{len(runs)} runs from {runs[0].job_id}"


def _moved(document: RunsComparisonDoc) -> list[Block]:
    """Return the effects as a waterfall from before to after; a table where a bar would fall below
    0.
    """
    before, after = document.before.g_per_unit, document.after.g_per_unit
    per = f"gCO2e/{document.unit}"
    size, unit = prefix(max(before.value, after.value), per)
    light = is_estimate(before) or is_estimate(after)
    rows = [waterfall_total(BEFORE, before.low, before.high, size, text(before))]
    bars = [bar(BEFORE, 0.0, before.value, size, tip(BEFORE, before), estimated=light)]
    at = at_least = before.value
    for term, effect in document.effects_g_per_unit.items():
        ends = sorted((at, at + effect))
        label = f"{'+' if effect > 0 else ''}{number(effect / size, 2)}"
        words = [TERMS[term], f"{label} {unit}"]
        bars.append(bar(TERMS[term], ends[0], ends[1], size, words, estimated=light))
        rows.append(waterfall_total(TERMS[term], ends[1], ends[1], size, label))
        at += effect
        at_least = min(at_least, at)
    bars.append(bar(AFTER, 0.0, after.value, size, tip(AFTER, after), estimated=light))
    rows.append(waterfall_total(AFTER, after.low, after.high, size, text(after)))
    striped = ", striped: estimated" if light else ""
    caption = f"From before to after, in {unit}; lines are ranges{striped}"
    steps = [(str(row["name"]), str(row["label"])) for row in rows]
    data = data_table(caption, ("Step", "Amount"), steps)
    if at_least < 0:  # more work and more energy than either side alone
        return [data, Text(HOW)]
    alt = "; ".join(f"{name} {label}" for name, label in steps)
    wide, narrow = waterfall(bars, rows), waterfall(bars, rows, narrow=True)
    return [Chart(caption, f"Waterfall: {alt}.", wide, data, narrow=narrow), Text(HOW)]


def _runs(document: RunsComparisonDoc) -> list[Block]:
    sides = ((BEFORE, document.before), (AFTER, document.after))
    notes = [
        f"{name}: single runs lie {percent(side.scatter)} apart."
        for name, side in sides
        if side.scatter is not None
    ]
    runs = table(
        "The runs of each side",
        [(name, run) for name, side in sides for run in side.runs],
        Field("Side", lambda row: row[0], 0.7),
        Field("Job", lambda row: f"{row[1].job_id}, revision {row[1].revision}", 2.4),
        Field("R", lambda row: row[1].count, align="right"),
        Field("Carbon per unit", lambda row: row[1].g_per_unit, 1.4, "right"),
        note=" ".join(notes),
    )
    return [runs]


SECTIONS: tuple[Section[RunsComparisonDoc], ...] = (
    Section("Summary", _summary),
    Section("What moved", _moved),
    Section("Runs", _runs),
)
"""Every section of a comparison, in order."""

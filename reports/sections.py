"""Sections that the job's and the month's report share: terms, quality, method and sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gramwatt.reports.charts import chart, data_table, shares
from gramwatt.reports.document import (
    Block,
    Column,
    Facts,
    Figure,
    Heading,
    NoticeBlock,
    Table,
    Text,
)
from gramwatt.sci.document import JobHead, MethodDoc, MonthTotals, QualityDoc
from gramwatt.sci.figures import UNKNOWN, percent, shown, span_text, text, value_text
from gramwatt.sci.notices import NoticeDoc
from gramwatt.sci.quantity import QuantityDoc

WARNING_CODES = {
    "zone-unknown",
    "energy-unmeasured",
    "embodied-unknown",
    "meter-synthetic",
    "job-lost",
    "meter-gap",
}
"""Notices that change how a report may be used; the others explain."""
STATUS = {
    "conforming": "conforming (self-declared)",
    "conforming-with-deviations": "conforming with deviations (self-declared)",
    "not-sci": "not an SCI score",
}
GRADES = {
    "A": "measured energy, hourly intensity, published embodied carbon",
    "B": "mostly measured energy and at least annual intensity of the zone",
    "C": "every term known, at least half of the energy read from a meter",
    "D": "mostly modelled, or a term not known",
}
_TERMS = (
    ("energy_kwh", "Energy (E)"),
    ("operational_g", "Operational carbon (O)"),
    ("embodied_g", "Embodied carbon (M)"),
    ("total_g", "Total (O + M)"),
)


def headline(label: str, figure: QuantityDoc | None, note: str = "") -> Figure:
    """A headline figure: value, range and kind, "not known" for None."""
    how = note or (figure["kind"] if figure else "")
    if figure is not None:
        # The label says per what, so that the figure need not.
        figure = {**figure, "unit": figure["unit"].partition("/")[0]}
    return Figure(label, value_text(figure), span_text(figure), how)


def terms(document: JobHead | MonthTotals) -> tuple[Figure, ...]:
    """The four terms as headline figures."""
    figures: Mapping[str, QuantityDoc | None] = {
        "energy_kwh": document["energy_kwh"],
        "operational_g": document["operational_g"],
        "embodied_g": document["embodied_g"],
        "total_g": document["total_g"],
    }
    return tuple(headline(label, figures[name]) for name, label in _TERMS)


def status(conformance: str) -> str:
    """The status as a phrase."""
    return STATUS.get(conformance, conformance)


def notice_blocks(notices: Iterable[NoticeDoc]) -> list[Block]:
    """Each notice as a block, warnings first."""
    ordered = sorted(notices, key=lambda notice: notice["code"] not in WARNING_CODES)
    return [
        NoticeBlock(
            "warning" if notice["code"] in WARNING_CODES else "info",
            notice["code"],
            notice["message"],
        )
        for notice in ordered
    ]


def quality_blocks(quality: QualityDoc) -> list[Block]:
    """The grade, and shares of energy, intensity and embodied carbon by how they are known."""
    named = {
        "Energy": quality["energy"],
        "Intensity": quality["intensity"],
        "Embodied carbon": {f"tier {tier}": s for tier, s in quality["embodied"].items()},
    }
    rows = [
        {"bar": name, "part": part, "share": share}
        for name, parts in named.items()
        for part, share in parts.items()
    ]
    grade = quality["grade"]
    blocks: list[Block] = [
        Heading("Data quality"),
        Text(f"Grade {grade}: {GRADES.get(grade, 'no description')}."),
    ]
    if not rows:
        return blocks
    listed = [[str(r["bar"]), str(r["part"]), percent(float(str(r["share"])))] for r in rows]
    caption = "How the energy, the intensity and the embodied carbon are known"
    table = data_table(caption, ("What", "Known as", "Share"), listed)
    said = "; ".join(f"{bar}: {part} {share}" for bar, part, share in listed)
    alt = f"Shares in percent. {said}."
    note = (
        "Tiers of embodied carbon: A first-party study, B independent study, C model with known "
        "inputs, D model with assumed inputs."
    )
    return [*blocks, chart(caption, alt, shares(rows, title="share"), table), Text(note)]


def method_blocks(method: MethodDoc) -> list[Block]:
    """Method and boundary: what a reader needs to repeat the score."""
    facts = (
        ("Standard", method["standard"]),
        ("Formula", method["formula"]),
        ("Intensity", f"{method['intensity_signal']}, {method['intensity_basis']}"),
        ("Approach", method["intensity_approach"]),
        ("Intensity used", f"{text(method['intensity_g_per_kwh'])}, weighted by energy"),
        ("PUE", f"{text(method['pue'])}: {method['pue']['source']}"),
        ("Hardware lifetime", text(method["lifetime_years"])),
        ("Engine", f"version {method['engine_version']}"),
        ("Catalog", method["catalog_version"]),
    )
    included = Text("Inside the boundary: " + "; ".join(method["boundary_included"]) + ".")
    excluded = Text("Outside the boundary: " + "; ".join(method["boundary_excluded"]) + ".")
    ranges = Text(
        "Every range is meant to hold the true value eight times in ten. Ranges combine by "
        "interval arithmetic, which is cautious: errors may all point the same way."
    )
    return [Heading("Method and boundary"), Facts(facts), included, excluded, ranges]


def source_table(rows: Iterable[tuple[str, QuantityDoc]]) -> Table:
    """Every input figure with its range, kind and source."""
    columns = (
        Column("Input", weight=1.6),
        Column("Value", "right", 1.0),
        Column("Range", "right", 1.1),
        Column("Kind", weight=0.8),
        Column("Source", weight=2.3),
    )
    lines = []
    for what, figure in rows:
        printed = shown(figure)
        value = f"{printed.value} {printed.unit}".strip()
        lines.append((what, value, printed.span or "exact", figure["kind"], figure["source"]))
    return Table("Inputs of the score", columns, tuple(lines))


def listing(items: Sequence[str], empty: str) -> list[Block]:
    """A list of sentences as paragraphs, or one that says there is none."""
    return [Text(f"– {item}") for item in items] or [Text(empty)]


def known_or(value: str | None, otherwise: str = UNKNOWN) -> str:
    """The text, or what stands for a missing one."""
    return value if value else otherwise

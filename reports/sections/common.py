"""What the job's and the month's report share: terms, data quality, method and sources."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence

from msgspec import to_builtins

from gramwatt import __version__
from gramwatt.reports.charts import data_table, ranked
from gramwatt.reports.model import (
    Block,
    Cell,
    Chart,
    Column,
    Facts,
    Figure,
    Heading,
    Listing,
    NoticeBlock,
    Pair,
    Table,
    Text,
)
from gramwatt.sci.analysis.documents import ExcludedDoc, PendingJobRow, SavingDoc, TermsDoc
from gramwatt.sci.analysis.month_rows import (
    GradeLimit,
    MonthMethodDoc,
)
from gramwatt.sci.base.csv_data import rows as csv_rows
from gramwatt.sci.base.document import (
    JobHead,
    MethodDoc,
    QualityDoc,
)
from gramwatt.sci.base.formatting import UNKNOWN, percent, shown, text, value_text
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import QuantityDoc, is_estimate

_LISTED = re.compile(r"\(([^()]*)\)|, ([\w-]+)$")
"""Where a source names keys: in parentheses, or at its end."""
WARNING_CODES = {
    "zone-unknown",
    "energy-unmeasured",
    "embodied-unknown",
    "meter-synthetic",
    "job-lost",
    "meter-gap",
    "records-outside",
    "times-contradict",
    "clock-set-back",
    "identity-conflict",
    "power-impossible",
}
"""Notices that limit how a report may be used; others are information."""
STATUS = {
    "conforming": "conforming",
    "conforming-with-deviations": "conforming with deviations",
    "not-sci": "not an SCI score",
}
DECLARED = "self-declared, computed to ISO/IEC 21031:2024 (SCI specification v1.1)"
GRADES = {
    "A": "measured energy, hourly intensity, published embodied carbon",
    "B": "mostly measured energy and at least annual intensity of the zone",
    "C": "every term known, at least half of the energy read from a meter",
    "D": "mostly modelled, or a term not known",
}
MODELLED = {"derived", "estimated", "forecast", "profile", "tier C", "tier D"}
"""Kinds of energy, of intensity and of embodied carbon that come from a model."""
UNREAD = "No energy of the job was read, so its energy is not known."
PARTLY_READ = (
    "The energy of some devices was not read, so that of the job is not known; shares of energy "
    "and intensity are of what was read."
)
TIERS = (
    "Tiers of embodied carbon: A first-party study, B independent study, C model with known "
    "inputs, D model with assumed inputs."
)
RANGES = (
    "Every range is meant to hold the true value eight times in ten. Ranges combine as JCGM 100 "
    "and 101 say: independent errors partly cancel, and an input that stands in several figures "
    "is one error. Figures are printed with the digits that their ranges support; JSON and CSV "
    "hold them in full."
)
SUPPLIES = {
    "grid": "from the grid",
    "off-grid": "own, not connected to a grid, with the factor declared for it",
}


def headline(
    label: str, figure: QuantityDoc | None, note: str = "", *, lead: bool = False
) -> Figure:
    """Return a headline figure: value, unit, range, and `note` or the kind; `UNKNOWN` for None."""
    if figure is None:
        return Figure(label, UNKNOWN, note=note, lead=lead)
    printed = shown(figure)
    unit = printed.unit.replace("/", " per ", 1)
    span = f"range {printed.span}" if printed.span else "exact"
    return Figure(
        label, printed.value, unit, span, note or figure["kind"], lead, is_estimate(figure)
    )


def terms(document: JobHead | TermsDoc) -> dict[str, Figure]:
    """Return the four terms as headline figures by the name of their field, the total as a main
    one.
    """
    return {
        "energy_kwh": headline("Energy (E)", document.energy_kwh),
        "operational_g": headline("Operational carbon (O)", document.operational_g),
        "embodied_g": headline("Embodied carbon (M)", document.embodied_g),
        "total_g": headline("Total carbon (O + M)", document.total_g, lead=True),
    }


def cell(figure: QuantityDoc | None) -> Cell:
    """Return a table cell: the value with its unit, marked if estimated, the range below it."""
    span = shown(figure).span if figure else ""
    return Pair(value_text(figure), span, is_estimate(figure))


def job_cell(row: JobHead | PendingJobRow | ExcludedDoc | SavingDoc) -> Pair:
    """Return a table cell: the job's name, its id below it."""
    name, job_id = row.name, row.job_id
    return Pair(name, job_id if name != job_id else "")


def status(conformance: str) -> str:
    """Return the conformance as a phrase."""
    return STATUS.get(conformance, conformance)


def declared(conformance: str) -> str:
    """Return the conformance with its declaration, or why the figures are not an SCI score."""
    if conformance == "not-sci":
        return f"{status(conformance)}: a requirement of the standard is not met"
    return f"{status(conformance)}; {DECLARED}"


def reference(document: object, what: str) -> str:
    """Return the line on every page: version, subject, and the start of the data's SHA-256
    digest.
    """
    data = json.dumps(to_builtins(document), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(data.encode("utf-8", "backslashreplace")).hexdigest()
    return f"gramwatt {__version__} · {what} · data {digest[:12]}"


def notice_blocks(notices: Iterable[Notice]) -> list[Block]:
    """Return a block for each notice, warnings first."""
    ordered = sorted(notices, key=lambda notice: notice.code not in WARNING_CODES)
    return [
        NoticeBlock(
            "warning" if notice.code in WARNING_CODES else "info",
            notice.code,
            notice.message,
        )
        for notice in ordered
    ]


def quality_blocks(
    quality: QualityDoc, *, whole: bool = True, limits: Sequence[GradeLimit] = ()
) -> list[Block]:
    """Return the grade, and shares of energy, intensity and embodied carbon by kind.

    `whole` is false if the energy of part of the job is unknown; shares are then of the rest.
    """
    named = {
        "Energy" if whole else "Energy that was read": quality.energy,
        "Intensity": quality.intensity,
        "Embodied carbon": {f"tier {tier}": s for tier, s in quality.embodied.items()},
    }
    rows = [
        (what, part, share)
        for what, parts in named.items()
        for part, share in sorted(parts.items(), key=lambda item: -item[1])
    ]
    grade = quality.grade
    blocks: list[Block] = [
        Heading("Data quality"),
        Text(f"Grade {grade}: {GRADES.get(grade, 'no description')}. A is best, D is worst."),
    ]
    blocks += [Text(_limit(limit)) for limit in limits]
    blocks += [] if whole else [Text(PARTLY_READ if quality.energy else UNREAD)]
    if not rows:
        return blocks
    caption = "How the energy, the intensity and the embodied carbon are known; striped: by a model"
    bars = [(f"{what}: {part}", share, percent(share)) for what, part, share in rows]
    light = [f"{what}: {part}" for what, part, _ in rows if part in MODELLED]
    table = data_table(
        caption,
        ("What", "Kind", "Share"),
        [(what, part, percent(share)) for what, part, share in rows],
    )
    return [*blocks, share_chart(caption, bars, table, light), Text(TIERS)]


def _limit(limit: GradeLimit) -> str:
    """Return what a better grade asks for, and which jobs cost it."""
    what = {"energy": "of the energy", "intensity": "of the energy with intensity"}
    block = what.get(limit.block, "of the embodied carbon of tiers")
    jobs = ", ".join(f"{row.name} ({row.project}) {percent(row.share)}" for row in limit.jobs)
    return (
        f"Grade {limit.grade} asks for {percent(limit.needed)} {block} "
        f"{', '.join(limit.kinds)}; it is {percent(limit.share)}. Most is lacking for {jobs}."
    )


def share_chart(
    caption: str,
    bars: Sequence[tuple[str, float, str]],
    data: Table,
    light: Collection[str] = (),
) -> Block:
    """Return a chart of shares; each bar is a name, a share (0 to 1) and its label.

    Those of the names in `light` are estimates, and drawn so.
    """
    rows = [
        {
            "name": name,
            "share": share,
            "label": label,
            "tip": [name, label, *(["estimated"] if name in light else [])],
            "estimated": name in light,
        }
        for name, share, label in bars
    ]
    shares = ", ".join(f"{name} {label}" for name, _, label in bars)
    return Chart(caption, f"Bars of shares: {shares}.", ranked(rows), data)


def method_blocks(method: MethodDoc | MonthMethodDoc) -> list[Block]:
    """Method and boundary: what a reader needs to reproduce the score."""
    intensity, pue = method.intensity_g_per_kwh, method.pue
    life = method.lifetime_years
    facts = (
        ("Standard", method.standard),
        ("Formula", method.formula),
        (
            "Grid intensity",
            f"{text(intensity)}, the mean weighted by energy" if intensity else UNKNOWN,
        ),
        ("Signal and basis", f"{method.intensity_signal}, {method.intensity_basis}"),
        ("Approach", method.intensity_approach),
        ("Supply", "; ".join(SUPPLIES[name] for name in method.supplies)),
        ("PUE", f"{text(pue)}: {pue['source']}" if pue else UNKNOWN),
        ("Hardware lifetime", text(life) if life else "several: each job's report has its own"),
        ("Engine", f"gramwatt {__version__}, method version {method.engine_version}"),
        ("Catalog", method.catalog_version),
    )
    return [
        Heading("Method and boundary"),
        Facts(facts),
        Heading("Inside the boundary", 2),
        Listing(tuple(method.boundary_included)),
        Heading("Outside the boundary", 2),
        Listing(tuple(method.boundary_excluded)),
        Heading("Ranges and digits", 2),
        Text(RANGES),
    ]


def source_table(rows: Iterable[tuple[str, QuantityDoc]]) -> Table:
    """Return a table of every input figure with its range, kind and source."""
    columns = (
        Column("Input", weight=1.7),
        Column("Value", "right", 1.3),
        Column("Kind", weight=0.9),
        Column("Source", weight=2.6),
    )
    lines = []
    for what, figure in rows:
        value = Pair(value_text(figure), shown(figure).span or "exact", is_estimate(figure))
        lines.append((what, value, figure["kind"], figure["source"]))
    return Table("Inputs of the score", columns, tuple(lines))


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

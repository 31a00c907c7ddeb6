"""A report as data: sections with their tables, and those that several reports share.

A `Section` has a title, a condition and what makes its blocks of the report's data. A table is
described by its `Field`s, each of which reads one value of a row: reports print the values as
cells, `tables.py` writes the same values as numbers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from msgspec import to_builtins

from gramwatt import __version__
from gramwatt.reports.model import (
    Align,
    Block,
    Cell,
    Column,
    Facts,
    Figure,
    Heading,
    Listing,
    NoticeBlock,
    Pair,
    Table,
    Text,
    anchor,
)
from gramwatt.sci.figures.csv_data import rows as csv_rows
from gramwatt.sci.figures.document import JobHead, MethodDoc, QualityDoc
from gramwatt.sci.figures.formatting import UNKNOWN, count_text, percent, shown, text, value_text
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.printable import isolated
from gramwatt.sci.figures.quantity import METERED, Quantity, is_estimate
from gramwatt.sci.month.documents import GradeLimit, MonthMethodDoc, TermsDoc

Data = TypeVar("Data")
Row = TypeVar("Row")
AnyRow = TypeVar("AnyRow", contravariant=True)

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
    "conforming": "SCI",
    "conforming-with-deviations": "SCI, with remarks",
    "not-sci": "not an SCI score",
}
DECLARED = "self-declared, computed to ISO/IEC 21031:2024 (SCI specification v1.1)"
GRADES = {
    "A": "measured energy, hourly intensity, published embodied carbon",
    "B": "mostly measured energy and at least annual intensity of the zone",
    "C": "every term known, at least half of the energy read from a meter",
    "D": "mostly modelled, or a term not known",
}
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
    "and 101 say: independent errors partly cancel; an input of several figures is one error. JSON "
    "and tables hold all digits."
)
SUPPLIES = {
    "grid": "from the grid",
    "off-grid": "own, not connected to a grid, with the factor declared for it",
}
_LISTED = re.compile(r"\(([^()]*)\)|, ([\w-]+)$")
"""Where a source has keys of sources.csv: in parentheses, or at its end after a comma.

A key is an identifier (`Source` of the catalog), matched whole; no other word is read.
"""


@dataclass(frozen=True, slots=True)
class Section(Generic[Data]):
    """A section of a report: its title, what makes its blocks of the data, and `when` it is there.

    One that is `short` is in the short form of the report too; `annex` is the title of the annex
    that it is in, below which it stands.
    """

    title: str
    blocks: Callable[[Data], Sequence[Block]]
    when: Callable[[Data], object] = lambda _: True
    short: bool = False
    annex: str = ""

    @property
    def anchor(self) -> str:
        """Return the fragment of its address on the page."""
        return anchor(self.title)


def contents(sections: Iterable[Section[Data]], data: Data) -> list[Block]:
    """Return the blocks of the sections that the data has something for, under their titles."""
    blocks: list[Block] = []
    annex = ""
    for section in sections:
        if not section.when(data):
            continue
        if section.annex not in ("", annex):
            annex = section.annex
            blocks.append(Heading(annex))
        headed = (Heading(section.title), *section.blocks(data))
        blocks += map(_deeper, headed) if section.annex else headed
    return blocks


def _deeper(block: Block) -> Block:
    if not isinstance(block, Heading):
        return block
    return Heading(block.text, 2 if block.level == 1 else 3)


class NamedJob(Protocol):
    """A row about a job."""

    job_id: str
    name: str


class Advised(Protocol):
    """A row with what an action would save [gCO2e]."""

    @property
    def saved_g(self) -> Quantity | None:
        """Return the saving, None where it is not known."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A count in a unit of work."""

    number: float
    unit: str


Value = Cell | Quantity | Amount | float | None
"""What a field reads: a text, a figure with its range, a count; None for what is not known."""


@dataclass(frozen=True, slots=True)
class Field(Generic[AnyRow]):
    """A column by what it reads of a row.

    In tables of numbers, a figure is in `unit` ("kWh", or "kg CO2e" of a figure in gCO2e), and the
    second line of a cell is a column of its own named `below`.
    """

    title: str
    value: Callable[[AnyRow], Value]
    weight: float = 1.0
    align: Align = "left"
    unit: str = ""
    below: str = ""


def table(
    caption: str,
    rows: Iterable[Row],
    *fields: Field[Row],
    note: str = "",
    last: Sequence[tuple[Cell, ...]] = (),
) -> Table:
    """Return a printed table of rows, with `last` ones that are printed already, such as a sum."""
    cells = tuple(tuple(printed(field.value(row)) for field in fields) for row in rows)
    columns = tuple(Column(field.title, field.align, field.weight) for field in fields)
    return Table(caption, columns, (*cells, *last), note)


def printed(value: Value) -> Cell:
    """Return a value as a cell: a figure with its unit, marked if estimated, its range below it."""
    match value:
        case None:
            return Pair(UNKNOWN, "")
        case str() | Pair():
            return value
        case Amount(number, unit):
            return Pair(count_text(number), unit)
        case int() | float():
            return count_text(value)
        case _:
            return Pair(value_text(value), shown(value).span, is_estimate(value))


def counted(row: JobHead | TermsDoc) -> Value:
    """Return the total carbon, or the half that is known with what it leaves out."""
    halves = ("electricity only", row.operational_g), ("making the hardware only", row.embodied_g)
    for name, half in () if row.total_g else halves:
        if half is not None:
            return Pair(value_text(half), f"{name}, {shown(half).span}", is_estimate(half))
    return row.total_g


def saving(row: Advised) -> Pair:
    """Return what an action saves; its range in words where that holds a loss."""
    return Pair(value_text(row.saved_g), saving_span(row.saved_g), is_estimate(row.saved_g))


def saving_span(figure: Quantity | None) -> str:
    """Return the range of a saving: "2.3 to 9.1"; "21 more to 140 less"."""
    if figure is None or figure.low >= 0:
        return shown(figure).span if figure else ""
    words = shown(figure)
    return f"{words.low.lstrip('-')} more to {words.high} less"


def first_of(shown: int, whole: int, of: str = "job") -> str:
    """Return the note of a table with the first `shown` of `whole` rows; "" where it has all."""
    return f"The first {shown} of {whole}; the {of}'s JSON has all." if shown < whole else ""


def data_table(caption: str, titles: Sequence[str], rows: Iterable[Sequence[Value]]) -> Table:
    """Return a table with a left first column and others to the right, as of a chart's data."""
    heads = tuple(Column(title, "right" if n else "left") for n, title in enumerate(titles))
    return Table(caption, heads, tuple(tuple(map(printed, row)) for row in rows))


def headline(label: str, figure: Quantity | None, note: str = "", *, lead: bool = False) -> Figure:
    """Return a headline figure: value, unit, range, and `note` or the kind; `UNKNOWN` for None."""
    if figure is None:
        return Figure(label, UNKNOWN, note=note, lead=lead)
    words = shown(figure)
    unit = words.unit.replace("/", " per ", 1)
    span = words.span or "exact"
    return Figure(label, words.value, unit, span, note or figure.kind, lead, is_estimate(figure))


def terms(document: JobHead | TermsDoc) -> dict[str, Figure]:
    """Return the four terms as headline figures by the name of their field, the total as a main
    one.
    """
    return {
        "energy_kwh": headline("Energy", document.energy_kwh),
        "operational_g": headline("Carbon of electricity", document.operational_g),
        "embodied_g": headline("Making the hardware", document.embodied_g),
        "total_g": headline("Total carbon", document.total_g, lead=True),
    }


def metered(quality: QualityDoc) -> float:
    """Return the share of the energy that a meter read."""
    return sum(quality.energy.get(kind, 0.0) for kind in METERED)


def capitalised(words: str) -> str:
    """Return words with a capital at their beginning."""
    return f"{words[:1].upper()}{words[1:]}"


def job_cell(row: NamedJob) -> Pair:
    """Return a table cell: the job's name, its id below it."""
    return Pair(row.name, row.job_id if row.name != row.job_id else "")


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


def scope(project: str | None) -> str:
    """Return of which projects a report is."""
    return f"Project {isolated(project)}" if project else "All projects"


def notice_blocks(notices: Iterable[Notice]) -> list[Block]:
    """Return a block for each notice, warnings first."""
    blocks = [
        NoticeBlock("warning" if row.code in WARNING_CODES else "info", row.code, row.message)
        for row in notices
    ]
    return [*sorted(blocks, key=lambda block: block.severity != "warning")]


def quality_blocks(
    quality: QualityDoc, *, whole: bool = True, limits: Sequence[GradeLimit] = ()
) -> list[Block]:
    """Return the grade, and shares of energy, intensity and embodied carbon by kind.

    `whole` is false if the energy of part of the job is unknown; shares are then of the rest.
    """
    grade = quality.grade
    blocks: list[Block] = [
        Text(f"Grade {grade}: {GRADES.get(grade, 'no description')}. A is best, D is worst."),
        *([Listing(tuple(map(_limit, limits)))] if limits else []),
    ]
    if not whole:
        blocks.append(Text(PARTLY_READ if quality.energy else UNREAD))
    named = {
        "Energy" if whole else "Energy that was read": quality.energy,
        "Intensity": quality.intensity,
        "Embodied carbon": {f"tier {tier}": share for tier, share in quality.embodied.items()},
    }
    rows = tuple(
        (
            what,
            ", ".join(
                f"{percent(shares[kind])} {kind}"
                for kind in sorted(shares, key=lambda of: -shares[of])
            ),
        )
        for what, shares in named.items()
        if shares
    )
    return [*blocks, Facts(rows), Text(TIERS)] if rows else blocks


def _limit(limit: GradeLimit) -> str:
    """Return what a better grade asks for, and which jobs cost it."""
    what = {"energy": "of the energy", "intensity": "of the energy with intensity"}
    block = what.get(limit.block, "of the embodied carbon of tiers")
    shares: dict[str, float] = {}
    for row in limit.jobs:  # those that lack most come first
        shares.setdefault(f"{isolated(row.name)} ({isolated(row.project)})", row.share)
    jobs = ", ".join(f"{name} {percent(share)}" for name, share in shares.items())
    return (
        f"Grade {limit.grade} asks for {percent(limit.needed)} {block} "
        f"{', '.join(limit.kinds)}; it is {percent(limit.share)}. Most is lacking for {jobs}."
    )


def method_blocks(method: MethodDoc | MonthMethodDoc) -> list[Block]:
    """Method and boundary: what a reader needs to reproduce the score."""
    intensity, pue, life = method.intensity_g_per_kwh, method.pue, method.lifetime_years
    mean = f"{text(intensity)}, the mean weighted by energy" if intensity else UNKNOWN
    facts = (
        ("Standard", method.standard),
        ("Formula", method.formula),
        ("Grid intensity", mean),
        ("Signal and basis", f"{method.intensity_signal}, {method.intensity_basis}"),
        ("Approach", method.intensity_approach),
        ("Supply", "; ".join(SUPPLIES[name] for name in method.supplies)),
        ("PUE", f"{text(pue)}: {pue.source}" if pue else UNKNOWN),
        ("Hardware lifetime", text(life) if life else "several: each job's report has its own"),
        ("Engine", f"gramwatt {__version__}, method version {method.engine_version}"),
        ("Catalog", method.catalog_version),
    )
    return [
        Facts(facts),
        Heading("Inside the boundary", 2),
        Listing(tuple(method.boundary_included)),
        Heading("Outside the boundary", 2),
        Listing(tuple(method.boundary_excluded)),
        Heading("Ranges and digits", 2),
        Text(RANGES),
    ]


def source_blocks(sources: Sequence[str]) -> list[Block]:
    """Return the sources of figures, and what the keys in them stand for, with links.

    Sources that begin with the same words, up to a comma, are one item.
    """
    items: dict[str, list[str]] = {}
    for source in sources:
        first, _, rest = source.partition(", ")
        items.setdefault(first, []).append(rest)
    figures = Listing(tuple(capitalised(_joined(*item)) for item in items.items()))
    rows = keys_of(sources)
    if not rows:
        return [figures] if sources else []
    titles = ("Key", 1.1), ("Title", 2.4), ("Licence", 1.0), ("Link", 2.4)
    columns = tuple(Column(title, weight=weight) for title, weight in titles)
    return [figures, Table("What the keys stand for", columns, tuple(rows))]


def _joined(first: str, rest: Sequence[str]) -> str:
    if len(rest) == 1:
        return ", ".join(filter(None, (first, *rest)))
    return f"{first}: {'; '.join(filter(None, rest))}"


def keys_of(sources: Iterable[str]) -> list[tuple[str, str, str, str]]:
    """Return key, title, licence and link of what sources name by a key."""
    from gramwatt.sci.catalog.files import SourceRow  # a terminal, which lists no keys, needs none

    names = [a or b for source in sources for a, b in _LISTED.findall(source)]
    keys = {key for name in names for key in name.split(", ")}
    return [
        (row.name, row.title, row.licence, row.url or "")
        for row in csv_rows(SourceRow)
        if row.name in keys
    ]

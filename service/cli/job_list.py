"""The list of jobs on a terminal: one line per job, fitted to the terminal's width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from gramwatt.sci.figures.document import JobHead
from gramwatt.sci.figures.formatting import minute_text, plain, value_text
from gramwatt.sci.figures.printable import clean
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.records.records import parse_time

NO_JOB = "No job yet. Run one under the meter: gramwatt run -- python train.py"
GAP = "  "
LEFT_OUT_FIRST = {"Started": 18, "SCI": 18, "Time": 18, "Energy": 8, "State": 8}
"""Columns in the order in which they are left out of a narrow terminal, as long as names and tags
have less room than that and than they need."""
UNIT_MOST = 16
UNKNOWN, LEFT_OUT = "-", "left out"
NOT_SCI = "not-sci"
MARK = "*"
"""Behind a figure that is not an SCI score."""
LENGTHS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
"""Seconds of a unit and its name, for a length of time in one unit."""


class Column(NamedTuple):
    """A column: its title, a cell of each job, and whether it stands at the right."""

    title: str
    cells: tuple[str, ...]
    right: bool = False

    @property
    def width(self) -> int:
        """Columns of the terminal that its widest cell takes."""
        return max(map(cell_len, (self.title, *self.cells)))


def job_rows(heads: Sequence[JobHead], short: Mapping[str, str], width: int) -> list[str]:
    """Return a title and a line for each job, `width` columns at most, then what is to be done.

    `short` gives each id as it is shown. Where a terminal is narrow, less important columns are
    left out, and names are cut.
    """
    columns = _columns(heads, short)
    names = columns[1].width
    for title, least in LEFT_OUT_FIRST.items():
        if _rest(columns, width) >= min(least, names):
            break
        columns = [column for column in columns if column.title != title]
    return [*_lines(columns, max(1, _rest(columns, width))), *_remedies(heads, short)]


def _columns(heads: Sequence[JobHead], short: Mapping[str, str]) -> list[Column]:
    return [
        Column("Job", tuple(short[head.job_id] for head in heads)),
        Column("Name", tuple(_name(head) for head in heads)),
        Column("State", tuple(head.state for head in heads)),
        Column("Started", tuple(minute_text(head.started_at)[5:] for head in heads)),
        Column("Time", tuple(_length(_lasts_s(head)) for head in heads), right=True),
        Column("Energy", tuple(_figure(head.energy_kwh) for head in heads), right=True),
        Column("CO2e", _aligned([_total(head) for head in heads]), right=True),
        Column("SCI", _aligned([_score(head) for head in heads]), right=True),
    ]


def _aligned(scores: Sequence[str]) -> tuple[str, ...]:
    """Return the scores with a space where others have a mark."""
    if not any(score.endswith(MARK) for score in scores):
        return tuple(scores)
    return tuple(score if score.endswith(MARK) else f"{score} " for score in scores)


def _rest(columns: Sequence[Column], width: int) -> int:
    """Return what other columns leave for names."""
    others = [column.width + len(GAP) for column in columns if column.title != "Name"]
    return width - sum(others)


def _lines(columns: Sequence[Column], rest: int) -> list[str]:
    widths = [
        min(rest, column.width) if column.title == "Name" else column.width for column in columns
    ]
    rows = zip(*((column.title, *column.cells) for column in columns), strict=True)
    sides = [column.right for column in columns]
    return [
        GAP.join(
            _fitted(cell, size, right=right)
            for cell, size, right in zip(row, widths, sides, strict=True)
        ).rstrip()
        for row in rows
    ]


def _fitted(text: str, width: int, *, right: bool) -> str:
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…"
    space = " " * (width - size)
    return space + text if right else text + space


def _name(head: JobHead) -> str:
    """Return the name and the tags."""
    tags = [f"{key}={value}" for key, value in sorted(head.tags.items())]
    return " ".join(clean(" ".join([head.name, *tags])).split())


def _lasts_s(head: JobHead) -> float | None:
    """Return how long a job took, of a running one until now [s]."""
    if head.state != "running":
        return head.duration_s
    return max(0.0, (datetime.now(UTC) - parse_time(head.started_at)).total_seconds())


def _length(seconds: float | None) -> str:
    """Return a length of time [s] in one unit: 45 s, 3 min, 1.2 h."""
    if seconds is None:
        return UNKNOWN
    size, name = next(((size, name) for size, name in LENGTHS if seconds >= 2 * size), (1.0, "s"))
    amount = seconds / size
    return f"{amount:.0f} {name}" if amount >= 10 else f"{amount:.2g} {name}"


def _figure(figure: Quantity | None) -> str:
    return UNKNOWN if figure is None else plain(value_text(figure)).replace(" CO2e", "")


def _total(head: JobHead) -> str:
    mark = MARK if head.total_g is not None and head.conformance == NOT_SCI else ""
    return _figure(head.total_g) + mark


def _score(head: JobHead) -> str:
    """Return the score in the first unit, marked where it is not an SCI; or that months leave it
    out.
    """
    if head.excluded is not None:
        return LEFT_OUT
    if not head.sci:
        return UNKNOWN
    first, *others = head.sci
    unit = first.unit
    name = unit if len(unit) <= UNIT_MOST else f"{unit[: UNIT_MOST - 1]}…"
    figure = _figure(first.g_per_unit).removesuffix(f"/{unit}")
    mark = MARK if head.conformance == NOT_SCI else ""
    more = f" +{len(others)}" if others else ""
    return f"{figure}/{name}{more}{mark}"


def _remedies(heads: Sequence[JobHead], short: Mapping[str, str]) -> list[str]:
    """Return what the mark means, and what can be done about it."""
    marked = [head for head in heads if f"{_total(head)}{_score(head)}".endswith(MARK)]
    placeless = [head for head in marked if head.zone is None]
    others = [head for head in marked if head.zone is not None]
    lines = []
    if placeless:
        where = short[placeless[0].job_id]
        lines = [
            f"{MARK} by the world average, as its grid zone is not known, so no SCI. Say where:",
            f"  gramwatt job {where} --set zone=DE",
        ]
    if others:
        where = short[others[0].job_id]
        lines.append(f"{MARK} no SCI: `gramwatt job {where}` says why.")
    return ["", *lines] if lines else []

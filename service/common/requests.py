"""What lists, months, comparisons and budgets are asked: a struct each.

API, pages and commands read the same structs, so a parameter and an option of one name have the
same bounds, and the same sentence refuses a wrong value.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple, TypeVar, get_args

from msgspec import Meta, Struct, field

from gramwatt.sci.figures.errors import RecordError
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.sci.records.records import ID_PATTERN, UNIT_PATTERN, JobKind, parse_time
from gramwatt.service.common.errors import CursorError

DELIMITERS = ",;\t"


class TableError(ValueError):
    """A file that is not a table; the text says what it is instead."""


class Table(NamedTuple):
    """The lines of a file, the sign between its columns, and the file as bytes."""

    lines: Iterable[str]
    delimiter: str
    raw: BinaryIO


@contextmanager
def open_table(path: Path, errors: str = "strict") -> Iterator[Table]:
    """Open a table, for the reader that its rows need; raises TableError, or OSError."""
    with path.open("rb") as raw:
        start = raw.read(2)
        raw.seek(0)
        encoding = "utf-16" if start in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
        with TextIOWrapper(raw, encoding, errors=errors, newline="") as text:
            first = text.readline()
            if not first:
                raise TableError("the file is empty")
            if first.startswith("sep="):
                raise TableError(f"the first line is {first.strip()!r}, for Excel alone; delete it")
            yield Table(chain([first], text), max(DELIMITERS, key=first.count), raw)


Row = TypeVar("Row")
Position = int | float | str | None
MAYBE_INT, MAYBE_FLOAT = (int, NoneType), (float, NoneType)
"""Kinds of a position in a column that may be unknown."""
_LARGEST = 2**63 - 1
"""The largest number that a column of either database holds."""


def encode_cursor(*position: Position) -> str:
    """Return the position after which the next page starts, as an opaque text."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decode_cursor(text: str, *kinds: type | tuple[type, ...]) -> tuple[Any, ...]:
    """Return the position in a cursor; raises CursorError when it is not one of this list's."""
    try:
        padded = text + "=" * (-len(text) % 4)
        position = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        position = None
    if (
        not isinstance(position, list)
        or len(position) != len(kinds)
        or not all(_is_of(part, kind) for part, kind in zip(position, kinds, strict=True))
    ):
        raise CursorError("not a cursor of this list; leave it out to start")
    return tuple(position)


def cut(
    rows: Sequence[Row], limit: int, position: Callable[[Row], tuple[Position, ...]]
) -> tuple[Sequence[Row], str | None]:
    """Return the first `limit` of rows queried with one more, and the cursor of what follows."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], encode_cursor(*position(rows[limit - 1]))


def _is_of(part: object, kind: type | tuple[type, ...]) -> bool:
    """Return whether a part of a position has exactly the type, and a column can hold it."""
    if type(part) not in (kind if isinstance(kind, tuple) else (kind,)):
        return False
    if isinstance(part, float):
        return math.isfinite(part)
    return not isinstance(part, int) or abs(part) <= _LARGEST


JobState = Literal["running", "completed", "failed", "killed", "lost"]
JOB_STATES: tuple[str, ...] = get_args(JobState)
Sort = Literal[
    "started_at",
    "-started_at",
    "ended_at",
    "-ended_at",
    "duration",
    "-duration",
    "energy",
    "-energy",
    "total",
    "-total",
]
NEWEST_FIRST: Sort = "-started_at"
MONTH = r"(19|20|21)\d\d-(0[1-9]|1[0-2])"
YEAR = r"(19|20|21)\d\d"
CLOCK = r"T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+\-][0-9]{2}:[0-9]{2})"
MOMENT = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}({CLOCK})?"
"""A time as RFC 3339, or a date."""
THRESHOLDS = (50.0, 80.0, 100.0)
"""Percent of a budget at which it alerts, where nothing else was set."""
PER_PAGE = 50


def exactly(pattern: str) -> str:
    """Return the pattern of a whole text; of Python's `$` alone a line may end the text too."""
    return rf"^{pattern}$(?!\n)"


def parse_moment(text: str) -> datetime:
    """Return the time in an RFC 3339 text, of a date its first moment in UTC; raises
    RecordError.
    """
    if not re.fullmatch(MOMENT, text):
        examples = "2026-05-01 or 2026-05-01T08:00:00Z"
        raise RecordError(f"{text[:40]!r} is not a time with its zone; write {examples}")
    return parse_time(text if "T" in text else f"{text}T00:00Z")


Text = Annotated[
    str,
    Meta(
        title="a text of 1 to 512 characters", min_length=1, max_length=512, pattern=r"^[^\x00]+$"
    ),
]
AnyText = Annotated[
    str, Meta(title="a text of at most 512 characters", max_length=512, pattern=r"^[^\x00]*$")
]
Identifier = Annotated[str, Meta(pattern=exactly(ID_PATTERN.pattern))]
"""The id of a job, a node or a writer."""
Moment = Annotated[
    datetime,
    Meta(
        title="a time like 2026-05-01T08:00:00Z, or a date for its first moment, UTC",
        tz=True,
        extra={"read": parse_moment},
        extra_json_schema={
            "pattern": f"^{MOMENT}$",
            "examples": ["2026-05-01", "2026-05-01T08:00:00Z"],
        },
    ),
]
"""A time in an address: RFC 3339, or a date for its first moment, UTC."""
Month = Annotated[
    str,
    Meta(
        title="a month; write YYYY-MM, such as 2026-05",
        pattern=exactly(MONTH),
        description="YYYY-MM.",
    ),
]
Year = Annotated[
    str, Meta(title="a year; write YYYY, such as 2026", pattern=exactly(YEAR), description="YYYY.")
]
Limit = Annotated[int, Meta(ge=1, le=500, description="How many entries, at most.")]
Cursor = Annotated[
    str, Meta(min_length=1, max_length=1024, description="`next_cursor` of the page before.")
]
TagFilter = Annotated[
    str,
    Meta(
        title="a tag; write key=value, such as team=vision",
        max_length=1024,
        pattern=r"^[^:=\x00]+[:=][^\x00]*$",
    ),
]
Percent = Annotated[float, Meta(title="a percentage above 0 and at most 1000", gt=0, le=1000)]


class ProjectQuery(Struct, frozen=True, kw_only=True):
    """One project, or all of them."""

    project: Annotated[Text | None, Meta(description="One project only.")] = None


class Page(Struct, frozen=True, kw_only=True):
    """Which part of a list is wanted."""

    limit: Limit = PER_PAGE
    cursor: Cursor | None = None


class ProjectPage(ProjectQuery, frozen=True, kw_only=True):
    """Which part of a list of one project, or of all, is wanted."""

    limit: Limit = PER_PAGE
    cursor: Cursor | None = None


class JobList(ProjectPage, frozen=True, kw_only=True):
    """Filters, order and page of the list of jobs."""

    kind: Annotated[JobKind | None, Meta(description="Only jobs of this kind.")] = None
    state: Annotated[JobState | None, Meta(description="Only jobs in this state.")] = None
    since: Annotated[Moment | None, Meta(description="Only jobs that started then or later.")] = (
        None
    )
    until: Annotated[Moment | None, Meta(description="Only jobs that started before.")] = None
    tag: Annotated[
        list[TagFilter],
        Meta(
            max_length=16,
            description="Only jobs with this tag, `key=value` or `key:value`; of several, "
            "with all of them.",
        ),
    ] = field(default_factory=list)
    hardware: Annotated[
        Text | None, Meta(description="Only jobs with a device of this catalog id.")
    ] = None
    zone: Annotated[Text | None, Meta(description="Only jobs with a node in this grid zone.")] = (
        None
    )
    user: Annotated[
        Text | None, Meta(description="Only jobs with this text as their tag `user`.")
    ] = None
    name: Annotated[Text | None, Meta(description="Only jobs of exactly this name.")] = None
    model_id: Annotated[
        Text | None,
        Meta(description="Only runs of this model; the first page then has their sums too."),
    ] = None
    q: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200, pattern="^[^\\x00]+$")] | None,
        Meta(
            description="Only jobs with this text, whatever its case, as part of their name, model "
            "or a tag `key:value` (such as `user:`), or at the start of their id."
        ),
    ] = None
    sort: Annotated[
        Sort,
        Meta(
            description="The order; with `-` the largest first. Jobs whose figure is not known "
            "come last in both directions."
        ),
    ] = NEWEST_FIRST

    @property
    def is_filtered(self) -> bool:
        """Return whether anything is left out of the list."""
        names = set(JobList.__struct_fields__) - {"limit", "cursor", "sort"}
        return any(getattr(self, name) for name in names)


class UnitQuery(Struct, frozen=True, kw_only=True):
    """The functional unit in which jobs are compared."""

    unit: Annotated[
        Annotated[
            str, Meta(title="a unit of work such as image", pattern=exactly(UNIT_PATTERN.pattern))
        ]
        | None,
        Meta(description="The functional unit; the first of the first run by default."),
    ] = None


class MonthQuery(ProjectQuery, frozen=True, kw_only=True):
    """Which report of a month is wanted."""

    revision: Annotated[
        Annotated[int, Meta(ge=1, le=1000000)] | None,
        Meta(description="A kept revision; without it, the month as it is."),
    ] = None


class BudgetsQuery(ProjectPage, frozen=True, kw_only=True):
    """Which budgets, and the month in which they are shown (the present one by default)."""

    month: Month | None = None


class NewBudget(Struct, frozen=True, kw_only=True):
    """A budget in kgCO2e: of one month, or without `month` of every month without its own.

    Each threshold is a percent of it, and reached once a month; that is told to `webhook` and
    `email`. With `projects`, or with the `cost_centre` that jobs have as a tag, `project` is only
    the name of the budget.
    """

    project: Text
    projects: Annotated[list[Text], Meta(min_length=1, max_length=100)] | None = None
    cost_centre: Text | None = None
    limit_kg: Annotated[float, Meta(title="a number above 0 and at most 1e12", gt=0, le=1e12)]
    month: Month | None = None
    thresholds: Annotated[list[Percent], Meta(min_length=1, max_length=20)] = field(
        default_factory=lambda: list(THRESHOLDS)
    )
    webhook: Annotated[str, Meta(min_length=1, max_length=2048, pattern="^[^\\x00]+$")] | None = (
        None
    )
    email: Annotated[str, Meta(min_length=3, max_length=254, pattern="^[^\\x00]+$")] | None = None


class SpanQuery(Struct, frozen=True, kw_only=True):
    """The wanted span, at most 31 days, the last day by default; and which intensity."""

    start: Annotated[
        Annotated[str, Meta(max_length=64)] | None, Meta(description="2026-05-01T00:00Z")
    ] = field(name="from", default=None)
    end: Annotated[
        Annotated[str, Meta(max_length=64)] | None, Meta(description="2026-05-02T00:00Z")
    ] = field(name="to", default=None)
    signal: Annotated[Signal, Meta(description="average is what scores use")] = "average"
    basis: Annotated[Basis, Meta(description="lifecycle is what scores use")] = "lifecycle"

"""What the route modules share: the caller and service of the request, models of its inputs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from flask import g
from msgspec import Meta, Struct

from gramwatt.sci.journal.records import ID_PATTERN
from gramwatt.service.api.access import whole_service
from gramwatt.service.api.problems import CODES, Problem
from gramwatt.service.container import Caller, Service
from gramwatt.service.jobs.lists.filters import MOMENT, parse_moment
from gramwatt.service.months.report import MONTH


def exactly(pattern: str) -> str:
    """Return the pattern of a whole text; of Python's `$` alone a line may end the text too."""
    return rf"^{pattern}$(?!\n)"


ABSENT = "unknown-job", "deleted-job"
"""Problems of a job that is not there."""
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


_EXAMPLES = ("2026-05-01", "2026-05-01T08:00:00Z")
Moment = Annotated[
    datetime,
    Meta(
        title="a time like 2026-05-01T08:00:00Z, or a date for its first moment, UTC",
        tz=True,
        extra={"read": parse_moment},
        extra_json_schema={"pattern": f"^{MOMENT}$", "examples": [*_EXAMPLES]},
    ),
]
"""A time in an address: RFC 3339, or a date for its first moment, UTC."""
PER_PAGE = 50
Limit = Annotated[int, Meta(ge=1, le=500, description="How many entries, at most.")]
Cursor = Annotated[
    str, Meta(min_length=1, max_length=1024, description="`next_cursor` of the page before.")
]


class JobPath(Struct, frozen=True, kw_only=True):
    """The job in an address."""

    job_id: Annotated[str, Meta(pattern=exactly(ID_PATTERN.pattern), description="The job's id.")]


class RevisionQuery(Struct, frozen=True, kw_only=True):
    """Which revision of the score; the newest by default."""

    revision: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None,
        Meta(description="An older score revision."),
    ] = None


class MonthPath(Struct, frozen=True, kw_only=True):
    """The month in an address."""

    month: Annotated[str, Meta(pattern=exactly(MONTH), description="YYYY-MM.")]


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


def caller() -> Caller:
    """Return who sent this request, what they may do, and the projects they see.

    Raises Problem on a route that needs no key, where nobody is known.
    """
    found: Caller | None = g.get("caller")
    if found is None:
        raise Problem("unauthorised", CODES["unauthorised"][1])
    return found


def service() -> Service:
    """Return the service as the caller of this request sees it: other projects do not exist."""
    return whole_service().for_caller(caller())

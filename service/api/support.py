"""What the route modules share: the caller and service of the request, models of its inputs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from flask import g
from pydantic import Field, PlainValidator, WithJsonSchema

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.journal.records import ID_PATTERN
from gramwatt.service.api.access import whole_service
from gramwatt.service.api.problems import CODES, Problem
from gramwatt.service.api.routing import Strict
from gramwatt.service.container import Caller, Service
from gramwatt.service.jobs.lists.filters import MOMENT, parse_moment
from gramwatt.service.months.report import MONTH

ABSENT = "unknown-job", "deleted-job", "ambiguous"
"""Problems of a job that is not there, or not the only one."""
Text = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00]+$")]
AnyText = Annotated[str, Field(max_length=512, pattern=r"^[^\x00]*$")]
Identifier = Annotated[str, Field(pattern=f"^{ID_PATTERN.pattern}$")]
"""The id of a job, a node or a writer."""


def _moment(text: object) -> datetime:
    try:
        return parse_moment(text if isinstance(text, str) else "")
    except RecordError as error:
        raise ValueError(error.message) from None


_EXAMPLES = ("2026-05-01", "2026-05-01T08:00:00Z")
Moment = Annotated[
    datetime,
    PlainValidator(_moment),
    WithJsonSchema({"type": "string", "pattern": f"^{MOMENT}$", "examples": [*_EXAMPLES]}),
]
"""A time in an address: RFC 3339, or a date for its first moment, UTC."""


class JobPath(Strict):
    """The job in an address."""

    job_id: str = Field(pattern=f"^{ID_PATTERN.pattern}$", description="The job's id.")


class JobQuery(Strict):
    """Which job of an id is meant."""

    project: Text | None = Field(
        None, description="The job's project; needed where several have a job of this id."
    )


class RevisionQuery(JobQuery):
    """Which revision of the score; the newest by default."""

    revision: int | None = Field(None, ge=1, le=2**31 - 1, description="An older score revision.")


class MonthPath(Strict):
    """The month in an address."""

    month: str = Field(pattern=f"^{MONTH}$", description="YYYY-MM.")


class ProjectQuery(Strict):
    """One project, or all of them."""

    project: Text | None = Field(None, description="One project only.")


class Page(Strict):
    """Which part of a list is wanted."""

    limit: int = Field(50, ge=1, le=500, description="How many entries, at most.")
    cursor: str | None = Field(
        None, min_length=1, max_length=1024, description="`next_cursor` of the page before."
    )


class JobPage(Page, JobQuery):
    """Which part of a list of one job is wanted."""


def caller() -> Caller:
    """Return who sent this request, what they may do, and the projects they see.

    Raises Problem on a route that needs no key, where nobody is known.
    """
    found: Caller | None = g.get("caller")
    if found is None:
        raise Problem("unauthorised", CODES["unauthorised"][1])
    return found


def service(project: str | None = None) -> Service:
    """Return the service as the caller of this request sees it: other projects do not exist.

    With a project, only that one does.
    """
    return whole_service().for_caller(caller()).of_project(project)

"""What the route modules share: the caller and service of the request, models of its inputs."""

from __future__ import annotations

from typing import Annotated

from flask import g
from msgspec import Meta, Struct

from gramwatt.sci.records.records import ID_PATTERN
from gramwatt.service.api.access import whole_service
from gramwatt.service.api.problems import CODES, Problem
from gramwatt.service.common.requests import Month, exactly
from gramwatt.service.container import Caller, Service

ABSENT = "unknown-job", "deleted-job"
"""Problems of a job that is not there."""


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

    month: Month


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

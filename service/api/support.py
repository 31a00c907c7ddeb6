"""What the route modules share: the service of the request, path models, formats by Accept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from flask import current_app, request
from pydantic import Field

from gramwatt.sci.journal.records import ID_PATTERN
from gramwatt.service.api.problems import Problem
from gramwatt.service.api.routing import Strict
from gramwatt.service.container import Service
from gramwatt.service.usecases.month import NoDataError
from gramwatt.service.usecases.read import StillRunsError, UnknownJobError, UnknownRevisionError
from gramwatt.service.usecases.rendering import MEDIA

EXTENSION = "gramwatt"


class JobPath(Strict):
    """The job in an address."""

    job_id: str = Field(pattern=f"^{ID_PATTERN.pattern}$", description="The job's id.")


class RevisionQuery(Strict):
    """Which revision of the score; the newest by default."""

    revision: int | None = Field(None, ge=1, le=2**31 - 1, description="An older score revision.")


class MonthPath(Strict):
    """The month in an address."""

    month: str = Field(pattern=r"^(19|20|21)\d\d-(0[1-9]|1[0-2])$", description="YYYY-MM, UTC.")


class ProjectQuery(Strict):
    """One project, or all of them."""

    project: str | None = Field(
        None, min_length=1, max_length=512, pattern=r"^[^\x00]+$", description="One project only."
    )


JobState = Literal["running", "completed", "failed", "killed", "lost"]


def service() -> Service:
    """The service that answers this request."""
    found: Service = current_app.extensions[EXTENSION]
    return found


def by_accept(forms: Sequence[str]) -> str:
    """The format the reader likes best; JSON when nothing on offer matches."""
    best = request.accept_mimetypes.best_match([MEDIA[form] for form in forms], MEDIA["json"])
    return next(form for form in forms if MEDIA[form] == best)


def to_problem(error: LookupError | RuntimeError) -> Problem:
    """A use case's refusal as a problem document."""
    if isinstance(error, UnknownJobError):
        return Problem("unknown-job", str(error), close=error.close)
    codes = {
        UnknownRevisionError: "unknown-revision",
        NoDataError: "no-data",
        StillRunsError: "conflict",
    }
    return Problem(codes.get(type(error), "not-found"), str(error))

"""Badges of projects for READMEs and dashboards."""

from __future__ import annotations

from flask import Response
from pydantic import Field

from gramwatt.sci.journal.records import UNIT_PATTERN
from gramwatt.service.api.access import Access
from gramwatt.service.api.conditional import tag_of, with_tag
from gramwatt.service.api.routing import Routes, Strict
from gramwatt.service.api.support import service
from gramwatt.service.months.badges import project_badge

routes = Routes("badges")
SVG = "image/svg+xml"


class BadgePath(Strict):
    """The project of a badge."""

    project: str = Field(min_length=1, max_length=512, pattern=r"^[^\x00/][^\x00]*$")


class BadgeQuery(Strict):
    """What the badge shows."""

    unit: str | None = Field(
        None,
        pattern=f"^{UNIT_PATTERN.pattern}$",
        description="Carbon per this unit; by default per the project's only unit, or the total.",
    )


@routes.get(
    "/v1/badges/<path:project>.svg",
    "not-found",
    "not-ready",
    access=Access.READ,
    media={SVG: None},
)
def badge(path: BadgePath, query: BadgeQuery) -> Response:
    """Return a project's carbon per unit, or its month's total, as a picture.

    Of the newest month with data, with its unit, and marked where it is estimated or no SCI. For
    the projects in `GRAMWATT_PUBLIC_BADGES` it needs no key. Other signs than letters and digits
    in a name are percent-encoded, in the address and in the setting alike.
    """
    drawn = project_badge(service(), path.project, query.unit)
    return with_tag(Response(drawn, content_type=SVG), tag_of(SVG, drawn))

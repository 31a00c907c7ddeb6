"""Badges of projects for READMEs and dashboards."""

from __future__ import annotations

from typing import Annotated

from flask import Response
from msgspec import Meta, Struct

from gramwatt.sci.records.records import UNIT_PATTERN
from gramwatt.service.api.access import Access
from gramwatt.service.api.conditional import tag_of, with_tag
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import service
from gramwatt.service.common.requests import exactly
from gramwatt.service.months.badges import project_badge

routes = Routes("badges")
SVG = "image/svg+xml"


class BadgePath(Struct, frozen=True, kw_only=True):
    """The project of a badge."""

    project: Annotated[str, Meta(min_length=1, max_length=512, pattern="^[^\\x00/][^\\x00]*$")]


class BadgeQuery(Struct, frozen=True, kw_only=True):
    """What the badge shows."""

    unit: Annotated[
        Annotated[str, Meta(pattern=exactly(UNIT_PATTERN.pattern))] | None,
        Meta(
            description="Carbon per this unit; by default per the project's only unit, "
            "or the total."
        ),
    ] = None


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

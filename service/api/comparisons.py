"""Jobs against each other: which term moved, and whether the difference is reliable."""

from __future__ import annotations

from typing import Annotated

from flask import Response
from msgspec import Meta, Struct

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.month.repeated import RUNS_MOST, RunsComparisonDoc
from gramwatt.service.api.access import Access
from gramwatt.service.api.conditional import tag_of
from gramwatt.service.api.heavy import heavy
from gramwatt.service.api.problems import Problem
from gramwatt.service.api.reports import by_accept, with_etag
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import ABSENT, service
from gramwatt.service.common.requests import Identifier, UnitQuery
from gramwatt.service.jobs.comparison import comparison
from gramwatt.service.rendering import JOB_FORMATS, MEDIA, JobFormat, render_comparison
from gramwatt.service.store.documents import to_text

routes = Routes("comparisons")
PROBLEMS = *ABSENT, "not-scorable", "not-comparable", "busy"
COMPARISON_MEDIA = {
    MEDIA[form]: RunsComparisonDoc if form == "json" else None for form in JOB_FORMATS
}


class ComparisonQuery(UnitQuery, frozen=True, kw_only=True):
    """The runs of each side, and the unit."""

    before: Annotated[
        list[Identifier],
        Meta(min_length=1, max_length=RUNS_MOST, description="A run; may be repeated."),
    ]
    after: Annotated[
        list[Identifier],
        Meta(min_length=1, max_length=RUNS_MOST, description="A run; may be repeated."),
    ]


class ComparisonFile(Struct, frozen=True, kw_only=True):
    """A comparison as a file."""

    form: Annotated[JobFormat, Meta(description="The format.")]


@routes.get("/v1/comparisons", *PROBLEMS, access=Access.READ, media=COMPARISON_MEDIA)
def compare_jobs(query: ComparisonQuery) -> Response:
    """Return the runs of `after` against those of `before`, per unit of work.

    In the format that the Accept header asks for. Refused where they were not scored in the same
    way. The effects of E, I, PUE, M and R add up to the change; the verdict is
    `no-reliable-difference` where the range of the ratio holds 1, and `unknown` for one run a side
    where no earlier runs tell how far runs lie apart.
    """
    return _response(query, by_accept(JOB_FORMATS))


@routes.get("/v1/comparisons.<form>", *PROBLEMS, access=Access.READ, media=COMPARISON_MEDIA)
def compare_jobs_file(path: ComparisonFile, query: ComparisonQuery) -> Response:
    """Return the same, in the format of the extension."""
    return _response(query, path.form)


def _response(query: ComparisonQuery, form: JobFormat) -> Response:
    with heavy():
        try:
            found, date = comparison(service(), query.before, query.after, query.unit)
        except ScoreError as error:
            if error.code != "not-comparable":
                raise
            raise Problem("not-comparable", error.message) from None
        mark = service().config.reports.decimal_mark
        tag = tag_of(MEDIA[form], to_text(found), date)
        return with_etag(tag, MEDIA[form], lambda: render_comparison(found, form, date, mark))

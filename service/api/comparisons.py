"""Jobs against each other: which term moved, and whether the difference is reliable."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gramwatt.sci.analysis.repeated import RUNS_MOST, RunsComparisonDoc
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.journal.records import ID_PATTERN, UNIT_PATTERN
from gramwatt.service.api.access import Access
from gramwatt.service.api.problems import Problem
from gramwatt.service.api.routing import Routes, Strict
from gramwatt.service.api.support import ABSENT, service
from gramwatt.service.usecases.comparison import comparison

routes = Routes("comparisons")
JobId = Annotated[str, Field(pattern=f"^{ID_PATTERN.pattern}$")]


class ComparisonQuery(Strict):
    """The runs of each side, and the unit."""

    before: list[JobId] = Field(
        min_length=1, max_length=RUNS_MOST, description="A run; may be repeated."
    )
    after: list[JobId] = Field(
        min_length=1, max_length=RUNS_MOST, description="A run; may be repeated."
    )
    unit: str | None = Field(
        None,
        pattern=f"^{UNIT_PATTERN.pattern}$",
        description="The functional unit; the first of the first run by default.",
    )


@routes.get("/v1/comparisons", *ABSENT, "not-scorable", "not-comparable", access=Access.READ)
def compare_jobs(query: ComparisonQuery) -> RunsComparisonDoc:
    """The runs of `after` against those of `before`, per unit of work.

    Refused where they were not scored in the same way. The effects of E, I, PUE, M and R add up to
    the change; the verdict is `no-reliable-difference` where the range of the ratio holds 1.
    """
    try:
        return comparison(service(), query.before, query.after, query.unit)
    except ScoreError as error:
        if error.code != "not-comparable":
            raise
        raise Problem("not-comparable", error.message) from None

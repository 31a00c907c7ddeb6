"""The commands `gramwatt compare` and `gramwatt assert`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.collectors.cli.options import grouped, show
from gramwatt.service.cli.common import (
    AsJson,
    current_service,
    job_errors,
    job_id,
    print_json,
    stop,
)
from gramwatt.service.common.requests import UnitQuery

if TYPE_CHECKING:
    from gramwatt.sci.month.repeated import RunsComparisonDoc

RUNS = "A job, or several runs of one, as ID,ID,..."
Before = Annotated[str, typer.Argument(metavar="BEFORE", help=RUNS)]
After = Annotated[str, typer.Argument(metavar="AFTER", help=RUNS)]
HELP = "Functional unit (default: the first of BEFORE)."


@partial(grouped, unit=HELP)
def compare(
    before: Before,
    after: After,
    query: UnitQuery,
    as_json: AsJson = False,
) -> None:
    """Compare AFTER with BEFORE: the change per unit, what moved, and whether it is reliable.

    Each side is a job, or runs of the same work: job-1,job-2,job-3. How far
    runs lie apart is part of the range; of one run a side, earlier runs of the
    same name say it, else the answer is `unknown`.
    """
    from gramwatt.service.cli.terminal import runs_lines

    found, _ = compared(before, after, query.unit)
    if as_json:
        print_json(found)
    else:
        show(*runs_lines(found))


@partial(grouped, unit=HELP)
def assert_(
    query: UnitQuery,
    runs: Annotated[str, typer.Argument(metavar="ID", help=RUNS)] = "last",
    against: Annotated[str, typer.Option(metavar="REF", help=RUNS)] = "",
    max_increase: Annotated[
        str, typer.Option(metavar="PERCENT", help="Allowed increase per unit, such as 5%.")
    ] = "0%",
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail too where one run a side leaves it unknown.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fail where a job reliably emits more per unit than REF by over PERCENT; for CI.

    Exits with 1 if the increase is above the limit and the ranges leave no
    doubt that there is one, or if the jobs cannot be compared; else with 0. One
    run a side is `unknown`, and passes without --strict, unless earlier runs of
    the same name tell how far runs lie apart.

    Example: gramwatt assert --against job-main --max-increase 5%
    """
    limit = _share(max_increase)
    if not against:
        stop(2, "say against which job: --against REF")
    found, _ = compared(against, runs, query.unit)
    ratio = found.ratio
    unknown = found.verdict == "unknown"
    failed = (found.verdict == "higher" and ratio.value > 1 + limit) or (strict and unknown)
    if as_json:
        print_json({"passed": not failed, "max_increase": limit, "comparison": found})
    else:
        word = "failed" if failed else "unknown" if unknown else "passed"
        show(f"{word}: {found.text} Allowed: up to {100 * limit:g}% more.")
    if failed:
        raise typer.Exit(1)


def compared(before: str, after: str, unit: str | None) -> tuple[RunsComparisonDoc, str]:
    """Return the comparison of two sides as typed, and its date; exits with 1 where there is
    none.
    """
    from gramwatt.sci.figures.errors import ScoreError
    from gramwatt.service.jobs.comparison import comparison

    with current_service() as service:
        sides = [[job_id(service, text) for text in _ids(side)] for side in (before, after)]
        with job_errors(f"{before} or {after}"):
            try:
                return comparison(service, sides[0], sides[1], unit)
            except ScoreError as error:
                if error.code != "not-comparable":
                    raise
                stop(1, error.message)


def _ids(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        stop(2, f"{text!r} names no job; write an id, or several with commas between them")
    return found


def _share(text: str) -> float:
    """Return a percentage as a share; exits with 2 for another text."""
    try:
        found = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e6:
        stop(2, f"--max-increase {text!r}: write a percentage, such as 5%")
    return found

"""The command `gramwatt compare`, also as a gate of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.collectors.cli.options import Local, grouped, show
from gramwatt.service.cli.common import AsJson, print_json, stop
from gramwatt.service.cli.source import jobs_of
from gramwatt.service.common.requests import UnitQuery

if TYPE_CHECKING:
    from gramwatt.sci.month.repeated import RunsComparisonDoc
    from gramwatt.service.cli.source import ServerJobs, StoreJobs

RUNS = "A job, the newest runs of a name, or runs as ID,ID,..."
Before = Annotated[str, typer.Argument(metavar="BEFORE", help=RUNS)]
After = Annotated[str, typer.Argument(metavar="[AFTER]", help=f"{RUNS} (default: last)")]
HELP = "Functional unit (default: the first of BEFORE)."


@dataclass(frozen=True, slots=True)
class Gate:
    """When a comparison fails, for CI."""

    fail_above: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="Exit with 1 for a reliable increase above it: 5%."),
    ] = None
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 too where the verdict is unknown.")
    ] = False

    def failed(self, answer: RunsComparisonDoc) -> bool:
        """Tell whether the increase is above the limit for certain, or, if strict, unknown."""
        if answer.verdict == "unknown":
            return self.strict
        return answer.verdict == "higher" and answer.ratio.value > 1 + _ratio(self.fail_above)


@partial(grouped, unit=HELP)
def compare(
    before: Before,
    query: UnitQuery,
    gate: Gate,
    after: After = "last",
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Compare AFTER with BEFORE: the change per unit, what moved, and whether it is reliable.

    Each side is a job, or runs of the same work: a name (its newest five
    completed runs), or job-1,job-2,job-3. How far runs lie apart is part of
    the range; of one run a side, earlier runs of the same name say it, else
    the answer is `unknown`, which passes --fail-above without --strict.

    Example: gramwatt compare main change --fail-above 5%
    """
    from gramwatt.service.cli.terminal import runs_lines

    if gate.fail_above is None:
        if gate.strict:
            stop(2, "--strict is for --fail-above; give it too, such as --fail-above 0%")
    else:
        _ratio(gate.fail_above)
    with jobs_of(local=local) as source:
        answer = source.comparison(runs_of(source, before), runs_of(source, after), query.unit)
    failed = gate.fail_above is not None and gate.failed(answer)
    if as_json:
        print_json(answer)
    elif gate.fail_above is None:
        show(*runs_lines(answer))
    else:
        word = "failed" if failed else "unknown" if answer.verdict == "unknown" else "passed"
        show(f"{word}: {answer.text} Allowed: up to {100 * _ratio(gate.fail_above):g}% more.")
    if failed:
        raise typer.Exit(1)


def runs_of(source: StoreJobs | ServerJobs, side: str) -> list[str]:
    """Return the ids of a side: a name alone has several runs; exits with 2 for no job."""
    texts = [part.strip() for part in side.split(",") if part.strip()]
    if not texts:
        stop(2, f"{side!r} names no job; write an id, a name, or several ids with commas between")
    if len(texts) == 1:
        return source.ids(texts[0])
    return [source.ids(text, 1)[0] for text in texts]


def _ratio(text: str | None) -> float:
    """Return a percentage over 100; exits with 2 for another text."""
    try:
        ratio = float((text or "").strip().removesuffix("%")) / 100
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio < 1e6:
        stop(2, f"--fail-above {text!r}: write a percentage, such as 5%")
    return ratio

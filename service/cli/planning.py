"""The commands `gramwatt plan` and `gramwatt intensity`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gramwatt.collectors.cli.options import (
    Source,
    grouped,
    moment,
    read_document,
    refuse,
    refuse_error,
    show,
)
from gramwatt.service.cli.common import AsJson, print_json, stop, upgraded_service
from gramwatt.service.cli.common import job_id as job_id_of
from gramwatt.service.common.requests import SpanQuery

if TYPE_CHECKING:
    from gramwatt.sci.figures.document import IntensityDoc, IntensityPointDoc
    from gramwatt.sci.planning.plan import PlanDoc

SLURM, SECONDS = "slurm", "seconds"
SHOWN = timedelta(days=1)
"""What `gramwatt intensity` shows on each side of now if no span is given."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The fields of a request for a plan, as options."""

    hours: Annotated[float | None, typer.Option(help="Wall time of the job (h).")] = None
    zone: Annotated[str | None, typer.Option(help="Where it would run at once: DE.")] = None
    zones: Annotated[
        list[str] | None, typer.Option("--in", help="Where it may run; may be repeated.")
    ] = None
    earliest: Annotated[
        str | None, typer.Option(help="2h, or 2026-05-01T08:00Z (default: now).")
    ] = None
    deadline: Annotated[
        str | None, typer.Option(help="Done by: 12h, 2026-05-02T08:00Z (default: a day of slack).")
    ] = None
    interruptible: Annotated[
        bool, typer.Option("--interruptible", help="It may run in several parts.")
    ] = False
    power_w: Annotated[float | None, typer.Option(help="Its mean power (W).")] = None
    idle_power_w: Annotated[
        float | None, typer.Option(help="Of what stays reserved while it waits (W).")
    ] = None
    restart_kwh: Annotated[
        float | None, typer.Option(help="Energy of each start after an interruption (kWh).")
    ] = None
    now: Annotated[
        str | None, typer.Option(help="Plan as of this time; later data are not used.")
    ] = None
    job_id: Annotated[
        str | None, typer.Option(help="Decides between windows that are as good.")
    ] = None
    like: Annotated[
        str | None, typer.Option(help="As long as this job was, with its power over time.")
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return what was given, by the names of the request."""
        times = {name: moment(getattr(self, name), self.now) for name in ("earliest", "deadline")}
        return {name: value for name, value in {**asdict(self), **times}.items() if value}


@grouped
def plan(
    options: PlanOptions,
    source: Source = None,
    shape: Annotated[
        str | None,
        typer.Option("--format", help="slurm: the time for sbatch --begin; seconds: until then."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find when and where a job emits least, from the history of grid intensity.

    Example: gramwatt plan --hours 4 --zone DE --deadline 2026-05-02T08:00Z
    """
    from gramwatt.sci.figures.errors import GramwattError
    from gramwatt.sci.planning.plan_request import parse_plan_request
    from gramwatt.service.jobs.advice import plan as planned

    if shape not in (None, SLURM, SECONDS):
        refuse(f"--format {shape}: slurm and seconds are known")
    document = {**read_document(source), **options.fields()}
    try:
        parse_plan_request(document)
        with upgraded_service() as service:
            if options.like:
                document["like"] = job_id_of(service, options.like)
            answer = planned(service, parse_plan_request(document))
    except GramwattError as error:
        refuse_error(error, as_json=as_json)
    if as_json:
        print_json(answer)
    elif shape == SECONDS:
        begins = datetime.fromisoformat(answer.plan[0].start)
        show(str(max(0, round((begins - datetime.now(UTC)).total_seconds()))))
    elif shape == SLURM:
        # sbatch reads a time without a zone as local time.
        show(f"{datetime.fromisoformat(answer.plan[0].start).astimezone():%Y-%m-%dT%H:%M:%S}")
    else:
        show(*_lines(answer))


def _lines(answer: PlanDoc) -> list[str]:
    """Return the plan for people: when, what it saves and whether that can be relied on."""
    from gramwatt.sci.figures.formatting import minute_text, plain, text

    slots = [f"{s.zone}  {minute_text(s.start)} to {minute_text(s.end)} UTC" for s in answer.plan]
    saving, gain = answer.saving_ratio, "no reliable gain: start at once"
    if answer.reliable and saving is not None:
        low, value, high = (round(100 * end) for end in (saving.low, saving.value, saving.high))
        gain = f"saves {value} % ({low} to {high} %) against starting at once; reliable"
    expected, at_once = (
        text(getattr(answer, name)) for name in ("intensity_g_per_kwh", "now_intensity_g_per_kwh")
    )
    return [
        *slots,
        gain,
        plain(f"intensity {expected}, at once {at_once}"),
        *(f"Notice: {notice.message}" for notice in answer.notices),
    ]


@partial(
    grouped,
    start="2026-05-01T08:00Z (default: a day ago).",
    end="6h, or a time (default: in a day).",
    signal="Scores use the average.",
    basis="Scores use lifecycle.",
)
def intensity(
    zone: Annotated[str, typer.Argument(metavar="ZONE", help="DE, US-CAL-CISO, ...")],
    query: SpanQuery,
    as_json: AsJson = False,
) -> None:
    """Show a zone's intensity over time, and what plans expect of the hours from now on.

    Of a signal or basis that scores do not use, what is stored.

    Example: gramwatt intensity DE --to 12h
    """
    from gramwatt.sci.figures.checks import Moment, checked
    from gramwatt.sci.figures.errors import LookupFailed
    from gramwatt.service.intensity.over_time import LONGEST, intensity_over

    start, end = query.start, query.end
    now = datetime.now(UTC).replace(microsecond=0)
    try:
        until = checked(Moment, moment(end)) if end else now + SHOWN
        since = checked(Moment, start) if start else min(now, until) - SHOWN
    except ValueError as error:
        stop(2, f"--from or --to: {error}")
    if not timedelta(0) < until - since <= LONGEST:
        stop(2, "--to: after --from, and at most 31 days later")
    with upgraded_service() as service:
        try:
            answer = intensity_over(service, zone, since, until, query.signal, query.basis)
        except LookupFailed as error:
            stop(2, error.message)
    if as_json:
        print_json(answer)
    else:
        show(*_intensity_lines(answer))


def _intensity_lines(answer: IntensityDoc) -> list[str]:
    """Return a line for each value; a stand-in of hours for which a forecast is shown is left
    out.
    """
    from gramwatt.sci.figures.formatting import minute_text, plain, text

    def line(point: IntensityPointDoc) -> str:
        figure = plain(text(point.intensity_g_per_kwh))
        span = f"{minute_text(point.start)} to {minute_text(point.end)}"
        return f"{span}  {figure}  {point.quality}"

    expected = answer.forecast
    after = expected[0].start if expected else ""
    past = [p for p in answer.points if not after or p.start < after]
    head = f"{answer.zone}, {answer.signal}, {answer.basis}, UTC"
    values = list(map(line, [*past, *expected])) or ["no value of this time is stored"]
    return [head, *values, *(f"Notice: {notice.message}" for notice in answer.notices)]

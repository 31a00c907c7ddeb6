"""The commands `gramwatt plan` and `gramwatt intensity`."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

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
from gramwatt.sci.grid.local_time import city_of
from gramwatt.sci.planning.usual import odds_word
from gramwatt.service.cli.common import (
    AsJson,
    current_service,
    own_store_alone,
    print_json,
    stop,
    upgraded_service,
)
from gramwatt.service.cli.common import job_id as job_id_of
from gramwatt.service.common.requests import SpanQuery

if TYPE_CHECKING:
    from gramwatt.sci.figures.document import IntensityDoc, IntensityPointDoc
    from gramwatt.sci.figures.notices import Notice
    from gramwatt.sci.planning.plan import PlaceDoc, PlanDoc, PlannedSpanDoc, SlotDoc

SLURM, SECONDS = "slurm", "seconds"
SHORT = {"more likely than not": "maybe", "too close to call": "too close"}
"""Words for how sure something is that are too long for a column."""
SHOWN = timedelta(hours=25)
"""What `gramwatt intensity` asks for on each side of now if no span is given."""
HOURS, RUN_H, WIDTH = 24, 4, 80
"""Hours that it shows, and of the cleanest run among them."""
BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The fields of a request for a plan, as options."""

    hours: Annotated[float | None, typer.Option(help="Wall time of the job (h).")] = None
    zone: Annotated[
        list[str] | None,
        typer.Option(help="Where it would run at once: DE; several: where it may run."),
    ] = None
    zones: Annotated[
        list[str] | None,
        typer.Option("--in", metavar="ZONE", help="Where alone it may run; may be repeated."),
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
        str | None, typer.Option(metavar="JOB", help="As long as it was, with its power over time.")
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return what was given, by the names of the request."""
        places = self.zone or []
        values = {
            **asdict(self),
            **{name: moment(getattr(self, name), self.now) for name in ("earliest", "deadline")},
            "zone": places[0] if places else None,
            "zones": self.zones or (places if len(places) > 1 else None),
        }
        return {name: value for name, value in values.items() if value}


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
    """Say when and where a job emits least: by a forecast, past hours, or what is usual.

    Example: gramwatt plan --hours 4 --zone US-CAL-CISO --deadline 24h
    """
    from gramwatt.sci.figures.errors import GramwattError
    from gramwatt.sci.planning.plan_request import parse_plan_request
    from gramwatt.service.jobs.planning import plan as planned

    if shape not in (None, SLURM, SECONDS):
        refuse(f"--format {shape}: slurm and seconds are known")
    document = {**read_document(source), **options.fields()}
    if not document.keys() & {"zone", "zones"}:
        document |= _place_of(options.like)
    try:
        parse_plan_request(document)
        with upgraded_service() as service:
            if options.like:
                own_store_alone()
                document["like"] = job_id_of(service, options.like)
            answer = planned(service, parse_plan_request(document))
    except GramwattError as error:
        refuse_error(error, as_json=as_json)
    if as_json:
        print_json(answer)
    elif shape:
        begins = _begins(answer, options.earliest, options.now)
        if shape == SECONDS:
            show(str(max(0, round((begins - datetime.now(UTC)).total_seconds()))))
        else:  # sbatch reads a time without a zone as local time
            show(f"{begins.astimezone():%Y-%m-%dT%H:%M:%S}")
    else:
        show(*_lines(answer))


def _place_of(like: str | None) -> dict[str, str]:
    """Return the zone of a job, else the one that is set here; exits with 2 without either."""
    from gramwatt.collectors.settings.config import resolve
    from gramwatt.service.jobs.documents import job_document

    zone = resolve().zone
    if like:
        with current_service() as service:
            zone = job_document(service, job_id_of(service, like)).document.zone or zone
    if zone is None:
        stop(2, "say where it may run: --zone DE, or several: --zone DE --zone FR")
    return {"zone": zone}


def _begins(answer: PlanDoc, earliest: str | None, now: str | None) -> datetime:
    """Return when a scheduler is to start the job: at the earliest where no plan is known."""
    if answer.plan:
        return datetime.fromisoformat(answer.plan[0].start)
    show(*_wrapped(f"gramwatt: {answer.summary}"), err=True)
    start = moment(earliest, now) or now
    return datetime.fromisoformat(start) if start else datetime.now(UTC)


def _lines(answer: PlanDoc) -> list[str]:
    """Return the plan for people: what to do, the hours of each place, and what would help."""
    rows = _of_place(answer.places[0]) if len(answer.places) == 1 else _of_places(answer.places)
    parts = [] if len(answer.plan) < 2 else [_parts(answer.plan)]
    surer = [f"To be surer, {text}." for text in answer.surer if text not in answer.summary]
    notices = _notices(answer.notices)
    return [*_wrapped(answer.summary), *rows, *parts, *_wrapped(*notices, *surer)]


def _notices(notices: Sequence[Notice]) -> list[str]:
    """Return what is to be said of an answer, that a place was taken for another without a head."""
    return [
        notice.message if notice.code == "place-taken" else f"Notice: {notice.message}"
        for notice in notices
        if notice.code != "intensity-annual"
    ]


def _wrapped(*texts: str) -> list[str]:
    from gramwatt.sci.figures.formatting import plain

    lines = (line for text in texts for line in wrap(text, WIDTH, break_long_words=False))
    return list(map(plain, lines))


def _parts(slots: list[SlotDoc]) -> str:
    spans = (f"{slot.start[5:16].replace('T', ' ')} to {slot.end[11:16]}" for slot in slots)
    return f"in parts: {', '.join(spans)} UTC"


def _of_place(place: PlaceDoc) -> list[str]:
    """Return rows of one place: the job now, in its best hours and in its worst."""
    if place.method == "annual":
        return []
    spans = (("now", place.now), ("best", place.best), ("worst", place.worst))
    zone = ZoneInfo(place.timezone) if place.timezone else None
    local = [city_of(zone)] if zone else []
    table = [["", "UTC", *local, "gCO2e/kWh"]]
    for name, span in spans:
        hours = [_hours(span, UTC), *([_hours(span, zone)] if zone else [])]
        table.append([name, *hours, _g(span)])
    return _columns(table)


def _of_places(places: list[PlaceDoc]) -> list[str]:
    """Return a row of each place, least emissions first."""
    table = [["zone", "best hours, UTC", "local", "gCO2e/kWh", "change", "how sure"]]
    for place in places:
        zone = ZoneInfo(place.timezone) if place.timezone else None
        hours = "hours not known" if place.method == "annual" else _hours(place.best, UTC)
        local = "" if zone is None or place.method == "annual" else _hours(place.best, zone)[-11:]
        odds = place.against_now()[1]
        saving = place.saving_ratio
        change = "" if saving is None else f"{round(-100 * saving.value):+d} %"
        sure = "" if odds is None else SHORT.get(odds_word(odds), odds_word(odds))
        table.append([place.zone, hours, local, _g(place.best), change, sure])
    return _columns(table)


def _g(span: PlannedSpanDoc) -> str:
    from gramwatt.sci.figures.formatting import plain, value_text

    return plain(value_text(span.intensity_g_per_kwh)).removesuffix(" gCO2e/kWh")


def _hours(span: PlannedSpanDoc, zone: tzinfo) -> str:
    start, end = (datetime.fromisoformat(at).astimezone(zone) for at in (span.start, span.end))
    days = (end.date() - start.date()).days
    return f"{start:%d} {start:%b} {start:%H:%M}-{end:%H:%M}" + (f" +{days} d" if days else "")


def _columns(table: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        (
            "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        ).rstrip()
        for row in table
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
    """Show a zone's coming 24 hours, or its intensity over a span.

    Of a signal or basis that scores do not use, what is stored.

    Example: gramwatt intensity DE
    """
    from gramwatt.sci.figures.checks import Moment, checked
    from gramwatt.sci.figures.errors import LookupFailed
    from gramwatt.service.intensity.plans import LONGEST, intensity_over

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
            here = service.catalog.zone(zone)
        except LookupFailed as error:
            stop(2, error.message)
    day = [point for point in answer.forecast if point.end > f"{now:%FT%TZ}"][:HOURS]
    if as_json:
        print_json(answer)
    elif len(day) == HOURS and not (start or end):
        show(*_day_lines(answer, day, here.intensity.value))
    else:
        show(*_intensity_lines(answer))


def _day_lines(answer: IntensityDoc, day: list[IntensityPointDoc], annual: float) -> list[str]:
    """Return the coming 24 hours: when they are cleanest, then each hour in UTC and local time."""
    from gramwatt.sci.grid.local_time import local_text
    from gramwatt.sci.planning.plan import BASES

    values = [point.intensity_g_per_kwh.value for point in day]
    runs = [sum(values[n : n + RUN_H]) / RUN_H for n in range(HOURS - RUN_H + 1)]
    best, now = min(range(len(runs)), key=runs.__getitem__), runs[0]
    begins = datetime.fromisoformat(day[best].start)
    until = begins + timedelta(hours=RUN_H)
    local = local_text(begins, answer.zone)
    less = round(100 * (1 - runs[best] / now))
    basis = BASES[answer.forecast_method or "annual"].format(month=f"{begins:%B}")
    lines = _wrapped(
        f"{answer.zone}: cleanest {begins:%H:%M} to {until:%H:%M} UTC"
        + (f" ({local})" if local else "")
        + (f", {less} % below the next {RUN_H} hours." if less else ".")
        + f" {basis} {annual:.0f} gCO2e/kWh in the year's mean."
    )
    zone = ZoneInfo(answer.timezone) if answer.timezone else None
    # From the least hour on: of a flat day all bars would be alike.
    least, span = min(values), max(values) - min(values) or 1.0
    for part in (range(HOURS // 2), range(HOURS // 2, HOURS)):
        moments = [datetime.fromisoformat(day[n].start).replace(minute=0) for n in part]
        rows = [("UTC", [f"{at:%H:%M}" for at in moments])]
        if zone:
            rows.append(("local", [f"{at.astimezone(zone):%H:%M}" for at in moments]))
        rows.append(("g/kWh", [f"{values[n]:.0f}" for n in part]))
        rows.append(("", [bar((values[n] - least) / span) * 3 for n in part]))
        lines += [
            "",
            *(f"{name:6}{''.join(f'{cell:>6}' for cell in cells)}" for name, cells in rows),
        ]
    return [*lines, *_wrapped(*_notices(answer.notices))]


def bar(fraction: float) -> str:
    """Return a block as high as a fraction of the most: `#` where the terminal has no blocks."""
    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ""
    return BLOCKS[max(0, min(len(BLOCKS) - 1, math.ceil(fraction * len(BLOCKS)) - 1))]


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
    return [head, *values, *_notices(answer.notices)]

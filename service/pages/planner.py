"""When and where to run a job: a form that posts a request for a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from flask import Response, request

from gramwatt.sci.figures.document import IntensityPointDoc
from gramwatt.sci.figures.errors import GramwattError, LookupFailed, ScoreError
from gramwatt.sci.grid.local_time import city_of
from gramwatt.sci.planning.plan import PlaceDoc, PlanDoc, PlannedSpanDoc, SlotDoc
from gramwatt.sci.planning.plan_request import PlanRequest, parse_plan_request
from gramwatt.sci.planning.usual import odds_text
from gramwatt.service.api.access import Access
from gramwatt.service.api.support import heavy, service
from gramwatt.service.common.requests import JobList
from gramwatt.service.intensity.plans import intensity_over, plan
from gramwatt.service.jobs.lists import list_jobs
from gramwatt.service.pages.frame import page, route

FIELDS = ("hours", "zone", "zones", "earliest", "deadline", "power_w", "interruptible")
NUMBERS, MOMENTS = ("hours", "power_w"), ("earliest", "deadline")
USUAL_HOURS = "4"
"""How long a job is until the form says it [h]."""
MOST_H, MOST_ZONES, TICKS = 72, 4, 4
"""Hours and zones that are drawn at most, and how many of the hours are named."""
LABELS = 36
"""Bars that may have their figure above them; of more only some do."""


class Bar(NamedTuple):
    """An hour to come: how high [% of the most], whether it is of the plan, or of the best hours
    of a zone without one, and what it says.
    """

    height: float
    planned: bool
    figure: str
    text: str


class Day(NamedTuple):
    """The hours to come in a zone, and the names of some of them in UTC and local time."""

    zone: str
    city: str
    bars: Sequence[Bar]
    ticks: Sequence[tuple[str, str]]
    alt: str


class PlaceRow(NamedTuple):
    """A zone of a plan as the table shows it."""

    zone: str
    spans: Sequence[tuple[str, str, str, PlannedSpanDoc]]
    saving: str
    odds: str


@route("/planner", Access.READ)
def planner() -> Response:
    """Return the form, filled in by the address, and the plan for it; without a zone in the
    address, that of the newest job.
    """
    texts = _texts(request.args)
    zone = texts.get("zone") or texts.get("zones") or _newest_zone()
    if not zone:
        return _page(texts)
    return _answer({"hours": USUAL_HOURS, **({} if "zones" in texts else {"zone": zone}), **texts})


@route("/planner/plan", Access.READ, method="POST")
def planned() -> Response:
    """Return the plan for the form, or what is wrong with it, under the form as it was filled
    in.
    """
    return _answer(_texts(request.form))


def _newest_zone() -> str | None:
    rows, _ = list_jobs(service(), JobList(limit=1))
    return rows[0].head.zone if rows else None


def _answer(texts: Mapping[str, str]) -> Response:
    try:
        parsed = parse_plan_request(_document(texts))
        with heavy():
            answer = plan(service(), parsed)
            days = _days(answer, parsed)
    except LookupFailed as error:
        close = f"; close: {', '.join(error.close)}" if error.close else ""
        response = _page(texts, refusal=error.message + close)
    except GramwattError as error:
        response = _page(texts, refusal=error.message)
    else:
        rows = [_row(place, only=len(answer.places) == 1) for place in answer.places]
        return _page(texts, answer=answer, rows=rows, days=days)
    response.status_code = 422
    return response


def _page(texts: Mapping[str, str], **more: Any) -> Response:
    zones = [(zone.zone, zone.name) for zone in service().catalog.all_zones()]
    unanswered: dict[str, Any] = {"answer": None, "rows": [], "days": [], "refusal": None}
    return page("planner.html", given=texts, zones=zones, **{**unanswered, **more})


def _row(place: PlaceDoc, *, only: bool) -> PlaceRow:
    """Return a place's hours: of several places the best alone."""
    spans = [("Best", place.best)]
    if only:
        spans = [("Now", place.now), *spans, ("Worst", place.worst)]
    is_hourly = place.method != "annual"
    change, odds = place.against_now()
    return PlaceRow(
        place.zone,
        [(name, *_times(span, place.timezone), span) for name, span in spans if is_hourly]
        or [("Any hour", "", "", place.now)],
        change,
        "" if odds is None else odds_text(odds),
    )


def _times(span: PlannedSpanDoc, timezone: str | None) -> tuple[str, str]:
    """Return a span in UTC and on the clocks of its zone, the latter empty where not known."""
    start, end = (datetime.fromisoformat(text) for text in (span.start, span.end))
    zone = ZoneInfo(timezone) if timezone else None
    local = f"{start.astimezone(zone):%H:%M} to {end.astimezone(zone):%H:%M}" if zone else ""
    return f"{start.day} {start:%b %H:%M} to {end:%H:%M}", local


def _days(answer: PlanDoc, request: PlanRequest) -> list[Day]:
    """Return the hours to come of each zone whose hours are known, at one scale."""
    if request.now:
        return []
    start = datetime.fromisoformat(answer.places[0].now.start)
    until = request.deadline or start + timedelta(hours=(request.hours or 0) + 24)
    until = min(until.astimezone(UTC), start + timedelta(hours=MOST_H))
    places = [place for place in answer.places if place.method != "annual"][:MOST_ZONES]
    steps = {
        place.zone: intensity_over(service(), place.zone, start, until).forecast for place in places
    }
    highest = [step.intensity_g_per_kwh.value for of_zone in steps.values() for step in of_zone]
    most = max(highest, default=0.0)
    return [_day(place, steps[place.zone], most, answer) for place in places if steps[place.zone]]


def _day(place: PlaceDoc, steps: Sequence[IntensityPointDoc], most: float, answer: PlanDoc) -> Day:
    best = SlotDoc(place.zone, place.best.start, place.best.end)
    slots = [slot for slot in answer.plan if slot.zone == place.zone] or [best]
    local = ZoneInfo(place.timezone) if place.timezone else UTC
    names = [
        (f"{at:%H:%M}", f"{at.astimezone(local):%H:%M}" if place.timezone else "")
        for at in (datetime.fromisoformat(step.start) for step in steps)
    ]
    labelled = -(-len(steps) // LABELS)
    bars = [
        Bar(
            100 * step.intensity_g_per_kwh.value / most if most else 0.0,
            _meets(slots, step.start, step.end),
            "" if n % labelled else f"{step.intensity_g_per_kwh.value:.0f}",
            f"{utc} UTC: {step.intensity_g_per_kwh.value:.0f} gCO2e/kWh",
        )
        for n, (step, (utc, _)) in enumerate(zip(steps, names, strict=True))
    ]
    every = -(-len(steps) // TICKS)
    city = city_of(ZoneInfo(place.timezone)) if place.timezone else ""
    return Day(place.zone, city, bars, names[::every], f"Hours of {place.zone}: {answer.summary}")


def _meets(slots: Sequence[SlotDoc], start: str, end: str) -> bool:
    return any(slot.start < end and start < slot.end for slot in slots)


def _texts(values: Mapping[str, str]) -> dict[str, str]:
    """Return what was filled in, of the fields that there are."""
    return {name: values[name].strip() for name in FIELDS if values.get(name, "").strip()}


def _document(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the request in the form's texts; raises ScoreError for one that is no number."""
    document: dict[str, Any] = dict(texts)
    for name in NUMBERS:
        if name in texts:
            document[name] = _number(name, texts[name])
    for name in MOMENTS:
        if name in texts:  # a browser's field has no zone; the label says UTC
            document[name] = texts[name] if texts[name].endswith("Z") else f"{texts[name]}Z"
    if "zones" in texts:
        document["zones"] = texts["zones"].replace(",", " ").split()
    if "interruptible" in texts:
        document["interruptible"] = True
    return document


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ScoreError(f"{name}: {text[:40]!r} is not a number", code="bad-field") from None

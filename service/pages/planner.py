"""When and where to run a job: a form that posts a request for a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from gramwatt.sci.figures.errors import GramwattError, LookupFailed, ScoreError
from gramwatt.sci.planning.plan import PlanDoc
from gramwatt.sci.planning.plan_request import parse_plan_request
from gramwatt.service.api.access import Access
from gramwatt.service.api.heavy import heavy
from gramwatt.service.api.support import service
from gramwatt.service.intensity.plans import plan
from gramwatt.service.pages.frame import page, route

FIELDS = ("hours", "zone", "zones", "earliest", "deadline", "power_w", "interruptible")
NUMBERS, MOMENTS = ("hours", "power_w"), ("earliest", "deadline")


@route("/planner", Access.READ)
def planner() -> Response:
    """Return the form; parameters of the address fill it in."""
    return page("planner.html", given=_texts(request.args), found=None, refusal=None)


@route("/planner/plan", Access.READ, method="POST")
def planned() -> Response:
    """Return the plan for the form, or what is wrong with it, under the form as it was filled
    in.
    """
    given = _texts(request.form)
    found: PlanDoc | None = None
    refusal: str | None = None
    try:
        wanted = parse_plan_request(_document(given))
        with heavy():
            found = plan(service(), wanted)
    except LookupFailed as error:
        close = f"; close: {', '.join(error.close)}" if error.close else ""
        refusal = error.message + close
    except GramwattError as error:
        refusal = error.message
    answer = page("planner.html", given=given, found=found, refusal=refusal)
    answer.status_code = 200 if found else 422
    return answer


def _texts(values: Mapping[str, str]) -> dict[str, str]:
    """Return what was filled in, of the fields that there are."""
    return {name: values[name].strip() for name in FIELDS if values.get(name, "").strip()}


def _document(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the request in the form's texts; raises ScoreError for one that is no number."""
    found: dict[str, Any] = dict(given)
    for name in NUMBERS:
        if name in given:
            found[name] = _number(name, given[name])
    for name in MOMENTS:
        if name in given:  # a browser's field has no zone; the label says UTC
            found[name] = given[name] if given[name].endswith("Z") else f"{given[name]}Z"
    if "zones" in given:
        found["zones"] = given["zones"].replace(",", " ").split()
    if "interruptible" in given:
        found["interruptible"] = True
    return found


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ScoreError(f"{name}: {text[:40]!r} is no number", code="bad-field") from None

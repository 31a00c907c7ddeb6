"""The request for a plan: its fields, and what they must say together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gramwatt.sci.figures.checks import Amount, Moment, Power, Text, parse, refuse_both
from gramwatt.sci.figures.errors import ScoreError

ZONES_MOST = 50
PARTS_MOST = 288
"""Parts of a power profile: five minutes each of a day."""
Hours = Annotated[float, Meta(title="a time above 0 and at most 8760 h", gt=0, le=8760)]
MeanPower = Annotated[float, Meta(title="a power above 0 and at most 1e9 W", gt=0, le=1e9)]


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """When and where to run a job of `hours` of wall time.

    `zone` is where it would run at once, `zones` where it may run; `earliest` (default: now) and
    `deadline` (default: a day after the job would have ended) bound it. `power_w` is its mean power
    [W], `power_profile_w` that of equal parts of an earlier run instead, `idle_power_w` what stays
    reserved while it waits, `restart_kwh` what each start after an interruption costs. `like` is
    the id of an earlier run, for its length and its power over time. Nothing measured after `now`
    is used. Of windows that are as good, `job_id` decides which.
    """

    hours: Hours | None = None
    zone: Text | None = None
    zones: Annotated[tuple[Text, ...], Meta(max_length=ZONES_MOST)] = ()
    earliest: Moment | None = None
    deadline: Moment | None = None
    interruptible: bool = False
    power_w: MeanPower | None = None
    power_profile_w: Annotated[tuple[Power, ...], Meta(max_length=PARTS_MOST)] = ()
    idle_power_w: Power | None = None
    restart_kwh: Amount | None = None
    like: Text | None = None
    now: Moment | None = None
    job_id: Text | None = None


def parse_plan_request(document: Mapping[str, Any]) -> PlanRequest:
    """Return the request in a JSON object; raises ScoreError with a code and what to change."""
    return check_plan_request(parse(PlanRequest, document))


def check_plan_request(request: PlanRequest) -> PlanRequest:
    """Return a request whose fields do not contradict; raises ScoreError with what to change."""
    if not (request.hours or request.like):
        raise ScoreError("say how long the job takes: hours, or like", code="missing-field")
    if not (request.zone or request.zones):
        raise ScoreError("say where it may run: zone, or zones", code="missing-field")
    if request.power_profile_w and not any(request.power_profile_w):
        raise ScoreError("power_profile_w is all zero", code="bad-field")
    if request.like:
        refuse_both(request, "like", "power_w")
        refuse_both(request, "like", "power_profile_w")
    power = request.power_w or request.power_profile_w or request.like
    if not power and (request.idle_power_w or request.restart_kwh):
        text = "idle_power_w and restart_kwh need the job's own power: power_w"
        raise ScoreError(text, code="missing-field")
    if request.restart_kwh and not request.interruptible:
        text = "restart_kwh is of interruptible jobs; set interruptible, or leave it out"
        raise ScoreError(text, code="bad-field")
    return request

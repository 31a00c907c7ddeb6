"""The request for a plan: its fields, and what they must say together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.request_fields import (
    AMOUNT,
    Flag,
    Moment,
    Names,
    Number,
    Numbers,
    Text,
    parse,
    refuse_both,
    ruled,
)

ZONES_MOST = 50
PARTS_MOST = 288
"""Parts of a power profile: five minutes each of a day."""
POWER = Number(high=1e9, low_included=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """When and where to run a job of `hours` of wall time.

    `zone` is where it would run at once, `zones` where it may run; `earliest` (default: now) and
    `deadline` (default: a day after the job would have ended) bound it. `power_w` is its mean power
    [W], `power_profile_w` that of equal parts of an earlier run instead, `idle_power_w` what stays
    reserved while it waits, `restart_kwh` what each start after an interruption costs. `like` is
    the id of an earlier run, for its length and its power over time. Nothing measured after `now`
    is used. Of windows that are as good, `job_id` decides which.
    """

    hours: float = ruled(Number(high=8760))
    zone: str | None = ruled(Text())
    zones: tuple[str, ...] = ruled(Names(ZONES_MOST), default=())
    earliest: datetime | None = ruled(Moment())
    deadline: datetime | None = ruled(Moment())
    interruptible: bool = ruled(Flag(), default=False)
    power_w: float | None = ruled(Number(high=1e9))
    power_profile_w: tuple[float, ...] = ruled(Numbers(POWER, PARTS_MOST), default=())
    idle_power_w: float | None = ruled(POWER)
    restart_kwh: float | None = ruled(AMOUNT)
    like: str | None = ruled(Text())
    now: datetime | None = ruled(Moment())
    job_id: str | None = ruled(Text())


def parse_plan_request(document: Mapping[str, Any]) -> PlanRequest:
    """Return the request in a JSON object; raises ScoreError with a code and what to change."""
    request = parse(PlanRequest, document)
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

"""When and where a job should run: the answer to a request.

Every choice is compared with starting at once where the job would have run. In one zone, the saving
and its range are corrected by what the same method has earned on that zone's own past (`replay`):
what a forecast promises of its best window is too good on average, because the best was chosen.
Between zones, the saving is that of two expected intensities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypedDict

import numpy as np

from gramwatt.sci.base.document import doc
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.notices import Notice, NoticeDoc
from gramwatt.sci.base.quantity import Quantity, QuantityDoc
from gramwatt.sci.planning.forecast import CACHE_SIZE
from gramwatt.sci.planning.hours import DAY_H, Hours, exact_hour, moment_of, moment_text
from gramwatt.sci.planning.issued import ForecastArchive, mean_of
from gramwatt.sci.planning.outlook import Outlook, ZoneData, outlook
from gramwatt.sci.planning.plan_request import PlanRequest
from gramwatt.sci.planning.replay import Outcome, replay
from gramwatt.sci.planning.windows import (
    TOLERANCE_H,
    Grid,
    Overhead,
    Profile,
    Slots,
    best_slots,
    best_window,
    cost,
)

LEAST_SAVING = 0.01
"""Smaller savings are no reason to wait."""
NEARER_H = (24, 12)
"""Slacks that are tried where the best hours of the whole slack are not reliable: what a forecast
says of the coming day holds where what it says of three days does not [h]."""
SAVED = "share saved"


class SlotDoc(TypedDict):
    """Where and when (ISO 8601, UTC) a part of the job runs."""

    zone: str
    start: str
    end: str


class PlanDoc(TypedDict):
    """The answer to a request for a plan.

    `saving_ratio` is the share of emissions saved against starting at once in the first zone; null
    where nothing is known that tells hours or zones from each other. A plan that is not `reliable`
    starts at once, where it would have run.
    """

    plan: list[SlotDoc]
    intensity_g_per_kwh: QuantityDoc
    now_intensity_g_per_kwh: QuantityDoc
    saving_ratio: QuantityDoc | None
    reliable: bool
    method: str
    notices: list[NoticeDoc]


@dataclass(frozen=True, slots=True)
class _Job:
    """A request in hours since 1970."""

    profile: Profile
    earliest: float
    deadline: float
    overhead: Overhead
    interruptible: bool
    seed: str | None

    @property
    def at_once(self) -> Slots:
        return [(self.earliest, self.earliest + self.profile.hours)]

    def cost(self, grid: Outlook, slots: Slots) -> float:
        return cost(grid.grid, self.profile, slots, self.earliest, self.overhead)

    def best(self, found: Outlook) -> Slots:
        """Return the best hours in a zone, as far as its forecast goes."""
        deadline = min(self.deadline, found.end)
        if deadline - self.earliest < self.profile.hours - TOLERANCE_H:
            return self.at_once
        if self.interruptible:
            hours, overhead = self.profile.hours, self.overhead
            return best_slots(found.grid, hours, self.earliest, deadline, overhead)
        idle, seed = self.overhead.idle, self.seed
        start = best_window(found.grid, self.profile, self.earliest, deadline, idle=idle, seed=seed)
        return [(start, start + self.profile.hours)]


def plan_and_regret(
    request: PlanRequest, zones: Mapping[str, ZoneData], now: datetime
) -> tuple[PlanDoc, Quantity | None]:
    """Answer a request from what was known of its zones at `now`; raises ScoreError.

    `zones` has the data of `request.zone` and of all of `request.zones`, by these names. Also
    returns by which share such plans of the past emitted more than the best hours; None for another
    zone, and without enough of the past.
    """
    home, job = request.zone or request.zones[0], _job(request, now)
    allowed = list(dict.fromkeys(request.zones or (home,)))
    known = {
        name: outlook(zones[name], now, moment_of(job.deadline), job.profile.hours)
        for name in dict.fromkeys((home, *allowed))
    }
    at_once_until = job.earliest + job.profile.hours
    expected = {name: _reaching(found, at_once_until) for name, found in known.items()}
    options = [(name, job.best(expected[name])) for name in allowed]
    place, slots = min(options, key=lambda option: job.cost(expected[option[0]], option[1]))
    here, there = expected[home], expected[place]
    intensity, at_once = _intensity(there, job, slots), _intensity(here, job, job.at_once)
    notices = list(dict.fromkeys([*there.notices, *here.notices]))
    ends = known[place].end
    if job.deadline > ends + TOLERANCE_H:
        what = "count with its mean" if at_once_until > ends else "are left out"
        text = f"the forecast ends at {moment_text(ends)}; later hours {what}"
        notices.append(Notice("plan-horizon", text))
    regret, record = None, None
    if place == home:
        slots, record, saving, reliable = _followed(job, here)
        regret = _regret(here, record) if record else None
    else:
        overhead = job.cost(there, slots) / intensity.value
        saving = intensity.scaled(overhead).over(at_once, "ratio").complement(SAVED)
        reliable = saving.low > LEAST_SAVING
    if not reliable:
        reason = _reason(here, record, saving, moves=place != home)
        notices.append(Notice("no-reliable-gain", reason))
        place, slots = home if home in allowed else place, job.at_once
        there = expected[place]
        intensity = _intensity(there, job, slots)
        if saving is not None and place == home:
            saving = Quantity.exact(0.0, SAVED, "estimated", saving.source)
    answer: PlanDoc = {
        "plan": [{"zone": place, "start": moment_text(a), "end": moment_text(b)} for a, b in slots],
        "intensity_g_per_kwh": intensity.to_doc(),
        "now_intensity_g_per_kwh": at_once.to_doc(),
        "saving_ratio": doc(saving),
        "reliable": reliable,
        "method": there.at(slots[0][0]).method,
        "notices": [notice.to_doc() for notice in notices],
    }
    return answer, regret


def _reaching(found: Outlook, until: float) -> Outlook:
    """Return the same until a moment [h]: what comes after its end has the mean of its steps."""
    if until <= found.end:
        return found
    edges = found.grid.edges
    value, low, high = (
        np.append(item, np.average(item, weights=np.diff(edges)))
        for item in (found.grid.values, found.low, found.high)
    )
    return replace(found, grid=Grid(np.append(edges, until), value), low=low, high=high)


def _job(request: PlanRequest, now: datetime) -> _Job:
    earliest = max(request.earliest or now, now)
    length = timedelta(hours=request.hours)
    deadline = request.deadline or earliest + length + timedelta(hours=DAY_H)
    if deadline < earliest + length:
        text = f"{request.hours:g} h do not fit between {earliest:%FT%RZ} and {deadline:%FT%RZ}"
        raise ScoreError(f"{text}; allow a later deadline", code="plan-impossible")
    parts = np.array(request.power_profile_w or (request.power_w or 1.0,))
    power = float(parts.mean())
    if request.interruptible:  # when its parts run is not known
        parts = parts[:1] * 0 + power
    return _Job(
        Profile(np.linspace(0, request.hours, len(parts) + 1), parts / power),
        exact_hour(earliest),
        exact_hour(deadline),
        Overhead((request.idle_power_w or 0.0) / power, 1e3 * (request.restart_kwh or 0.0) / power),
        request.interruptible,
        request.job_id,
    )


def _intensity(found: Outlook, job: _Job, slots: Slots) -> Quantity:
    """Return the expected mean intensity of the job in these slots without waiting or restarts."""
    ends = [found.grid.with_values(item) for item in (found.grid.values, found.low, found.high)]
    value, low, high = (cost(grid, job.profile, slots, slots[0][0]) for grid in ends)
    return found.figure(value, low, high, slots[0][0], slots[-1][1])


def slacks(most: float) -> tuple[float, ...]:
    """Return the slacks [h] that a plan tries, the whole one first, until one is reliable."""
    return (most, *(slack for slack in NEARER_H if slack < most - TOLERANCE_H))


def _followed(job: _Job, found: Outlook) -> tuple[Slots, Outcome | None, Quantity | None, bool]:
    """Return the hours in one zone, the record of such plans, the share saved, and if reliable.

    Of the whole slack where it is reliable, else of the longest nearer one that is.
    """
    tried: list[tuple[Slots, Outcome | None, Quantity | None, bool]] = []
    length = job.profile.hours
    for slack in slacks(job.deadline - job.earliest - length):
        one = replace(job, deadline=job.earliest + length + slack) if tried else job
        slots = one.best(found)
        record = _record(one, found) if found.method != "annual" else None
        saving, reliable = _in_time(one, found, slots, record)
        tried.append((slots, record, saving, reliable))
        if reliable:
            return tried[-1]
    return tried[0]


def _in_time(
    job: _Job, found: Outlook, slots: Slots, record: Outcome | None
) -> tuple[Quantity | None, bool]:
    """Return the share saved by waiting in one zone, and whether it is reliable.

    It is where the whole range says so, and such plans have earned one there.
    """
    if found.method == "annual":
        return None, False
    expected = found.source(job.earliest, slots[-1][1])
    if slots == job.at_once:
        return Quantity(0.0, 0.0, 0.0, SAVED, "estimated", expected), False
    foreseen = 1 - job.cost(found, slots) / job.cost(found, job.at_once)
    if record is None:
        low = 1 - _intensity(found, job, slots).high / _intensity(found, job, job.at_once).low
        saving = Quantity(foreseen, min(low, foreseen), foreseen, SAVED, "estimated", expected)
        return saving, False
    low, value, high = (foreseen + missed for missed in record.missed(job.profile.hours))
    source = f"{expected}, corrected by {len(record.hours)} plans of its past"
    saving = Quantity(value, low, high, SAVED, "estimated", source)
    return saving, record.reliable and saving.low > LEAST_SAVING


def _record(job: _Job, found: Outlook) -> Outcome | None:
    """Return past plans for such a job: in whole hours, at constant power, without overhead."""
    hours = max(1, round(job.profile.hours))
    slack = int(min(job.deadline, found.end) - job.earliest - hours + TOLERANCE_H)
    if found.past is None or slack < 1:
        return None
    return _replay(found.past, found.issued, hours, slack, job.interruptible)


@lru_cache(CACHE_SIZE)
def _replay(
    past: Hours, issued: ForecastArchive | None, hours: int, slack: int, interruptible: bool
) -> Outcome | None:
    return replay(past, hours, slack, interruptible=interruptible, issued=issued)


def _regret(found: Outlook, record: Outcome) -> Quantity:
    """Return what plans of the past emitted beyond the best hours, as a share of those."""
    text = f"{len(record.regrets)} plans of the past of {found.zone}, against perfect foresight"
    return mean_of(record.regrets, "share above the best", text)


def _reason(found: Outlook, record: Outcome | None, saving: Quantity | None, *, moves: bool) -> str:
    if moves:
        return "the zones' expected intensities do not differ by more than their ranges"
    if found.method == "annual":
        return f"the hours of {found.zone} are not known; import them: gramwatt import intensity"
    if record is not None and record.reliable and saving is not None:
        if saving.high <= LEAST_SAVING:
            return f"later hours are not expected to save more than {100 * LEAST_SAVING:g} %"
        return "the saving is within the error of the forecast"
    return "plans of this kind have not saved in nearly every week of this zone's past"

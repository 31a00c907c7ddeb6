"""When and where a job should run: the answer to a request.

Every choice is compared with starting at once where the job would have run, and the saving is that
of two expected intensities, each with its range. Waiting is advised where the whole range of the
saving says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from msgspec import Struct

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity, bare
from gramwatt.sci.planning.hours import DAY_H, exact_hour, moment_of, moment_text
from gramwatt.sci.planning.outlook import Outlook, ZoneData
from gramwatt.sci.planning.plan_request import PlanRequest
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
WIDER = 1.3
"""The range of a saving, over that of the two intensities it is made of. The hours that a forecast
likes best are on average less good than foreseen: by `python -m benchmarks.planning` eight in ten
savings that are stated come within this range, and seven in ten within the narrower one."""
SAVED = "share saved"
WINDOW = "intensity of the planned hours"
"""The input of a saving that the window's intensity is, beside that of starting at once."""


class SlotDoc(Struct):
    """Where and when (ISO 8601, UTC) a part of the job runs."""

    zone: str
    start: str
    end: str


class PlanDoc(Struct):
    """The answer to a request for a plan.

    `saving_ratio` is the share of emissions saved against starting at once in the first zone; null
    where nothing is known that tells hours or zones from each other. A plan that is not `reliable`
    starts at once, where it would have run.
    """

    plan: list[SlotDoc]
    intensity_g_per_kwh: Quantity
    now_intensity_g_per_kwh: Quantity
    saving_ratio: Quantity | None
    reliable: bool
    method: str
    notices: list[Notice]


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


def make_plan(request: PlanRequest, zones: Mapping[str, ZoneData], now: datetime) -> PlanDoc:
    """Answer a request from what was known of its zones at `now`; raises ScoreError.

    `zones` has the data of `request.zone` and of all of `request.zones`, by these names.
    """
    home, job = request.zone or request.zones[0], _job(request, now)
    allowed = list(dict.fromkeys(request.zones or (home,)))
    known = {
        name: zones[name].outlook(now, moment_of(job.deadline), job.profile.hours)
        for name in dict.fromkeys((home, *allowed))
    }
    at_once_until = job.earliest + job.profile.hours
    expected = {name: _reaching(found, at_once_until) for name, found in known.items()}
    options = [(name, job.best(expected[name])) for name in allowed]
    place, slots = min(options, key=lambda option: job.cost(expected[option[0]], option[1]))
    here, there = expected[home], expected[place]
    at_once = _intensity(here, job, job.at_once)
    notices = list(dict.fromkeys([*there.notices, *here.notices]))
    ends = known[place].end
    if job.deadline > ends + TOLERANCE_H:
        what = "count with its mean" if at_once_until > ends else "are left out"
        text = f"the forecast ends at {moment_text(ends)}; later hours {what}"
        notices.append(Notice("plan-horizon", text))
    if place == home:
        saving = _saving_in_zone(job, here, slots, at_once)
    else:
        intensity = _intensity(there, job, slots)
        saving = _ratio(job, there, slots, intensity, at_once).complement(SAVED)
    reliable = saving is not None and saving.low > LEAST_SAVING
    if not reliable:
        notices.append(Notice("no-reliable-gain", _reason(here, saving, moves=place != home)))
        place, slots = home if home in allowed else place, job.at_once
        there = expected[place]
        if saving is not None and place == home:
            saving = Quantity.exact(0.0, SAVED, "estimated", *saving.sources)
    return PlanDoc(
        plan=[SlotDoc(zone=place, start=moment_text(a), end=moment_text(b)) for a, b in slots],
        intensity_g_per_kwh=_intensity(there, job, slots).bare(),
        now_intensity_g_per_kwh=at_once.bare(),
        saving_ratio=bare(saving),
        reliable=reliable,
        method=there.at(slots[0][0]).method,
        notices=list(notices),
    )


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
    if request.hours is None:
        raise ScoreError("say how long the job takes: hours", code="missing-field")
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


def _saving_in_zone(job: _Job, found: Outlook, slots: Slots, at_once: Quantity) -> Quantity | None:
    """Return the share saved by waiting; None where nothing tells the hours apart.

    What a forecast misses of two spans is taken as independent.
    """
    if found.method == "annual":
        return None
    if slots == job.at_once:
        return Quantity.exact(0.0, SAVED, "estimated", at_once.source)
    ratio = _ratio(job, found, slots, _intensity(found, job, slots).as_input(WINDOW), at_once)
    low, high = ((end / ratio.value) ** WIDER for end in (ratio.low, ratio.high))
    return ratio.ranged(low, high).complement(SAVED)


def _ratio(
    job: _Job, found: Outlook, slots: Slots, intensity: Quantity, at_once: Quantity
) -> Quantity:
    """Return emissions in these slots, waiting and restarts included, over those at once."""
    overhead = job.cost(found, slots) / intensity.value
    return intensity.scaled(overhead).over(at_once, "ratio")


def _reason(found: Outlook, saving: Quantity | None, *, moves: bool) -> str:
    if moves:
        return "the zones' expected intensities do not differ by more than their ranges"
    if saving is None:
        return f"the hours of {found.zone} are not known; import them: gramwatt import intensity"
    if saving.high <= LEAST_SAVING:
        return f"later hours are not expected to save more than {100 * LEAST_SAVING:g} %"
    return "the saving is within the error of the forecast"

"""When and where a job should run: the answer to a request.

Every choice is compared with starting at once where the job would have run, and the saving is that
of two expected intensities, each with its range. Waiting is advised where it is more likely than
not to save, moving where it is likely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity, bare
from gramwatt.sci.grid.local_time import local_text, timezone_of
from gramwatt.sci.planning.hours import DAY_H, exact_hour, moment_of, moment_text
from gramwatt.sci.planning.outlook import Method, Outlook, ZoneData
from gramwatt.sci.planning.plan_request import PlanRequest
from gramwatt.sci.planning.usual import LEAST_SAVING, SAVED, UsualDay, chance_below, odds_text
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

WAIT_ODDS, MOVE_ODDS = 0.6, 0.8
"""How likely a saving has to be for the advice to wait, and to move."""
WIDER = 1.3
"""The range of a saving, over that of the two intensities it is made of. The hours that a forecast
likes best are on average less good than foreseen: by `python -m benchmarks.planning` eight in ten
savings that are stated come within this range, and seven in ten within the narrower one."""
WINDOW = "intensity of the planned hours"
"""The input of a saving that the window's intensity is, beside that of starting at once."""
IMPORT = "import the zone's hours (gramwatt import intensity) or set a provider of forecasts"
BASES = {
    "forecast": "By a forecast of the grid.",
    "history-profile": "By the last days; a forecast needs four months of the zone's hours.",
    "usual-hours": "Usual for {month}; today's weather is not known.",
    "annual": "By annual values; the hours are not known.",
}
"""How what is expected is known, for people."""

Advice = Literal["wait", "move", "start-now", "unknown"]


class SlotDoc(Struct):
    """Where and when (ISO 8601, UTC) a part of the job runs."""

    zone: str
    start: str
    end: str


class PlannedSpanDoc(Struct):
    """The expected mean intensity of the job over a span (ISO 8601, UTC)."""

    start: str
    end: str
    intensity_g_per_kwh: Quantity


class PlaceDoc(Struct):
    """What is expected of the job in one zone: at once, in its best hours, and in its worst.

    `saving_ratio` is the fraction saved in the best hours against starting at once where the job
    would have run, `odds` how likely that is above 0; null where nothing tells them apart.
    """

    zone: str
    timezone: str | None
    method: Method
    now: PlannedSpanDoc
    best: PlannedSpanDoc
    worst: PlannedSpanDoc
    saving_ratio: Quantity | None
    odds: float | None

    def against_now(self) -> tuple[str, float | None]:
        """Return "94 % less" or "67 % more" than starting at once, and how likely it is that.

        The text is empty where nothing tells them apart.
        """
        if self.saving_ratio is None:
            return "", None
        saved = self.saving_ratio.value
        text = f"{_percent(abs(saved))} {'less' if saved >= 0 else 'more'}"
        return text, self.odds if self.odds is None or saved >= 0 else 1 - self.odds


class PlanDoc(Struct):
    """The answer to a request for a plan, `summary` in words.

    `plan` follows the `advice`; it is empty where that is `unknown`, as nothing tells the hours or
    places apart. `saving_ratio` is the fraction of emissions saved against starting at once in the
    first zone, and `odds` how likely it is above 0. `places` has every zone, least first.
    """

    summary: str
    advice: Advice
    plan: list[SlotDoc]
    intensity_g_per_kwh: Quantity
    now_intensity_g_per_kwh: Quantity
    saving_ratio: Quantity | None
    odds: float | None
    method: Method
    places: list[PlaceDoc]
    surer: list[str]
    notices: list[Notice]


class _Job(Struct, frozen=True):
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

    def cost(self, found: Outlook, slots: Slots) -> float:
        return cost(found.grid, self.profile, slots, self.earliest, self.overhead)

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

    def worst(self, found: Outlook) -> Slots:
        """Return the worst hours of the job in one piece, as far as its forecast goes."""
        deadline = min(self.deadline, found.end)
        if deadline - self.earliest < self.profile.hours - TOLERANCE_H:
            return self.at_once
        turned = found.grid.with_values(found.grid.values.max() - found.grid.values)
        start = best_window(turned, self.profile, self.earliest, deadline)
        return [(start, start + self.profile.hours)]


class _Choice(Struct, frozen=True):
    """A zone and hours for the job, against starting at once where it would have run."""

    zone: str
    found: Outlook
    slots: Slots
    saving: Quantity | None
    odds: float | None
    moves: bool

    @property
    def advised(self) -> bool:
        """Whether it saves enough, and likely enough, to be worth waiting or moving for."""
        least = MOVE_ODDS if self.moves else WAIT_ODDS
        saving = self.saving.value if self.saving else 0.0
        return saving > LEAST_SAVING and self.odds is not None and self.odds >= least


def make_plan(request: PlanRequest, zones: Mapping[str, ZoneData], now: datetime) -> PlanDoc:
    """Answer a request from what was known of its zones at `now`; raises ScoreError.

    `zones` has the data of `request.zone` and of all of `request.zones`, by these names.
    """
    home, job = request.zone or request.zones[0], _job(request, now)
    allowed = list(dict.fromkeys(request.zones or (home,)))
    names = dict.fromkeys((home, *allowed))
    outlooks = {
        name: zones[name].outlook(now, moment_of(job.deadline), job.profile.hours) for name in names
    }
    at_once_until = job.earliest + job.profile.hours
    expected = {name: _reaching(found, at_once_until) for name, found in outlooks.items()}
    here = expected[home]
    at_once = _intensity(here, job, job.at_once)
    choices = [
        _choice(job, name, zones[name].day, expected[name], at_once, moves=name != home)
        for name in names
    ]
    choices.sort(key=lambda choice: job.cost(choice.found, choice.slots))
    able = [choice for choice in choices if choice.zone in allowed]
    staying = replace(able[0], slots=job.at_once)
    if home in allowed:
        stay = Quantity.exact(0.0, SAVED, "estimated", *at_once.sources)
        saving = None if here.method == "annual" else stay
        staying = _Choice(home, here, job.at_once, saving, None, moves=False)
    chosen = next((choice for choice in able if choice.advised), staying)
    advice: Advice = "unknown" if chosen.found.method == "annual" else "start-now"
    if chosen.advised:
        advice = "move" if chosen.moves else "wait"
    slots = [
        SlotDoc(zone=chosen.zone, start=moment_text(start), end=moment_text(end))
        for start, end in chosen.slots
    ]
    notices = list(dict.fromkeys([*chosen.found.notices, *here.notices]))
    return PlanDoc(
        summary=_summary(job, advice, chosen, able[0], now),
        advice=advice,
        plan=[] if advice == "unknown" else slots,
        intensity_g_per_kwh=_intensity(chosen.found, job, chosen.slots).bare(),
        now_intensity_g_per_kwh=at_once.bare(),
        saving_ratio=bare(chosen.saving),
        odds=chosen.odds,
        method=chosen.found.at(chosen.slots[0][0]).method,
        places=[_place(job, choice) for choice in choices],
        surer=[IMPORT] if chosen.found.method in ("usual-hours", "annual") else [],
        notices=notices + _horizon(job, outlooks[chosen.zone]),
    )


def _choice(
    job: _Job, name: str, day: UsualDay | None, found: Outlook, at_once: Quantity, *, moves: bool
) -> _Choice:
    """Return the best hours of the job in a zone, and what they save against starting at once."""
    slots = job.best(found)
    if not moves and found.method == "annual":
        return _Choice(name, found, slots, None, None, moves)
    if not moves and slots == job.at_once:
        stay = Quantity.exact(0.0, SAVED, "estimated", *at_once.sources)
        return _Choice(name, found, slots, stay, None, moves)
    ratio = _ratio(job, found, slots, _intensity(found, job, slots).as_input(WINDOW), at_once)
    low, high = ratio.low / ratio.value, ratio.high / ratio.value
    if not moves and day:
        wait_h = sum(start + end for start, end in slots) / 2 / len(slots)
        wait_h -= job.earliest + job.profile.hours / 2
        low, high = (math.exp(end) for end in day.ends(wait_h, job.profile.hours))
    elif not moves:
        low, high = low**WIDER, high**WIDER
    odds = chance_below(math.log(ratio.value), math.log(high))
    saving = ratio.ranged(low, high).complement(SAVED)
    return _Choice(name, found, slots, saving, odds, moves)


def _place(job: _Job, choice: _Choice) -> PlaceDoc:
    timezone = timezone_of(choice.zone)
    return PlaceDoc(
        zone=choice.zone,
        timezone=timezone.key if timezone else None,
        method=choice.found.method,
        now=_window(job, choice, job.at_once),
        best=_window(job, choice, choice.slots),
        worst=_window(job, choice, job.worst(choice.found)),
        saving_ratio=bare(choice.saving),
        odds=choice.odds,
    )


def _window(job: _Job, choice: _Choice, slots: Slots) -> PlannedSpanDoc:
    figure = _intensity(choice.found, job, slots).bare()
    return PlannedSpanDoc(moment_text(slots[0][0]), moment_text(slots[-1][1]), figure)


def _horizon(job: _Job, known: Outlook) -> list[Notice]:
    """Say so where the deadline lies beyond what is known."""
    if job.deadline <= known.end + TOLERANCE_H:
        return []
    at_once_until = job.earliest + job.profile.hours
    what = "count with its mean" if at_once_until > known.end else "are left out"
    text = f"the forecast ends at {moment_text(known.end)}; later hours {what}"
    return [Notice("plan-horizon", text)]


def _summary(job: _Job, advice: Advice, chosen: _Choice, best: _Choice, now: datetime) -> str:
    """Return the answer in words; `best` is what would be done if its saving were likely."""
    starts = "now"
    if job.earliest > exact_hour(now) + TOLERANCE_H:
        starts = f"at {_when(job.earliest, chosen.zone, now)}"
    at_once = f"starting {starts}"
    if advice == "unknown":
        place = f"The hours of {chosen.zone} are not known: no start is known to be better"
        if best.moves and best.odds is not None:
            place += f", and whether {best.zone} emits less is {odds_text(best.odds)}"
        return f"{place}. To know, {IMPORT}."
    month = f"{moment_of(job.earliest):%B}"
    basis = BASES[chosen.found.at(chosen.slots[0][0]).method].format(month=month)
    if chosen.advised and chosen.saving and chosen.odds is not None:
        begins = chosen.slots[0][0]
        when = _when(begins, chosen.zone, now)
        what = f"Wait until {when}"
        if chosen.moves:
            what = f"Run in {chosen.zone}" + (f" at {when}" if begins > job.earliest else "")
        return f"{what}: {_saves(chosen.saving, at_once)}, {odds_text(chosen.odds)}. {basis}"
    start = f"Start {starts}"
    if best.saving is None or best.odds is None or best.saving.value <= LEAST_SAVING:
        until = _when(job.deadline, chosen.zone, now)
        return f"{start}: no later start until {until} is expected to save more than 1 %. {basis}"
    what = f"moving to {best.zone}" if best.moves else "waiting"
    odds = odds_text(best.odds if best.moves else 0.0)
    return f"{start}: {what} may save about {_percent(best.saving.value)}, {odds}. {basis}"


def _saves(saving: Quantity, at_once: str) -> str:
    span = f"{round(100 * saving.low)} to {_percent(saving.high)}"
    if saving.low < 0:
        span = f"{_percent(-saving.low)} more to {_percent(saving.high)} less"
    return f"about {_percent(saving.value)} less than {at_once} ({span})"


def _percent(fraction: float) -> str:
    return f"{round(100 * fraction)}\u00a0%"


def _when(hour: float, zone: str, now: datetime) -> str:
    """Return a moment in UTC, with the date where that is another than today's, and local time."""
    moment = moment_of(round(hour * 60) / 60)
    date = "" if moment.date() == now.date() else f"{moment.day} {moment:%b} "
    local = local_text(moment, zone)
    return f"{date}{moment:%H:%M} UTC" + (f" ({local})" if local else "")


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


def _ratio(
    job: _Job, found: Outlook, slots: Slots, intensity: Quantity, at_once: Quantity
) -> Quantity:
    """Return emissions in these slots, waiting and restarts included, over those at once."""
    overhead = job.cost(found, slots) / intensity.value
    return intensity.scaled(overhead).over(at_once, "ratio")

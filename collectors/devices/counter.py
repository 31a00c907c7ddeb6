"""One device: readings of counter and power -> energy segments, each labelled with how it is known.

A counter difference is `measured`. Where the counter cannot be used (absent, backwards,
frozen, jumping) the span is the integral of sampled power, `integrated`; where there were no
samples either, the last known power, `estimated`. docs/measuring.md has the table of cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gramwatt.collectors.devices.board import Notify
from gramwatt.collectors.settings.clock import NS_PER_S, suspended_between
from gramwatt.collectors.spool.intervals import Interval, Ledger
from gramwatt.sci.figures.units import j_from_mj, w_from_mw

POLL_NS = NS_PER_S // 100
"""How often the counter is read while a boundary waits for its tick."""
LONGEST_PERIOD_NS = NS_PER_S // 4
"""Update period of a counter whose ticks were not seen: 20 to 100 ms are reported, and this is two
and a half times the longest."""
START_LIMIT_NS = 5 * NS_PER_S // 2
"""How long the start looks for two ticks, ten times what reported periods need: the job runs
meanwhile, and a counter that ticks more slowly has the most to gain."""
STOP_LIMIT_NS = NS_PER_S // 2
"""The longest wait for the tick after the stop: the job's end waits with it."""
SLOW_PERIOD_S = 0.02
"""A counter that ticks faster than this is as good as continuous."""


class Reading(NamedTuple):
    """Time on the job's timeline [ns], energy counter [mJ], power [mW] and its mean over one second
    [mW]; None for what the device does not answer.
    """

    time_ns: int
    counter_mj: float | None
    power_mw: float | None
    mean_mw: float | None = None


class Point(NamedTuple):
    """A moment [ns] and the counter's value then [mJ]."""

    time_ns: float
    counter_mj: float


def counter_at(time_ns: float, points: Sequence[Point]) -> float:
    """Return the counter's value at a moment [mJ], linear between the points around it.

    `points` are in time order, at least one of them; outside of them the value is the nearest's.
    """
    before = points[0]
    for after in points[1:]:
        if time_ns <= after.time_ns and after.time_ns > before.time_ns:
            part = (time_ns - before.time_ns) / (after.time_ns - before.time_ns)
            return before.counter_mj + (after.counter_mj - before.counter_mj) * max(0.0, part)
        before = after
    return before.counter_mj


class Boundary:
    """Moments of one device that wait for the counter's next ticks: its start, the edges of windows
    and its stop.

    The start waits for two ticks, which give the update period; the others wait for one, and those
    that come meanwhile wait with it.
    """

    def __init__(self, reading: Reading, ticks: int, limit_ns: int) -> None:
        """`reading` is the first one after the boundary; `ticks` end the wait, or
        `limit_ns`.
        """
        self.reading = self._polled = reading
        self.deadline_ns = reading.time_ns + limit_ns
        self.times_ns: list[int] = []
        self.ticks: list[Point] = []
        self._least_ticks = ticks

    @classmethod
    def at_start(cls, reading: Reading) -> Boundary:
        """Return the job's start: `reading` is the first one, the update period is unknown."""
        return cls(reading, 2, START_LIMIT_NS)

    @classmethod
    def after_start(cls, reading: Reading, period_s: float | None) -> Boundary:
        """Return a later boundary: it waits one update period [s], where that is worth it."""
        slow = period_s is not None and period_s > SLOW_PERIOD_S
        wait_ns = round(1.25 * (period_s or 0.0) * NS_PER_S) + 2 * POLL_NS
        return cls(reading, 1, min(STOP_LIMIT_NS, wait_ns) if slow else 0)

    @property
    def is_start(self) -> bool:
        """True for the job's start."""
        return self._least_ticks > 1

    @property
    def complete(self) -> bool:
        """True when it has seen the ticks that it waits for."""
        return len(self.ticks) >= self._least_ticks

    @property
    def period_s(self) -> float:
        """The counter's update period [s]: the time between the start's two ticks."""
        return (self.ticks[1].time_ns - self.ticks[0].time_ns) / NS_PER_S

    def poll(self, reading: Reading) -> None:
        """Note a later reading: a changed counter has ticked between it and the one before."""
        before, self._polled = self._polled, reading
        if reading.counter_mj is None:
            self._polled = before._replace(time_ns=reading.time_ns)
        elif reading.counter_mj != before.counter_mj:
            middle_ns = (before.time_ns + reading.time_ns) / 2
            self.ticks.append(Point(middle_ns, reading.counter_mj))

    def points(self, period_s: float | None) -> list[Point]:
        """Return the counter around the boundary: its tick before, by the update period [s], and
        those after it.

        Without ticks or period the reading itself; empty for a device without a counter.
        """
        counter_mj = self.reading.counter_mj
        if counter_mj is None:
            return []
        if not self.ticks or period_s is None:
            return [Point(self.reading.time_ns, counter_mj)]
        return [Point(self.ticks[0].time_ns - period_s * NS_PER_S, counter_mj), *self.ticks]


TOLERANCE = 0.10
"""Part of the counter's energy by which power may differ before it is reported."""
DISPROVED = 3.0
"""A counter that is off by more is no longer used: some of AMD's were, a hundred times (amdsmi #38,
zeus #113)."""
MEANS_LEAST_S = 60.0
EDGE_S = 4.0
"""Means are up to one second old at both ends, and a reading may be up to one second late."""
REGULAR_S = (0.8, 1.2)
"""A mean is that of its second; a span of another length is left out of both sums."""
SAMPLES_LEAST = 32
LOG_ODDS = math.log(2 / 1e-6)
"""A false notice in one of a million comparisons; one is made at each doubling of the samples."""
LIMIT_SLACK, UNKNOWN_LIMIT_W = 1.5, 1500.0
"""Power of a moment exceeds the limit for short: as much as the glitch rule allows (energy.py).
Without a limit, one and a half times the rating of the largest board sold (1 000 W, B200)."""


class CrossCheck:
    """One board's sums of counter and power; `finding` is the sentence when they differ."""

    def __init__(self) -> None:
        self.has_means = False
        self._base_ns = 0
        self._base_mj: float | None = None
        self._counter_j = 0.0
        self._mean_j = 0.0
        self._between_w: list[float] = []
        self._until_ns = 0
        self._span_s = 0.0
        self._top_w = 0.0
        self._samples = 0
        self._due = SAMPLES_LEAST
        self._sum_w = 0.0
        self._squares = 0.0
        self._waiting_w: list[float] = []
        self._reported = False
        self.disproved = False
        """True for a counter that the power sensor shows to be another quantity altogether."""

    def add_reading(
        self, time_ns: int, counter_mj: float, mean_mw: float | None, *, trusted: bool
    ) -> None:
        """Add a reading on a whole second [ns]: the counter [mJ] and the second's mean power [mW].

        A step that is not `trusted` is not billed, and so not compared.
        """
        base_ns, base_mj = self._base_ns, self._base_mj
        self._base_ns, self._base_mj = time_ns, counter_mj
        between_w, waiting_w = self._between_w, self._waiting_w
        if between_w:
            self._between_w = []
        if waiting_w:
            self._waiting_w = []
        if mean_mw is not None:
            self.has_means = True
        span_s = (time_ns - base_ns) / NS_PER_S
        if not trusted or base_mj is None or counter_mj < base_mj:
            return
        seconds = len(between_w) + 1
        if not REGULAR_S[0] <= span_s / seconds <= REGULAR_S[1]:
            return
        if self.has_means:
            if mean_mw is None:
                return
            means_w = [*between_w, w_from_mw(mean_mw)]
            self._mean_j += sum(means_w) * span_s / seconds
            self._top_w = max(self._top_w, *means_w)
        self._counter_j += j_from_mj(counter_mj - base_mj)
        self._span_s += span_s
        for power_w in waiting_w:
            self._samples += 1
            self._sum_w += power_w
            self._squares += power_w * power_w

    def add_means(self, until_ns: int, means_w: list[float]) -> None:
        """Add the mean power of seconds [W], of which the last ended at `until_ns` [ns], that were
        read without the counter.

        They are compared when the counter is read next; what slices of a board add twice counts
        once.
        """
        if until_ns > self._until_ns:
            self._until_ns = until_ns
            self._between_w += means_w

    def add_power(self, power_mw: float) -> None:
        """Add power at a random moment [mW]; it counts if the counter's step around it does."""
        self._waiting_w.append(w_from_mw(power_mw))

    def finding(self, limit_w: float | None, *, final: bool = False) -> str | None:
        """Return the sentence to report, once; None while the two agree or too little is known."""
        if self._reported or self._span_s <= 0:
            return None
        counter_w = self._counter_j / self._span_s
        power_w = (
            self._by_means(counter_w)
            if self.has_means
            else self._by_chance(counter_w, limit_w, final=final)
        )
        if power_w is None:
            return None
        self._reported = True
        self.disproved = counter_w < power_w / DISPROVED or counter_w > power_w * DISPROVED
        after = "power is integrated from here on" if self.disproved else "the counter is used"
        return (
            f"over {self._span_s:.0f} s the energy counter says {counter_w:.0f} W on average, "
            f"the power sensor {power_w:.0f} W; {after}."
        )

    def _by_means(self, counter_w: float) -> float | None:
        """Return the mean power by the seconds' means [W], where the edges do not explain it."""
        power_w, edge_w = self._mean_j / self._span_s, EDGE_S * self._top_w / self._span_s
        enough = self._span_s >= MEANS_LEAST_S
        return power_w if enough and _exceeds(power_w, counter_w, edge_w) else None

    def _by_chance(self, counter_w: float, limit_w: float | None, *, final: bool) -> float | None:
        """Return the mean power by random moments [W], when it differs by more than chance can."""
        count = self._samples
        if count < SAMPLES_LEAST or (count < self._due and not final):
            return None
        self._due = max(self._due, 2 * count)
        power_w = self._sum_w / count
        variance = max(0.0, self._squares - count * power_w * power_w) / (count - 1)
        range_w = LIMIT_SLACK * limit_w if limit_w else UNKNOWN_LIMIT_W
        chance_w = math.sqrt(2 * variance * LOG_ODDS / count)
        chance_w += 7 * range_w * LOG_ODDS / (3 * (count - 1))
        return power_w if _exceeds(power_w, counter_w, chance_w) else None


def _exceeds(power_w: float, counter_w: float, slack_w: float) -> bool:
    return abs(power_w - counter_w) > TOLERANCE * counter_w + slack_w


SPIKE_FACTOR = 1.5
"""Power above this times the power limit is a glitch, and so is a counter step above that times the
span."""
SPIKE_SLACK_S = 0.25
"""A step may hold the counter's own update period besides the span: 0.1 s usual, seen up to 0.1 s
(docs/measuring.md, "Start and stop"); more than twice that is allowed."""
SANITY_W = 10_000.0
"""Used for an unknown limit: ten times the rating of any board sold (1 000 W, B200)."""
FROZEN_AFTER_S = 10.0
"""A counter that has not moved for this long is frozen: no powered board draws nothing."""
LEAST_MW = 500.0
"""No powered board or module draws less: some drivers give 0, or watts as milliwatts."""
AGREE_LEAST_S, AGREE_FRACTION = 0.5, 0.25
"""Over so long a span counter and power agree if they differ by no more than this part: two sensors
that agree are believed against the limit."""
STALLED_FRACTION = 0.5
"""After a standstill, a step below this part of the integrated power has lost energy."""
SAMPLE_GAP_S = 10.0
"""Power samples that are further from each other than this are not integrated: what was drawn in
between is estimated, and may be anything from nothing to the limit."""
PEAK_FACTOR = 5.0
"""Used for an unknown limit: how much more a device may draw than it was seen to draw. Boards and
modules are rated up to some five times what they draw when idle."""
MISSING_MAX = 3
"""Readings in a row that may lack the counter before it counts as gone."""


class EnergyMeter:
    """The energy of one billed device (a board, or the given share of one)."""

    def __init__(
        self,
        label: str,
        ledger: Ledger,
        notify: Notify,
        share: float = 1.0,
        mark_ns: int | None = None,
        *,
        dense_power: bool = True,
        read_limit: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`share` is the part of the board billed; `mark_ns` the job's start on the timeline [ns],
        to which the first reading is extrapolated back. `dense_power` is False for power that is
        computed and changes once a second at most, so that more samples show nothing. `read_limit`
        asks for the power limit in force [W].
        """
        self.label = label
        self.ledger = ledger
        self.share = share
        self.limit_w: float | None = None
        self.suspended_ns = 0
        """For how long the machine has been suspended by now; set before each reading [ns]."""
        self.period_s: float | None = None
        self.power_w: float | None = None
        self.fault: str | None = None
        """Why the last counter step was not used, None when it was."""
        self._notify = notify
        self._dense_power = dense_power
        self._read_limit = read_limit
        self._bound_w = SANITY_W
        """Power above which a reading is a glitch, by the limit now or before [W]."""
        self._highest_w = 0.0
        """The highest power ever seen [W]."""
        self._last_suspended_ns = 0
        self._slept_ns = 0
        """For how long the machine was suspended since the counter value that is trusted [ns]."""
        self._trusted: Point | None = None
        """The counter up to which energy is recorded; None without a counter."""
        self._last_ns: int | None = None
        self._last_w: float | None = None
        self._means_w: list[float] = []
        self._means_ns = 0
        """Mean power of the seconds since then [W], and until when [ns]."""
        self._mark_ns = mark_ns
        self._mark_w: float | None = None
        self._pending_j = 0.0
        self._short_j = 0.0
        self._top_w: float | None = None
        """The highest power seen since energy was last recorded [W]."""
        self._frozen = False
        self._missing = 0

    @property
    def needs_power(self) -> bool:
        """True when energy must come from sampled power, the driver's buffer or 10 to 15 Hz."""
        return self._dense_power and (self._frozen or self._trusted is None)

    @property
    def has_counter(self) -> bool:
        """True once an energy counter has been read."""
        return self._trusted is not None

    @property
    def end_ns(self) -> int | None:
        """Until when its energy is recorded [ns]; None before the first reading."""
        return self._last_ns

    def look_at_limit(self) -> None:
        """Read the power limit in force, which limits what is plausible; the last one known stands
        where it is not answered.
        """
        limit_w = self._read_limit()
        if limit_w and limit_w != self.limit_w:
            self._set_limits(limit_w, self.limit_w)

    def plausible_mw(self, power_mw: float | None) -> float | None:
        """Return power of a moment [mW]; None for what no powered board can draw."""
        fault = self._power_fault(power_mw)
        if fault and self.needs_power:
            self._report(fault)
        return None if fault else power_mw

    def plausible(self, reading: Reading) -> Reading:
        """Return a reading without power that no powered board can draw.

        Power above the limit that the counter agrees with is believed: then the limit is wrong.
        """
        counter_mj, base = reading.counter_mj, self._trusted
        if counter_mj is None:
            return reading._replace(
                power_mw=self.plausible_mw(reading.power_mw),
                mean_mw=self.plausible_mw(reading.mean_mw),
            )
        if not self._power_fault(reading.power_mw) and not self._power_fault(reading.mean_mw):
            return reading
        span_s = (reading.time_ns - base.time_ns) / NS_PER_S if base else 0.0
        power_mw = reading.power_mw if reading.mean_mw is None else reading.mean_mw
        if power_mw and base and span_s >= AGREE_LEAST_S:
            power_w = w_from_mw(power_mw)
            counted_w = j_from_mj(counter_mj - base.counter_mj) / span_s
            if abs(power_w - counted_w) <= AGREE_FRACTION * power_w and power_w < SANITY_W:
                self._set_limits(self.limit_w, power_w)
                self._report("odd")
                return reading
            self._report("impossible")
        return reading._replace(power_mw=None, mean_mw=None)

    def _power_fault(self, power_mw: float | None) -> str | None:
        if power_mw is None or (0 <= power_mw < LEAST_MW and not self._dense_power):
            return None
        if power_mw < LEAST_MW:
            return "nothing"
        power_w = w_from_mw(power_mw)
        if power_w <= self._bound_w:
            return None
        self.look_at_limit()
        return "impossible" if power_w > self._bound_w else None

    def forget_counter(self) -> None:
        """Use power from here on."""
        self._settle_pending()
        self._trusted = None

    def set_start_counter(self, counter_mj: float) -> None:
        """Correct the first reading's counter [mJ] to its value between two ticks."""
        if self._trusted is not None:
            self._trusted = Point(self._trusted.time_ns, counter_mj)

    def resume(self, state: dict[str, Any]) -> None:
        """Continue where a dead meter's `state` stood; the next reading spans the gap."""
        time_ns, counter_mj = int(state["t_ns"]), state["counter_mj"]
        if not time_ns:
            return
        self._mark_ns, self._mark_w = state["mark"]
        self.power_w, self.period_s = state["power_w"], state["period_s"]
        self._set_limits(state["limit_w"], None)
        self._highest_w = state["highest_w"]
        self._last_ns, self._last_w = time_ns, self.power_w
        self._last_suspended_ns = state["suspended_ns"]
        self._trusted = None if counter_mj is None else Point(time_ns, counter_mj)
        self.ledger.open = Interval.restored(state["open"])

    def add_reading(self, reading: Reading) -> None:
        """Record the energy since the previous reading [J]."""
        time_ns, counter_mj = reading.time_ns, reading.counter_mj
        if self._last_ns is not None and time_ns <= self._last_ns:
            return
        power_w = None if reading.power_mw is None else w_from_mw(reading.power_mw)
        if power_w is not None:
            self.record_power(power_w)
        if self._last_ns is None:
            if counter_mj is None and power_w is None:
                return
            self._restart(time_ns, counter_mj, power_w)
            self._mark_w = self.power_w
        elif counter_mj is None and power_w is None:
            self._missing += 1  # the next reading spans this one
        elif counter_mj is None:
            self._without_counter(time_ns, power_w)
        elif self._trusted is None:
            self._integrate(time_ns, power_w)
            self._restart(time_ns, counter_mj, power_w)
        else:
            self._with_counter(time_ns, counter_mj, power_w, self._trusted)

    def add_power(self, time_ns: int, power_mw: float | None, *, after_gap: bool = False) -> None:
        """Record the energy since the previous power sample, of a device whose counter is absent or
        frozen.

        `after_gap` says that samples between that one and this are lost.
        """
        if self._last_ns is None or time_ns <= self._last_ns or power_mw is None:
            return
        power_w = w_from_mw(power_mw)
        self.record_power(power_w)
        self._integrate(time_ns, power_w, dense=not after_gap)

    def record_power(self, power_w: float) -> None:
        """Note the power of a moment [W]; energy waits for the counter."""
        self.power_w, self._top_w = power_w, max(self._top_w or 0.0, power_w)
        self._highest_w = max(self._highest_w, power_w)

    def record_means(self, until_ns: int, means_mw: list[float]) -> list[float]:
        """Note the mean power of seconds [mW], of which the last ended at `until_ns` [ns]; return
        what is plausible of it [W].
        """
        if self._power_fault(max(means_mw)) or self._power_fault(min(means_mw)):
            means_mw = [mean_mw for mean_mw in means_mw if not self._power_fault(mean_mw)]
        means_w = [w_from_mw(mean_mw) for mean_mw in means_mw]
        if means_w:
            self.record_power(max(means_w))
            self.power_w = means_w[-1]
            self.ledger.see(min(means_w) * self.share)
            self._means_w, self._means_ns = self._means_w + means_w, until_ns
        return means_w

    def add_boundary(
        self, time_ns: int, points: Sequence[Point], power_mw: float | None, *, cut: bool = True
    ) -> None:
        """Record the energy up to a boundary [ns], the counter there being linear between `points`.

        `cut` ends the open interval there, unless it has just begun.
        """
        if points:
            around = [self._trusted, *points] if self._trusted else points
            self.add_reading(Reading(time_ns, counter_at(time_ns, around), power_mw))
        if cut:
            self.cut()

    def cut(self) -> None:
        """End the open interval where it stands, unless it has just begun."""
        interval = self.ledger.open
        if interval is not None and interval.end_ns - interval.start_ns >= POLL_NS:
            self.ledger.close()

    def settle(self, stop_ns: int) -> None:
        """Record what still waits for the counter, as integrated power, and what was not read until
        the job's stop [ns], as an estimate.
        """
        self._settle_pending()
        if self._mark_ns is not None and self._last_ns is not None and self.power_w is not None:
            # With a single reading, its power is used for the time before it.
            self._record_before(self._last_ns, self.power_w)
        gap_s = self.fill(self.ledger, stop_ns)
        if gap_s > SAMPLE_GAP_S:
            text = f"{self.label}: not read for the last {gap_s:.0f} s; that time is estimated by "
            text += f"its last power, and may be anything from 0 to {self._most_w():.0f} W."
            self._notify("meter-gap", text)

    def fill(self, ledger: Ledger, until_ns: int) -> float:
        """Record in `ledger` what was not read since the last reading, until `until_ns` [ns], at
        the last power known; return for how long that is [s].
        """
        if self._last_ns is None or self.power_w is None:
            return 0.0
        until_ns -= suspended_between(self._last_suspended_ns, self.suspended_ns)
        gap_ns = until_ns - self._last_ns
        if gap_ns < POLL_NS:
            return 0.0
        gap_s = gap_ns / NS_PER_S
        most_w = self._most_w() * self.share if gap_s > SAMPLE_GAP_S else None
        joules = self.power_w * gap_s * self.share
        ledger.add(self._last_ns, until_ns, joules, "estimated", most_w=most_w)
        return gap_s

    def _settle_pending(self) -> None:
        trusted, end_ns = self._trusted, self._last_ns
        if trusted is None or end_ns is None or end_ns <= trusted.time_ns:
            return
        pending_j = self._pending_j or self._held_j(end_ns - trusted.time_ns)
        self._trusted, self._pending_j = Point(end_ns, trusted.counter_mj), 0.0
        if pending_j is None:
            self._report("gap")
        else:
            self._record(int(trusted.time_ns), end_ns, pending_j, "integrated")

    def is_silent(self, now_ns: int) -> bool:
        """Return whether nothing has been read for so long that it is estimated."""
        last_ns = now_ns if self._last_ns is None else self._last_ns
        slept_ns = suspended_between(self._last_suspended_ns, self.suspended_ns)
        return now_ns - last_ns - slept_ns > SAMPLE_GAP_S * NS_PER_S

    def state(self) -> dict[str, Any]:
        """Return what the next meter needs to continue, for JSON."""
        trusted = self._trusted
        return {
            "label": self.label,
            "share": self.share,
            "t_ns": trusted.time_ns if trusted else self._last_ns or 0,
            "counter_mj": trusted.counter_mj if trusted else None,
            "power_w": self.power_w,
            "period_s": self.period_s,
            "limit_w": self.limit_w,
            "highest_w": self._highest_w,
            "suspended_ns": self._last_suspended_ns,
            "mark": [self._mark_ns, self._mark_w],
            "open": self.ledger.open,
        }

    def _with_counter(
        self, time_ns: int, counter_mj: float, power_w: float | None, base: Point
    ) -> None:
        start_ns = int(base.time_ns)
        step_j = j_from_mj(counter_mj - base.counter_mj)
        fault = self.fault = self._fault(step_j, (time_ns - start_ns) / NS_PER_S)
        if fault == "spike":  # the limit may have been raised since it was read
            self.look_at_limit()
            fault = self.fault = self._fault(step_j, (time_ns - start_ns) / NS_PER_S)
        self._missing = 0
        sampled_j = self._sampled_j(time_ns, power_w) or 0.0
        if fault is None:
            self._short_j = max(0.0, sampled_j + self._pending_j - step_j)
            span_s = (time_ns - start_ns) / NS_PER_S
            if power_w is None and span_s >= AGREE_LEAST_S:  # some devices tell a counter alone
                self.record_power(step_j / span_s)
            self._record(start_ns, time_ns, step_j, "measured")
            self._restart(time_ns, counter_mj, power_w)
        elif fault == "late":
            self._pending_j += sampled_j
            self._pass(time_ns, power_w)
        else:
            # The last step before a standstill holds only what was counted until it began.
            self._pending_j += self._short_j if fault in ("frozen", "stalled") else 0.0
            self._short_j = 0.0
            self._integrate(time_ns, power_w)
            self._report(fault)
            self._restart(time_ns, counter_mj, power_w)
            self._frozen = fault == "frozen"

    def _fault(self, step_j: float, span_s: float) -> str | None:
        slept_ns = self._slept_ns + suspended_between(self._last_suspended_ns, self.suspended_ns)
        if step_j < 0:
            return "reset"
        if step_j > self._bound_w * (span_s + SPIKE_SLACK_S):
            return "spike"
        if step_j == 0:
            awake_s = span_s - slept_ns / NS_PER_S
            return "frozen" if self._frozen or awake_s > FROZEN_AFTER_S else "late"
        if self._frozen:  # its first step may hold the standstill's energy once more
            return "thawed"
        stalled = self._pending_j and step_j < STALLED_FRACTION * self._pending_j
        return "stalled" if stalled else None

    def _without_counter(self, time_ns: int, power_w: float | None) -> None:
        self._missing += 1
        if self._trusted is None:
            self._integrate(time_ns, power_w)
        elif self._missing <= MISSING_MAX:  # the counter goes on; its next value spans this one
            self._pending_j += self._sampled_j(time_ns, power_w) or 0.0
            self._pass(time_ns, power_w)
        else:
            self._integrate(time_ns, power_w)
            self._report("absent")
            self._trusted = None

    def _integrate(self, time_ns: int, power_w: float | None, *, dense: bool = True) -> None:
        """Record the span since the last counter value that was used, from power samples.

        Time in which the machine was suspended is left out, as the last part of the span.
        """
        last_ns = time_ns if self._last_ns is None else self._last_ns
        start_ns = int(self._trusted.time_ns) if self._trusted else last_ns
        end_ns = time_ns - suspended_between(self._last_suspended_ns, self.suspended_ns)
        gap = end_ns - max(last_ns, self._means_ns) > SAMPLE_GAP_S * NS_PER_S
        sampled_j = self._sampled_j(time_ns, power_w)
        dense = dense and sampled_j is not None and not gap
        if sampled_j is None:
            sampled_j = self._held_j(end_ns - last_ns)
        self._pass(time_ns, power_w)
        if self._trusted:
            self._trusted = Point(time_ns, self._trusted.counter_mj)
        if sampled_j is None or gap:
            self._report("gap")
        if sampled_j is None:
            return
        pending_j, self._pending_j = self._pending_j, 0.0
        kind = "integrated" if dense else "estimated"
        if gap and start_ns < last_ns:
            self._record(start_ns, last_ns, pending_j, "integrated")
            start_ns, pending_j = last_ns, 0.0
        most_w = self._most_w() if gap else None
        self._record(start_ns, end_ns, pending_j + sampled_j, kind, most_w)

    def _sampled_j(self, time_ns: int, power_w: float | None) -> float | None:
        """Return the energy since the previous power sample [J]: by the means of the seconds
        between, else by the trapezoid of the two.
        """
        if self._last_ns is None or power_w is None:
            return None
        mean_w = power_w if self._last_w is None else (self._last_w + power_w) / 2
        if self._means_w:
            mean_w = (sum(self._means_w) + power_w) / (len(self._means_w) + 1)
        slept_ns = suspended_between(self._last_suspended_ns, self.suspended_ns)
        return mean_w * (time_ns - self._last_ns - slept_ns) / NS_PER_S

    def _held_j(self, span_ns: float) -> float | None:
        """Return the energy of a span at the last known power [J]."""
        return None if self.power_w is None else self.power_w * span_ns / NS_PER_S

    def _set_limits(self, limit_w: float | None, before_w: float | None) -> None:
        self.limit_w = limit_w
        self._bound_w = SPIKE_FACTOR * max(limit_w or 0.0, before_w or 0.0) or SANITY_W

    def _most_w(self) -> float:
        """Return the most that the device can draw while nobody reads it [W]."""
        return max(self.limit_w or PEAK_FACTOR * self._highest_w, self.power_w or 0.0)

    def _pass(self, time_ns: int, power_w: float | None) -> None:
        """Note the last reading."""
        self._slept_ns += suspended_between(self._last_suspended_ns, self.suspended_ns)
        self._last_suspended_ns = self.suspended_ns
        self._last_ns, self._last_w = time_ns, power_w
        self._means_w = []

    def _restart(self, time_ns: int, counter_mj: float | None, power_w: float | None) -> None:
        """Count on from this reading."""
        self._pass(time_ns, power_w)
        self._slept_ns = 0
        self._trusted = None if counter_mj is None else Point(time_ns, counter_mj)
        self._pending_j = 0.0
        self._frozen = False

    def _record(
        self, start_ns: int, end_ns: int, energy_j: float, kind: str, most_w: float | None = None
    ) -> None:
        if self._mark_ns is not None:
            power_w = self._mark_w
            if power_w is None:
                power_w = energy_j * NS_PER_S / (end_ns - start_ns)
            self._record_before(start_ns, power_w)
        label = "attributed" if self.share < 1 and kind != "estimated" else kind
        top_w, self._top_w = self.power_w if self._top_w is None else self._top_w, None
        if most_w is not None:
            most_w *= self.share
        self.ledger.add(start_ns, end_ns, energy_j * self.share, label, top_w, most_w=most_w)

    def _record_before(self, start_ns: int, power_w: float) -> None:
        """Record the time from the job's start to the first reading, at that reading's power."""
        mark_ns, self._mark_ns = self._mark_ns or start_ns, None
        before_s = (start_ns - mark_ns) / NS_PER_S
        joules = power_w * before_s * self.share
        most_w = self._most_w() * self.share if before_s > SAMPLE_GAP_S else None
        self.ledger.add(mark_ns, start_ns, joules, "estimated", most_w=most_w)

    def _report(self, fault: str) -> None:
        code, text = _FAULTS[fault]
        self._notify(code, f"{self.label}: {text}")


_FAULTS = {
    "reset": ("meter-counter-reset", "the energy counter went backwards; that span is integrated."),
    "spike": ("meter-counter-reset", "the energy counter jumped; that span is integrated."),
    "frozen": ("meter-counter-reset", "the energy counter stood still; power is integrated."),
    "thawed": ("meter-counter-reset", "the energy counter moves again after a standstill."),
    "stalled": ("meter-counter-reset", "the energy counter lost energy; that span is integrated."),
    "absent": ("meter-source-absent", "the energy counter stopped answering; power is integrated."),
    "gap": ("meter-gap", "neither counter nor power could be read for a while."),
    "nothing": ("meter-gap", "its power sensor says less than a powered board draws; not used."),
    "odd": ("meter-cross-check", "its power fits no such board, but the counter agrees; believed."),
    "impossible": ("meter-gap", "its power sensor gave more than it can draw; that is left out."),
}
"""Notice code and sentence of each fault."""


Ask = Callable[[int], list[tuple[int, int]]]
"""Samples after a timestamp [us]: (timestamp [us], power [mW])."""

NS_PER_US = 1_000
LEAK = 1e-4
"""How much faster the offset between the two clocks may grow than it is measured: ten times the
100 ppm at most that a clock's discipline slews, kept small against a sample's age."""
SILENT_NS = 3_000_000_000
"""A buffer that gave nothing for so long has another clock by now, or is gone."""
OVERRUN_PERIODS = 5
"""Samples may be late by themselves; so many missing in a row were overwritten."""


class SampleBuffer:
    """One board's samples, each handed out once, in order, on the job's timeline.

    `reach_ns` is how far the buffer goes back at its first reading [ns]: it must be read more often
    than that. `silent` is True when nothing came for SILENT_NS and from the start neither.
    `overrun` is True when samples between the last reading and this one had been overwritten.
    """

    def __init__(self, ask: Ask, now_ns: int) -> None:
        """Read the buffer once; raises what `ask` raises."""
        self._ask = ask
        self._since_us = 0
        self._offset_ns: float | None = None
        self._at_ns = now_ns
        self._answered_ns = now_ns
        self.silent = False
        self.overrun = False
        self._period_us = 0.0
        times_us = [time_us for time_us, _ in self._fresh(now_ns)]
        self.reach_ns = (max(times_us) - min(times_us)) * NS_PER_US if times_us else 0
        self._period_us = self.reach_ns / NS_PER_US / max(1, len(times_us) - 1)

    def drain(self, now_ns: int) -> list[tuple[int, int]]:
        """Return new samples: (time on the timeline [ns], power [mW]); raises what `ask` does."""
        fresh = self._fresh(now_ns)
        offset_ns = self._offset_ns or 0.0
        return [(round(time_us * NS_PER_US + offset_ns), power) for time_us, power in fresh]

    def _fresh(self, now_ns: int) -> list[tuple[int, int]]:
        samples = {time_us: power for time_us, power in self._ask(self._since_us)}
        fresh = sorted(item for item in samples.items() if item[0] > self._since_us)
        if not fresh:
            self._miss(now_ns)
            return []
        step_us = fresh[0][0] - self._since_us if self._since_us else 0
        self.overrun = step_us > OVERRUN_PERIODS * self._period_us > 0
        self._since_us, self._answered_ns = fresh[-1][0], now_ns
        offset_ns = float(now_ns - self._since_us * NS_PER_US)
        if self._offset_ns is not None:  # the least delayed reading so far is the best
            offset_ns = min(offset_ns, self._offset_ns + LEAK * (now_ns - self._at_ns))
        self._offset_ns, self._at_ns = offset_ns, now_ns
        return fresh

    def _miss(self, now_ns: int) -> None:
        if now_ns - self._answered_ns < SILENT_NS:
            return
        self.silent = self._since_us == 0
        self._since_us, self._offset_ns, self._answered_ns = 0, None, now_ns

"""One device: readings of counter and power -> energy segments, each labelled with how it is known.

A counter difference is `measured`. Where the counter cannot be used (absent, backwards,
frozen, jumping) the span is the integral of sampled power, `integrated`; where there were no
samples either, the last known power, `estimated`. docs/measuring.md has the table of cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.devices.boundaries import POLL_NS, Point, counter_at
from gramwatt.collectors.devices.port import Notify
from gramwatt.collectors.devices.reader import Reading
from gramwatt.collectors.journal.intervals import Interval, Ledger
from gramwatt.sci.base.units import j_from_mj, w_from_mw

SPIKE_FACTOR = 1.5
"""A counter step above this times the power limit times the span is a glitch, not energy."""
SPIKE_SLACK_S = 0.25
"""A step may hold the counter's own update period besides the span: 0.1 s usual, seen up to 0.1 s
(docs/measuring.md, "Start and stop"); more than twice that is allowed."""
SANITY_W = 10_000.0
"""Used for an unknown limit: ten times the rating of any board sold (1 000 W, B200)."""
FROZEN_AFTER_S = 10.0
"""A counter that has not moved for this long is frozen: no powered board draws nothing."""
STALLED_FRACTION = 0.5
"""After a standstill, a step below this part of the integrated power has lost energy."""
SAMPLE_GAP_S = 10.0
"""Power samples that are further from each other than this are not integrated."""
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
    ) -> None:
        """`share` is the part of the board billed; `mark_ns` the job's start on the timeline [ns],
        to which the first reading is extrapolated back. `dense_power` is False for power that
        changes once a second at most, so that more samples show nothing.
        """
        self.label = label
        self.ledger = ledger
        self.share = share
        self.limit_w: float | None = None
        self.period_s: float | None = None
        self.power_w: float | None = None
        self.fault: str | None = None
        """Why the last counter step was not used, None when it was."""
        self._notify = notify
        self._dense_power = dense_power
        self._trusted: Point | None = None
        """The counter up to which energy is recorded; None without a counter."""
        self._last_ns: int | None = None
        self._last_w: float | None = None
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
        self._last_ns, self._last_w = time_ns, self.power_w
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
            self._restart(time_ns, counter_mj, power_w)
            self._mark_w = self.power_w
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

    def add_boundary(
        self, time_ns: int, points: Sequence[Point], power_mw: float | None, *, cut: bool = True
    ) -> None:
        """Record the energy up to a boundary [ns], the counter there being linear between `points`.

        `cut` ends the open interval there, unless it has just begun.
        """
        if points:
            known = [self._trusted, *points] if self._trusted else points
            self.add_reading(Reading(time_ns, counter_at(time_ns, known), power_mw))
        if cut:
            self.cut()

    def cut(self) -> None:
        """End the open interval where it stands, unless it has just begun."""
        interval = self.ledger.open
        if interval is not None and interval.end_ns - interval.start_ns >= POLL_NS:
            self.ledger.close()

    def settle(self) -> None:
        """Record what still waits for the counter, as integrated power: the job ends here."""
        self._settle_pending()
        if self._mark_ns is not None and self._last_ns is not None and self.power_w is not None:
            # With a single reading, its power is used for the time before it.
            self._record_before(self._last_ns, self.power_w)

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

    def discard_pending(self) -> None:
        """Close what is known of a device that is gone, and forget the rest of the span."""
        self.ledger.close()
        self._pending_j = 0.0

    def state(self) -> dict[str, Any]:
        """Return what the next meter needs to continue, for JSON."""
        trusted, interval = self._trusted, self.ledger.open
        return {
            "t_ns": trusted.time_ns if trusted else self._last_ns or 0,
            "counter_mj": trusted.counter_mj if trusted else None,
            "power_w": self.power_w,
            "period_s": self.period_s,
            "mark": [self._mark_ns, self._mark_w],
            "open": interval.state() if interval else None,
        }

    def _with_counter(
        self, time_ns: int, counter_mj: float, power_w: float | None, base: Point
    ) -> None:
        start_ns = int(base.time_ns)
        step_j = j_from_mj(counter_mj - base.counter_mj)
        fault = self.fault = self._fault(step_j, (time_ns - start_ns) / NS_PER_S)
        self._missing = 0
        sampled_j = self._sampled_j(time_ns, power_w) or 0.0
        if fault is None:
            self._short_j = max(0.0, sampled_j + self._pending_j - step_j)
            self._record(start_ns, time_ns, step_j, "measured")
            self._restart(time_ns, counter_mj, power_w)
        elif fault == "late":
            self._pending_j += sampled_j
            self._last_ns, self._last_w = time_ns, power_w
        else:
            # The last step before a standstill holds only what was counted until it began.
            self._pending_j += self._short_j if fault in ("frozen", "stalled") else 0.0
            self._short_j = 0.0
            self._integrate(time_ns, power_w)
            self._report(fault)
            self._restart(time_ns, counter_mj, power_w)
            self._frozen = fault == "frozen"

    def _fault(self, step_j: float, span_s: float) -> str | None:
        limit_w = self.limit_w or SANITY_W / SPIKE_FACTOR
        if step_j < 0:
            return "reset"
        if step_j > SPIKE_FACTOR * limit_w * (span_s + SPIKE_SLACK_S):
            return "spike"
        if step_j == 0:
            return "frozen" if self._frozen or span_s > FROZEN_AFTER_S else "late"
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
            self._last_ns, self._last_w = time_ns, power_w
        else:
            self._integrate(time_ns, power_w)
            self._report("absent")
            self._trusted = None

    def _integrate(self, time_ns: int, power_w: float | None, *, dense: bool = True) -> None:
        """Record the span since the last counter value that was used, from power samples."""
        last_ns = time_ns if self._last_ns is None else self._last_ns
        start_ns = int(self._trusted.time_ns) if self._trusted else last_ns
        sampled_j = self._sampled_j(time_ns, power_w)
        dense = dense and sampled_j is not None and time_ns - last_ns <= SAMPLE_GAP_S * NS_PER_S
        if sampled_j is None:
            sampled_j = self._held_j(time_ns - last_ns)
        self._last_ns, self._last_w = time_ns, power_w
        if self._trusted:
            self._trusted = Point(time_ns, self._trusted.counter_mj)
        if sampled_j is None:
            self._report("gap")
            return
        pending_j, self._pending_j = self._pending_j, 0.0
        self._record(
            start_ns, time_ns, pending_j + sampled_j, "integrated" if dense else "estimated"
        )

    def _sampled_j(self, time_ns: int, power_w: float | None) -> float | None:
        """Return the energy since the previous power sample [J], by the trapezoid of the two."""
        if self._last_ns is None or power_w is None:
            return None
        mean_w = power_w if self._last_w is None else (self._last_w + power_w) / 2
        return mean_w * (time_ns - self._last_ns) / NS_PER_S

    def _held_j(self, span_ns: float) -> float | None:
        """Return the energy of a span at the last known power [J]."""
        return None if self.power_w is None else self.power_w * span_ns / NS_PER_S

    def _restart(self, time_ns: int, counter_mj: float | None, power_w: float | None) -> None:
        """Count on from this reading."""
        self._last_ns, self._last_w = time_ns, power_w
        self._trusted = None if counter_mj is None else Point(time_ns, counter_mj)
        self._pending_j = 0.0
        self._frozen = False

    def _record(self, start_ns: int, end_ns: int, energy_j: float, kind: str) -> None:
        if self._mark_ns is not None:
            power_w = self._mark_w
            if power_w is None:
                power_w = energy_j * NS_PER_S / (end_ns - start_ns)
            self._record_before(start_ns, power_w)
        label = "attributed" if self.share < 1 and kind != "estimated" else kind
        top_w, self._top_w = self.power_w if self._top_w is None else self._top_w, None
        self.ledger.add(start_ns, end_ns, energy_j * self.share, label, top_w)

    def _record_before(self, start_ns: int, power_w: float) -> None:
        """Record the time from the job's start to the first reading, at that reading's power."""
        mark_ns, self._mark_ns = self._mark_ns or start_ns, None
        before_j = power_w * (start_ns - mark_ns) / NS_PER_S
        self.ledger.add(mark_ns, start_ns, before_j * self.share, "estimated")

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
}
"""Notice code and sentence of each fault."""

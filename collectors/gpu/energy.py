"""One GPU: readings of counter and power -> energy segments, each labelled with how it is known.

A counter difference is `measured`. Where the counter cannot be believed (absent, backwards,
frozen, jumping) the span is the integral of sampled power, `integrated`; where there were no
samples either, the last known power, `estimated`. docs/measuring.md has the table of cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.journal.intervals import Interval, Ledger
from gramwatt.sci.base.units import j_from_mj, w_from_mw

Notify = Callable[[str, str], None]

SPIKE_FACTOR = 1.5
"""A counter step above this times the power limit times the span is a glitch, not energy."""
SPIKE_SLACK_S = 0.25
"""A step may hold the counter's own update period besides the span: 0.1 s usual, seen up to 0.1 s
(energy_measurement notes in docs/measuring.md); more than twice that is allowed."""
SANITY_W = 10_000.0
"""Stands for an unknown limit: ten times the rating of any board sold (1 000 W, B200)."""
FROZEN_AFTER_S = 10.0
"""A counter that has not moved for this long is frozen: no powered board draws nothing."""
STALLED_FRACTION = 0.5
"""After a standstill, a step below this part of the integrated power has lost energy."""
SAMPLE_GAP_S = 10.0
"""Power samples further apart than this do not make an integral."""

Reading = tuple[int, float | None, float | None]
"""Time on the job's timeline [ns], energy counter [mJ] and power [mW], None where not offered."""


class GpuMeter:
    """The energy of one billed device (a board, or the given share of one)."""

    __slots__ = (
        "_believed",
        "_frozen",
        "_last",
        "_mark_ns",
        "_mark_w",
        "_missing",
        "_notify",
        "_pending_j",
        "_short_j",
        "counter_lost",
        "fault",
        "label",
        "ledger",
        "limit_w",
        "period_s",
        "power_w",
        "share",
    )

    def __init__(
        self,
        label: str,
        ledger: Ledger,
        notify: Notify,
        share: float = 1.0,
        mark_ns: int | None = None,
    ) -> None:
        """`share` is the part of the board billed; `mark_ns` the job's start on the timeline [ns],
        from which the first reading is extrapolated back.
        """
        self.label, self.ledger, self.share = label, ledger, share
        self.limit_w: float | None = None
        self.period_s: float | None = None
        self.power_w: float | None = None
        self.counter_lost = False
        self.fault: str | None = None
        """Why the last counter reading was not believed, None when it was."""
        self._notify = notify
        self._believed: tuple[int, float] | None = None
        self._last: tuple[int, float | None] | None = None
        self._mark_ns = mark_ns
        self._mark_w: float | None = None
        self._pending_j = self._short_j = 0.0
        self._frozen = False
        self._missing = 0

    @property
    def needs_power(self) -> bool:
        """Whether its energy comes from sampled power now, so that samples must be dense."""
        return self._frozen or self._believed is None

    @property
    def end_ns(self) -> int | None:
        """Until when its energy is booked [ns]; None before the first reading."""
        return self._last[0] if self._last else None

    def rebase(self, counter_mj: float) -> None:
        """Set the first reading's counter to its value between two ticks [mJ]."""
        if self._believed is not None:
            self._believed = (self._believed[0], counter_mj)

    def resume(self, state: dict[str, Any]) -> None:
        """Continue where a dead meter's `state` stood; the next reading spans the gap."""
        time_ns, counter_mj = int(state["t_ns"]), state["counter_mj"]
        if not time_ns:
            return
        self._mark_ns, self._mark_w = state["mark"]
        self.power_w, self.period_s = state["power_w"], state["period_s"]
        self._last = (time_ns, self.power_w)
        self._believed = None if counter_mj is None else (time_ns, counter_mj)
        self.ledger.open = Interval.restored(state["open"]) if state["open"] else None

    def counter_at(self, time_ns: int, known: list[tuple[float, float]]) -> float:
        """The counter at a moment [mJ], linear between the last believed value and `known` points.

        `known` are (time [ns], counter [mJ]) in time order, at least one of them.
        """
        points = [self._believed, *known] if self._believed else known
        before = points[0]
        for point in points[1:]:
            if time_ns <= point[0] and point[0] > before[0]:
                past = (time_ns - before[0]) / (point[0] - before[0])
                return before[1] + (point[1] - before[1]) * max(0.0, past)
            before = point
        return before[1]

    def take(self, reading: Reading) -> None:
        """Book the energy from the last reading to this one."""
        time_ns, counter_mj, power_mw = reading
        if self._last is None:
            self._anchor(time_ns, counter_mj, power_mw)
            self._mark_w = self.power_w
        elif time_ns <= self._last[0]:
            return
        elif counter_mj is None:
            self._without_counter(time_ns, power_mw)
        elif self._believed is None:
            self._integrate(time_ns, power_mw)
            self._anchor(time_ns, counter_mj, power_mw)
        else:
            self._with_counter(time_ns, counter_mj, power_mw)

    def take_power(self, time_ns: int, power_mw: float | None, *, after_gap: bool = False) -> None:
        """Book a dense power sample of a device whose counter is absent or frozen.

        `after_gap` says that samples between the last one and this are lost.
        """
        if self._last is not None and time_ns > self._last[0] and power_mw is not None:
            self._integrate(time_ns, power_mw, dense=not after_gap)

    def settle(self) -> None:
        """Book what still waits for the counter, as integrated power: the job ends here."""
        self._settle_pending()
        if self._mark_ns is not None and self._last is not None and self.power_w is not None:
            # One reading is all there is: its power has to do for the time before it.
            self._book_before(self._last[0], self.power_w)

    def _settle_pending(self) -> None:
        if self._believed is None or self._last is None or self._last[0] <= self._believed[0]:
            return
        (start_ns, counter_mj), end_ns = self._believed, self._last[0]
        pending_j = self._pending_j or self._held_j(end_ns - start_ns)
        self._believed, self._pending_j = (end_ns, counter_mj), 0.0
        if pending_j is None:
            self._tell("gap")
        else:
            self._book(start_ns, end_ns, pending_j, "integrated")

    def lose(self) -> None:
        """The device is gone: close what is known and forget the rest of the span."""
        self.ledger.close()
        self._pending_j = 0.0

    def state(self) -> dict[str, Any]:
        """What a successor needs to continue, JSON-ready."""
        believed = self._believed
        time_ns = believed[0] if believed else (self._last or (0, None))[0]
        interval = self.ledger.open
        return {
            "t_ns": time_ns,
            "counter_mj": believed[1] if believed else None,
            "power_w": self.power_w,
            "period_s": self.period_s,
            "mark": [self._mark_ns, self._mark_w],
            "open": interval.state() if interval else None,
        }

    def _with_counter(self, time_ns: int, counter_mj: float, power_mw: float | None) -> None:
        base_ns, base_mj = self._believed or (time_ns, counter_mj)
        span_s = (time_ns - base_ns) / NS_PER_S
        step_j = j_from_mj(counter_mj - base_mj)
        fault = self.fault = self._fault(step_j, span_s, power_mw)
        self._missing = 0
        sampled_j = self._sampled_j(time_ns, power_mw) or 0.0
        if fault == "late":
            self._pending_j += sampled_j
            self._last = (time_ns, self._watts(power_mw))
        elif fault:
            # The last step before a standstill holds only what was counted until it began.
            self._pending_j += self._short_j if fault in ("frozen", "stalled") else 0.0
            self._short_j = 0.0
            self._integrate(time_ns, power_mw)
            self._tell(fault)
            self._anchor(time_ns, counter_mj, power_mw)
            self._frozen = fault == "frozen"
        else:
            self._watts(power_mw)
            self._short_j = max(0.0, sampled_j + self._pending_j - step_j)
            self._book(base_ns, time_ns, step_j, "measured")
            self._anchor(time_ns, counter_mj, power_mw)

    def _fault(self, step_j: float, span_s: float, power_mw: float | None) -> str | None:
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

    def _without_counter(self, time_ns: int, power_mw: float | None) -> None:
        self._missing += 1
        if self._believed is None:
            self._integrate(time_ns, power_mw)
        elif self._missing <= 3:  # the counter goes on; its next value spans this one
            self._pending_j += self._sampled_j(time_ns, power_mw) or 0.0
            self._last = (time_ns, self._watts(power_mw))
        else:
            self._integrate(time_ns, power_mw)
            self._tell("absent")
            self._believed = None

    def _integrate(self, time_ns: int, power_mw: float | None, *, dense: bool = True) -> None:
        """Book the span since the last believed value from power samples."""
        last_ns = (self._last or (time_ns, None))[0]
        start_ns = self._believed[0] if self._believed else last_ns
        sampled_j = self._sampled_j(time_ns, power_mw)
        near = (time_ns - last_ns) <= SAMPLE_GAP_S * NS_PER_S
        dense = dense and sampled_j is not None and near
        if sampled_j is None:
            sampled_j = self._held_j(time_ns - last_ns)
        power_w = self._watts(power_mw)
        self._last = (time_ns, power_w)
        if self._believed:
            self._believed = (time_ns, self._believed[1])
        if sampled_j is None:
            self._tell("gap")
            return
        pending_j, self._pending_j = self._pending_j, 0.0
        kind = "integrated" if dense else "estimated"
        self._book(start_ns, time_ns, pending_j + sampled_j, kind)

    def _sampled_j(self, time_ns: int, power_mw: float | None) -> float | None:
        """Energy between the last sample and this one [J], by the trapezoid of the two."""
        if self._last is None or power_mw is None:
            return None
        last_ns, last_w = self._last
        now_w = w_from_mw(power_mw)
        mean_w = now_w if last_w is None else (last_w + now_w) / 2
        return mean_w * (time_ns - last_ns) / NS_PER_S

    def _held_j(self, span_ns: int) -> float | None:
        return None if self.power_w is None else self.power_w * span_ns / NS_PER_S

    def _watts(self, power_mw: float | None) -> float | None:
        if power_mw is None:
            return None
        self.power_w = w_from_mw(power_mw)
        return self.power_w

    def _anchor(self, time_ns: int, counter_mj: float | None, power_mw: float | None) -> None:
        self._last = (time_ns, self._watts(power_mw))
        self._believed = None if counter_mj is None else (time_ns, counter_mj)
        self._pending_j = 0.0
        self._frozen = False

    def _book(self, start_ns: int, end_ns: int, energy_j: float, kind: str) -> None:
        if self._mark_ns is not None:
            power_w = self._mark_w
            if power_w is None:
                power_w = energy_j * NS_PER_S / (end_ns - start_ns)
            self._book_before(start_ns, power_w)
        label = "attributed" if self.share < 1 and kind != "estimated" else kind
        self.ledger.add(start_ns, end_ns, energy_j * self.share, label, self.power_w)

    def _book_before(self, start_ns: int, power_w: float) -> None:
        """Book the time from the job's start to the first reading, at that reading's power."""
        mark_ns, self._mark_ns = self._mark_ns or start_ns, None
        before_j = power_w * (start_ns - mark_ns) / NS_PER_S
        self.ledger.add(mark_ns, start_ns, before_j * self.share, "estimated")

    def _tell(self, fault: str) -> None:
        self.counter_lost = self.counter_lost or fault == "absent"
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

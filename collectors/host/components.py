"""A component of the job's host, processor or memory: what of its energy is recorded and billed."""

from __future__ import annotations

from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.host.division import WHOLE, Divided
from gramwatt.collectors.host.model import ModelSource
from gramwatt.collectors.host.source import HostSource
from gramwatt.collectors.journal.intervals import Interval, Ledger

SMALLEST_SHARE = 1e-6


class HostComponent:
    """CPU or RAM of the host: its source, its ledger, and the share of it that is billed.

    `share` (0 to 1] is what limits leave to the job; of that it is billed the part that
    `divided` has for the time since energy was last recorded.
    """

    def __init__(
        self,
        share: float,
        ledger: Ledger,
        model: ModelSource,
        source: HostSource,
        divided: Divided,
    ) -> None:
        """`model` stands in where `source`, which may be the model itself, tells nothing."""
        self.share = share
        self.ledger, self.model, self.source = ledger, model, source
        self._divided, self._part = divided, WHOLE
        self._recorded_ns = 0
        """Until when energy is recorded [ns]."""
        self._counted_w: float | None = None
        """Power of the counter's last reading [W]; None where it is not known."""
        self._whole_s = self._reserved_s = 0.0

    @property
    def mean_share(self) -> float:
        """The share of what is idle so far, weighted by time."""
        if self._whole_s <= 0:
            return self.share
        return max(SMALLEST_SHARE, round(self._reserved_s / self._whole_s, 9))

    def begin(self, state: dict[str, Any] | None, mark_ns: int) -> None:
        """Continue from another meter's `state`, or record from `mark_ns` [ns] on."""
        self._recorded_ns = mark_ns
        if state:
            self._recorded_ns = int(state["since_ns"])
            self.ledger.open = Interval.restored(state["open"])
            self.source.resume(state["source"])

    def state(self) -> dict[str, Any]:
        """Return what the next meter needs to continue, JSON-ready."""
        opened = self.ledger.open
        return {
            "since_ns": self._recorded_ns,
            "open": opened.state() if opened else None,
            "source": self.source.state(),
        }

    def settle(self, now_ns: int) -> None:
        """Record what is known up to now [ns], and the load meanwhile."""
        self.model.observe(self.ledger)
        self._record(now_ns, now_ns)

    def cut(self, mark_ns: int, now_ns: int) -> None:
        """End the open interval at a window's boundary [ns], or now, where the source allows it."""
        until_ns = self.source.cut_ns(mark_ns, now_ns)
        if until_ns is not None:
            self._record(now_ns, until_ns)
            self.ledger.close()

    def stop(self, now_ns: int, until_ns: int) -> None:
        """Record everything up to `until_ns` [ns]: what its counter has not told is estimated."""
        self._record(now_ns, until_ns)
        self._part = self._divided.part() or self._part
        self._estimate(until_ns, self._counted_w)
        self.ledger.close()
        # A meter that was brought back has recorded up to its begin, which the journal cuts off
        # here; another rank's meter may go on.
        self._recorded_ns = min(self._recorded_ns, until_ns)

    def _record(self, now_ns: int, until_ns: int) -> None:
        before_ns, self._part = self._recorded_ns, self._divided.part() or self._part
        self._record_spans(now_ns, until_ns)
        if self._recorded_ns > before_ns:
            self._divided.recorded()
            self.model.restart()

    def _record_spans(self, now_ns: int, until_ns: int) -> None:
        for span in self.source.read(self._recorded_ns, now_ns, until_ns):
            end_ns = min(span.end_ns, until_ns)
            self._estimate(min(span.start_ns, until_ns), self._counted_w)
            if span.power_w is None:
                self._estimate(end_ns, None)
            else:
                self._add(end_ns, span.power_w, span.kind)
            if span.power_w is None or span.kind != "estimated":
                self._counted_w = span.power_w

    def _estimate(self, until_ns: int, power_w: float | None) -> None:
        """Record the time up to `until_ns` [ns] at this power [W], or at the model's."""
        if until_ns <= self._recorded_ns:
            return
        power_w = self.model.power_w() if power_w is None else power_w
        if power_w is None:
            self.ledger.close()  # unknown, and so no interval: the engine says unmeasured
            self._recorded_ns = until_ns
        else:
            self._add(until_ns, power_w, "estimated")

    def _add(self, end_ns: int, power_w: float, kind: str) -> None:
        if end_ns <= self._recorded_ns:
            return
        span_s = (end_ns - self._recorded_ns) / NS_PER_S
        whole_w, of = power_w * self.share, self._part
        label = "attributed" if self.share * of.own < 1 and kind == "measured" else kind
        own_w = whole_w * of.own
        self.ledger.add(self._recorded_ns, end_ns, own_w * span_s, label, round(own_w, 3))
        self._whole_s += span_s
        self._reserved_s += span_s * self.share * of.reserved
        self._recorded_ns = end_ns

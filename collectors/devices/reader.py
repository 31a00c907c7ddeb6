"""One device read at known times; failures become notices and a missing reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.devices.port import DeviceLost, DevicePort, Notify

INTERRUPTED_NS, INTERRUPTED_FACTOR = NS_PER_S // 200, 4
"""A reading that took longer, and so many times longer than the quickest, was interrupted by other
work: it is repeated once, because its value may belong to any moment of the call."""
COSTLY_NS = NS_PER_S // 1000
"""A reading whose quickest took longer is costly. On an H100 the counter takes 2 to 20 ms of the
processor, in the driver; power takes 0.02 ms (docs/measuring.md, "On a real board")."""
RETRY_MIN_NS, RETRY_MAX_NS = 10 * NS_PER_S, 300 * NS_PER_S
"""Pause before a lost device is read again; it doubles with each failure."""


class Reading(NamedTuple):
    """Time on the job's timeline [ns], energy counter [mJ], power [mW] and its mean over one second
    [mW]; None for what the device does not offer.
    """

    time_ns: int
    counter_mj: float | None
    power_mw: float | None
    mean_mw: float | None = None


class Reader:
    """Reads one device, and reads a lost one less and less often."""

    def __init__(
        self,
        port: DevicePort,
        index: int,
        timeline: Timeline,
        label: str,
        notify: Notify,
        on_lost: Callable[[], None],
    ) -> None:
        """`label` names the device in notices; `on_lost` is called when it stops answering."""
        self._port, self._index, self._timeline = port, index, timeline
        self._label, self._notify, self._on_lost = label, notify, on_lost
        self._quickest_ns = NS_PER_S
        self.retry_at_ns = 0
        """When a lost device may be read again [ns]; 0 while it answers."""
        self._pause_ns = RETRY_MIN_NS

    @property
    def lost(self) -> bool:
        """True while the device does not answer."""
        return self.retry_at_ns > 0

    @property
    def costly(self) -> bool:
        """True when even the quickest reading took long."""
        return self._quickest_ns > COSTLY_NS

    def read(self) -> Reading | None:
        """Return a reading of now; None when it failed."""
        clock = self._timeline.clock
        try:
            before_ns = clock.now_ns()
            values = self._port.read(self._index)
            took_ns = clock.now_ns() - before_ns
            if took_ns > INTERRUPTED_NS and took_ns > INTERRUPTED_FACTOR * self._quickest_ns:
                again_ns = clock.now_ns()
                again = self._port.read(self._index)
                again_took_ns = clock.now_ns() - again_ns
                if again_took_ns < took_ns:
                    before_ns, values, took_ns = again_ns, again, again_took_ns
        except DeviceLost as error:
            self._report_lost(error)
            return None
        except Exception as error:
            self._notify("meter-gap", f"{self._label}: a reading failed ({error}).")
            return None
        self._quickest_ns = min(self._quickest_ns, took_ns)
        if self.retry_at_ns:
            self.retry_at_ns, self._pause_ns = 0, RETRY_MIN_NS
        # The value belongs to some moment within the call; its middle is off by half of it.
        time_ns = before_ns + took_ns // 2 + self._timeline.offset_ns
        return Reading(time_ns - time_ns % 1000, *values)

    def _report_lost(self, error: DeviceLost) -> None:
        if not self.retry_at_ns:
            self._on_lost()
            self._notify("meter-gap", f"{self._label}: the device was lost ({error}).")
        self.retry_at_ns = self._timeline.now_ns() + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)

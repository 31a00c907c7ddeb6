"""How one device is read: the calls that it offers, the time of each reading, and lost devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.devices.base import (
    FAST_FIELDS,
    DeviceLost,
    DevicePort,
    Notify,
    NotSupported,
)

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


Values = tuple[float | None, float | None, float | None]
"""Energy counter [mJ], power [mW] and its mean over one second [mW]; None where not offered."""
Read = Callable[[], Values]


def best_read(port: DevicePort, index: int) -> Read | None:
    """The cheapest call or pair of calls that gives counter and power of this device.

    None when neither can be read. A call that fails for a passing reason is kept.
    """

    def read_fields() -> Values:
        counter_mj, instant_mw, mean_mw = port.fields(index, FAST_FIELDS)
        return counter_mj, mean_mw if instant_mw is None else instant_mw, mean_mw

    counter_mj, power_mw, _ = _attempt(read_fields) or (None, None, None)
    if counter_mj is not None and power_mw is not None:
        return read_fields
    counter = _offered(lambda: port.energy_mj(index))
    power = _offered(lambda: port.power_mw(index))
    if not counter and not power:
        return None

    def read_single() -> Values:
        return (
            _optional(lambda: port.energy_mj(index)) if counter else None,
            _optional(lambda: port.power_mw(index)) if power else None,
            None,
        )

    return read_single


class Reader:
    """Reads one device at a known time; failures become notices and a missing reading."""

    __slots__ = (
        "_label",
        "_notify",
        "_on_lost",
        "_pause_ns",
        "_quickest_ns",
        "_read",
        "_timeline",
        "retry_at_ns",
    )

    def __init__(
        self,
        read: Read,
        timeline: Timeline,
        label: str,
        notify: Notify,
        on_lost: Callable[[], None],
    ) -> None:
        """`label` names the device in notices; `on_lost` is called when it stops answering."""
        self._read, self._timeline = read, timeline
        self._label, self._notify, self._on_lost = label, notify, on_lost
        self._quickest_ns = NS_PER_S
        self.retry_at_ns = 0
        """When a lost device may be read again [ns]; 0 while it answers."""
        self._pause_ns = RETRY_MIN_NS

    @property
    def lost(self) -> bool:
        """Whether the device has stopped answering."""
        return self.retry_at_ns > 0

    @property
    def costly(self) -> bool:
        """Whether even the quickest reading took long."""
        return self._quickest_ns > COSTLY_NS

    def read(self) -> Reading | None:
        """Read once; None when that failed."""
        clock = self._timeline.clock
        try:
            before_ns = clock.now_ns()
            values = self._read()
            took_ns = clock.now_ns() - before_ns
            if took_ns > INTERRUPTED_NS and took_ns > INTERRUPTED_FACTOR * self._quickest_ns:
                again_ns = clock.now_ns()
                again = self._read()
                again_took_ns = clock.now_ns() - again_ns
                if again_took_ns < took_ns:
                    before_ns, values, took_ns = again_ns, again, again_took_ns
        except DeviceLost as error:
            self._lose(error)
            return None
        except Exception as error:
            self._notify("meter-gap", f"{self._label}: a reading failed ({error}).")
            return None
        if took_ns < self._quickest_ns:
            self._quickest_ns = took_ns
        if self.retry_at_ns:
            self.retry_at_ns, self._pause_ns = 0, RETRY_MIN_NS
        # The value belongs to some moment within the call; its middle is off by half of it.
        time_ns = before_ns + took_ns // 2 + self._timeline.offset_ns
        return Reading(time_ns - time_ns % 1000, *values)

    def _lose(self, error: DeviceLost) -> None:
        if not self.retry_at_ns:
            self._on_lost()
            self._notify("meter-gap", f"{self._label}: the device was lost ({error}).")
        self.retry_at_ns = self._timeline.now_ns() + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)


def _attempt(call: Read) -> Values | None:
    try:
        return call()
    except Exception:  # a field interface that is not there: the single calls are tried next
        return None


def _offered(call: Callable[[], int]) -> bool:
    try:
        call()
    except NotSupported:
        return False
    except Exception:
        return True
    return True


def _optional(call: Callable[[], int]) -> float | None:
    try:
        return call()
    except NotSupported:
        return None

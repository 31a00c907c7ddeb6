"""Which calls read a device best: probed once, so that no tick asks what it knows will fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gramwatt.collectors.devices.base import FAST_FIELDS, NotSupported, NvmlPort


class Sample(NamedTuple):
    """Energy counter [mJ], power [mW] and its mean over one second [mW]; None where not offered."""

    counter_mj: float | None
    power_mw: float | None
    mean_mw: float | None = None


Read = Callable[[], Sample]


def best_read(port: NvmlPort, index: int) -> Read | None:
    """The cheapest call or pair of calls that gives counter and power of this device.

    None when neither can be read. A call that fails for a passing reason is kept.
    """
    fields = _attempt(lambda: port.fields(index, FAST_FIELDS)) or (None, None, None)
    has_counter = fields[0] is not None
    if has_counter and (fields[1] is not None or fields[2] is not None):
        return lambda: _from_fields(port.fields(index, FAST_FIELDS))
    counter = _offered(lambda: port.energy_mj(index))
    power = _offered(lambda: port.power_mw(index))
    if not counter and not power:
        return None

    def read() -> Sample:
        return Sample(
            _optional(lambda: port.energy_mj(index)) if counter else None,
            _optional(lambda: port.power_mw(index)) if power else None,
        )

    return read


def _from_fields(values: tuple[int | None, ...]) -> Sample:
    counter_mj, instant_mw, mean_mw = values
    return Sample(counter_mj, instant_mw if instant_mw is not None else mean_mw, mean_mw)


def _attempt(call: Callable[[], tuple[int | None, ...]]) -> tuple[int | None, ...] | None:
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

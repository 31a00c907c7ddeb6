"""How a device runs, read now and then: use, memory, temperature, what holds its clocks down.

Energy does not depend on it: a call that the device does not offer is tried once, and one that
fails costs that reading only.
"""

from __future__ import annotations

from typing import Any

from gramwatt.collectors.devices.base import CLOCK_REASONS, DevicePort, NotSupported
from gramwatt.collectors.journal.intervals import Ledger
from gramwatt.sci.base.units import w_from_mw

SLOW_EVERY = 2
"""Readings per reading of what changes slowly: temperature, clocks, encoder."""


class Profiler:
    """Reads one device's profile; `record` adds it to the open interval."""

    __slots__ = ("_absent", "_count", "_index", "_port")

    def __init__(self, port: DevicePort, index: int) -> None:
        self._port, self._index = port, index
        self._absent: set[str] = set()
        self._count = 0

    def record(self, ledger: Ledger) -> None:
        """Read the profile and add it to the ledger's open interval."""
        use, memory = self._read("utilisation_percents"), self._read("memory_b")
        ledger.observe(use[0] / 100 if use else None, memory[0] if memory else None)
        found = self._slow() if self._count % SLOW_EVERY == 0 else {}
        if use and use[1] is not None:
            found["memory_busy"] = use[1] / 100
        self._count += 1
        ledger.note(found)

    def limit_w(self) -> float | None:
        """The power limit in force [W]; None where the device does not report it."""
        limit_mw = self._read("limit_mw")
        return None if limit_mw is None else w_from_mw(limit_mw)

    def _slow(self) -> dict[str, float]:
        found: dict[str, float] = {}
        if (temperature_c := self._read("temperature_c")) is not None:
            found["temperature_c"] = float(temperature_c)
        if (encoder := self._read("encoder_percent")) is not None:
            found["encoder_busy"] = encoder / 100
        if (reasons := self._read("clock_reasons")) is not None:
            found |= {name: float(bool(reasons & bits)) for name, bits in CLOCK_REASONS.items()}
        return found

    def _read(self, call: str) -> Any:
        if call in self._absent:
            return None
        try:
            return getattr(self._port, call)(self._index)
        except NotSupported:
            self._absent.add(call)
        except Exception:  # the energy goes on without it
            return None
        return None

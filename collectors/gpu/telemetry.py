"""How a device runs, read now and then: use, memory, heat, what holds its clocks down.

All of it is a courtesy. A call that the device does not offer is asked once, and one that fails
costs that reading only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from gramwatt.collectors.devices.base import CLOCK_REASONS, NotSupported, NvmlPort
from gramwatt.collectors.journal.intervals import Ledger
from gramwatt.sci.base.units import w_from_mw

_T = TypeVar("_T")
SLOW_EVERY = 2
"""Looks per look at what changes slowly: heat, clocks, encoder."""


class Profiler:
    """Readings of one device beside its energy; `add` notes them in its open interval."""

    __slots__ = ("_absent", "_index", "_looks", "_port")

    def __init__(self, port: NvmlPort, index: int) -> None:
        self._port, self._index = port, index
        self._absent: set[str] = set()
        self._looks = 0

    def add(self, ledger: Ledger) -> None:
        """Look once, and note what was seen in the ledger's open interval."""
        port, index = self._port, self._index
        rates = self._asked("use", lambda: port.utilisation_percents(index))
        used_b = self._asked("memory", lambda: port.memory_b(index)[0])
        ledger.observe(rates[0] / 100 if rates else None, used_b)
        seen: dict[str, float] = {}
        if rates and rates[1] is not None:
            seen["memory_busy"] = rates[1] / 100
        if self._looks % SLOW_EVERY == 0:
            seen.update(self._slow())
        self._looks += 1
        ledger.note(seen)

    def limit_w(self) -> float | None:
        """The power limit in force [W]; None where the device does not tell."""
        limit_mw = self._asked("limit", lambda: self._port.limit_mw(self._index))
        return None if limit_mw is None else w_from_mw(limit_mw)

    def _slow(self) -> Mapping[str, float]:
        port, index = self._port, self._index
        heat_c = self._asked("temperature", lambda: port.temperature_c(index))
        encoder = self._asked("encoder", lambda: port.encoder_percent(index))
        reasons = self._asked("clocks", lambda: port.clock_reasons(index))
        seen: dict[str, float] = {}
        if heat_c is not None:
            seen["temperature_c"] = float(heat_c)
        if encoder is not None:
            seen["encoder_busy"] = encoder / 100
        if reasons is not None:
            seen |= {name: float(bool(reasons & bits)) for name, bits in CLOCK_REASONS.items()}
        return seen

    def _asked(self, name: str, call: Callable[[], _T]) -> _T | None:
        if name in self._absent:
            return None
        try:
            return call()
        except NotSupported:
            self._absent.add(name)
        except Exception:  # the energy goes on without it
            return None
        return None

"""Boards that are not there, for a demonstration: `GRAMWATT_NVML=synthetic`.

Two boards swing between idle and busy power, each in its own phase. What is measured of them has
the notice `meter-synthetic`, and its score is `not-sci`.
"""

from __future__ import annotations

from typing import Any

from gramwatt.collectors.devices.board import GpuUser, MigSlice, NotSupported, SourceAbsent
from gramwatt.collectors.settings.clock import NS_PER_S, Clock
from gramwatt.sci.figures.units import MJ_PER_J, MW_PER_W

CHOICE = "synthetic"
BOARDS = 2
IDLE_W, BUSY_W, LIMIT_W = 100, 300, 400
PERIOD_S, BUSY_S = 60.0, 40.0
PHASE_S = 20.0
"""How much later the second board begins."""
TICK_S = 0.1
"""How often the counter is brought up to date."""
MEMORY_B = 80 * 2**30


class SyntheticNvml:
    """NVML of boards that follow a fixed course; with a `wrong` choice there is none."""

    meter = "nvml-synthetic"

    def __init__(self, clock: Clock, wrong: str = "") -> None:
        """`wrong` says why it cannot be opened."""
        self._clock, self._wrong = clock, wrong

    def open(self) -> None:
        """Raise SourceAbsent for a wrong choice."""
        if self._wrong:
            raise SourceAbsent(self._wrong)

    def close(self) -> None:
        """Release nothing."""

    def driver(self) -> str:
        """Return a version."""
        return CHOICE

    def count(self) -> int:
        """Return the number of boards."""
        return BOARDS

    def ask(self, call: str, index: int) -> Any:
        """Return what a board answers to a call now."""
        at_s = self._clock.now_ns() / NS_PER_S - index * PHASE_S
        rounds, past_s = divmod(at_s // TICK_S * TICK_S, PERIOD_S)
        busy = past_s < BUSY_S
        busy_s = rounds * BUSY_S + min(past_s, BUSY_S)
        energy_j = IDLE_W * (rounds * PERIOD_S + past_s) + (BUSY_W - IDLE_W) * busy_s
        answers = {
            "name": "Synthetic GPU",
            "uuid": f"GPU-00000000-0000-4000-8000-{index:012d}",
            "energy_mj": round(energy_j * MJ_PER_J),
            "power_mw": round((BUSY_W if busy else IDLE_W) * MW_PER_W),
            "limit_mw": round(LIMIT_W * MW_PER_W),
            "utilisation_percents": (100, 40) if busy else (0, 0),
            "memory_b": (MEMORY_B // 2, MEMORY_B),
        }
        if call not in answers:
            raise NotSupported(f"{self.meter} has no {call}")
        return answers[call]

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Raise NotSupported: counter and power are calls of their own."""
        raise NotSupported(f"{self.meter} has no field values")

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """Raise NotSupported: there is a counter."""
        raise NotSupported(f"{self.meter} has no sample buffer")

    def slices(self, index: int) -> tuple[MigSlice, ...]:
        """Return none."""
        return ()

    def users(self, index: int) -> tuple[GpuUser, ...]:
        """Raise NotSupported: nobody works on it."""
        raise NotSupported(f"{self.meter} has no processes")

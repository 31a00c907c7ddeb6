"""Generation by fuel over time, and the intensity that follows from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from gramwatt.sci.grid.fuels import is_explained, mix_intensity
from gramwatt.sci.grid.intensity import Basis, Quality
from gramwatt.service.providers.base import Reading


class Generation:
    """Generation of several series of a zone, whose steps may differ; one unit for all."""

    def __init__(self) -> None:
        self.fuels: dict[str, str] = {}
        """The fuel of each series."""
        self.amounts: dict[str, dict[datetime, float]] = defaultdict(dict)
        self._steps: dict[str, int] = {}

    @property
    def step_s(self) -> int:
        """The finest step [s]; 0 without any series."""
        return min(self._steps.values(), default=0)

    def add(self, series: str, fuel: str, at: datetime, step_s: int, amount: float) -> None:
        """Add the mean power of a step; a later amount for the same time replaces the earlier."""
        self.fuels[series] = fuel
        self._steps[series] = min(step_s, self._steps.get(series, step_s))
        fine = 300  # whatever steps come, so that a coarse one covers the fine ones in it
        for offset in range(0, step_s, fine):
            self.amounts[series][at + timedelta(seconds=offset)] = amount


def readings(generation: Generation, basis: Basis) -> Iterator[Reading]:
    """Yield the intensity of every step for which each series that generates has an amount."""
    step = timedelta(seconds=generation.step_s)
    active = {
        name: of for name, of in generation.amounts.items() if any(a > 0 for a in of.values())
    }
    times = sorted({time for of in active.values() for time in of})
    for time in times:
        if time.timestamp() % step.total_seconds() or any(time not in of for of in active.values()):
            continue
        mix: dict[str, float] = defaultdict(float)
        for name, of in active.items():
            mix[generation.fuels[name]] += max(of[time], 0.0)
        quality: Quality = "measured" if is_explained(mix) else "estimated"
        yield Reading(time, mix_intensity(mix, basis), quality)

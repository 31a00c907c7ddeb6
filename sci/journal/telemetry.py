"""How a device ran: readings beside its energy, kept per interval and put together over a job.

Names are those of the interval record's `profile`. Unknown stays out; nothing is taken for 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MEANS = (
    "memory_busy",
    "encoder_busy",
    "power_capped",
    "thermally_slowed",
    "hardware_slowed",
)
"""Shares of the time, 0 to 1: memory controller in use, video encoder in use, and clocks held down
by the power limit, by heat, or by the board's own protection."""
MAXIMA = ("temperature_c",)
"""Highest readings: temperature of the device [degC]."""
NAMES = MEANS + MAXIMA


def joined(parts: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """One profile of several (profile, length [s]): means weighted by length, highest maxima.

    Each name over the parts that have it; a name that none has is left out.
    """
    sums: dict[str, float] = {}
    lengths: dict[str, float] = {}
    tops: dict[str, float] = {}
    for profile, length_s in parts:
        for name, value in profile.items():
            if name in MAXIMA:
                tops[name] = max(value, tops.get(name, value))
            else:
                sums[name] = sums.get(name, 0.0) + value * length_s
                lengths[name] = lengths.get(name, 0.0) + length_s
    means = {name: sums[name] / lengths[name] for name in MEANS if lengths.get(name)}
    return means | tops

"""Telemetry of a device beside its energy: by interval, and over a job.

The names are those in `profile` of the interval record. A name that is not known is left out.
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
"""Shares of the time (0 to 1): memory controller busy, video encoder busy, and clocks reduced by
the power limit, by heat, or by the protection of the board."""
MAXIMA = ("temperature_c",)
"""Highest readings: device temperature [degC]."""
NAMES = MEANS + MAXIMA


def joined(parts: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """Combine (profile, length [s]) pairs: means weighted by length, maxima the highest.

    Each name is taken over the pairs that have it; a name that none has is left out.
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

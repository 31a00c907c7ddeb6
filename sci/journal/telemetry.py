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
    pairs = tuple(parts)
    found: dict[str, float] = {}
    for name in NAMES:
        read = [(profile[name], length_s) for profile, length_s in pairs if name in profile]
        whole_s = sum([length_s for _, length_s in read])
        if name in MAXIMA and read:
            found[name] = max([value for value, _ in read])
        elif whole_s:
            found[name] = sum([value * length_s for value, length_s in read]) / whole_s
    return found

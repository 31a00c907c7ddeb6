"""Telemetry of a device beside its energy: by interval, and over a job.

The names are those in `profile` of the interval record. A name that is not known is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import mul

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
NAMES = (*MEANS, *MAXIMA)


def joined(profiles: Sequence[Mapping[str, float]], lengths_s: Sequence[float]) -> dict[str, float]:
    """Combine the profiles of spans of these lengths [s]: means weighted by them, maxima.

    Each name is taken over the profiles that have it; a name that none has is left out.
    """
    found: dict[str, float] = {}
    for name in NAMES:
        read = [profile[name] for profile in profiles if name in profile]
        if name in MAXIMA and read:
            found[name] = max(read)
        elif read:
            has = (name in profile for profile in profiles)
            of_read = lengths_s if len(read) == len(profiles) else list(compress(lengths_s, has))
            whole_s = sum(of_read)
            if whole_s:
                found[name] = sum(map(mul, read, of_read)) / whole_s
    return found

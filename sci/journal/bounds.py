"""What a figure of a journal line may be at most: far above what exists, far below what overflows.

A meter that fails can report anything. A line beyond these bounds is refused alone, so that it
spoils neither its job nor the sums over jobs.
"""

from __future__ import annotations

from collections.abc import Mapping

from gramwatt.sci.base.errors import RecordError

MOST: Mapping[str, float] = {
    **dict.fromkeys(("memory_b", "memory_peak_b", "meter_rss_b"), 1e18),
    **dict.fromkeys(("power_limit_w", "power_max_w", "update_period_s"), 1e6),
    **dict.fromkeys(("utilisation_mean", "utilisation_max"), 1e4),
    **dict.fromkeys(("units", "units_total"), 1e7),
    "meter_cpu_s": 1e10,
    "amount": 1e30,
}
"""The greatest figure of each field, in its unit; a training run counts up to 1e26 FLOP."""
PROFILE_MOST = 1e6
"""The greatest share, or temperature [degC], of a profile."""
MOST_W: Mapping[str, float] = {
    "gpu": 20e3,
    "module": 20e3,
    "cpu": 50e3,
    "ram": 20e3,
    "accelerator": 300e3,
}
"""Ten times what the largest device of a class draws [W]: a GPU 1.4 kW, a node's processors 4 kW,
a wafer-scale system 23 kW."""
UNKNOWN_W = 1e6
"""The same for a device whose class is not known [W]."""
LEAST_W = min(MOST_W.values())
SLACK_S = 60.0
"""A counter steps between its updates, so a short interval may hold the energy of a longer one."""


def check_energy(energy_j: float, length_s: float, device_class: str | None = None) -> None:
    """Raise RecordError `impossible-energy` for more than a device can draw in that time."""
    most_w = MOST_W.get(device_class or "", UNKNOWN_W)
    if energy_j > most_w * (length_s + SLACK_S):
        device = f"a {device_class} device" if device_class else "any device"
        text = (
            f"{energy_j:.3g} J in {length_s:g} s is more than {device} can draw "
            f"({most_w:,.0f} W); check its meter"
        )
        raise RecordError(text, code="impossible-energy")

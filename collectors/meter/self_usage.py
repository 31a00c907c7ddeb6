"""What the meter itself uses."""

from __future__ import annotations

import os
import resource

B_PER_MAXRSS = 1024.0
"""getrusage gives the largest resident set in KiB on Linux (getrusage(2))."""


def own_usage() -> tuple[float, float | None]:
    """Return the processor time of this process and its ended children [s], and peak memory [B].

    The memory is this process's peak and that of its largest child, which is codecarbon's process
    where there is one: never less than both took at once.
    """
    times = os.times()
    cpu_s = times.user + times.system + times.children_user + times.children_system
    own_b = _own_peak_b()
    child_b = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * B_PER_MAXRSS
    return cpu_s, None if own_b is None else own_b + child_b


def _own_peak_b() -> float | None:
    # Not getrusage: its value for a process includes what its parent took, before the exec.
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as stream:
            for line in stream:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024.0
    except (OSError, ValueError):
        return None
    return None

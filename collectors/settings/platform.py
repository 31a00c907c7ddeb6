"""What can be measured on each operating system, Linux all, macOS most, Windows nothing.

And whether anything shall be: `GRAMWATT_OFF`.
"""

from __future__ import annotations

import os
import sys

FALSE_WORDS = frozenset({"0", "false", "no", "off", ""})
WINDOWS = (
    "gramwatt measures on Linux and macOS; on Windows the job goes on unmeasured. "
    "Run it inside WSL 2 to have it measured"
)
MACOS = (
    "works: run, track, the chip's own energy (pip install zeus-apple-silicon), counts and scores; "
    "not here: RAPL, cgroup shares, time asleep, and continuing a meter that was killed"
)


def refused(platform: str | None = None) -> str | None:
    """Return why nothing can be measured on this kind of system; None if something can."""
    return WINDOWS if (platform or sys.platform) == "win32" else None


def switched_off() -> bool:
    """Say whether GRAMWATT_OFF asks that nothing at all happens."""
    return is_set("GRAMWATT_OFF")


def is_set(name: str) -> bool:
    """Say whether a variable switches something on."""
    return os.environ.get(name, "").strip().lower() not in FALSE_WORDS

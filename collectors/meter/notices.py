"""Which notices of a meter are for the user while the job runs."""

from __future__ import annotations

NOTICES_MAX = 64
PRINTED = frozenset({"argument-ignored", "device-visibility", "energy-unmeasured"}) | {
    "joined",
    "processes-left",
    "server-counts",
    "spool-elsewhere",
    "unit-misspelt",
    "windows-left-out",
}
"""Notices to print while the job runs, beside those that name a command or a setting."""


def is_advice(notice: str) -> bool:
    """Say whether the user can do something about a notice "code: sentence" of a meter."""
    code, _, text = notice.partition(": ")
    return code in PRINTED or "`" in text or "set GRAMWATT_" in text

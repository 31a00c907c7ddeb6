"""Which notices of a meter are for the user while the job runs, and that of a job it has joined."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gramwatt.collectors.common.files import first_notice_today
from gramwatt.collectors.common.launches import declared_job, launched_elsewhere

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


def joined_notice(name: str, home: Path, environ: Mapping[str, str], *, leads: bool) -> str | None:
    """Return the notice that this process belongs to a job that it has not begun; None otherwise.

    `leads`: no other meter measures the job on this node.
    """
    how = ""
    if not leads:
        how = "which runs already"
    elif launched_elsewhere(name, environ):
        how = "as its other nodes do"
    elif declared_job(environ) and not first_notice_today(home, f"began {name}"):
        how = "which GRAMWATT_JOB_ID names"
    return f"joined: joins job {name}, {how}" if how else None

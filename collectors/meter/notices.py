"""Which notices of a meter are for the user while the job runs, and that of a job it has joined."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gramwatt.collectors.common.files import first_notice_today
from gramwatt.collectors.common.launches import declared_job, launched_elsewhere
from gramwatt.sci.base.notices import FOR_USER

NOTICES_MAX = 64
JOINED = "joined"
"""Code of the message about a job that this process has joined, which no journal has."""


def is_for_user(notice: str) -> bool:
    """Say whether a notice "code: sentence" of a meter is printed while the job runs."""
    code = notice.partition(": ")[0]
    return code == JOINED or code in FOR_USER


def joined_notice(name: str, home: Path, environ: Mapping[str, str]) -> str | None:
    """Return the notice that this node joins a job that was begun before; None otherwise."""
    how = ""
    if launched_elsewhere(name, environ):
        how = "as its other nodes do"
    elif declared_job(environ) and not first_notice_today(home, f"began {name}"):
        how = "which GRAMWATT_JOB_ID names"
    return f"{JOINED}: joins job {name}, {how}" if how else None

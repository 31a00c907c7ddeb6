"""What a meter learns beside its client: that it has joined a job, and that somebody wants figures.

Where figures are asked for, each meter of the job here ends its open intervals and saves, so that
the journal has everything up to the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.files import first_notice_today
from gramwatt.collectors.common.launches import declared_job, launched_elsewhere
from gramwatt.collectors.journal.so_far import REQUEST, changed_ns

SETTLE_NS = NS_PER_S * 3 // 10
"""How long after a boundary its readings are complete [ns]: the search for a counter's update."""


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


class Requests:
    """Requests for the figures so far of the job whose lines are in this folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REQUEST
        self._seen = changed_ns(self._path)

    def is_new(self) -> bool:
        """Say whether figures have been asked for since the last call."""
        changed = changed_ns(self._path)
        if changed == self._seen:
            return False
        self._seen = changed
        return True

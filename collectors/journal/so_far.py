"""The figures of a job that still runs, from its journal up to now.

Who wants them touches the file REQUEST in the job's folders, and every meter there ends its open
intervals and saves, so that the journal has everything up to the request. Nothing is closed, moved
or stored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gramwatt.collectors.common.config import Config
from gramwatt.collectors.journal.spool import SpoolFolder, folders, journal_homes

if TYPE_CHECKING:
    from gramwatt.sci.base.document import JobDoc

REQUEST = "wanted"
POLL_S = 0.05
SAVED_TIMEOUT_S = 2.5
"""How long the meters are waited for [s]: each looks for a request once a second at least."""


def document_so_far(config: Config, job_id: str) -> JobDoc | None:
    """Return the document of a running job up to now; None where it does not run, or has no score.

    It knows what is journaled in this home: all ranks of this machine, other nodes where they share
    it. Intensity is the annual one.
    """
    from gramwatt.collectors.journal.live import scored_so_far  # not in a meter's memory

    try:
        homes = journal_homes(config.home)
        found = [folder for home in homes for folder in folders(home, job_id)]
        if not any(folder.is_live() for folder in found):
            return None
        _have_saved(found, time.monotonic() + SAVED_TIMEOUT_S)
        scored = scored_so_far(found, config)
    except OSError:
        return None
    return scored and scored[1]


class Requests:
    """Requests for the figures so far of the job whose lines are in this folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REQUEST
        self._seen = _changed_ns(self._path)

    def is_new(self) -> bool:
        """Say whether figures have been asked for since the last call."""
        before, self._seen = self._seen, _changed_ns(self._path)
        return self._seen != before


def _changed_ns(path: Path) -> int:
    """Return when a file was changed last, in Unix time [ns]; 0 where there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _have_saved(folders: Sequence[SpoolFolder], deadline: float) -> None:
    """Have the living meters save what they know; wait until `deadline` [s] (monotonic)."""
    waiting = {
        path: _changed_ns(path)
        for folder in folders
        for path in (one.path.with_suffix(".open") for one in folder.writers() if one.live)
    }
    for folder in folders:
        try:
            (folder.path / REQUEST).touch(mode=0o600)
        except OSError:  # another user's, or a full disk: what is journaled already has to do
            return
    while waiting and time.monotonic() < deadline:
        time.sleep(POLL_S)
        waiting = {path: ns for path, ns in waiting.items() if _changed_ns(path) == ns}

"""The figures of a job that still runs, from its journal up to now.

Who wants them touches the file REQUEST in the job's folders, and every meter there saves what it
knows (gramwatt.collectors.meter.peers). Nothing is closed, moved or stored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from gramwatt.collectors.common.config import Config
from gramwatt.collectors.journal.ending import job_document
from gramwatt.collectors.journal.recovery import unjournaled_counts
from gramwatt.collectors.journal.spool import SpoolFolder, folders, usable_home
from gramwatt.sci.journal.records import encode

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
    try:
        found = folders(usable_home(config.home), job_id)
        if not any(folder.is_live() for folder in found):
            return None
        _have_saved(found, time.monotonic() + SAVED_TIMEOUT_S)
        counts = chain.from_iterable(map(unjournaled_counts, found))
        return job_document(found, config, [encode(count).encode() for count in counts])
    except OSError:
        return None


def changed_ns(path: Path) -> int:
    """Return when a file was changed last, in Unix time [ns]; 0 where there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _have_saved(folders: Sequence[SpoolFolder], deadline: float) -> None:
    """Have the living meters save what they know; wait until `deadline` [s] (monotonic)."""
    waiting = {
        path: changed_ns(path)
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
        waiting = {path: ns for path, ns in waiting.items() if changed_ns(path) == ns}

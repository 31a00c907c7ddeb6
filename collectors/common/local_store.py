"""The embedded store, as far as the commands `run` and `sync` use it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

_KNOWS_MORE = """
    SELECT EXISTS (SELECT 1 FROM jobs WHERE job_id = ?) OR EXISTS (SELECT 1 FROM intensity_series)
"""
LOCKED_TIMEOUT_S = 0.2
"""How long a database that another process has locked is waited for [s]."""


def knows_more(home: Path, job_id: str) -> bool:
    """Tell whether the store of `home` has what a score from the spool alone would lack.

    That is lines under the job's id, or intensity over time. Looked into without what opens the
    store, which takes half a second; True where it cannot be read, or is another database.
    """
    path = home / "gramwatt.db"
    if os.environ.get("GRAMWATT_DATABASE_URL"):
        return True
    if not path.exists():
        return False
    import sqlite3  # not every Python has it

    try:
        with closing(sqlite3.connect(path, timeout=LOCKED_TIMEOUT_S)) as connection:
            return bool(connection.execute(_KNOWS_MORE, (job_id,)).fetchone()[0])
    except (OSError, sqlite3.Error):
        return True


class LocalStore(Protocol):
    """What `gramwatt.__main__` gives these commands where the extra `service` is installed.

    `home` is the folder that the store lies in. Each raises a GramwattError, such as StoreError,
    for a store or a question that cannot be used.
    """

    def ingest(self, home: Path, job_id: str | None = None) -> list[str]:
        """Ingest the closed spools of a job, or of all; returns the ids of the jobs scored."""
        ...

    def document(self, home: Path, job_id: str) -> Mapping[str, Any] | None:
        """Return a job's newest document; None when it is not stored or cannot be scored."""
        ...

    def plan(self, home: Path, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a request, both as of POST /v1/plans."""
        ...

    def newest_jobs(
        self, home: Path, project: str, name: str, most: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return the heads of the newest completed jobs of this name, as of GET /v1/jobs."""
        ...

    def budget(self, home: Path, project: str) -> Mapping[str, Any]:
        """Return the budget of a project as it stands, with its figures."""
        ...

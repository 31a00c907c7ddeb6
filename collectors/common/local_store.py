"""The embedded store, as far as the commands `run` and `sync` use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol


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

    def knows_more(self, home: Path, job_id: str) -> bool:
        """Tell whether more than the spool may go into a job's score: lines, or intensity."""
        ...

    def plan(self, home: Path, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a request, both as of POST /v1/plans."""
        ...

    def newest_jobs(
        self, home: Path, project: str, name: str, most: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return the heads of the newest completed jobs of this name, as of GET /v1/jobs."""
        ...

    def intensity(self, home: Path, zone: str, start: datetime, end: datetime) -> Mapping[str, Any]:
        """Return the intensity of a zone over [start, end), as of GET /v1/intensity/ZONE."""
        ...

    def budget(self, home: Path, project: str) -> Mapping[str, Any]:
        """Return the budget of a project as it stands, with its figures."""
        ...

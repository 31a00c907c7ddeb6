"""The embedded store as `gramwatt run` and `gramwatt sync` use it (installation.LocalStore).

What needs the database is imported where it is used: with nothing spooled, `gramwatt sync` ends
without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from gramwatt.service.jobs.local_spool import has_journals, ingest_spool, open_store

if TYPE_CHECKING:
    from gramwatt.service.container import Service


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


def ingest(home: Path, job_id: str | None = None) -> list[str]:
    """Ingest and score the closed spools under `home`; returns the ids of the jobs scored.

    Raises StoreError when the store cannot be used; what is not ingested stays spooled.
    """
    from gramwatt.service.jobs.local_spool import read_open_journals

    if not has_journals(home, job_id):
        return []
    with opened(home) as service:
        scored = ingest_spool(service, job_id)
        if job_id is None:
            read_open_journals(service)
        return scored


def document(home: Path, job_id: str) -> Any:
    """Return a job's newest document; None when it is not stored or cannot be scored.

    Raises StoreError when the store cannot be used.
    """
    from gramwatt.sci.figures.errors import ScoreError
    from gramwatt.service.common.errors import UnknownJobError
    from gramwatt.service.jobs.documents import job_document

    with opened(home) as service:
        try:
            return _as_json(job_document(service, job_id).document)
        except (UnknownJobError, ScoreError):
            return None


def plan(home: Path, request: Mapping[str, Any]) -> Any:
    """Return the plan that a request as of POST /v1/plans asks for; raises GramwattError."""
    from gramwatt.sci.planning.plan_request import parse_plan_request
    from gramwatt.service.jobs.planning import plan as planned

    with opened(home) as service:
        return _as_json(planned(service, parse_plan_request(request)))


def suggest(home: Path, job: str) -> Any:
    """Return the suggestions for a job, typed as people do; raises ScoreError without one."""
    from gramwatt.sci.figures.errors import ScoreError
    from gramwatt.service.common.errors import ServiceError
    from gramwatt.service.jobs.advice import suggest_for
    from gramwatt.service.jobs.documents import LAST, whole_id

    ingest(home)
    with opened(home) as service:
        try:
            job_id = whole_id(service, job)
            if job_id == LAST:
                text = "there is no job yet; run one: gramwatt run -- python train.py"
                raise ScoreError(text, code="unknown-job")
            return _as_json(suggest_for(service, job_id))
        except ServiceError as error:
            raise ScoreError(str(error), code=error.code) from None


def newest_jobs(home: Path, project: str, name: str, most: int) -> Any:
    """Return the heads of the newest completed jobs of this name, with those just spooled.

    Raises StoreError.
    """
    from gramwatt.service.common.requests import JobList
    from gramwatt.service.jobs.lists import jobs_page

    ingest(home)
    with opened(home) as service:
        query = JobList(limit=most, project=project, name=name, state="completed")
        return _as_json(jobs_page(service, query).jobs)


def budget(home: Path, project: str) -> Any:
    """Return the budget of a project as it stands; raises StoreError."""
    from gramwatt.service.budgets import standing_for_job

    with opened(home) as service:
        return _as_json(standing_for_job(service, project))


def _as_json(document: object) -> Any:
    """Return a document as a server's answer comes."""
    return to_builtins(document)


@contextmanager
def opened(home: Path) -> Iterator[Service]:
    """Open the store of `home` for one use, its tables upgraded; raises StoreError."""
    from sqlalchemy.exc import SQLAlchemyError

    from gramwatt.sci.figures.errors import StoreError
    from gramwatt.service.config import ConfigError
    from gramwatt.service.store.database import failure_text

    try:
        service = open_store(home)
        try:
            yield service
        finally:
            service.store.close()
    except SQLAlchemyError as error:
        raise StoreError(failure_text(error)) from None
    except ConfigError as error:
        raise StoreError(str(error)) from None

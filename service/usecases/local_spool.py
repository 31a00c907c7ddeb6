"""The embedded store: takes in the journals that closed meters left in this machine's spool.

Several processes may do this at once. Taking in is idempotent, and a folder is deleted only after
it was moved out of every meter's way and nothing in it is new.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gramwatt.collectors.common import files
from gramwatt.collectors.journal import spool
from gramwatt.collectors.journal.spool import SpoolFolder

if TYPE_CHECKING:
    from gramwatt.sci.base.document import JobDoc
    from gramwatt.service.container import Service
    from gramwatt.service.usecases.answers import Rejected

LINES_AT_ONCE = 5_000
"""Lines of one transaction, so that a long journal does not keep other writers waiting."""
ABANDONED_AFTER_S = 60.0
"""A folder on its way out for longer [s] was left by a process that died."""

KEPT = "journals stay spooled"


def take_in(home: Path, job_id: str | None = None) -> list[str]:
    """Ingest and score the closed spools under `home`; the ids of the jobs scored.

    Raises StoreError when the store cannot be used; what is not taken in stays spooled.
    """
    if not _closed(home, job_id):
        return []
    with _opened(home) as service:
        return take_in_with(service, job_id)


def document(home: Path, job_id: str) -> JobDoc | None:
    """One job's newest document; None when it is not stored or cannot be scored.

    Raises StoreError when the store cannot be used.
    """
    from gramwatt.sci.base.errors import ScoreError
    from gramwatt.service.usecases.read import UnknownJobError, job_document

    with _opened(home) as service:
        try:
            return job_document(service, job_id).document
        except (UnknownJobError, ScoreError):
            return None


@contextmanager
def _opened(home: Path) -> Iterator[Service]:
    """The store of `home` for one question; raises StoreError when it cannot be used."""
    from sqlalchemy.exc import SQLAlchemyError

    from gramwatt.sci.base.errors import StoreError
    from gramwatt.service.config import ConfigError

    try:
        service = open_store(home)
        try:
            yield service
        finally:
            service.store.close()
    except SQLAlchemyError as error:
        raise StoreError(f"{unusable(error)}; {KEPT}") from None
    except (StoreError, ConfigError) as error:
        raise StoreError(f"{error}; {KEPT}") from None


def unusable(error: Exception) -> str:
    """The first line of what a database says, for people."""
    return f"the database cannot be used: {str(error).splitlines()[0]}"


def open_store(home: Path) -> Service:
    """The service over the store of `home`, made or brought up to date if need be."""
    from gramwatt.service.config import from_environment
    from gramwatt.service.container import Service
    from gramwatt.service.store.migrate import upgrade

    service = Service.open(from_environment(home=home))
    upgrade(service.store)
    return service


def take_in_with(service: Service, job_id: str | None = None) -> list[str]:
    """As `take_in`, with a service that is open; needs `service.config.home`."""
    home = service.config.home
    if home is None:
        raise ValueError("this service has no spool: its configuration names no home")
    taken: dict[str, None] = {}
    for folder in _closed(home, job_id):
        if _take_folder(service, home, folder):
            taken[folder.job_id] = None
    return [name for name in taken if _score(service, name)]


def _closed(home: Path, job_id: str | None) -> list[SpoolFolder]:
    """Folders whose every writer is dead and ended, and those a crash left on the way out.

    A journal that was measured for a server is not the local store's: `gramwatt sync` sends it.
    """
    left = [SpoolFolder(path) for path in _left_over(home)]
    ours = [f for f in spool.folders(home, job_id) if f.server() is None]
    resting = [f for f in ours if not f.is_live() and not f.unclosed()]
    return [f for f in (*left, *resting) if job_id in (None, f.job_id) and f.writers()]


def _left_over(home: Path) -> list[Path]:
    found = []
    for path in sorted((home / "taken").glob("*/*/*")):
        try:
            age_s = time.time() - path.parent.stat().st_mtime
        except FileNotFoundError:
            continue
        if age_s > ABANDONED_AFTER_S:
            found.append(path)
    return found


def _take_folder(service: Service, home: Path, folder: SpoolFolder) -> bool:
    """Ingest a folder, move it aside, and delete it once nothing in it is new."""
    before = _sizes(folder)
    refused = _ingest(service, folder)
    aside = _move_aside(home, folder)
    if aside is None:
        return False
    if _sizes(aside) != before:
        refused = _ingest(service, aside)
    if refused:
        _reject(home, aside, refused)
    else:
        spool.remove(aside)
    _remove_empty(aside.path.parents[1])
    return True


def _ingest(service: Service, folder: SpoolFolder) -> list[Rejected]:
    from gramwatt.service.usecases.ingest import ingest

    refused: list[Rejected] = []
    for lines in _chunks(folder.lines()):
        refused += ingest(service, folder.job_id, lines, score=False)["rejected"]
    return refused


def _chunks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    while chunk := list(islice(lines, LINES_AT_ONCE)):
        yield chunk


def _score(service: Service, job_id: str) -> bool:
    from gramwatt.service.usecases.read import UnknownJobError, find_job
    from gramwatt.service.usecases.score_job import score_when_closed

    try:
        with service.store.read() as session:
            key = find_job(session, job_id).id
    except UnknownJobError:
        return False
    score_when_closed(service, key)
    with service.store.read() as session:
        job = find_job(session, job_id)
        return job.state != "running" and job.scored_version == job.version


def _sizes(folder: SpoolFolder) -> dict[str, int]:
    found = {}
    for path in folder.path.glob("*"):
        if path.suffix in (".jsonl", ".open"):
            try:
                found[path.name] = path.stat().st_size
            except FileNotFoundError:  # another process is taking the same folder in
                continue
    return found


def _move_aside(home: Path, folder: SpoolFolder) -> SpoolFolder | None:
    """The folder where no meter looks for it; None when it is alive again, or gone already."""
    if folder.is_live():
        return None
    target = home / "taken" / uuid.uuid4().hex[:12] / folder.job_id / folder.node
    files.folder(target.parent)
    aside: SpoolFolder | None = SpoolFolder(target)
    try:
        os.replace(folder.path, target)
        if SpoolFolder(target).is_live():
            # A meter of the same job opened it in the last moment: give it back.
            os.replace(target, folder.path)
            aside = None
    except FileNotFoundError:
        aside = None
    _remove_empty(folder.path.parent)
    _remove_empty(target.parent)
    return aside


def _reject(home: Path, aside: SpoolFolder, refused: list[Rejected]) -> None:
    """Keep a folder with lines that the store refuses, and say so once."""
    target = home / "rejected" / aside.job_id / aside.node
    while target.exists():
        target = target.with_name(f"{aside.node}.{uuid.uuid4().hex[:6]}")
    files.folder(target.parent)
    try:
        os.replace(aside.path, target)
    except FileNotFoundError:  # another process is keeping it
        return
    first = refused[0]
    with suppress(OSError):  # the run that asked has gone on
        print(
            f"gramwatt: {len(refused)} journal lines of job {aside.job_id} were refused "
            f"(first: {first['code']}, {first['message']}); they are kept in {target}",
            file=sys.stderr,
        )


def _remove_empty(folder: Path) -> None:
    """Remove a folder and the empty ones above it, up to the spool's own."""
    while folder.name not in ("taken", "spool", "rejected", ""):
        try:
            folder.rmdir()
        except OSError:  # not empty, or gone
            return
        folder = folder.parent

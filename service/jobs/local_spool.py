"""Journals on this machine whose meters still write: read, never closed, moved or deleted.

Final lines are stored as in any upload; where each file was read up to is kept, so that a long
journal is not read again and again. Intervals that are still open may yet be cut otherwise, so only
provisional scores use them.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.collectors.spool.spool import SpoolFolder

if TYPE_CHECKING:
    from gramwatt.service.container import Service


_log = logging.getLogger("gramwatt.service")


def live_folders(home: Path) -> list[SpoolFolder]:
    """Return the folders in which a meter writes for the local store."""
    return [f for f in spool.folders(home) if f.server() is None and f.is_live()]


def read_open_journals(service: Service, *, fresh: bool = False) -> list[str]:
    """Store what the living meters of this machine have written; the ids of their jobs.

    The score of each is brought up to date, with `fresh` however young the last one is.
    """
    from gramwatt.sci.figures.errors import GramwattError
    from gramwatt.service.common.errors import ServiceError
    from gramwatt.service.jobs.scoring import score_provisionally

    journals = {}
    for folder in live_folders(service.config.home):
        try:
            journals[folder.job_id] = read_journal(service, folder)
        except ServiceError:  # deleted, its id taken, or no whole line of it is there yet
            continue
    for key in journals.values():
        try:
            score_provisionally(service, key, fresh=fresh)
        except GramwattError as error:
            _log.info("a running job cannot be scored yet: %s", error.message)
    return list(journals)


def read_journal(service: Service, folder: SpoolFolder) -> int:
    """Store what is new in the folder of a living meter; the key of its job.

    Raises UnknownJobError while nothing is known of it, or DeletedJobError.
    """
    from gramwatt.service.jobs.documents import find_job, locked_job
    from gramwatt.service.jobs.ingest import ingest_unscored
    from gramwatt.service.store.journal import OpenJournal

    # The open file first: a line that leaves it has been appended to the final ones before.
    opened = b"\n".join(folder.open_lines()).decode("utf-8", "replace")
    before, positions = _positions(service, folder)
    _, answer = ingest_unscored(service, folder.job_id, _new_lines(folder, positions))
    with service.store.write() as session:
        key = answer or before or find_job(session, folder.job_id).id
        job = locked_job(session, key, folder.job_id)
        row = session.get(OpenJournal, (job.id, folder.node))
        positions_text = row.lines if row else ""
        text = json.dumps(positions)
        session.merge(OpenJournal(job=job.id, node=folder.node, positions=text, lines=opened))
        if job.state == "running" and opened != positions_text:
            job.version += 1
            job.heard_us = service.now_us()
        return job.id


def _positions(service: Service, folder: SpoolFolder) -> tuple[int | None, dict[str, int]]:
    """Return the key of the job that the folder was last read for, and up to where; None before."""
    import sqlalchemy as sa

    from gramwatt.service.store.journal import OpenJournal
    from gramwatt.service.store.models import Job

    statement = sa.select(Job.id, OpenJournal.positions).join(Job, Job.id == OpenJournal.job)
    with service.store.read() as session:
        newest = statement.where(Job.job_id == folder.job_id, OpenJournal.node == folder.node)
        row = session.execute(newest.order_by(Job.id.desc()).limit(1)).one_or_none()
    return (row[0], json.loads(row[1])) if row else (None, {})


def _new_lines(folder: SpoolFolder, positions: dict[str, int]) -> Iterator[bytes]:
    """Whole final lines behind the positions, which move with them."""
    for path in sorted(folder.path.glob("*.jsonl")):
        try:
            with path.open("rb") as stream:
                at = positions.get(path.name, 0)
                end = os.fstat(stream.fileno()).st_size
                # A file shorter than before was cut back to its last whole append.
                at = stream.seek(at if at <= end else 0)
                for line in stream:
                    if not line.endswith(b"\n") or at + len(line) > end:
                        break
                    at = positions[path.name] = at + len(line)
                    yield line[:-1]
        except OSError:  # sent and deleted meanwhile
            continue


if TYPE_CHECKING:
    from gramwatt.service.common.answers import IngestAnswer
    from gramwatt.service.container import Service


def open_store(home: Path) -> Service:
    """Return the service over the store of `home`, with its tables created or upgraded."""
    from gramwatt.service.config import from_environment
    from gramwatt.service.container import Service
    from gramwatt.service.store.migrate import upgrade

    service = Service.open(from_environment(home=home))
    upgrade(service.store)
    return service


def has_journals(home: Path, job_id: str | None = None) -> bool:
    """Tell whether there is anything to ingest: a job's closed spools, or all with open ones."""
    return bool(_closed(home, job_id) or (job_id is None and live_folders(home)))


def ingest_local_spool(service: Service, *, fresh: bool = False) -> None:
    """Bring the store up to this machine's spool: dead, closed and running jobs.

    With `fresh` running jobs are scored anew however young their last score is.
    """
    for folder in spool.folders(service.config.home):
        if folder.server() is None and folder.unclosed():
            close_dead(folder)  # a sync sets what cannot be read aside, and reports it
    ingest_spool(service)
    read_open_journals(service, fresh=fresh)


def ingest_spool(service: Service, job_id: str | None = None) -> list[str]:
    """Ingest and score the closed spools of an open service; returns the ids of the jobs scored."""
    from gramwatt.service.jobs.scoring import score_when_closed

    home = service.config.home
    names: dict[int, str] = {}
    for folder in _closed(home, job_id):
        if (key := _ingest_folder(service, folder)) is not None:
            names[key] = folder.job_id
    for name in dict.fromkeys(names.values()):
        _ingest_open(service, home, name)
    return [name for key, name in names.items() if score_when_closed(service, key)]


def _closed(home: Path, job_id: str | None) -> list[SpoolFolder]:
    """Return the folders whose every writer is dead and ended.

    A journal that was measured for a server is not the local store's: `gramwatt sync` sends it.
    """
    closed = [f for f in spool.folders(home, job_id) if not f.is_live() and not f.unclosed()]
    return [folder for folder in closed if folder.server() is None]


def _ingest_folder(service: Service, folder: SpoolFolder) -> int | None:
    """Ingest a folder, and delete it once it is closed and nothing in it is new.

    Returns the key of its job where that can be scored: its lines are stored, and no meter writes
    on here.
    """
    from gramwatt.service.common.errors import DeletedJobError, ServiceError
    from gramwatt.service.jobs.ingest import ingest_unscored

    answers: list[tuple[IngestAnswer, int | None]] = []
    try:
        with spool.sent(
            folder, lambda lines: answers.append(ingest_unscored(service, folder.job_id, lines))
        ) as can_go:
            refused = [answer for answer, _ in answers if answer.rejected]
            if can_go and refused:
                _reject(folder, refused[-1])
            elif can_go:
                spool.discard(folder)
    except DeletedJobError as error:
        if folder.is_closed():
            spool.discard(folder)
            _report(f"{error}; what its meter had still spooled is dropped")
        return None
    except ServiceError as error:  # such as an id that is taken
        _report(f"{error}; its journal stays spooled")
        return None
    except OSError as error:
        _report(f"job {folder.job_id} is stored, but its journal stays spooled: {error}")
    keys = [key for _, key in answers if key is not None]
    return keys[-1] if keys and not folder.is_live() else None


def _ingest_open(service: Service, home: Path, job_id: str) -> None:
    """Ingest what other nodes of a job have journaled so far, since it runs until they end too."""
    from gramwatt.service.common.errors import ServiceError
    from gramwatt.service.jobs.ingest import ingest_unscored

    for folder in spool.folders(home, job_id):
        if folder.server() is not None:
            continue
        with suppress(ServiceError):  # or its meter has written nothing yet
            if folder.is_live():
                read_journal(service, folder)
            else:
                ingest_unscored(service, folder.job_id, folder.lines())


def _reject(folder: SpoolFolder, answer: IngestAnswer) -> None:
    """Keep a folder with lines that the store refuses, and report it once."""
    try:
        target = spool.reject(folder)
    except FileNotFoundError:  # another process is keeping it
        return
    first = answer.rejected[0]
    _report(
        f"{answer.rejected_count} journal lines of job {folder.job_id} were refused "
        f"(first: {first.code}, {first.message}); they are kept in {target}"
    )


def _report(text: str) -> None:
    with suppress(OSError):  # stderr is closed
        print(f"gramwatt: {text}", file=sys.stderr)

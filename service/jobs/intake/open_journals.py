"""Journals on this machine whose meters still write: read, never closed, moved or deleted.

Final lines are stored as in any upload; where each file was read up to is kept, so that a long
journal is not read again and again. Intervals that are still open may yet be cut otherwise, so only
provisional scores use them.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gramwatt.collectors.spool import spool
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

    found = {}
    for folder in live_folders(service.config.home):
        try:
            found[folder.job_id] = read_journal(service, folder)
        except ServiceError:  # deleted, its id taken, or no whole line of it is there yet
            continue
    for key in found.values():
        try:
            score_provisionally(service, key, fresh=fresh)
        except GramwattError as error:
            _log.info("a running job cannot be scored yet: %s", error.message)
    return list(found)


def read_journal(service: Service, folder: SpoolFolder) -> int:
    """Store what is new in the folder of a living meter; the key of its job.

    Raises UnknownJobError while nothing is known of it, or DeletedJobError.
    """
    from gramwatt.service.jobs.documents import find_job, locked_job
    from gramwatt.service.jobs.intake.ingest import ingest_unscored
    from gramwatt.service.store.models import OpenJournal

    # The open file first: a line that leaves it has been appended to the final ones before.
    opened = b"\n".join(folder.open_lines()).decode("utf-8", "replace")
    before, positions = _positions(service, folder)
    _, told = ingest_unscored(service, folder.job_id, _new_lines(folder, positions))
    with service.store.write() as session:
        key = told or before or find_job(session, folder.job_id).id
        job = locked_job(session, key, folder.job_id)
        row = session.get(OpenJournal, (job.id, folder.node))
        known = row.lines if row else ""
        text = json.dumps(positions)
        session.merge(OpenJournal(job=job.id, node=folder.node, positions=text, lines=opened))
        if job.state == "running" and opened != known:
            job.version += 1
            job.heard_us = service.now_us()
        return job.id


def _positions(service: Service, folder: SpoolFolder) -> tuple[int | None, dict[str, int]]:
    """Return the key of the job that the folder was last read for, and up to where; None before."""
    import sqlalchemy as sa

    from gramwatt.service.store.models import Job, OpenJournal

    wanted = sa.select(Job.id, OpenJournal.positions).join(Job, Job.id == OpenJournal.job)
    with service.store.read() as session:
        newest = wanted.where(Job.job_id == folder.job_id, OpenJournal.node == folder.node)
        known = session.execute(newest.order_by(Job.id.desc()).limit(1)).one_or_none()
    return (known[0], json.loads(known[1])) if known else (None, {})


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

"""Close jobs whose meter and process are both dead, at their last journaled moment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gramwatt.collectors.common import files
from gramwatt.collectors.common.identity import safe_id
from gramwatt.collectors.journal.spool import LOCK, SpoolFolder, WriterFile, acquire, open_counts
from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.base.notices import CODES
from gramwatt.sci.journal.records import (
    AnyRecord,
    CountRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    encode,
    readable,
)


def close_dead(folder: SpoolFolder, *, strict: bool = False) -> bool:
    """Write an end for every dead writer without one; False when the folder stays open.

    Nothing is written while a writer lives in the folder, a client may start another meter, or
    another process is closing it. On storage without locks two may close at once: both then write
    the same lines to the same file. With `strict` a folder whose lines cannot be understood raises
    RecordError.
    """
    try:
        lock = acquire(folder.path / LOCK)
        if lock is None:
            return False
    except OSError:
        lock = None
    try:
        if folder.is_live() or folder.may_be_resumed():
            return False
        records = list(readable(folder.lines()))
        for dead in folder.unclosed():
            _write_end(folder, dead, records)
    except OSError:  # no room or no right to write: the next run tries again
        return False
    except Exception as error:  # another release's lines, or none at all
        if strict:
            text = f"the journal of job {folder.job_id} cannot be read ({error})"
            raise RecordError(text, code="bad-journal") from None
        return False
    finally:
        if lock is not None:
            os.close(lock)
    return True


def _write_end(folder: SpoolFolder, dead: WriterFile, records: list[AnyRecord]) -> None:
    """Write the count lines that a dead writer's client had open, and an end."""
    writer = safe_id(f"r-{dead.writer}")
    base: dict[str, Any] = {"job_id": folder.job_id, "node": folder.node, "writer": writer}
    own = [r for r in records if r.writer in (dead.writer, dead.writer + "-open")]
    job = next((r for r in own if isinstance(r, JobRecord)), None)
    last = _last_seen(own) or _last_seen(records)
    if last is None:
        raise RecordError("no line says when it ran")
    start = job.started_at if job else last
    state = dead.state or {}
    notices = tuple(str(text) for text in state.get("notices", ()))
    opening: dict[str, Any] = {"started_at": start, "role": "recovery", "resumes": dead.writer}
    if job is not None:
        opening |= {"project": job.project, "name": job.name, "kind": job.kind, "units": job.units}
    lines: list[AnyRecord] = [JobRecord(**base, seq=1, **opening)]
    lines += _count_records(folder, folder.writers(), dead.client)
    lost = f"job-lost: {CODES['job-lost']}"
    closing: dict[str, Any] = {"ended_at": last, "state": "lost", "notices": (*notices[:63], lost)}
    lines.append(EndRecord(**base, seq=2, **closing))
    text = "".join(encode(line) + "\n" for line in lines)
    files.replace_text(folder.path / f"{writer}.jsonl", text, synced=True)


def unjournaled_counts(folder: SpoolFolder) -> list[CountRecord]:
    """Return what the clients of a folder's meters have counted that is in no line of it yet."""
    writers = folder.writers()
    clients = {writer.client for writer in writers if writer.client}
    return [line for client in clients for line in _count_records(folder, writers, client)]


def _count_records(
    folder: SpoolFolder, writers: Sequence[WriterFile], client: str | None
) -> list[CountRecord]:
    place: dict[str, Any] = {"job_id": folder.job_id, "node": folder.node}
    return [CountRecord(**place, **count.fields()) for count in open_counts(writers, client)]


def _last_seen(records: list[AnyRecord]) -> datetime | None:
    seen = [_time(record) for record in records]
    return max((time for time in seen if time is not None), default=None)


def _time(record: AnyRecord) -> datetime | None:
    if isinstance(record, IntervalRecord):
        return record.end
    if isinstance(record, CountRecord):
        return record.at
    return record.started_at if isinstance(record, JobRecord) else None

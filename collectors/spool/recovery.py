"""Close jobs whose meter and process are both dead, at their last journaled moment."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from gramwatt.collectors.settings import files
from gramwatt.collectors.settings.identity import safe_id
from gramwatt.collectors.spool.counts import CountedSoFar, Processes
from gramwatt.collectors.spool.spool import LOCK, SpoolFolder, WriterFile, acquire
from gramwatt.sci.figures.errors import RecordError
from gramwatt.sci.figures.notices import CODES
from gramwatt.sci.records.records import (
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
        unclosed = folder.unclosed()
        for dead in unclosed:
            _write_end(folder, dead, records)
        for dead in unclosed:  # what they had counted is in the journal now
            dead.memory.finish()
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
    """Write what a dead writer's job had counted and not journaled, and an end."""
    writer = safe_id(f"r-{dead.writer}")
    base: dict[str, Any] = {"job_id": folder.job_id, "node": folder.node, "writer": writer}
    own = [r for r in records if r.writer in (dead.writer, dead.writer + "-open")]
    job = next((r for r in own if isinstance(r, JobRecord)), None)
    last = _last_seen(own) or _last_seen(records)
    if last is None:
        raise RecordError("no line says when it ran")
    first = min((r.start for r in own if isinstance(r, IntervalRecord)), default=last)
    start = job.started_at if job else first
    state = dead.state or {}
    notices = tuple(str(text) for text in state.get("notices", ()))
    opening: dict[str, Any] = {"started_at": start, "role": "recovery", "resumes": dead.writer}
    if job is not None:
        opening |= {"project": job.project, "name": job.name, "kind": job.kind, "units": job.units}
    lines: list[AnyRecord] = [JobRecord(**base, seq=1, **opening)]
    counts = _counted(dead, last)
    lines += [CountRecord(**base, seq=2 + n, **fields) for n, fields in enumerate(counts)]
    lost = f"job-lost: {CODES['job-lost']}"
    closing: dict[str, Any] = {"ended_at": last, "state": "lost", "notices": (*notices[:63], lost)}
    lines.append(EndRecord(**base, seq=2 + len(counts), **closing))
    text = "".join(encode(line) + "\n" for line in lines)
    files.replace_text(folder.path / f"{writer}.jsonl", text, synced=True)


def _counted(dead: WriterFile, at: datetime) -> list[dict[str, Any]]:
    """Return the fields of count lines with what the job's processes have left in memory."""
    folder, state = dead.memory, dead.state or {}
    processes = Processes(folder, lambda _pid: None)
    processes.enter()
    for process in processes:
        list(process.messages())  # they say what the totals are of
    at_ns = round(at.timestamp() * 1e6) * 1000
    counts = CountedSoFar(tuple(state.get("units") or ()), lambda _code, _text: None, at_ns)
    counts.update(processes.totals(), at_ns)
    folder.close()
    return [{"counter": state.get("counter"), **fields} for fields in counts.open()]


def _last_seen(records: list[AnyRecord]) -> datetime | None:
    seen = [_time(record) for record in records]
    return max((time for time in seen if time is not None), default=None)


def _time(record: AnyRecord) -> datetime | None:
    if isinstance(record, IntervalRecord):
        return record.end
    if isinstance(record, CountRecord):
        return record.at
    return record.started_at if isinstance(record, JobRecord) else None

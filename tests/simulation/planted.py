"""Bugs as patches of production code, each of which the simulation must find within some seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
from msgspec.structs import replace

from gramwatt.collectors.spool import recovery, send, writer
from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.service import notifications
from gramwatt.service.jobs import ingest, journal
from gramwatt.service.jobs import scoring as score_job
from gramwatt.service.months import rows as month_rows
from gramwatt.service.months import spending
from gramwatt.service.store import columns, database
from gramwatt.service.store.alerts import OutboxMessage
from gramwatt.service.store.columns import read_job
from gramwatt.service.store.models import Job, Score
from gramwatt.service.store.months import ALL, MonthSum
from gramwatt.service.tasks import rescoring, upkeep
from tests.simulation.surroundings import SCENE

Patch = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Bug:
    """A patch that breaks something, and a seed that finds it."""

    seed: int
    plant: Patch


def older_interval_stays() -> AbstractContextManager[Any]:
    """The first interval of an identity stands, not the one with the latest end."""

    def patched(session: Any, model: Any, rows: Any, **_newer: Any) -> None:
        columns.upsert(session, model, rows)

    return patch.object(ingest, "upsert", patched)


def last_arrival_wins() -> AbstractContextManager[Any]:
    """The interval that arrives last stands, however early it ends."""

    def patched(session: Any, model: Any, rows: Any, newer: Any = ()) -> None:
        columns.upsert(session, model, rows, replace=bool(newer))

    return patch.object(ingest, "upsert", patched)


def forgets_what_arrived() -> AbstractContextManager[Any]:
    """A line that is sent again counts as new."""
    return patch.object(ingest.Arrived, "add", lambda self, number: True)


def deletes_before_the_answer() -> AbstractContextManager[Any]:
    """A folder is deleted although the server did not answer."""
    original = send.upload

    def patched(*args: Any) -> send.Sent:
        try:
            return original(*args)
        except send.NotTaken as error:
            if error.code != send.AWAY:
                raise
            return send.Sent()

    return patch.object(send, "upload", patched)


def marks_before_the_answer() -> AbstractContextManager[Any]:
    """Lines count as acknowledged when they are sent."""
    original = send._post

    def patched(session: Any, url: str, body: bytes) -> Any:
        try:
            return original(session, url, body)
        except send.NotTaken as error:
            if error.code != send.AWAY:
                raise
            docs = [send.json.loads(line) for line in body.splitlines()]
            acknowledged = [{"writer": doc["writer"], "seq": doc["seq"]} for doc in docs]
            return {"accepted": 0, "duplicate": 0, "rejected": [], "acknowledged": acknowledged}

    return patch.object(send, "_post", patched)


def deletes_what_came_meanwhile() -> AbstractContextManager[Any]:
    """What was written while a folder was sent is deleted with it."""
    return patch.object(SpoolFolder, "sizes_b", lambda self: {})


def deletes_living_folders() -> AbstractContextManager[Any]:
    """A folder is moved away although somebody writes in it."""
    return patch.multiple(SpoolFolder, is_live=lambda self: False, unclosed=lambda self: [])


def takes_partial_writes_for_whole() -> AbstractContextManager[Any]:
    """What a full disk took in part counts as written."""

    def patched(self: Any, descriptor: int, data: bytes) -> None:
        self._size_b += writer.os.write(descriptor, data)

    return patch.object(writer.Journal, "_append", patched)


def writes_the_open_file_in_place() -> AbstractContextManager[Any]:
    """The open file is emptied and written, not replaced."""

    def patched(self: Any, data: bytes) -> None:
        os = writer.os
        descriptor = os.open(self._open_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        if writer.os is not None and _world().process:
            _world().process.on_saved(False)

    return patch.object(writer.Journal, "_replace", patched)


def never_syncs() -> AbstractContextManager[Any]:
    """Journals are never synced, so that a power cut takes half a minute."""
    return patch.object(writer._Sync, "of", lambda self, descriptor: True)


@contextmanager
def answers_before_the_disk() -> Iterator[None]:
    """A commit is answered before it is on the disk of the server."""
    original = database._prepare

    def patched(connection: Any, *, wal: bool) -> None:
        original(connection, wal=wal)
        connection.execute("PRAGMA synchronous = NORMAL")

    with patch.object(database, "_prepare", patched):
        _plant().disconnect()
        yield
    _plant().disconnect()


def forgets_the_readings() -> AbstractContextManager[Any]:
    """A restarted meter does not continue from where the dead one had saved."""
    return patch.object(SpoolFolder, "state", lambda self, writer: None)


def adds_up_totals() -> AbstractContextManager[Any]:
    """A line with all that was counted so far counts as that much more."""
    from gramwatt.sci.records import merge

    return patch.object(merge, "increments", list)


def replaces_what_was_about_to_be_appended() -> AbstractContextManager[Any]:
    """A meter that goes on forgets the open file of the one that was killed."""
    return patch.object(writer.Journal, "_go_on", _without_open(writer.Journal._go_on))


def numbers_lines_anew() -> AbstractContextManager[Any]:
    """A meter that goes on in a file uses its numbers again."""
    original = writer.Journal._go_on

    def patched(self: Any, descriptor: int) -> None:
        original(self, descriptor)
        self.seq = 0

    return patch.object(writer.Journal, "_go_on", patched)


def loses_counts_of_the_dead() -> AbstractContextManager[Any]:
    """Closing a dead job leaves out what it had counted and not journaled."""
    return patch.object(recovery, "_counted", lambda state, at: [])


def heard_by_the_jobs_clock() -> AbstractContextManager[Any]:
    """A job counts as silent by the times in its lines, not by when they arrived."""
    original = upkeep.close_silent

    def patched(service: Any) -> list[str]:
        config = dataclasses.replace(service.config, silent_after=timedelta(seconds=1))
        return original(dataclasses.replace(service, config=config))

    return _task("close-silent", patched)


def first_day_only() -> AbstractContextManager[Any]:
    """A job is only found in the month of its first day."""
    original = score_job._store_revision

    def patched(service: Any, key: int, seen: Any, document: Any, reason: str) -> bool:
        first = replace(document, days=document.days[:1])
        return original(service, key, seen, first, reason)

    return patch.object(score_job, "_store_revision", patched)


def months_stay_as_they_were() -> AbstractContextManager[Any]:
    """A kept report of a month is not made again when a score has changed."""

    def patched(session: Any, touched: set[tuple[str, str]]) -> None:
        both = {(month, name) for month, project in touched for name in (project, ALL)}
        rows = [{"month": month, "project": name, "changes": 1} for month, name in both]
        columns.upsert(session, MonthSum, rows)

    return patch.object(month_rows, "_count", patched)


def late_lines_are_not_scored() -> AbstractContextManager[Any]:
    """A job that has a revision is not scored again."""
    original = score_job._snapshot

    def patched(session: Any, job: Any) -> Any:
        if job.revision:
            job = session.merge(job)
            seen = original(session, job)
            return dataclasses.replace(seen, records=[r for r in seen.records if r.seq < 6])
        return original(session, job)

    return patch.object(score_job, "_snapshot", patched)


def points_arrive_unseen() -> AbstractContextManager[Any]:
    """Jobs that were scored before points of their time arrived are not scored again."""
    return patch.object(rescoring, "_note_arrivals", lambda service: None)


def months_keep_old_rows() -> AbstractContextManager[Any]:
    """A new revision leaves the job's rows of the month as they were."""
    original = score_job.keep_rows

    def patched(session: Any, job: Any, rows: Any, *, is_new: bool) -> None:
        if job.revision == 1:
            original(session, job, rows, is_new=is_new)

    return patch.object(score_job, "keep_rows", patched)


def deleted_jobs_return() -> AbstractContextManager[Any]:
    """A line of a deleted job makes it anew."""
    return patch.object(ingest, "_require_not_deleted", lambda *_: None)


def corrections_are_lost() -> AbstractContextManager[Any]:
    """A job that is scored again has forgotten what was declared afterwards."""
    return patch.object(journal, "corrected", lambda records, corrections: list(records))


def deleted_intervals_count_as_none() -> AbstractContextManager[Any]:
    """Retention leaves no note, so that a corrected job is scored from what is left of it."""
    original = upkeep._delete

    def patched(service: Any, key: int, before_us: int, session: Any) -> int:
        done = original(service, key, before_us, session)
        session.flush()
        session.get(Job, key).intervals_deleted_us = None
        return done

    return patch.object(upkeep, "_delete", patched)


def the_first_end_decides() -> AbstractContextManager[Any]:
    """A job ends with its first node, while others still run."""
    from gramwatt.sci.records import merge

    return patch.object(merge, "deciding_end", lambda ends: list(ends)[0])


def conflicts_are_not_tried_again() -> AbstractContextManager[Any]:
    """Work that met other work in a deadlock fails at once."""
    return patch.object(database, "CONFLICTS_MOST", 1)


def alerts_count_as_sent_when_they_are_claimed() -> AbstractContextManager[Any]:
    """A message whose sender fails or dies is never sent again."""

    def patched(service: Any, key: int) -> None:
        notifications._note(service, key, next_us=None, sent_us=service.now_us(), error=None)
        with service.store.read() as session:
            notifications._send(service, session.get(OutboxMessage, key))

    return patch.object(notifications, "_deliver", _without_errors(patched))


def alerts_have_an_id_for_each_attempt() -> AbstractContextManager[Any]:
    """Who receives a message twice cannot know that it is the same."""
    original = notifications._send

    def patched(service: Any, message: Any) -> None:
        message.made_us += message.attempts
        original(service, message)

    return patch.object(notifications, "_send", patched)


def running_jobs_are_spent_twice() -> AbstractContextManager[Any]:
    """What a job emitted while it ran stays in the sum of its budget when it is scored."""
    wanted = sa.select(Job.project, Score.doc).join(Job, Job.id == Score.job)

    def patched(service: Any, keys: Any) -> dict[Any, list[Any]]:
        with service.store.read() as session:
            rows = session.execute(wanted.where(Score.revision == 1)).all()
        found: dict[Any, list[Any]] = {}
        for project, text in rows:
            for month in {month for month, of in keys if of == project}:
                days = [d for d in read_job(text).days if d.day.startswith(month)]
                found.setdefault((month, project), []).append(days)
        return found

    return patch.object(spending, "_running", patched)


def _without_open(go_on: Callable[..., None]) -> Callable[..., None]:
    def patched(self: Any, descriptor: int) -> None:
        path = self.path
        with patch.object(type(self), "path", path.with_name("nothing.jsonl")):
            go_on(self, descriptor)

    return patched


def _without_errors(action: Callable[..., Any]) -> Callable[..., bool]:
    def patched(*args: Any) -> bool:
        try:
            action(*args)
        except notifications.SendError:
            return False
        return True

    return patched


def _task(name: str, action: Any) -> AbstractContextManager[Any]:
    from gramwatt.service.tasks.table import TASKS

    return patch.dict(TASKS, {name: dataclasses.replace(TASKS[name], action=action)})  # type: ignore[arg-type]


def _world() -> Any:
    return SCENE.world


def _plant() -> Any:
    return SCENE.plant


BUGS = (
    Bug(4, older_interval_stays),
    Bug(17, last_arrival_wins),
    Bug(1, forgets_what_arrived),
    Bug(3, deletes_before_the_answer),
    Bug(3, marks_before_the_answer),
    Bug(4, deletes_what_came_meanwhile),
    Bug(16, deletes_living_folders),
    Bug(24, takes_partial_writes_for_whole),
    Bug(6, writes_the_open_file_in_place),
    Bug(3, never_syncs),
    Bug(20, answers_before_the_disk),
    Bug(2, forgets_the_readings),
    Bug(2, adds_up_totals),
    Bug(2, replaces_what_was_about_to_be_appended),
    Bug(2, numbers_lines_anew),
    Bug(16, loses_counts_of_the_dead),
    Bug(110, heard_by_the_jobs_clock),
    Bug(1, first_day_only),
    Bug(131, months_stay_as_they_were),
    Bug(5, late_lines_are_not_scored),
    Bug(131, points_arrive_unseen),
    Bug(5, months_keep_old_rows),
    Bug(14, deleted_jobs_return),
    Bug(5, corrections_are_lost),
    Bug(12, the_first_end_decides),
    Bug(5, deleted_intervals_count_as_none),
    Bug(36, conflicts_are_not_tried_again),
    Bug(0, alerts_count_as_sent_when_they_are_claimed),
    Bug(52, alerts_have_an_id_for_each_attempt),
    Bug(0, running_jobs_are_spent_twice),
)

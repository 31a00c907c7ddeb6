"""The runs of periodic tasks: recorded as they start and end, and shown to people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from gramwatt.service.common.requests import cut, decode_cursor
from gramwatt.service.container import Service
from gramwatt.service.metrics import Measure
from gramwatt.service.store.columns import span_us, text_from_us
from gramwatt.service.store.serving import TaskRun
from gramwatt.service.tasks.table import TASKS, Task

KEPT = 100
"""Runs kept of each task."""
RETRY = timedelta(minutes=5)
"""When a task that failed is tried again, unless its next run comes sooner."""


class RunAnswer(Struct):
    """One run of a task; `outcome` is running, done, failed or interrupted."""

    task: str
    started_at: str
    ended_at: str | None
    outcome: str
    error: str | None
    host: str


class ScheduleAnswer(Struct):
    """A task, how often it runs [s], and how its newest run and its newest success went."""

    task: str
    what: str
    every_s: float
    next_at: str | None
    last_success_at: str | None
    last_run: RunAnswer | None


class SchedulesAnswer(Struct):
    """Every task, and a page of the runs, newest first."""

    schedules: list[ScheduleAnswer]
    runs: list[RunAnswer]
    next_cursor: str | None


def begin(service: Service, task: str, host: str) -> int:
    """Record that a run starts now, and forget the oldest runs of the task; the run's key."""
    with service.store.write() as session:
        run = TaskRun(task=task, host=host, started_us=service.now_us(), outcome="running")
        session.add(run)
        session.flush()
        of_task = sa.select(TaskRun.id).where(TaskRun.task == task).order_by(TaskRun.id.desc())
        oldest = session.scalar(of_task.offset(KEPT).limit(1))
        if oldest is not None:
            session.execute(sa.delete(TaskRun).where(TaskRun.task == task, TaskRun.id <= oldest))
        return run.id


def end(service: Service, key: int, error: str | None) -> None:
    """Record that a run ended now; one that a new leader called interrupted stays that."""
    values = {
        "ended_us": service.now_us(),
        "outcome": "failed" if error else "done",
        "error": error[:512] if error else None,
    }
    runs = sa.update(TaskRun).where(TaskRun.id == key, TaskRun.outcome == "running")
    with service.store.write() as session:
        session.execute(runs.values(values))


def interrupt(service: Service) -> None:
    """Call interrupted what still runs: its process died, or no longer leads."""
    going = sa.update(TaskRun).where(TaskRun.outcome == "running")
    values = {"outcome": "interrupted", "error": "its process ended, or another took over the lead"}
    with service.store.write() as session:
        session.execute(going.values(values))


def due_us(service: Service, tasks: Mapping[str, Task]) -> dict[str, int]:
    """Return when each task is to run next [us]: by its last run, now for one that has none.

    One that began later than now counts as due: the clock was ahead then.
    """
    now_us = service.now_us()
    with service.store.read() as session:
        newest = _newest(session)
    return {
        name: _due_us(task, newest[name], now_us) if name in newest else now_us
        for name, task in tasks.items()
    }


def schedules(
    service: Service, limit: int = 50, cursor: str | None = None, task: str | None = None
) -> SchedulesAnswer:
    """Return every task, and a page of the runs, newest first; raises CursorError."""
    statement = sa.select(TaskRun).order_by(TaskRun.id.desc()).limit(limit + 1)
    if cursor is not None:
        statement = statement.where(TaskRun.id < decode_cursor(cursor, int)[0])
    if task is not None:
        statement = statement.where(TaskRun.task == task)
    with service.store.read() as session:
        newest, succeeded = _newest(session), _succeeded(session)
        runs = session.scalars(statement).all()
    shown, following = cut(runs, limit, lambda run: (run.id,))
    return SchedulesAnswer(
        schedules=[
            _schedule(name, spec, newest.get(name), succeeded.get(name), service.now_us())
            for name, spec in TASKS.items()
        ],
        runs=list(map(_run, shown)),
        next_cursor=following,
    )


def task_measures(service: Service) -> list[Measure]:
    """Return when each task last succeeded and whether its newest run failed; none without a
    database.
    """
    try:
        with service.store.read() as session:
            newest, succeeded = _newest(session), _succeeded(session)
    except SQLAlchemyError:
        return []
    return [
        Measure(
            "gramwatt_task_last_success_timestamp_seconds",
            "When the periodic task last succeeded, seconds since 1970.",
            ("task",),
            {(name,): at_us / 1e6 for name, at_us in succeeded.items()},
        ),
        Measure(
            "gramwatt_task_failing",
            "Whether the newest run of the periodic task failed or was interrupted.",
            ("task",),
            {
                (name,): float(run.outcome in ("failed", "interrupted"))
                for name, run in newest.items()
            },
        ),
    ]


def _newest(session: Session) -> dict[str, TaskRun]:
    keys = sa.select(sa.func.max(TaskRun.id)).group_by(TaskRun.task)
    return {
        run.task: run for run in session.scalars(sa.select(TaskRun).where(TaskRun.id.in_(keys)))
    }


def _succeeded(session: Session) -> dict[str, int]:
    """Return when each task last succeeded [us], by the order of its runs and not by their times:
    the clock may have been ahead.
    """
    newest = sa.select(sa.func.max(TaskRun.id)).where(TaskRun.outcome == "done")
    statement = sa.select(TaskRun.task, TaskRun.ended_us)
    rows = session.execute(statement.where(TaskRun.id.in_(newest.group_by(TaskRun.task))))
    return {name: at_us for name, at_us in rows if at_us is not None}


def _due_us(task: Task, last: TaskRun, now_us: int) -> int:
    if last.started_us > now_us:
        return now_us
    failed = last.outcome in ("failed", "interrupted")
    return last.started_us + span_us(min(task.every, RETRY) if failed else task.every)


def _schedule(
    name: str, task: Task, last: TaskRun | None, succeeded_us: int | None, now_us: int
) -> ScheduleAnswer:
    return ScheduleAnswer(
        task=name,
        what=task.what,
        every_s=task.every.total_seconds(),
        next_at=None if last is None else text_from_us(_due_us(task, last, now_us)),
        last_success_at=None if succeeded_us is None else text_from_us(succeeded_us),
        last_run=None if last is None else _run(last),
    )


def _run(run: TaskRun) -> RunAnswer:
    return RunAnswer(
        task=run.task,
        started_at=text_from_us(run.started_us),
        ended_at=None if run.ended_us is None else text_from_us(run.ended_us),
        outcome=run.outcome,
        error=run.error,
        host=run.host,
    )

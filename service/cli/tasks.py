"""The command `gramwatt admin tasks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gramwatt.collectors.cli.options import show
from gramwatt.service.cli.common import AsJson, DatabaseUrl, open_service, print_json, stop

if TYPE_CHECKING:
    from gramwatt.service.tasks.runs import RunAnswer, ScheduleAnswer, SchedulesAnswer

SHOWN = 20
"""Runs that the command lists."""


def tasks(as_json: AsJson = False, database_url: DatabaseUrl = None) -> None:
    """List the periodic tasks and their newest runs."""
    from gramwatt.service.store.migrate import is_current, require_known
    from gramwatt.service.tasks.runs import schedules

    with open_service(database_url) as service:
        require_known(service.store)
        if not is_current(service.store):
            stop(1, "the database is not up to date; run: gramwatt admin db upgrade")
        answer = schedules(service, SHOWN)
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def _print(answer: SchedulesAnswer) -> None:
    from gramwatt.service.tasks.table import period

    for row in answer.schedules:
        every = period(row.every_s)
        show(f"{row.task:<17} every {every:<6} {_state(row)}", f"{'':<18}{row.what}")
    show("", "newest runs" if answer.runs else "no run yet")
    for run in answer.runs:
        show(f"{run.started_at[:19]}Z  {run.task:<17} {_outcome(run)}")


def _state(row: ScheduleAnswer) -> str:
    last = row.last_run
    if last is None:
        return "never ran"
    return f"{_outcome(last)}, last started {last.started_at[:19]}Z"


def _outcome(run: RunAnswer) -> str:
    return f"{run.outcome}: {run.error}" if run.error else run.outcome

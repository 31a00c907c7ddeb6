"""The periodic tasks and their runs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gramwatt.service.api.access import Access
from gramwatt.service.api.problems import invalid
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import service
from gramwatt.service.common.requests import Page
from gramwatt.service.tasks.runs import SchedulesAnswer, schedules
from gramwatt.service.tasks.table import TASKS

routes = Routes("schedules")


class SchedulesQuery(Page, frozen=True, kw_only=True):
    """Which runs are wanted."""

    task: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64, pattern="^[^\\x00]+$")] | None,
        Meta(description="Runs of this task."),
    ] = None


@routes.get("/v1/schedules", access=Access.READ_ALL)
def list_schedules(query: SchedulesQuery) -> SchedulesAnswer:
    """Return every periodic task with its period and its next run, and the runs, newest first.

    A run is `running`, `done`, `failed` with its error, or `interrupted` when its process died.
    """
    if query.task is not None and query.task not in TASKS:
        raise invalid("query.task", f"no such task; known: {', '.join(TASKS)}", "unknown")
    return schedules(service(), query.limit, query.cursor, query.task)

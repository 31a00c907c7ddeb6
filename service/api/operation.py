"""Keys, sessions of browsers and the audit log; for admins of every project."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from flask import Response, current_app
from msgspec import Meta, Struct, field

from gramwatt.service.access.audit import AuditAnswer, audit_page
from gramwatt.service.access.keys import (
    NAME,
    PROJECTS_MOST,
    KeysAnswer,
    NewKey,
    RevokedKey,
    create_key,
    list_keys,
    revoke_key,
    rotate_key,
)
from gramwatt.service.access.sessions import (
    EndedSessions,
    SessionsAnswer,
    end_session,
    end_sessions_of,
    list_sessions,
)
from gramwatt.service.api.access import Access, has_valid_key, whole_service
from gramwatt.service.api.problems import invalid
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import caller, service
from gramwatt.service.budgets import (
    BudgetRow,
    BudgetsAnswer,
    CheckAnswer,
    budgets_page,
    check,
    remove_budget,
    set_budget,
)
from gramwatt.service.common.errors import NotReadyError
from gramwatt.service.common.requests import BudgetsQuery, Month, NewBudget, Page, Text, exactly
from gramwatt.service.erasure import DeletedProject, ErasedPerson, erase_person, erase_project
from gramwatt.service.metrics import EXTENSION, Metrics
from gramwatt.service.notifications import OutboxAnswer, outbox_page
from gramwatt.service.scopes import Scope
from gramwatt.service.status import require_ready, store_measures
from gramwatt.service.tasks.runs import SchedulesAnswer, schedules, task_measures
from gramwatt.service.tasks.table import TASKS

keys_routes = Routes("keys")


class KeyBody(Struct, frozen=True, kw_only=True):
    """A key to make; without `projects` it is for all of them, without `expires_days` for ever.

    An empty list is refused: who computes the projects does not mean all of them by none.
    """

    name: Annotated[str, Meta(pattern=exactly(NAME.pattern))]
    scope: Scope
    projects: Annotated[list[Text], Meta(min_length=1, max_length=PROJECTS_MOST)] = field(
        default_factory=list
    )
    expires_days: Annotated[float, Meta(gt=0, le=36500)] | None = None


class KeyPath(Struct, frozen=True, kw_only=True):
    """The key in an address."""

    name: Annotated[str, Meta(pattern=exactly(NAME.pattern))]


@keys_routes.post("/v1/keys", "conflict", access=Access.ADMIN_ALL)
def make_key(body: KeyBody) -> NewKey:
    """Make a key; the answer is the only one that shows it."""
    expires = None if body.expires_days is None else timedelta(days=body.expires_days)
    return create_key(service(), body.name, body.scope, body.projects, expires=expires)


@keys_routes.get("/v1/keys", access=Access.ADMIN_ALL)
def show_keys() -> KeysAnswer:
    """Return every key by name, without its secret; expired ones too."""
    return list_keys(service())


class RotateBody(Struct, frozen=True, kw_only=True):
    """How long the key before still works, and when the new one expires: by default after as long
    as that one lasted.
    """

    overlap_hours: Annotated[float, Meta(ge=0, le=24 * 366)] = 24.0
    expires_days: Annotated[float, Meta(gt=0, le=36500)] | None = None


@keys_routes.post("/v1/keys/<name>/rotate", "unknown-key", access=Access.ADMIN_ALL)
def replace_key(path: KeyPath, body: RotateBody) -> NewKey:
    """Make another key of this name, scope and projects; the one before works a while longer."""
    expires = None if body.expires_days is None else timedelta(days=body.expires_days)
    return rotate_key(service(), path.name, timedelta(hours=body.overlap_hours), expires=expires)


class RevokeQuery(Struct, frozen=True, kw_only=True):
    """Which key of the name is meant; every one without."""

    prefix: Annotated[
        Annotated[str, Meta(pattern=exactly("gw_[0-9a-f]{8}"))] | None,
        Meta(description="Its visible part."),
    ] = None


@keys_routes.delete("/v1/keys/<name>", "unknown-key", access=Access.ADMIN_ALL)
def delete_key(path: KeyPath, query: RevokeQuery) -> RevokedKey:
    """Revoke a key; it works no longer from then on."""
    return revoke_key(service(), path.name, query.prefix)


class SessionPath(Struct, frozen=True, kw_only=True):
    """The session in an address."""

    session: Annotated[str, Meta(pattern=exactly("[0-9a-f]{12}"), description="The session's id.")]


class PersonQuery(Struct, frozen=True, kw_only=True):
    """Whose sessions are meant."""

    person: Annotated[Text, Meta(description="The person's name, as the list has it.")]


@keys_routes.get("/v1/sessions", access=Access.ADMIN_ALL)
def show_sessions() -> SessionsAnswer:
    """Return the browsers that are signed in, newest first."""
    return list_sessions(service())


@keys_routes.delete("/v1/sessions/<session>", "unknown-session", access=Access.ADMIN_ALL)
def delete_session(path: SessionPath) -> EndedSessions:
    """End one session."""
    return end_session(service(), path.session)


@keys_routes.delete("/v1/sessions", "unknown-session", access=Access.ADMIN_ALL)
def delete_sessions(query: PersonQuery) -> EndedSessions:
    """End every session of a person."""
    return end_sessions_of(service(), query.person)


@keys_routes.get("/v1/audit", access=Access.ADMIN_ALL)
def show_audit(query: Page) -> AuditAnswer:
    """Return who did what, when and from where, newest first: keys, refusals, deletions,
    corrections.
    """
    return audit_page(service(), query.limit, query.cursor)


erasures_routes = Routes("erasures")


class ProjectPath(Struct, frozen=True, kw_only=True):
    """The project in an address."""

    project: Text


class PersonPath(Struct, frozen=True, kw_only=True):
    """The name of a person in an address."""

    name: Text


class ErasedPersonQuery(Struct, frozen=True, kw_only=True):
    """What goes with the name."""

    jobs: Annotated[
        bool, Meta(description="Delete the jobs first whose tag `user` is the name.")
    ] = False


@erasures_routes.delete("/v1/projects/<path:project>", "unknown-project", access=Access.ADMIN_ALL)
def delete_project(path: ProjectPath) -> DeletedProject:
    """Delete a project for good: jobs, reports, budgets and its own keys."""
    return erase_project(service(), path.project, by=caller().name)


@erasures_routes.delete("/v1/people/<path:name>", "unknown-person", access=Access.ADMIN_ALL)
def delete_person(path: PersonPath, query: ErasedPersonQuery) -> ErasedPerson:
    """Blank a person's name: an alias stands for it, as the tag `user` of jobs and as who did
    something.
    """
    return erase_person(service(), path.name, by=caller().name, jobs=query.jobs)


schedules_routes = Routes("schedules")


class SchedulesQuery(Page, frozen=True, kw_only=True):
    """Which runs are wanted."""

    task: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64, pattern="^[^\\x00]+$")] | None,
        Meta(description="Runs of this task."),
    ] = None


@schedules_routes.get("/v1/schedules", access=Access.READ_ALL)
def list_schedules(query: SchedulesQuery) -> SchedulesAnswer:
    """Return every periodic task with its period and its next run, and the runs, newest first.

    A run is `running`, `done`, `failed` with its error, or `interrupted` when its process died.
    """
    if query.task is not None and query.task not in TASKS:
        raise invalid("query.task", f"no such task; known: {', '.join(TASKS)}", "unknown")
    return schedules(service(), query.limit, query.cursor, query.task)


budgets_routes = Routes("budgets")


class CheckedQuery(Struct, frozen=True, kw_only=True):
    """The project that a job belongs to."""

    project: Text


class RemovedQuery(Struct, frozen=True, kw_only=True):
    """The budget to remove: that of a month, or without `month` that of every month."""

    project: Text
    month: Month | None = None


class RemovedBudget(Struct):
    """The budget that was removed."""

    project: str
    month: str | None


@budgets_routes.get("/v1/budgets", access=Access.READ)
def list_budgets(query: BudgetsQuery) -> BudgetsAnswer:
    """Budgets by project: how far each is spent, its forecast to the month's end, its alerts."""
    return budgets_page(service(), query.limit, query.cursor, query.project, query.month)


@budgets_routes.get("/v1/budgets/check", access=Access.INGEST)
def check_budget(query: CheckedQuery) -> CheckAnswer:
    """Return the status of a project's budget this month: what a job asks before it starts."""
    return check(service(), query.project)


@budgets_routes.post("/v1/budgets", "forbidden", access=Access.ADMIN)
def put_budget(body: NewBudget) -> BudgetRow:
    """Set the budget of a project, in place of its budget for the same month.

    A webhook goes to a public host by https, or to one of GRAMWATT_WEBHOOK_HOSTS.
    """
    return set_budget(service(), body, by=caller().name)


@budgets_routes.delete("/v1/budgets", "unknown-budget", "forbidden", access=Access.ADMIN)
def delete_budget(query: RemovedQuery) -> RemovedBudget:
    """Remove a budget; the alerts that it made stay on record."""
    remove_budget(service(), query.project, query.month, by=caller().name)
    return RemovedBudget(project=query.project, month=query.month)


@budgets_routes.get("/v1/outbox", access=Access.READ)
def list_messages(query: Page) -> OutboxAnswer:
    """Messages of alerts, newest first: sent, waiting with the reason, or given up."""
    return outbox_page(service(), query.limit, query.cursor)


health_routes = Routes("service")
ALIVE, READY = "service.alive", "service.ready"
"""The endpoints of probes: the process answers; the database too."""


class StatusAnswer(Struct):
    """The state of the service itself."""

    status: str


@health_routes.get("/healthz", access=Access.OPEN)
def alive() -> StatusAnswer:
    """Return whether the process answers; asks nothing of the database."""
    return StatusAnswer(status="ok")


@health_routes.get("/readyz", "not-ready", access=Access.OPEN)
def ready() -> StatusAnswer:
    """Say that the database can be reached and has this release's tables.

    Probes have no key, so it needs none; the reason for a 503 is told to a valid key only.
    """
    try:
        require_ready(whole_service())
    except NotReadyError:
        if has_valid_key():
            raise
        raise NotReadyError("not ready; a key is told why") from None
    return StatusAnswer(status="ok")


@health_routes.get("/metrics", media={"text/plain": None}, access=Access.METRICS_ALL)
def metrics() -> Response:
    """Requests and lines counted, and what the store holds, in Prometheus' text format.

    While the database is away the counters are answered all the same.
    """
    metrics: Metrics = current_app.extensions[EXTENSION]
    measures = store_measures(service())
    if len(measures) > 1:
        measures += task_measures(service())
    return Response(metrics.text(measures), content_type=metrics.media)

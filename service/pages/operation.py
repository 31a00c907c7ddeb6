"""Periodic tasks, keys and settings for those who run the service; the API; the glossary."""

from __future__ import annotations

from datetime import timedelta

from flask import Response, redirect, request

from gramwatt.reports.glossary import TERMS
from gramwatt.service.access.audit import audit_page
from gramwatt.service.access.keys import NewKey, create_key, list_keys, revoke_key
from gramwatt.service.access.sessions import end_session, end_sessions_of, list_sessions
from gramwatt.service.api.access import Access
from gramwatt.service.api.operation import (
    KeyBody,
    KeyPath,
    RevokeQuery,
    SchedulesQuery,
    SessionPath,
)
from gramwatt.service.api.routing import from_strings
from gramwatt.service.api.support import service
from gramwatt.service.jobs.projects import project_names
from gramwatt.service.pages.frame import PER_PAGE, page, query, route
from gramwatt.service.scopes import SCOPES
from gramwatt.service.status import effective_settings
from gramwatt.service.tasks import runs

DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ACTS_SHOWN = 20
SET_FIRST = tuple(
    f"GRAMWATT_{name}"
    for name in (
        *("ORGANISATION", "ACCOUNTABLE", "CONTACT", "TIMEZONE", "INTENSITY"),
        *("REPORT_DIR", "REPORT_EMAIL", "SMTP_URL"),
    )
)
"""What reports say and where they go; shown also while it has its default."""
BAD = ("failed", "interrupted")
"""Outcomes of a run after which its task is not well."""


@route("/schedules", Access.READ_ALL)
def schedules() -> Response:
    """Return the periodic tasks and their runs."""
    chosen = query(SchedulesQuery)
    answer = runs.schedules(service(), PER_PAGE, chosen.cursor, chosen.task)
    ill = [row for row in answer.schedules if row.last_run and row.last_run.outcome in BAD]
    ran = any(row.last_run for row in answer.schedules)
    return page("schedules.html", found=answer, chosen=chosen, ill=ill, ran=ran)


@route("/keys", Access.ADMIN_ALL)
def keys() -> Response:
    """Return every key, a form for another, and what was done last."""
    return _keys_page(None)


@route("/keys/new", Access.ADMIN_ALL, method="POST")
def new_key() -> Response:
    """Make the key of the form; this answer is the only one that shows it."""
    fields = {
        name: request.form.get(name, "").strip() for name in ("name", "scope", "expires_days")
    }
    projects = [name for name in request.form.getlist("projects") if name]
    values = {name: value for name, value in {**fields, "projects": projects}.items() if value}
    body = from_strings(KeyBody, values, "form")
    expires = None if body.expires_days is None else timedelta(days=body.expires_days)
    key = create_key(service(), body.name, body.scope, body.projects, expires=expires)
    answer = _keys_page(key)
    answer.headers["Cache-Control"] = "no-store"
    return answer


@route("/keys/revoke", Access.ADMIN_ALL, method="POST")
def revoked_key() -> Response:
    """Revoke the key of the form, and show those that are left."""
    path = from_strings(KeyPath, {"name": request.form.get("name", "")}, "form")
    values = {"prefix": request.form["prefix"]} if "prefix" in request.form else {}
    revoke_key(service(), path.name, from_strings(RevokeQuery, values, "form").prefix)
    return redirect("/keys", 303)  # type: ignore[return-value]


@route("/sessions/end", Access.ADMIN_ALL, method="POST")
def ended_session() -> Response:
    """End the session of the form, or all of a person, and show those that are left."""
    if person := request.form.get("person", ""):
        end_sessions_of(service(), person)
    else:
        path = from_strings(SessionPath, {"session": request.form.get("session", "")}, "form")
        end_session(service(), path.session)
    return redirect("/keys#sessions", 303)  # type: ignore[return-value]


def _keys_page(key: NewKey | None) -> Response:
    return page(
        "keys.html",
        keys=list_keys(service()).keys,
        made=key,
        sessions=list_sessions(service()).sessions,
        scopes=SCOPES,
        projects=project_names(service()),
        acts=audit_page(service(), ACTS_SHOWN, None).entries,
    )


@route("/settings", Access.ADMIN_ALL)
def settings() -> Response:
    """Return the settings that hold, and where each comes from; no secret."""
    return page("settings.html", settings=effective_settings(service()), first=SET_FIRST)


@route("/glossary", Access.READ)
def glossary() -> Response:
    """Return what the words of the pages mean."""
    return page("glossary.html", terms=TERMS)


@route("/docs", Access.READ)
def docs() -> Response:
    """Return the API's documentation, by the Swagger UI that the package carries."""
    return page("frame/docs.html", policy=DOCS_POLICY)

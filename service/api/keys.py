"""Keys, sessions of browsers and the audit log; for admins of every project."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

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
from gramwatt.service.api.access import Access
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import service
from gramwatt.service.common.requests import Page, Text, exactly
from gramwatt.service.container import Scope

routes = Routes("keys")


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


@routes.post("/v1/keys", "conflict", access=Access.ADMIN_ALL)
def make_key(body: KeyBody) -> NewKey:
    """Make a key; the answer is the only one that shows it."""
    expires = None if body.expires_days is None else timedelta(days=body.expires_days)
    return create_key(service(), body.name, body.scope, body.projects, expires=expires)


@routes.get("/v1/keys", access=Access.ADMIN_ALL)
def show_keys() -> KeysAnswer:
    """Return every key by name, without its secret; expired ones too."""
    return list_keys(service())


class RotateBody(Struct, frozen=True, kw_only=True):
    """How long the key before still works, and when the new one expires: by default after as long
    as that one lasted.
    """

    overlap_hours: Annotated[float, Meta(ge=0, le=24 * 366)] = 24.0
    expires_days: Annotated[float, Meta(gt=0, le=36500)] | None = None


@routes.post("/v1/keys/<name>/rotate", "unknown-key", access=Access.ADMIN_ALL)
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


@routes.delete("/v1/keys/<name>", "unknown-key", access=Access.ADMIN_ALL)
def delete_key(path: KeyPath, query: RevokeQuery) -> RevokedKey:
    """Revoke a key; it works no longer from then on."""
    return revoke_key(service(), path.name, query.prefix)


class SessionPath(Struct, frozen=True, kw_only=True):
    """The session in an address."""

    session: Annotated[str, Meta(pattern=exactly("[0-9a-f]{12}"), description="The session's id.")]


class PersonQuery(Struct, frozen=True, kw_only=True):
    """Whose sessions are meant."""

    person: Annotated[Text, Meta(description="The person's name, as the list has it.")]


@routes.get("/v1/sessions", access=Access.ADMIN_ALL)
def show_sessions() -> SessionsAnswer:
    """Return the browsers that are signed in, newest first."""
    return list_sessions(service())


@routes.delete("/v1/sessions/<session>", "unknown-session", access=Access.ADMIN_ALL)
def delete_session(path: SessionPath) -> EndedSessions:
    """End one session."""
    return end_session(service(), path.session)


@routes.delete("/v1/sessions", "unknown-session", access=Access.ADMIN_ALL)
def delete_sessions(query: PersonQuery) -> EndedSessions:
    """End every session of a person."""
    return end_sessions_of(service(), query.person)


@routes.get("/v1/audit", access=Access.ADMIN_ALL)
def show_audit(query: Page) -> AuditAnswer:
    """Return who did what, when and from where, newest first: keys, refusals, deletions,
    corrections.
    """
    return audit_page(service(), query.limit, query.cursor)

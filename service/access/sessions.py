"""How a browser gets in: a link that works once is exchanged for a cookie of some hours."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.orm import Session

from gramwatt.collectors.settings.keys import home_key
from gramwatt.service.access import audit
from gramwatt.service.access.keys import digest, new_token, projects_of, projects_text
from gramwatt.service.common.errors import ServiceError
from gramwatt.service.container import Caller, Service
from gramwatt.service.scopes import ADMIN
from gramwatt.service.store.access import BrowserSession
from gramwatt.service.store.columns import span_us, text_from_us

LINK, COOKIE = "link", "cookie"
LINK_LASTS = timedelta(minutes=15)
CLOCKS_APART = timedelta(minutes=5)
"""How far the clocks of two servers over one store may differ."""
ID_LENGTH = 12
"""How much of a session's digest is shown as its id; nobody gets in with that."""


class SessionRow(Struct):
    """A browser that is signed in; no projects stand for all."""

    id: str
    person: str
    scope: str
    projects: list[str]
    address: str
    started_at: str
    expires_at: str


class SessionsAnswer(Struct):
    """Every session that lets somebody in, newest first."""

    sessions: list[SessionRow]


class EndedSessions(Struct):
    """How many sessions were ended."""

    ended: int


def new_link(service: Service, name: str, projects: frozenset[str] | None = None) -> str:
    """Return the token of a link that lets one browser in as an admin, of some projects or of all,
    once, within LINK_LASTS.
    """
    caller = Caller(name, scope=ADMIN, projects=projects)
    with service.store.write() as session:
        return add(service, session, LINK, caller, LINK_LASTS)


def open_session(service: Service, caller: Caller) -> str:
    """Return the cookie of a new session of the caller, which lasts as long as the settings say."""
    with service.store.write() as session:
        return _enter(service, session, caller)


def exchange_link(service: Service, token: str, address: str) -> str | None:
    """Return the cookie for a link's token; None for a token that is unknown, used or too old."""
    with service.store.write() as session:
        link = _find(service, session, LINK, token)
        # Of two that use the link at once, only one deletes its row.
        gone = sa.delete(BrowserSession).where(BrowserSession.digest == digest(token))
        if link is None or not session.execute(gone.returning(BrowserSession.digest)).all():
            return None
        caller = Caller(link.name, address, link.scope, projects_of(link.projects))
        return _enter(service, session, caller)


def caller_of(service: Service, cookie: str, address: str) -> Caller | None:
    """Return the caller with this cookie; None when the session is unknown or over."""
    with service.store.read() as session:
        row = _find(service, session, COOKIE, cookie)
    if row is None or row.signer != _signer(service):
        return None
    return Caller(
        row.name,
        address,
        row.scope,
        projects_of(row.projects),
        f"session {row.digest[:ID_LENGTH]}",
    )


def sign_out(service: Service, cookie: str) -> None:
    """End the session of this cookie, which is that of the service's caller."""
    gone = sa.delete(BrowserSession).where(BrowserSession.digest == digest(cookie))
    with service.for_every_project().store.write() as session:
        session.execute(gone)
        audit.record(session, service, "signed-out", service.caller.name)


def list_sessions(service: Service) -> SessionsAnswer:
    """Return the sessions that let somebody in, newest first."""
    statement = sa.select(BrowserSession).where(
        BrowserSession.kind == COOKIE, BrowserSession.expires_us > service.now_us()
    )
    if signer := _signer(service):  # a command may run where the server's key is not
        statement = statement.where(BrowserSession.signer == signer)
    with service.store.read() as session:
        rows = session.scalars(statement.order_by(BrowserSession.started_us.desc())).all()
    return SessionsAnswer(sessions=[_row(row) for row in rows])


def end_session(service: Service, identity: str) -> EndedSessions:
    """End the session of this id; raises ServiceError `unknown-session`."""
    return _end(service, identity, sa.func.substr(BrowserSession.digest, 1, ID_LENGTH) == identity)


def end_sessions_of(service: Service, person: str) -> EndedSessions:
    """End every session of a person, and links that nobody has used yet; raises
    ServiceError for somebody who has none.
    """
    return _end(service, person, BrowserSession.name == person)


def _end(service: Service, what: str, condition: sa.ColumnElement[bool]) -> EndedSessions:
    kinds = BrowserSession.kind.in_((LINK, COOKIE))
    gone = sa.delete(BrowserSession).where(condition, kinds).returning(BrowserSession.name)
    with service.store.write() as session:
        names = session.scalars(gone).all()
        if not names:
            raise ServiceError(f"there is no session of {what[:80]!r}", "unknown-session")
        for name in names:
            audit.record(session, service, "session-ended", name)
    return EndedSessions(ended=len(names))


def _enter(service: Service, session: Session, caller: Caller) -> str:
    """Return the cookie of a new session, which is an entry of the audit log."""
    token = add(service, session, COOKIE, caller, service.config.session_lasts)
    audit.record(session, service.for_caller(caller), "signed-in", caller.name)
    return token


def _signer(service: Service) -> str:
    key = home_key(service.config.home)
    return digest(key) if key else ""


def _find(service: Service, session: Session, kind: str, token: str) -> BrowserSession | None:
    statement = sa.select(BrowserSession).where(
        BrowserSession.digest == digest(token),
        BrowserSession.kind == kind,
        BrowserSession.expires_us > service.now_us(),
        # Begun while the clock was ahead, it would last until that day.
        BrowserSession.started_us <= service.now_us() + span_us(CLOCKS_APART),
    )
    return session.scalars(statement).one_or_none()


def add(service: Service, session: Session, kind: str, caller: Caller, lasts: timedelta) -> str:
    """Return a new token of this kind, whose digest is kept with who may use it for how long."""
    now_us, token = service.now_us(), new_token()
    session.execute(sa.delete(BrowserSession).where(BrowserSession.expires_us <= now_us))
    row = BrowserSession(
        digest=digest(token),
        kind=kind,
        name=caller.name,
        scope=caller.scope,
        projects=projects_text(caller.projects),
        started_us=now_us,
        expires_us=now_us + span_us(lasts),
        address=caller.address[:64],
        signer=_signer(service) if kind == COOKIE else "",
    )
    session.add(row)
    return token


def _row(row: BrowserSession) -> SessionRow:
    return SessionRow(
        id=row.digest[:ID_LENGTH],
        person=row.name,
        scope=row.scope,
        projects=sorted(projects_of(row.projects) or ()),
        address=row.address,
        started_at=text_from_us(row.started_us),
        expires_at=text_from_us(row.expires_us),
    )

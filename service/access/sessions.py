"""How a browser gets in: a link that works once is exchanged for a cookie of some hours."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.access.tokens import digest, new_token, projects_of, projects_text
from gramwatt.service.container import ADMIN, Caller, Service
from gramwatt.service.store.access import BrowserSession

LINK, COOKIE = "link", "cookie"
LINK_LASTS = timedelta(minutes=15)
COOKIE_LASTS = timedelta(hours=12)


def new_link(service: Service, name: str) -> str:
    """Return the token of a link that lets one browser in as an admin, once, within LINK_LASTS."""
    with service.store.write() as session:
        return _add(service, session, LINK, Caller(name, scope=ADMIN), LINK_LASTS)


def open_session(service: Service, caller: Caller) -> str:
    """Return the cookie of a new session of the caller, which ends after COOKIE_LASTS."""
    with service.store.write() as session:
        return _add(service, session, COOKIE, caller, COOKIE_LASTS)


def exchange_link(service: Service, token: str) -> str | None:
    """Return the cookie for a link's token; None for a token that is unknown, used or too old."""
    with service.store.write() as session:
        found = _find(service, session, LINK, token)
        # Of two that use the link at once, only one deletes its row.
        gone = sa.delete(BrowserSession).where(BrowserSession.digest == digest(token))
        if found is None or not session.execute(gone.returning(BrowserSession.digest)).all():
            return None
        caller = Caller(found.name, scope=found.scope, projects=projects_of(found.projects))
        return _add(service, session, COOKIE, caller, COOKIE_LASTS)


def caller_of(service: Service, cookie: str, address: str) -> Caller | None:
    """Return the caller with this cookie; None when the session is unknown or over."""
    with service.store.read() as session:
        found = _find(service, session, COOKIE, cookie)
    if found is None:
        return None
    return Caller(found.name, address, found.scope, projects_of(found.projects))


def end_session(service: Service, cookie: str) -> None:
    """End the session of this cookie."""
    with service.store.write() as session:
        session.execute(sa.delete(BrowserSession).where(BrowserSession.digest == digest(cookie)))


def _find(service: Service, session: Session, kind: str, token: str) -> BrowserSession | None:
    wanted = sa.select(BrowserSession).where(
        BrowserSession.digest == digest(token),
        BrowserSession.kind == kind,
        BrowserSession.expires_us > service.now_us(),
    )
    return session.scalars(wanted).one_or_none()


def _add(service: Service, session: Session, kind: str, caller: Caller, lasts: timedelta) -> str:
    now_us, token = service.now_us(), new_token()
    session.execute(sa.delete(BrowserSession).where(BrowserSession.expires_us <= now_us))
    row = BrowserSession(
        digest=digest(token),
        kind=kind,
        name=caller.name,
        scope=caller.scope,
        projects=projects_text(caller.projects),
        expires_us=now_us + round(lasts.total_seconds() * 1e6),
    )
    session.add(row)
    return token

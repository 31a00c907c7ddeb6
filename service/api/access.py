"""Who may call a route: every route declares it, and every request is checked before its view.

A caller shows a key (`Authorization: Bearer KEY`) or, in a browser, the cookie of a session. A
route that declares nothing answers nobody.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from http import HTTPStatus
from threading import Lock
from urllib.parse import urlsplit

from flask import Flask, Response, current_app, g, request
from flask.sansio.app import App

from gramwatt.service import scopes
from gramwatt.service.access import audit, sessions
from gramwatt.service.access.keys import authenticate, digest
from gramwatt.service.addresses import HOST, host_name
from gramwatt.service.api.problems import CODES, Problem
from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Caller, Service
from gramwatt.service.rendering import MEDIA
from gramwatt.service.scopes import ADMIN, INGEST, READ
from gramwatt.service.store.database import UNAVAILABLE

BUCKETS_MOST = 10_000
"""Buckets that are kept; of more, the one that was asked least lately is forgotten."""


class Buckets:
    """For each name a bucket of `burst` tokens that gains `per_s` tokens a second."""

    def __init__(
        self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.per_s, self.burst, self._clock = per_s, burst, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def take(self, name: str) -> float:
        """Take a token; 0.0, or how long until there is one [s]."""
        with self._lock:
            now = self._clock()
            level, since = self._levels.pop(name, (self.burst, now))
            level = min(self.burst, level + (now - since) * self.per_s)
            wait_s = 0.0 if level >= 1 else (1 - level) / self.per_s
            self._levels[name] = (level if wait_s else level - 1, now)
            if len(self._levels) > BUCKETS_MOST:
                self._levels.popitem(last=False)
            return wait_s


EXTENSION = "gramwatt"
"""Where the app keeps its service."""
_DECLARED = "gramwatt-access"
_KNOWN = "gramwatt-metrics-callers"
_KNOWN_MOST = 100
METRICS = "service.metrics"
"""The endpoint that answers without a database, whose state it tells."""
BADGE = "badges.badge"
"""The endpoint that needs no key where the settings make a project's badge public."""
BURST_S = 10.0
"""How many seconds' worth of requests may come at once."""
SENDERS = 10.0
"""How many times more often records may be sent than anything else asked."""
ANONYMOUS_EVERY = timedelta(hours=1)
PATH_LOGGED_MAX = 500
EXPORTS = frozenset({"application/pdf", "application/zip", MEDIA["xlsx"]})
"""Answers that are files to keep; the audit log has who took them."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Access(Enum):
    """Who may call a route. The last three see every project, so no key of some projects may."""

    OPEN = "anyone, without a key"
    LOGIN = "anyone, to get a session"
    INGEST = "ingest"
    READ = "read"
    INGEST_OR_READ = "ingest or read"
    ADMIN = "admin"
    METRICS_ALL = "metrics or read, of every project"
    READ_ALL = "read, of every project"
    ADMIN_ALL = "admin, of every project"

    @property
    def scopes(self) -> tuple[str, ...]:
        """Scopes of which the caller's key needs one; none for a route that needs no key."""
        return _SCOPES.get(self, ())

    @property
    def every_project(self) -> bool:
        """Return whether a key that is bound to projects is refused."""
        return self in (Access.METRICS_ALL, Access.READ_ALL, Access.ADMIN_ALL)


_SCOPES = {
    Access.INGEST: (INGEST,),
    Access.READ: (READ,),
    Access.INGEST_OR_READ: (INGEST, READ),
    Access.METRICS_ALL: (scopes.METRICS, READ),
    Access.READ_ALL: (READ,),
    Access.ADMIN: (ADMIN,),
    Access.ADMIN_ALL: (ADMIN,),
}


def declared(app: App) -> dict[str, Access]:
    """Return who may call each endpoint of the app; the dictionary in which a blueprint says it."""
    accesses: dict[str, Access] = app.extensions.setdefault(_DECLARED, {})
    return accesses


def install(app: Flask) -> None:
    """Check every request of the app, and log the refusals, as far as they are not a flood.

    Who shows no key is limited by the address, but never keeps a caller with a key from it.
    """
    config: ServiceConfig = app.extensions[EXTENSION].config
    limits = Buckets(config.requests_per_s, BURST_S * config.requests_per_s)
    of_senders = Buckets(SENDERS * limits.per_s, SENDERS * limits.burst)
    logged = Buckets(per_s=1.0, burst=100.0)
    anonymous, sign_ins = _AnonymousRefusals("without a key"), _AnonymousRefusals("of a sign-in")

    def check() -> None:
        try:
            access = _check()
        except Problem as problem:
            more: str | None = ""
            if problem.code == "unauthorised":
                _spend(limits, f"address {request.remote_addr}")
                more = anonymous.add(whole_service().now())
            if more is not None and not logged.take("refused"):
                _log_refused("refused", problem.status, more)
            raise
        if access is Access.LOGIN:
            _spend(limits, f"address {request.remote_addr}")
        if caller := g.get("caller"):
            _spend(of_senders if access is Access.INGEST else limits, f"key {caller.identity}")

    def log_sign_in(response: Response) -> Response:
        tried = declared(app).get(request.endpoint or "") is Access.LOGIN and (
            request.args or request.method == "POST"
        )
        if tried and HTTPStatus.BAD_REQUEST <= response.status_code < HTTPStatus.NOT_FOUND:
            more = sign_ins.add(whole_service().now())
            if more is not None:
                _log_refused("sign-in-refused", response.status_code, more)
        return response

    app.before_request(check)
    app.after_request(_log_export)
    app.after_request(log_sign_in)


def _spend(limits: Buckets, name: str) -> None:
    if wait_s := limits.take(name):
        retry_s = math.ceil(wait_s)
        text = f"too many requests from this {name.partition(' ')[0]}; ask again in {retry_s} s"
        raise Problem("too-many-requests", text, retry_after_s=retry_s)


class _AnonymousRefusals:
    """Counts refusals of a kind: one an hour is an entry of the log, with the count of
    those since the entry before. Who has no key could otherwise fill the log.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._logged_at: datetime | None = None
        self._unlogged = 0
        self._lock = Lock()

    def add(self, now: datetime) -> str | None:
        """Count a refusal; return what its entry says of those before it, None for no entry."""
        with self._lock:
            since = self._logged_at
            if since is not None and timedelta() <= now - since < ANONYMOUS_EVERY:
                self._unlogged += 1
                return None
            self._logged_at, count, self._unlogged = now, self._unlogged, 0
        return f"; {count} more {self._kind} since {since:%Y-%m-%d %H:%M} UTC" if count else ""


def _log_refused(action: str, status: int, more: str) -> None:
    caller = g.get("caller") or Caller("nobody", request.remote_addr or "local")
    subject = f"{request.method} {request.path[:PATH_LOGGED_MAX]}: {status}{more}"
    audit.log(whole_service().for_caller(caller), action, subject)


def _log_export(response: Response) -> Response:
    caller = g.get("caller")
    if caller and response.status_code == HTTPStatus.OK and response.mimetype in EXPORTS:
        audit.log(whole_service().for_caller(caller), "exported", request.full_path.rstrip("?"))
    return response


def whole_service() -> Service:
    """Return the service without a caller: for checks, and for routes that let somebody in."""
    service: Service = current_app.extensions[EXTENSION]
    return service


def cookie_name() -> str:
    """Return the session cookie's name; browsers do not keep cookies of a host's ports apart."""
    port = request.host.rpartition(":")[2]
    return f"gramwatt-session-{port}" if port.isdigit() else "gramwatt-session"


def _check() -> Access | None:
    """Raise Problem for a request that its route does not allow; what the route declared."""
    access = declared(current_app).get(request.endpoint or "")
    if not HOST.fullmatch(request.environ.get("HTTP_HOST", "localhost")):
        raise Problem("bad-request", "the Host header is malformed or given twice")
    if access is Access.OPEN:
        return access
    _check_host()
    if access is Access.LOGIN:
        return access
    g.caller = caller = _public_caller() or _caller_or_known()
    if request.url_rule is None:  # no such page or method, which is for those with a key to know
        return access
    if access is None or not any(map(caller.may, access.scopes)):
        needed = access.value if access else "a scope that no key has"
        raise Problem("forbidden", f"the key's scope is {caller.scope}; this needs {needed}")
    if access.every_project and caller.projects is not None:
        raise Problem("forbidden", "the key is bound to projects; this needs one for all of them")
    return access


def _check_host() -> None:
    """Refuse other host names: a web page could give its own name this machine's address."""
    name = host_name(request.environ.get("HTTP_HOST", "localhost"))
    if name not in whole_service().config.trusted_hosts:
        raise Problem("untrusted-host", "this address is not served here; see GRAMWATT_HOSTS")
    prefix = request.headers.get("X-Forwarded-Prefix", "/")
    if prefix.strip("/") and request.blueprint == "page":
        text = f"the pages need a host name of their own; a proxy serves them under {prefix}"
        raise Problem("untrusted-host", text)


def _public_caller() -> Caller | None:
    """Anybody, who sees one project, where its badge is asked for and public."""
    project = (request.view_args or {}).get("project")
    if request.endpoint != BADGE or project not in whole_service().config.public_badges:
        return None
    address = request.remote_addr or "local"
    return Caller(f"public {address}", address, READ, frozenset({project}))


def _caller_or_known() -> Caller:
    """Return the caller; while the database is away, for metrics, one that was let in to them
    before.
    """
    header = request.headers.get("Authorization")
    if request.endpoint != METRICS or not header:
        return _caller()
    recent: dict[str, Caller] = current_app.extensions.setdefault(_KNOWN, {})
    shown = digest(header)
    try:
        caller = _caller()
    except UNAVAILABLE:
        if shown in recent:
            return recent[shown]
        raise
    except Problem:
        recent.pop(shown, None)
        raise
    if len(recent) < _KNOWN_MOST:
        recent[shown] = caller
    return caller


def has_valid_key() -> bool:
    """Return True where the request shows a key or session that holds; False while none can be
    looked up.
    """
    try:
        _caller()
    except (Problem, *UNAVAILABLE):
        return False
    return True


def _caller() -> Caller:
    address = request.remote_addr or "local"
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key:
        caller = authenticate(whole_service(), key.strip(), address)
        if caller is None:
            raise Problem("unauthorised", "the key is unknown, revoked or expired")
        return caller
    cookie = request.cookies.get(cookie_name())
    caller = sessions.caller_of(whole_service(), cookie, address) if cookie else None
    if caller is None:
        raise Problem("unauthorised", CODES["unauthorised"][1])
    _check_same_site()
    return caller


def _check_same_site() -> None:
    """Refuse what another site's page makes the browser send with the session's cookie."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if request.method in SAFE_METHODS:
        navigates = request.headers.get("Sec-Fetch-Mode") == "navigate"
        allowed = site in (None, "none", "same-origin") or navigates
    else:
        allowed = site == "same-origin" or (site is None and _is_own(origin))
    if not allowed or (origin is not None and not _is_own(origin)):
        text = "another site asked for this with your session"
        if origin and urlsplit(origin).hostname == host_name(request.host):
            text += (
                f", or a proxy passes {request.scheme}://{request.host} on for {origin}: pass the "
                "whole Host ($http_host in nginx) and X-Forwarded-Proto, and name the proxy in "
                "GRAMWATT_TRUSTED_PROXIES"
            )
        raise Problem("forbidden", text)


def _is_own(origin: str | None) -> bool:
    parts = urlsplit(origin or "")
    return (parts.scheme, parts.netloc) == (request.scheme, request.host)

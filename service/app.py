"""The Flask application: trusted proxies, checks of the caller, routes, pages, errors, metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from threading import Event
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, request
from werkzeug.middleware.proxy_fix import ProxyFix

from gramwatt.service import logs
from gramwatt.service.access import oidc
from gramwatt.service.addresses import plain_ip
from gramwatt.service.api import access, jobs, openapi, operation, planning, problems, reports
from gramwatt.service.api.access import EXTENSION, Access
from gramwatt.service.api.routing import Routes, json_response, tagged
from gramwatt.service.container import Service
from gramwatt.service.metrics import Metrics
from gramwatt.service.pages import routes
from gramwatt.service.store.database import Store
from gramwatt.service.store.migrate import is_current

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


FOR = "HTTP_X_FORWARDED_FOR"
LOOPBACK = "127.0.0.1"
FORWARDED = (
    "HTTP_FORWARDED",
    FOR,
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PORT",
    "HTTP_X_FORWARDED_PREFIX",
    "HTTP_X_FORWARDED_PROTO",
)


class TrustedProxies:
    """Puts the client's address, scheme and host in place of a trusted proxy's own.

    From anybody else the headers are dropped, so that nothing behind can believe them. A Unix
    socket has no address: who reaches it is on this machine, as who asks from 127.0.0.1.
    """

    def __init__(self, app: WSGIApplication, networks: Sequence[IPv4Network | IPv6Network]) -> None:
        self._app, self._networks = app, networks
        self._fixed = ProxyFix(app, x_for=1, x_proto=1, x_host=1)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        peer = environ.get("REMOTE_ADDR", "")
        environ["REMOTE_ADDR"] = plain_ip(peer) or peer or LOOPBACK
        if self._is_trusted(environ["REMOTE_ADDR"]):
            # Some gateways write the client's port too, and each connection has another.
            client = plain_ip(environ.pop(FOR, "").rpartition(",")[2].strip())
            if client is not None:
                environ[FOR] = client
            return self._fixed(environ, start_response)
        for name in FORWARDED:
            environ.pop(name, None)
        return self._app(environ, start_response)

    def _is_trusted(self, address: str) -> bool:
        try:
            peer = ip_address(address)
        except ValueError:
            return False
        return any(peer in network for network in self._networks)


GROUPS: tuple[Routes, ...] = (
    jobs.routes,
    reports.routes,
    reports.comparisons_routes,
    reports.badges_routes,
    planning.estimates_routes,
    planning.suggestions_routes,
    operation.schedules_routes,
    planning.routes,
    operation.budgets_routes,
    operation.keys_routes,
    operation.erasures_routes,
    operation.health_routes,
)

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""On every answer; pages loosen the policy to what they show."""


def create_app(service: Service) -> Flask:
    """Return the application over a service.

    It starts no thread and makes no table: `wsgi.create_app` and `server.run` do that for their
    process. Raises ConfigError for settings that need packages that are not installed.
    """
    if service.config.oidc is not None:
        oidc.require_usable(service.config.oidc)
    app = Flask(__name__, template_folder="pages/templates", static_folder="pages/static")
    app.config["MAX_CONTENT_LENGTH"] = service.config.max_body_b
    app.extensions[EXTENSION] = service
    app.wsgi_app = TrustedProxies(app.wsgi_app, service.config.trusted_proxies)  # type: ignore[method-assign]
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    logs.install(app)
    Metrics().install(app)
    _require_tables(app, service.store)
    access.install(app)
    app.after_request(_add_security_headers)
    for group in GROUPS:
        app.register_blueprint(group.blueprint)
    app.register_blueprint(routes.pages)
    _add_openapi(app, GROUPS)
    problems.install(app)
    return app


def _require_tables(app: Flask, store: Store) -> None:
    """Answer 503 until the store has been seen with the tables of this release."""
    seen = Event()

    def require_tables() -> None:
        if seen.is_set() or request.endpoint in (operation.ALIVE, operation.READY):
            return
        if not is_current(store):
            raise problems.Problem("not-ready", "the tables are not there yet; see /readyz")
        seen.set()

    app.before_request(require_tables)


def _add_security_headers(response: Response) -> Response:
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _add_openapi(app: Flask, groups: Iterable[Routes]) -> None:
    @cache
    def document() -> dict[str, Any]:
        return openapi.document(groups)

    def openapi_document() -> Response:
        """Return the OpenAPI document, made at the first request for it."""
        return tagged(json_response(document()))

    app.add_url_rule("/openapi.json", "openapi", openapi_document)
    access.declared(app)["openapi"] = Access.READ

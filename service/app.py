"""The Flask application: checks of the caller, routes, pages, errors and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from ipaddress import ip_address
from typing import Any

from flask import Flask, Response, request

from gramwatt.service.api import (
    compat,
    estimates,
    health,
    jobs,
    openapi,
    problems,
    reports,
    schedules,
    suggestions,
)
from gramwatt.service.api.conditional import tagged
from gramwatt.service.api.problems import Problem
from gramwatt.service.api.routing import Routes, json_response
from gramwatt.service.api.support import EXTENSION
from gramwatt.service.api.support import service as current_service
from gramwatt.service.config import ServiceConfig, from_environment
from gramwatt.service.container import Service
from gramwatt.service.metrics import Metrics
from gramwatt.service.pages import routes
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.tasks.heartbeat import Heartbeat

GROUPS: tuple[Routes, ...] = (
    jobs.routes,
    reports.routes,
    estimates.routes,
    suggestions.routes,
    schedules.routes,
    compat.routes,
    health.routes,
)

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""On every answer; pages loosen the policy to what they show."""


def create_app(config: ServiceConfig | None = None, *, service: Service | None = None) -> Flask:
    """The application over the given service, or the one of these settings.

    Without either, settings come from the environment, as a WSGI server needs it, and the process
    says in the store that it listens. The tables are brought up to date first.
    """
    is_server = config is None and service is None
    service = service or Service.open(config or from_environment())
    upgrade(service.store)
    if is_server:
        Heartbeat(service).start()
    app = Flask(__name__, template_folder="pages/templates", static_folder="pages/static")
    app.config["MAX_CONTENT_LENGTH"] = service.config.max_body_b
    app.extensions[EXTENSION] = service
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    Metrics().install(app)
    app.before_request(_check_caller)
    app.after_request(_add_security_headers)
    for group in GROUPS:
        group.install(app)
    routes.install(app)
    _add_openapi(app, GROUPS)
    problems.install(app)
    return app


def _check_caller() -> None:
    """Refuse other hosts: without API keys, every caller may read and write everything."""
    host = request.environ.get("HTTP_HOST", "localhost").lower()
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    if name not in current_service().config.trusted_hosts:
        raise Problem("untrusted-host", "this address is not served here; see GRAMWATT_HOSTS")
    if not _is_loopback(request.remote_addr):
        raise Problem("not-loopback", problems.CODES["not-loopback"][1])


def _is_loopback(address: str | None) -> bool:
    try:
        # Without an address the request came over a Unix socket.
        return not address or ip_address(address).is_loopback
    except ValueError:
        return False


def _add_security_headers(response: Response) -> Response:
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _add_openapi(app: Flask, groups: Iterable[Routes]) -> None:
    @cache
    def document() -> dict[str, Any]:
        return openapi.document(groups)

    def openapi_document() -> Response:
        """The OpenAPI document, made at the first request for it."""
        return tagged(json_response(document()))

    app.add_url_rule("/openapi.json", "openapi", openapi_document)

"""The Flask application: checks of the caller, routes, pages, errors and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from threading import Event, Lock
from typing import Any

from flask import Flask, Response, request

from gramwatt.service import logs
from gramwatt.service.access import oidc
from gramwatt.service.api import (
    access,
    badges,
    budgets,
    codecarbon,
    comparisons,
    estimates,
    health,
    jobs,
    keys,
    openapi,
    planning,
    problems,
    reports,
    schedules,
    suggestions,
)
from gramwatt.service.api.access import EXTENSION, Access
from gramwatt.service.api.conditional import tagged
from gramwatt.service.api.routing import Routes, json_response
from gramwatt.service.config import ServiceConfig, from_environment
from gramwatt.service.container import Service
from gramwatt.service.metrics import Metrics
from gramwatt.service.pages import routes
from gramwatt.service.proxies import TrustedProxies
from gramwatt.service.rendering.reports import render_in_child
from gramwatt.service.stopping import announce
from gramwatt.service.store.database import UNAVAILABLE, Store
from gramwatt.service.store.migrate import SchemaError, upgrade
from gramwatt.service.tasks.heartbeat import Heartbeat
from gramwatt.service.tasks.scoring import ScoringWorker

GROUPS: tuple[Routes, ...] = (
    jobs.routes,
    reports.routes,
    comparisons.routes,
    badges.routes,
    estimates.routes,
    suggestions.routes,
    schedules.routes,
    planning.routes,
    budgets.routes,
    codecarbon.routes,
    keys.routes,
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
    """Return the application over the given service, or the one of these settings.

    Without either, settings come from the environment, as a WSGI server needs it, and the process
    says in the store that it listens. The tables are brought up to date first, or, while the
    database of such a server is away, as soon as it answers. Raises ConfigError for settings that
    need packages that are not installed.
    """
    is_server = config is None and service is None
    service = service or Service.open(config or from_environment())
    if service.config.oidc is not None:
        oidc.require_packages()
    if is_server:
        logs.set_up(service.config.log)
    has_tables = _try_upgrade(service.store, wait=is_server)
    if is_server:
        announce(service.stopping)
        render_in_child()
        Heartbeat(service).start()
        worker = ScoringWorker(service)
        worker.start()
        service = replace(service, score_later=worker.add)
    app = Flask(__name__, template_folder="pages/templates", static_folder="pages/static")
    app.config["MAX_CONTENT_LENGTH"] = service.config.max_body_b
    app.extensions[EXTENSION] = service
    app.wsgi_app = TrustedProxies(app.wsgi_app, service.config.trusted_proxies)  # type: ignore[method-assign]
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    logs.install(app)
    Metrics().install(app)
    if not has_tables:
        _upgrade_when_asked(app, service.store)
    access.install(app)
    app.after_request(_add_security_headers)
    for group in GROUPS:
        group.install(app)
    routes.install(app)
    _add_openapi(app, GROUPS)
    problems.install(app)
    return app


def _try_upgrade(store: Store, *, wait: bool) -> bool:
    """Bring the tables up to date; False when that has to wait for the database."""
    try:
        upgrade(store)
    except UNAVAILABLE:  # the store logs that its server is away
        if store.is_sqlite or not wait:
            raise
        return False
    return True


def _upgrade_when_asked(app: Flask, store: Store) -> None:
    """Let requests bring the tables up to date first; until then they get 503."""
    upgrading, upgraded = Lock(), Event()

    def require_tables() -> None:
        if upgraded.is_set() or request.endpoint == health.ALIVE:
            return
        if not upgrading.acquire(blocking=False):
            raise problems.Problem("not-ready", "the tables are being brought up to date")
        try:
            upgrade(store)
            upgraded.set()
        except SchemaError as error:
            raise problems.Problem("not-ready", error.message) from error
        finally:
            upgrading.release()

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
    access.declare(app, "openapi", Access.READ)

"""The process behind a WSGI server such as gunicorn: settings, tables and threads of a worker."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import replace
from threading import Thread

from flask import Flask

from gramwatt.service import app, logs
from gramwatt.service.api import problems
from gramwatt.service.config import from_environment
from gramwatt.service.container import Service
from gramwatt.service.rendering import render_in_child
from gramwatt.service.stopping import announce
from gramwatt.service.store.database import UNAVAILABLE, Store
from gramwatt.service.store.migrate import SchemaError, upgrade
from gramwatt.service.tasks.leader import Heartbeat
from gramwatt.service.tasks.rescoring import ScoringWorker

RETRY_S = 2.0
_log = logging.getLogger("gramwatt.service")


def create_app() -> Flask:
    """Return the application of a worker, whose settings come from the environment.

    The tables are brought up to date first, or, while the database of a server is away, as soon
    as it answers. Raises ConfigError for settings that do not hold, SchemaError for tables of
    another build.
    """
    service = Service.open(from_environment())
    logs.set_up(service.config.log)
    try:
        upgrade(service.store)
    except UNAVAILABLE:  # the store logs that its server is away
        if service.store.is_sqlite:
            raise
        Thread(target=_upgrade_later, args=(service.store,), daemon=True).start()
    announce(service.stopping)
    render_in_child()
    worker = ScoringWorker(service)
    application = app.create_app(replace(service, score_later=worker.add))
    with suppress(ModuleNotFoundError):
        from gunicorn.http.errors import ParseException  # it reads chunks while the app asks

        application.register_error_handler(ParseException, problems.from_torn_body)
    Heartbeat(service).start()
    worker.start()
    return application


def _upgrade_later(store: Store) -> None:
    """Bring the tables up to date once the database answers; until then requests get 503."""
    while True:
        time.sleep(RETRY_S)
        try:
            upgrade(store)
            return
        except UNAVAILABLE:
            continue
        except SchemaError as error:
            _log.error("%s", error.message)
            return

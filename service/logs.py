"""What the service logs, for people or as JSON lines, and the id of each request.

For people: warnings and errors only. As JSON (GRAMWATT_LOG=json): every request too.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from flask import Flask, Response, g, has_request_context, request

from gramwatt.collectors.settings.config import OTHER_VARIABLES, PARSERS, misspelt, resolve
from gramwatt.service.config import SETTINGS, Form

HEADER = "X-Request-ID"
GUNICORN = frozenset({"BIND", "WORKERS"})
"""Variables that only gunicorn's configuration reads (deploy/gunicorn.conf.py), without prefix."""
_ID = re.compile(r"[A-Za-z0-9._:~/+=-]{1,128}")
_log = logging.getLogger("gramwatt.access")


class TextFormatter(logging.Formatter):
    """One line with time and level, and the request's id if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text; a traceback follows on further lines."""
        request_id = _request_id()
        mark = f" [{request_id}]" if request_id else ""
        return f"{_time(record)} {record.levelname}{mark} {super().format(record)}"


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON: time, level, logger, message, and what is known of its
        request.
        """
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := _request_id():
            line["request_id"] = request_id
        line |= getattr(record, "request", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def announce(form: Form, text: str) -> None:
    """Say on stderr what the process does from now on, in the form of its log."""
    if form == "json":
        logging.getLogger("gramwatt.service").info(text)
    else:
        print(text, file=sys.stderr, flush=True)


def set_up(form: Form) -> None:
    """Log to stderr in this form, from now on; the settings that are wrong and ignored first."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    for present in root.handlers[:]:
        root.removeHandler(present)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    # That a task takes longer than its period is seen in its runs: it would be a line for each.
    logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
    logging.getLogger("gramwatt").setLevel(logging.INFO if form == "json" else logging.WARNING)
    own = {setting.key for setting in SETTINGS} | GUNICORN
    clients = {key.upper() for key in PARSERS} | OTHER_VARIABLES
    wrong = misspelt(os.environ, own, clients)
    for text in [*(problem.text for problem in resolve().problems), *wrong]:
        logging.getLogger("gramwatt.service").warning(text)


def install(app: Flask) -> None:
    """Give every request of the app an id, the caller's if it sent one, and log its end."""
    app.before_request(_begin)
    app.after_request(_end)


def _begin() -> None:
    request_id = request.headers.get(HEADER, "")
    g.request_id = request_id if _ID.fullmatch(request_id) else uuid.uuid4().hex
    g.request_began_s = time.perf_counter()


def _end(response: Response) -> Response:
    response.headers[HEADER] = g.request_id
    if _log.isEnabledFor(logging.INFO):
        route = request.url_rule.rule if request.url_rule else None
        about = {
            "method": request.method,
            "route": route,
            "path": request.path,
            "status": response.status_code,
            "bytes": response.content_length,
            "address": request.remote_addr,
            "duration_s": round(time.perf_counter() - g.request_began_s, 6),
            "key": getattr(g.get("caller"), "name", None),
        }
        _log.info("%s %s %d", request.method, route, response.status_code, extra={"request": about})
    return response


def _request_id() -> str | None:
    return g.get("request_id") if has_request_context() else None


def _time(record: logging.LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z"

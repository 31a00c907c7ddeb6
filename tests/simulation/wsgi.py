"""Requests to the app without a server between: a WSGI environment in, a whole answer out."""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec
from flask import Flask

HOST = "localhost"


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def document(self) -> Any:
        """The JSON in the body."""
        return msgspec.json.decode(self.body)


def environ_of(method: str, path: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
    """A request as a WSGI server hands it to an app."""
    parts = urlsplit(path)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": parts.path,
        "QUERY_STRING": parts.query,
        "SERVER_NAME": HOST,
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": HOST,
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        if key == "CONTENT_TYPE":
            environ["CONTENT_TYPE"] = value
        elif key != "CONTENT_LENGTH":
            environ[f"HTTP_{key}"] = value
    return environ


def call(app: Flask, environ: dict[str, Any]) -> Answer:
    """The whole answer of an app."""
    began: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None) -> Any:
        began.append((status, headers))
        return lambda data: None

    parts = app.wsgi_app(environ, start_response)
    try:
        body = b"".join(parts)
    finally:
        with suppress(AttributeError):
            parts.close()  # type: ignore[attr-defined]
    status, headers = began[-1]
    return Answer(int(status.split()[0]), body, dict(headers))

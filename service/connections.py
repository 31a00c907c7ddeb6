"""Connections of `gramwatt serve`: how many there may be, and how long a request may take to come.

waitress drops a connection that is silent, but not one that drips: every byte starts its time
again, and at its limit of connections it accepts no other. Here a request has a deadline.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from waitress.channel import HTTPChannel
from waitress.task import ErrorTask, WSGITask

from gramwatt.service.turns import UPLOADS

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

CONNECTIONS_MOST = 800
"""Open connections; the usual limit of a process is 1024 files."""
CROWDED = CONNECTIONS_MOST // 2
"""From so many connections on, those that drip have less time."""
PATIENCE_S, CROWDED_PATIENCE_S = 10.0, 1.0
"""Time for the first bytes of a request [s]."""
LEAST_B_PER_S = 20_000.0
"""Slowest upload that is waited for [B/s]."""
RECEIVED_B = 2**18
"""Bytes read from a connection at once: for each reading the server's one thread that reads waits
until those that work let it, so that waitress' 8 KiB take 20 turns for an upload."""
IN_TURN_MOST_B = 2**20
"""Longest body of an upload that takes turns [B]: for a longer one the others would wait long."""
SETTINGS = {
    "connection_limit": CONNECTIONS_MOST,
    "asyncore_use_poll": True,  # select() ends at file 1023
    "cleanup_interval": 1,
    "channel_timeout": 75,
    "recv_bytes": RECEIVED_B,
}
"""How waitress is set up."""


_DETAILS = {
    413: "The body is above the limit; send it in parts.",
    431: "The request's headers are too long.",
}


class Refusal(ErrorTask):  # type: ignore[misc]
    """What waitress refuses before the app is asked, as a problem document like the app's."""

    def execute(self) -> None:
        """Answer, and close the connection: what follows of the request is not read."""
        error = self.request.error
        code = "bad-request" if error.code < 500 else "internal"
        if error.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            code = "body-too-large"
        detail = _DETAILS.get(error.code, str(error.body))
        problem = {"type": "about:blank", "title": error.reason, "status": error.code}
        body = json.dumps({**problem, "detail": detail, "code": code}).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "application/problem+json"))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Answer(WSGITask):  # type: ignore[misc]
    """An answer of the app; when the server stops it is the last one of its connection."""

    def build_response_header(self) -> bytes:
        """The answer's first lines."""
        if self.channel.server.stopping:
            self.set_close_on_finish()
        lines: bytes = super().build_response_header()
        return lines


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection that knows since when, and how much, of its next request has come."""

    task_class = Answer
    error_task_class = Refusal

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.began_s: float | None = time.monotonic()
        self.received_b = 0

    def received(self, data: bytes) -> bool:
        """Take in bytes, of one request or several."""
        if self.began_s is None:
            self.began_s, self.received_b = time.monotonic(), 0
        self.received_b += len(data)
        went_on: bool = super().received(data)
        if self.request is None:
            self.began_s = None
        return went_on

    def is_late(self, now_s: float, patience_s: float) -> bool:
        """Whether the request that is coming should be here by now."""
        if self.began_s is None or self.requests:
            return False
        return now_s > self.began_s + patience_s + self.received_b / LEAST_B_PER_S


def keep_deadlines(server: Any) -> None:
    """Make a waitress server close connections whose request is late."""
    usual = server.maintenance

    def maintenance(now: float) -> None:
        usual(now)
        channels = list(server.active_channels.values())
        patience_s = PATIENCE_S if len(channels) < CROWDED else CROWDED_PATIENCE_S
        for channel in channels:
            if channel.is_late(time.monotonic(), patience_s):
                channel.will_close = True

    server.stopping = False
    server.channel_class = Channel
    server.maintenance = maintenance


def uploads_in_turn(app: WSGIApplication) -> WSGIApplication:
    """The app, given one short upload at a time, whose body has arrived before."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        is_upload = environ["PATH_INFO"].endswith("/records")
        is_short = int(environ.get("CONTENT_LENGTH") or 0) <= IN_TURN_MOST_B
        with UPLOADS.taken() if is_upload and is_short else nullcontext():
            return app(environ, start_response)

    return answer

"""An application that answers on a port of its own, in a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server


class Quiet(WSGIRequestHandler):
    """Logs nothing: a line would land in what the test reads of a command's stderr."""

    def log(self, type: str, message: str, *args: object) -> None:
        """Drop the line."""


@contextmanager
def listening(app: Flask) -> Iterator[str]:
    """The address at which the application answers, until the block ends."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

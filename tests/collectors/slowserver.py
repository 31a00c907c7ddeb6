"""A server that takes every line, and answers after a while or when it may."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LONGEST_S = 25.0


class SlowServer(ThreadingHTTPServer):
    """Keeps the lines it was sent in `lines`, in the order of its answers."""

    daemon_threads = True

    def __init__(self, answers_after_s: float = LONGEST_S) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lines: list[bytes] = []
        self.answers_after_s = answers_after_s
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"
        serve = {"target": self.serve_forever, "kwargs": {"poll_interval": 0.01}}
        self._thread = threading.Thread(**serve)  # type: ignore[arg-type]
        self._thread.start()

    def stop(self) -> None:
        """Answer everybody and end."""
        self.may_answer.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: SlowServer

    def do_POST(self) -> None:
        lines = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
        self.server.asked.set()
        self.server.may_answer.wait(self.server.answers_after_s)
        self.server.lines += lines
        highest: dict[str, int] = {}
        for record in map(json.loads, lines):
            highest[record["writer"]] = max(record["seq"], highest.get(record["writer"], 0))
        acknowledged = [{"writer": name, "seq": seq} for name, seq in highest.items()]
        answer = {"accepted": len(lines), "duplicate": 0, "rejected": []}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({**answer, "acknowledged": acknowledged}).encode())

    def log_message(self, *_args: Any) -> None:
        return

"""A server that answers range selectors as Prometheus does, from samples that a test writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

QUERY = re.compile(r"(\w+)\[(\d+)s\]")


class Scripted:
    """Metrics with their series: labels, and samples by time [Unix s]."""

    def __init__(self) -> None:
        self.series: dict[str, list[tuple[dict[str, str], dict[float, float]]]] = {}
        self.url = ""
        self.asked: list[str] = []
        self.refusal = ""
        self.shown: list[str | None] = []

    def add(self, metric: str, labels: dict[str, str], samples: dict[float, float]) -> None:
        self.series.setdefault(metric, []).append((labels, samples))

    def answer(self, query: str, at_s: float) -> dict[str, Any]:
        match = QUERY.fullmatch(query)
        assert match, query
        since_s = at_s - int(match[2])
        result = []
        for labels, samples in self.series.get(match[1], []):
            values = [[t, str(v)] for t, v in sorted(samples.items()) if since_s <= t <= at_s]
            if values:
                result.append({"metric": {"__name__": match[1], **labels}, "values": values})
        return {"status": "success", "data": {"resultType": "matrix", "result": result}}


@contextmanager
def scripted() -> Iterator[Scripted]:
    found = Scripted()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {key: values[0] for key, values in parse_qs(body).items()}
            found.asked.append(form["query"])
            found.shown.append(self.headers.get("Authorization"))
            code, answer = 200, found.answer(form["query"], float(form["time"]))
            if found.refusal:
                code, answer = 422, {"status": "error", "error": found.refusal}
            data = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()

"""A server that answers range selectors as Prometheus does, from samples that a test writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from tests.answering import answering, send

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

    def act(handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
        form = {key: values[0] for key, values in parse_qs(body).items()}
        found.asked.append(form["query"])
        found.shown.append(handler.headers.get("Authorization"))
        code, answer = 200, found.answer(form["query"], float(form["time"]))
        if found.refusal:
            code, answer = 422, {"status": "error", "error": found.refusal}
        send(handler, json.dumps(answer).encode(), code)

    with answering(act) as found.url:
        yield found

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gramwatt.collectors.serving import poll
from gramwatt.collectors.serving.poll import Poller, read
from gramwatt.collectors.serving.presets import Series, Server, servers

GOOD = b'n_total{a="1"} 5\nother 3\n'


@contextmanager
def answering(act: Any) -> Iterator[Server]:
    """A server on loopback that answers a GET as `act(handler)` does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            act(self)

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass

    server = Quiet(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield of_port(server.server_port)
    finally:
        server.shutdown()
        server.server_close()


def of_port(port: int, user: str = "") -> Server:
    return servers([f"http://{user}127.0.0.1:{port}/m?q=1"], ["n_total=image"])[0]


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in ({"Content-Length": str(len(body))} | headers).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def test_the_wanted_samples_are_read_with_a_password_and_without_a_proxy(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    asked: list[tuple[str, str | None]] = []

    def act(handler: BaseHTTPRequestHandler) -> None:
        asked.append((handler.path, handler.headers["Authorization"]))
        send(handler, GOOD)

    with answering(act) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        found = read(of_port(port, "me:p%40ss@"), 0, 2.0)
    assert found.samples == {Series("n_total", (("a", "1"),)): 5.0}
    assert asked == [("/m?q=1", "Basic bWU6cEBzcw==")]


@pytest.mark.parametrize(
    ("body", "status", "headers", "words"),
    [
        (b"loading", 503, {}, "HTTP 503"),
        (b"", 302, {"Location": "http://127.0.0.1:9/"}, "HTTP 302"),
        (GOOD[:-1], 200, {}, "within a line"),
        (GOOD, 200, {"Content-Length": "900"}, "cut off"),
        (b"\xff\n", 200, {}, "utf-8"),
        (b'n_total{a="1" 5\n', 200, {}, "no labels"),
    ],
)
def test_a_bad_answer_is_none_and_says_why(body, status, headers, words):
    with answering(lambda handler: send(handler, body, status, **headers)) as server:
        found = read(server, 0, 2.0)
    assert (found.samples, found.down) == (None, False)
    assert words in found.problem


def drip(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"n_total 1\n")
        time.sleep(0.02)


def pour(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def test_an_answer_without_end_costs_neither_time_nor_memory(monkeypatch):
    monkeypatch.setattr(poll, "LARGEST_B", 2**20)
    for act, words in ((drip, "in time"), (pour, "larger than 1 MiB")):
        with answering(act) as server:
            began = time.monotonic()
            found = read(server, 0, 0.4)
            assert time.monotonic() - began < 2
        assert words in found.problem


def test_readings_come_before_each_whole_period_and_once_more_at_the_end(monkeypatch):
    monkeypatch.setattr(poll, "EVERY_NS", 400_000_000)
    monkeypatch.setattr(poll, "EARLY_NS", 50_000_000)
    with answering(lambda handler: send(handler, GOOD)) as server:
        poller = Poller([server])
        time.sleep(1.3)
        read_first = poller.take()
        last = poller.last()
    assert 3 <= len(read_first) <= 5
    assert 1 <= len(last) <= 2
    assert all(reading.samples for reading in [*read_first, *last])
    shift_ns = time.time_ns() - time.monotonic_ns()
    late_ns = [(r.mono_ns + shift_ns + 50_000_000) % 400_000_000 for r in read_first[1:]]
    assert max(late_ns) < 200_000_000


def test_a_server_that_hangs_keeps_nobody_waiting(monkeypatch):
    with answering(lambda _: time.sleep(5)) as server:
        poller = Poller([server])
        began = time.monotonic()
        assert poller.take() == []
        poller.last()
        assert time.monotonic() - began < poll.LAST_LIMIT_S + 0.5

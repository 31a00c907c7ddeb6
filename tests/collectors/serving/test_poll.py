from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler

import pytest

from gramwatt.collectors.serving import poll
from gramwatt.collectors.serving.poll import Poller, read
from gramwatt.collectors.serving.presets import Series, Server, servers
from tests.answering import answering, send

GOOD = b'n_total{a="1"} 5\nother 3\n'


def at(address: str) -> Server:
    return servers([f"{address}/m?q=1"], ["n_total=image"])[0]


def test_the_wanted_samples_are_read_with_a_password_and_without_a_proxy(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    asked: list[tuple[str, str | None]] = []

    def act(handler: BaseHTTPRequestHandler) -> None:
        asked.append((handler.path, handler.headers["Authorization"]))
        send(handler, GOOD)

    with answering(act) as address:
        result = read(at(address.replace("//", "//me:p%40ss@")), 0, 2.0)
    assert result.samples == {Series("n_total", (("a", "1"),)): 5.0}
    assert asked == [("/m?q=1", "Basic bWU6cEBzcw==")]


def test_a_name_without_a_password_is_a_key_and_a_redirect_is_followed():
    def act(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/m?q=1":
            send(handler, b"", 307, Location="/m/")
        else:
            send(handler, b"n_total %d\n" % len(handler.headers["Authorization"]))

    with answering(act) as address:
        result = read(at(address.replace("//", "//se%20cret@")), 0, 2.0)
    assert result.samples == {Series("n_total"): len("Bearer se cret")}


@pytest.mark.parametrize(
    ("body", "status", "headers", "words"),
    [
        (b"loading", 503, {}, "HTTP 503"),
        (b"", 401, {}, "given as http://KEY@HOST:PORT"),
        (b"<html>\n", 200, {}, "a web page"),
        (GOOD[:-1], 200, {}, "within a line"),
        (GOOD, 200, {"Content-Length": "900"}, "cut off"),
        (b"\xff\n", 200, {}, "utf-8"),
        (b'n_total{a="1" 5\n', 200, {}, "no labels"),
    ],
)
def test_a_bad_answer_is_none_and_says_why(body, status, headers, words):
    with answering(lambda handler: send(handler, body, status, **headers)) as address:
        result = read(at(address), 0, 2.0)
    assert (result.samples, result.down) == (None, False)
    assert words in result.problem


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
        with answering(act) as address:
            began = time.monotonic()
            result = read(at(address), 0, 0.4)
            assert time.monotonic() - began < 2
        assert words in result.problem


def test_readings_come_before_each_whole_period_and_once_more_at_the_end(monkeypatch):
    monkeypatch.setattr(poll, "EVERY_NS", 400_000_000)
    monkeypatch.setattr(poll, "EARLY_NS", 50_000_000)
    with answering(lambda handler: send(handler, GOOD)) as address:
        poller = Poller([at(address)])
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
    with answering(lambda _: time.sleep(5)) as address:
        poller = Poller([at(address)])
        began = time.monotonic()
        assert poller.take() == []
        poller.last()
        assert time.monotonic() - began < poll.LAST_LIMIT_S + 0.5

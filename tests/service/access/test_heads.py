"""Heads of requests that a proxy and a server may read in different ways: refused, and closed."""

import socket
from contextlib import closing

import pytest

from gramwatt.collectors.settings.keys import ensure_home_key
from tests.packages import ROOT
from tests.service.processes import eventually, running

FOLLOWS = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEADS = {
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    "one host twice": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "a host with a path": b"GET /healthz HTTP/1.1\r\nHost: localhost/x\r\n\r\n",
    "a list of hosts": b"GET /healthz HTTP/1.1\r\nHost: localhost:80, evil.example\r\n\r\n",
    "length and chunks": b"POST /v1/jobs/j/records HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/x-ndjson\r\n"
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks of HTTP/1.0": b"POST /v1/jobs/j/records HTTP/1.0\r\nHost: localhost\r\n"
    b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}

CHUNKS = {
    "a size that is none": b"zz\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-1\r\nhello\r\n0\r\n\r\n",
    "longer than it says": b"3\r\nhello\r\n0\r\n\r\n",
}


def answers(port, head):
    """What comes back until the server closes the connection."""
    with closing(socket.create_connection(("127.0.0.1", port), 30)) as connection:
        connection.sendall(head + FOLLOWS)
        reply = b""
        while part := connection.recv(65536):
            reply += part
        return reply


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Port and key of gunicorn with one worker, which reports no error of its own."""
    folder = tmp_path_factory.mktemp("heads")
    command = ("gunicorn", "--config", str(ROOT / "deploy" / "gunicorn.conf.py"))
    settings = {"GRAMWATT_BIND": "127.0.0.1:0", "GRAMWATT_WORKERS": "1"}
    key = ensure_home_key(folder / "home")
    with running(folder, *command, **settings) as process:
        reply = process.says(r"Listening at: http://127.0.0.1:(\d+) ")
        eventually(lambda: "Booting worker" in process.text, 60)
        yield int(reply[1]), key
        assert "Traceback" not in process.text


@pytest.mark.parametrize("name", HEADS)
def test_an_ambiguous_head_is_refused_and_the_connection_closed(server, name):
    reply = answers(server[0], HEADS[name])
    assert reply.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 ")), reply[:200]
    assert reply.count(b"\r\n\r\n") == 1, reply  # one answer


@pytest.mark.parametrize("name", CHUNKS)
def test_torn_chunks_are_a_bad_request_and_the_connection_is_closed(server, name):
    port, key = server
    head = (
        f"POST /v1/jobs/j/records HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    reply = answers(port, head.encode() + CHUNKS[name])
    assert reply.startswith(b"HTTP/1.1 400 "), reply[:200]
    assert reply.count(b"HTTP/1.1 ") == 1, reply  # what follows is not read as a request

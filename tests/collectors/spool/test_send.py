from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.settings import http
from gramwatt.collectors.settings.config import Config
from gramwatt.collectors.spool import send, spool
from tests.collectors.oddserver import OddServer


class Server(ThreadingHTTPServer):
    """A stand-in for the service: remembers bodies, answers what the test prepared."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[bytes] = []
        self.headers_seen: list[dict[str, str]] = []
        self.statuses: list[int] = []
        self.rejected: list[dict[str, Any]] = []
        self.code = "unauthorised"
        self.headers: dict[str, str] = {}
        self.most_b = 10**9

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if len(body) > self.server.most_b:
            status = 413
        answer: dict[str, Any] = {"detail": "the key is unknown", "code": self.server.code}
        if status == 200:
            self.server.bodies.append(body)
            self.server.headers_seen.append(dict(self.headers))
            records = [json.loads(line) for line in body.splitlines()]
            highest: dict[str, int] = {}
            for record in records:
                highest[record["writer"]] = record["seq"]
            acknowledged = [{"node": "n-1", "writer": w, "seq": s} for w, s in highest.items()]
            answer = {"accepted": len(records), "duplicate": 0, "rejected": self.server.rejected}
            answer["acknowledged"] = acknowledged
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_args: Any) -> None:
        return


@contextmanager
def serving() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "job" / "n-1"
    path.mkdir(parents=True)
    return path


def line(writer: str, seq: int, filler: int = 0) -> bytes:
    return json.dumps({"writer": writer, "seq": seq, "filler": "x" * filler}).encode()


def sent(folder: Path, lines: list[bytes], server: Server, key: str | None = None) -> send.Sent:
    with http.new_session(key) as session:
        return send.upload(folder, "job", lines, server.url, session)


def test_what_one_server_acknowledged_is_sent_to_another(folder, tmp_path):
    """The address changed: the new server has no line, and each gets every line once."""
    lines = [line("a", 1), line("a", 2)]
    with serving() as old, serving() as new:
        assert sent(folder, lines[:1], old).accepted == 1
        assert sent(folder, lines, new).accepted == 2
        assert sent(folder, lines, old).accepted == 1
        assert sent(folder, lines, new).accepted == 0
        assert new.bodies == [b"\n".join(lines) + b"\n"]


def test_batches_keep_every_line_in_order_under_both_limits():
    many = [line("a", seq) + b"\n" for seq in range(1, 12_002)]
    bodies = list(send.batches(many))
    assert [body.count(b"\n") for body in bodies] == [5000, 5000, 2001]
    assert b"".join(bodies) == b"".join(many)
    large = [line("a", seq, 300_000) + b"\n" for seq in range(1, 8)]
    bodies = list(send.batches(large))
    assert [body.count(b"\n") for body in bodies] == [3, 3, 1]
    assert max(map(len, bodies)) <= send.BATCH_MAX_B


def test_a_server_that_names_a_time_is_not_asked_before(server, folder):
    server.statuses, server.headers = [503, 503, 503], {"Retry-After": "120"}
    with pytest.raises(send.NotTaken, match="answers 503 and asks to come again in 120 s"):
        sent(folder, [line("a", 1)], server)
    assert len(server.statuses) == 2


def test_what_is_too_large_for_a_proxy_goes_in_smaller_bodies(server, folder):
    server.most_b = 1000
    lines = [line("a", seq, 300) for seq in range(1, 12)]
    assert sent(folder, lines, server).accepted == 11
    assert b"".join(server.bodies) == b"\n".join(lines) + b"\n"
    with pytest.raises(send.NotTaken, match=r"413 to a line of 2\d+ B; a proxy there") as refused:
        sent(folder, [line("a", 12, 2000)], server)
    assert refused.value.code == send.REFUSED
    assert send.read_marks(folder, server.url) == {"a": 11}


def test_a_half_without_its_job_says_what_the_proxy_said(server, folder):
    """A device may stand before the job's line: the server takes neither alone."""
    server.most_b, server.statuses, server.code = 700, [200, 404], "unknown-job"
    with pytest.raises(send.NotTaken, match=r"413 to a body of \d+ B; a proxy there") as refused:
        sent(folder, [line("a", 1, 400), line("a", 2, 400)], server)
    assert refused.value.code == send.REFUSED


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
ANSWERS = {
    "nothing": (b"", "does not answer within 0.3 s"),
    "drips of a head": (HEAD + b"X-Slow: " + b"x" * 2000, "does not answer within 0.5 s"),
    "drips of a body": (HEAD + b"Content-Length: 9999\r\n\r\n" + b"x" * 2000, "within 0.5 s"),
    "garbage": (b"\x00\x01\x02 garbage\r\n\r\n", "cannot be reached"),
    "a page": (HEAD + b"Content-Length: 4\r\n\r\n<p>x", "answers 200, not as gramwatt does"),
    "an empty object": (HEAD + b"Content-Length: 2\r\n\r\n{}", "not as gramwatt does"),
    "a redirect": (
        b"HTTP/1.1 302 Found\r\nLocation: http://there/\r\nContent-Length: 0\r\n\r\n",
        "redirects to http://there/",
    ),
}


@pytest.fixture
def odd():
    running = OddServer(b"")
    yield running
    running.stop()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(http, "TIMEOUT_S", (20.0, 0.3))
    monkeypatch.setattr(send, "ANSWER_LIMIT_S", 0.5)


@pytest.mark.parametrize("kind", ["nothing", "drips of a head", "drips of a body"])
def test_a_server_that_is_silent_or_drips_is_given_up(kind, odd, folder, impatient):
    odd.answer, words = ANSWERS[kind]
    with http.new_session(None) as session, pytest.raises(send.NotTaken, match=words):
        send.upload(folder, "job", [line("a", 1)], odd.url, session)
    assert odd.connections == 1


@pytest.mark.parametrize("kind", ["garbage", "a page", "an empty object", "a redirect"])
def test_an_answer_that_speaks_for_no_line_takes_none(kind, odd, folder):
    odd.answer, words = ANSWERS[kind]
    with http.new_session(None) as session, pytest.raises(send.NotTaken, match=words):
        send.upload(folder, "job", [line("a", 1)], odd.url, session)
    assert send.read_marks(folder, odd.url) == {}


def test_only_a_server_that_deleted_the_job_says_that_it_is_gone(server, folder):
    server.statuses = [410]
    for code, kind in (("unauthorised", "server-refused"), ("deleted-job", "job-deleted")):
        server.statuses, server.code = [410], code  # the first is some proxy's
        with pytest.raises(send.NotTaken) as not_taken:
            sent(folder, [line("w", 1)], server)
        assert not_taken.value.code == kind


def test_a_server_that_has_lost_a_job_is_sent_it_from_the_start(server, tmp_path):
    folder = spool.SpoolFolder(tmp_path / "spool" / "job" / "n-1")
    folder.path.mkdir(parents=True)
    lines = [line("a", 1), line("a", 2)]
    (folder.path / "a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    sent(folder.path, lines[:1], server)
    server.code = "unknown-job"
    for statuses, bodies in (([404], 1), ([404, 404], 0)):
        server.statuses, server.bodies = [*statuses], []
        with http.new_session(None) as session, suppress(send.NotTaken):
            send._send_folder(folder, server.url, session, send.SyncResult())
        assert server.bodies == [b"\n".join(lines) + b"\n"] * bodies
        assert server.statuses == []
        assert send.read_marks(folder.path, server.url) == ({"a": 2} if bodies else {})
        (folder.path / "a.jsonl").write_bytes(b"\n".join([*lines, line("a", 3)]) + b"\n")
    assert folder.path.is_dir()


def test_a_kept_connection_that_the_server_closes_is_opened_again(server, folder):
    class Closing(Handler):
        protocol_version = "HTTP/1.1"
        asked = 0

        def do_POST(self) -> None:
            self.asked += 1
            if self.asked == 2:  # no answer: the connection ends
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.bodies.append(body)
            answer = b'{"code": "forbidden", "detail": "not yours"}'
            self.send_response(403)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server.RequestHandlerClass = Closing
    with http.new_session(None) as session:
        for _ in range(3):
            with pytest.raises(send.NotTaken, match="not yours"):
                send.upload(folder, "job", [line("a", 1)], server.url, session)
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("status", "sent_of_three", "code"),
    [(401, 0, "key-refused"), (503, 0, "server-away"), (500, 2, "server-failed")],
)
def test_one_odd_journal_holds_up_no_other_and_a_refused_key_is_tried_once(
    server, tmp_path, status, sent_of_three, code
):
    for name in "abc":
        folder = tmp_path / "spool" / name / "n-1"
        folder.mkdir(parents=True)
        (folder / "w.jsonl").write_bytes(line("w", 1) + b"\n")
        spool.remember_server(folder, server.url)
    server.statuses, server.headers = [status], {"Retry-After": "99"}
    result = send.SyncResult()
    send._send(Config(), server.url, spool.folders(tmp_path), result)
    assert len(result.sent) == len(server.bodies) == sent_of_three
    assert [problem.code for problem in result.problems] == [code]
    assert "the journal stays spooled" in result.problems[0].text
    assert len(spool.folders(tmp_path)) == 3  # none is dropped


@pytest.mark.parametrize(
    ("number", "why", "advice"),
    [
        (20, "unable to get local issuer certificate", True),
        (10, "certificate has expired", False),
        (62, "Hostname mismatch, certificate is not valid for 'there'.", False),
    ],
)
def test_an_authority_is_asked_for_only_where_none_is_known(number, why, advice):
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = number, why
    text, refused = http.unreached(error)
    assert text.startswith(why.rstrip("."))
    assert ("SSL_CERT_FILE" in text, refused) == (advice, False)

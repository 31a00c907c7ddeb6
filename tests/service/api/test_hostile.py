"""Hostile requests of every kind to every route of a real server: refused, in little memory."""

import gzip
import http.client
import json
import re
import socket
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

import pytest

from gramwatt.service.api.problems import CODES
from gramwatt.service.app import GROUPS
from tests.journals import Writer, body, journal
from tests.packages import ROOT
from tests.service.processes import KEYS, serving
from tests.tables import tables_of

pytestmark = pytest.mark.long

JSON, NDJSON = "application/json", "application/x-ndjson"
PROBLEM = "application/problem+json"
MEMORY_MOST_B = 300e6
OPERATIONS = [operation for group in GROUPS for operation in group.operations]
DEEP = 100_000
MIB = 2**20

BODIES = {
    "arrays": b"[" * DEEP,
    "objects": b'{"a":' * DEEP,
    "deep-but-whole": b"[" * DEEP + b"]" * DEEP,
    "deep-in-a-field": b'{"tags":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "nan": b'{"pue": NaN, "hours": NaN, "power_w": NaN}',
    "infinity": b'{"pue": -Infinity, "hours": Infinity}',
    "too-large": b'{"pue": 1e300, "hours": 1e300, "power_w": 1e300, "count": 1e300}',
    "beyond-floats": b'{"pue": 1e999, "hours": 1e999}',
    "many-digits": b'{"pue": ' + b"9" * 100_000 + b"}",
    "utf-16": '{"name": "x"}'.encode("utf-16"),
    "latin-1": b'{"name": "\xff\xfe"}',
    "overlong": b'{"name": "\xc0\xaf"}',
    "byte-order-mark": b'\xef\xbb\xbf{"colour": 1}',
    "half-a-pair": b'{"name": "\\ud800", "reason": "\\udfff"}',
    "nul": b'{"name": "a\\u0000b", "reason": "a\\u0000b"}',
    "twice": b'{"name": "a", "name": "b", "reason": "a", "reason": "b"}',
    "twice-inside": b'{"tags": {"a": "1", "a": "2"}}',
    "empty": b"",
    "null": b"null",
    "text": b'"x"',
    "list": b"[1, 2]",
    "prototype": b'{"__proto__": {}, "constructor": 1}',
    "long-text": b'{"name": "' + b"x" * 8 * MIB + b'"}',
    "many-fields": b"{" + b",".join(b'"f%d": 1' % n for n in range(200_000)) + b"}",
    "white": b" " * 8 * MIB,
    "above-the-limit": b"x" * 17 * MIB,
}
LINES = {
    **BODIES,
    "many-bad": b"1\n" * 1_000_000,
    "many-empty": b"\n" * 1_000_000,
    "one-long": b"[" * 8 * MIB,
}
PACKED = ("arrays", "nul", "many-bad", "above-the-limit")
PARTS = (
    "..", "%2e%2e", "a%2fb", "..%2f..%2fetc%2fpasswd", "%00", "a%00b", "%ff%fe", "%c0%af",
    "%0d%0aX-Evil:%201", "x" * 8000, "<script>", "%3Cscript%3E", "'%20OR%201=1--", ".",
    "%E2%80%AE", "-1",
)  # fmt: skip
QUERIES = (
    "limit=1e300", "limit=nan", "limit=-1", "limit=99999999999999999999", "cursor=%00",
    "cursor=%ff", "project=%00", "project=%ff", "tag=" + "x" * 5000, "revision=9223372036854775808",
    "&".join(["tag=a:b"] * 2000), "name[$ne]=1", "__proto__=1", "since=%00", "sort=id;DROP",
    "timeout_s=1e9", "=", "%00=1", "a" * 9000,
)  # fmt: skip


class Server:
    """A server of its own process, and raw requests to it."""

    def __init__(self, process, port, key):
        self.process, self.port, self.key = process, port, key
        self.together_b = 0

    def ask(self, method, path, sent=None, media=JSON, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_accept_encoding=True)
        given = {**self.key, **headers}
        if sent is not None:
            given |= {"Content-Type": media, "Content-Length": str(len(sent))}
        for name, value in given.items():
            connection.putheader(name, value)
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before it was all sent
            connection.endheaders(sent)
        try:
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (ConnectionResetError, http.client.RemoteDisconnected):
            return 0, {}, b""
        finally:
            connection.close()

    def peak_b(self):
        """The highest memory of the server, alone or with the processes that render for it."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return max(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024, self.together_b)


class Watch(Thread):
    """Watches the memory of a server with that of the processes that render for it."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.ended = Event()

    def run(self):
        while not self.ended.wait(0.02):
            pid = self.server.process.pid
            now = sum(map(own_b, (pid, *children(pid))))
            self.server.together_b = max(self.server.together_b, now)


def children(pid):
    """The processes that any thread of a process has started."""
    found = set()
    for one in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has ended
            found |= set((one / "children").read_text().split())
    return found


def own_b(pid):
    """The proportional set size of a process: what it shares counts in parts [bytes]."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it has ended
        return 0
    found = re.search(r"Pss:\s+(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0  # a process that ends has none


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # As the systemd units and the image start it.
    unit = (ROOT / "deploy" / "systemd" / "gramwatt.service").read_text("utf-8")
    allocator = dict(re.findall(r"(MALLOC_\w+)=(\d+)", unit))
    with serving(tmp_path_factory.mktemp("hostile"), **allocator) as (process, url):
        made = Server(process.popen, urlsplit(url).port, KEYS[url])
        status, _, answer = made.ask("POST", "/v1/jobs/job-1/records", body(journal()), NDJSON)
        assert status == 200, answer
        watch = Watch(made)
        watch.start()
        yield made
        watch.ended.set()
        watch.join()
        assert process.popen.poll() is None


def address(operation, part="job-1"):
    return re.sub(r"{[a-z_]+}", lambda _: part, operation.address)


def check(found, said):
    status, headers, content = found
    assert 0 < status < 500, said
    if status >= 400 and headers["Content-Type"] == PROBLEM:
        document = json.loads(content)
        assert (document["status"], document["code"] in CODES) == (status, True), said
        assert len(content) < 20_000, said
    return status


@pytest.mark.parametrize("name", BODIES)
def test_bodies(server, name):
    for operation in OPERATIONS:
        if operation.body is not None:
            said = f"{name} to {operation.method} {operation.rule}"
            found = server.ask(operation.method, address(operation), BODIES[name])
            assert check(found, said) in (400, 404, 409, 413, 415, 422), said
            assert found[1]["Content-Type"] == PROBLEM, said


@pytest.mark.parametrize("name", LINES)
def test_lines(server, name):
    found = server.ask("POST", "/v1/jobs/job-1/records", LINES[name], NDJSON)
    status = check(found, name)
    if status == 200:
        answer = json.loads(found[2])
        assert (answer["accepted"], answer["duplicate"]) == (0, 0)
        assert len(found[2]) < MIB
    if name in PACKED:
        packed = gzip.compress(LINES[name])
        zipped = {"Content-Encoding": "gzip"}
        check(server.ask("POST", "/v1/jobs/job-1/records", packed, NDJSON, **zipped), name)


def test_paths(server):
    for operation in OPERATIONS:
        if "<" not in operation.rule:
            continue
        for part in PARTS:
            sent = b"{}" if operation.body is not None or operation.takes_lines else None
            found = server.ask(operation.method, address(operation, part), sent)
            status = check(found, f"{operation.method} {address(operation, part)[:80]}")
            # A badge in a page says of any project that it does not know that there is no data yet.
            is_badge = operation.rule.endswith(".svg") and b"no data yet" in found[2]
            assert is_badge or status not in (200, 201), (operation.rule, part)
            assert b"root:" not in found[2]
            assert "X-Evil" not in found[1]
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "//etc/passwd", "/%2e%2e/x", "*"):
        assert server.ask("GET", path)[0] in (308, 400, 401, 404), path


def test_queries(server):
    for operation in OPERATIONS:
        if operation.method == "GET":
            for query in QUERIES:
                found = server.ask("GET", f"{address(operation)}?{query}")
                status = check(found, f"{operation.rule}?{query[:60]}")
                assert status in (400, 401, 404, 414, 422, 431), (operation.rule, query[:60])


def test_headers(server):
    for headers in (
        {"If-Match": '"' * 2000},
        {"If-None-Match": "W/" * 5000},
        {"Idempotency-Key": "\x7f\xff"},
        {"Accept": "*/*;q=nan," * 500},
        {"Content-Encoding": "br"},
    ):
        found = server.ask("PATCH", "/v1/jobs/job-1", b'{"zone": "Atlantis"}', **headers)
        assert check(found, str(headers)[:60]) in (400, 412, 415, 422)
        check(server.ask("GET", "/v1/jobs/job-1/report", **headers), str(headers)[:60])


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("POST /v1/jobs/job-1/records HTTP/1.1\r\nContent-Length: 99999999999", 413),
        ("POST /v1/jobs/job-1/records HTTP/1.1\r\nContent-Length: many", 400),
        ("GET /v1/jobs HTTP/1.1\r\nX-Long: " + "x" * MIB, 431),
        ("GET /v1/jobs HTTP/1.1\r\nTransfer-Encoding: br", 501),
        ("GET /v1/jobs HTTP/1.1\r\nno header", 400),
    ],
    ids=["endless", "not-a-number", "long-header", "unknown-encoding", "no-header"],
)
def test_what_is_no_request_is_refused_before_the_app(server, head, status):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(f"{head}\r\nHost: localhost\r\n\r\n".encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        answer.read()
    assert answer.status == status


def test_numbers_that_lie_far_apart_cost_nothing(server):
    writers = [Writer(job="far-apart", first_seq=seq) for seq in (1, 2**53 - 1)]
    sent = body([writers[0].job(), writers[1].interval(0, 60, 600.0)])
    status, _, answer = server.ask("POST", "/v1/jobs/far-apart/records", sent, NDJSON)
    assert status == 200, answer
    found = json.loads(answer)
    assert (found["accepted"], found["acknowledged"][0]["seq"]) == (2, 1)


def test_names_are_text_wherever_they_are_shown(server):
    for name in ("<script>alert(1)</script>", '=HYPERLINK("http://x";"y")', "@SUM(1)"):
        sent = json.dumps({"name": name, "project": name, "tags": {"team": name}}).encode()
        assert server.ask("PATCH", "/v1/jobs/job-1", sent)[0] == 200
        for address in ("/", "/jobs", "/projects", "/compare?before=job-1"):
            status, _, page = server.ask("GET", address)
            assert (status, b"<script>alert" in page) == (200, False), address
        status, _, table = server.ask("GET", "/v1/reports/monthly/2026-05.zip")
        assert status == 200
        rows = [row for rows in tables_of(table).values() for row in rows]
        cells = [cell for row in rows for cell in row.values()]
        assert any(name in cell for cell in cells)
        assert not [cell for cell in cells if cell.startswith(name)] or name.startswith("<")


def test_the_server_is_well_and_small_after_all_that(server):
    status, _, answer = server.ask("GET", "/v1/jobs/job-1")
    assert (status, json.loads(answer)["energy_kwh"]["value"]) == (200, pytest.approx(0.03))
    for address in ("/v1/jobs/job-1/report", "/v1/reports/monthly/2026-05"):
        for form in ("html", "pdf"):
            assert server.ask("GET", f"{address}.{form}")[0] == 200
    assert server.peak_b() <= MEMORY_MOST_B, f"{server.peak_b() / 1e6:.0f} MB"

"""Uploads as they come over the wire: packed, broken off, hostile, of newer clients, and too many
bad lines. Through the real app; what only a socket can do goes through the real server.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.collectors.settings.keys import home_key
from gramwatt.service.api.jobs import lines_of
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.store.journal import Count, Interval, Statement
from tests.journals import START, Writer, body, journal, lines
from tests.service.keyed import NDJSON

GOOD = body(journal())
"""Nine lines."""


def upload(client: FlaskClient, data: bytes, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post("/v1/jobs/job-1/records", data=data, content_type=NDJSON, headers=named)


def test_a_packed_upload_is_stored_as_the_plain_one(client):
    first = upload(client, gzip.compress(GOOD), Content_Encoding="gzip")
    assert (first.status_code, first.json["accepted"]) == (200, 9)
    # gzip files may follow each other, and lines may lie across them.
    parts = gzip.compress(GOOD[:500]) + gzip.compress(GOOD[500:])
    again = upload(client, parts, Content_Encoding="GZIP").json
    assert (again["accepted"], again["duplicate"], again["rejected"]) == (0, 9, [])


class Chunks(io.RawIOBase):
    """A body that arrives in these chunks."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._chunks:
            return 0
        chunk = self._chunks.pop(0)
        if chunk[len(buffer) :]:
            self._chunks.insert(0, chunk[len(buffer) :])
        size = min(len(chunk), len(buffer))
        buffer[:size] = chunk[:size]
        return size


@given(st.text("ab\n\n", max_size=40).map(str.encode), st.lists(st.integers(0, 40), max_size=6))
def test_lines_are_those_of_the_body_however_it_arrives(body, cuts):
    places = [0, *sorted(cuts), len(body)]
    chunks = [body[start:end] for start, end in pairwise(places) if body[start:end]]
    sent = body.removesuffix(b"\n").split(b"\n") if body else []
    with patch("gramwatt.service.api.jobs.LINE_MAX_B", 5):
        parts = list(lines_of(io.BufferedReader(Chunks(chunks), 8)))
    assert sum(size_b for size_b, _ in parts) == len(body)
    came = [line for _, line in parts if line is not None]
    assert len(came) == len(sent)
    for one, line in zip(came, sent, strict=True):
        assert one == line or (len(one) > 5 and line.startswith(one))


def test_a_bomb_is_refused_as_it_unpacks(client):
    """64 MiB of blank lines in 64 kB; the fixture's limit is 1 MiB."""
    bomb = gzip.compress(b"\n" * 2**26)
    answer = upload(client, bomb, Content_Encoding="gzip")
    assert (answer.status_code, answer.json["code"]) == (413, "body-too-large")


@pytest.mark.parametrize(
    ("data", "encoding", "expected"),
    [
        (GOOD, "br", (415, "unsupported-media-type")),
        (GOOD, "gzip, gzip", (415, "unsupported-media-type")),
        (GOOD, "gzip", (400, "bad-request")),
        (gzip.compress(GOOD)[:-9], "gzip", (400, "bad-request")),
        (gzip.compress(GOOD) + b"rest", "gzip", (400, "bad-request")),
        (zlib.compress(GOOD), "gzip", (400, "bad-request")),
    ],
)
def test_what_cannot_be_unpacked_is_refused(client, data, encoding, expected):
    answer = upload(client, data, Content_Encoding=encoding)
    assert (answer.status_code, answer.json["code"]) == expected


def test_fields_of_newer_meters_are_kept_and_used_by_none(client, light):
    plain = [json.loads(line) for line in GOOD.splitlines()]
    newer = [{**line, "cooling": {"fan": 0.5, "of": [line["seq"]]}} for line in plain]
    newer[2]["profile"] = {"power_capped": 0.5, "bus_busy": 0.25}
    sent = b"\n".join(json.dumps(line).encode() for line in newer)
    answer = upload(client, sent).json
    assert (answer["accepted"], answer["rejected"]) == (9, [])
    with light.store.read() as session:
        kept = [
            *(json.loads(text) for text in session.scalars(sa.select(Interval.extra))),
            *(json.loads(text) for text in session.scalars(sa.select(Count.extra))),
            *(json.loads(text) for text in session.scalars(sa.select(Statement.line))),
        ]
    assert sorted(line["cooling"]["of"][0] for line in kept) == list(range(1, 10))
    # 3 minutes at 600 W are 108 kJ, with the fields of newer meters as without.
    energy = client.get("/v1/jobs/job-1").json["energy_kwh"]
    assert energy["value"] == pytest.approx(0.03, rel=1e-12)
    rows = client.get("/v1/jobs/job-1/intervals").json["intervals"]
    assert rows[0]["profile"] == {"power_capped": 0.5, "bus_busy": 0.25}


def test_hostile_lines_are_rejected_alone(client):
    first, *rest = GOOD.splitlines()
    deep, far = b"[" * 100_000, Writer(job="job-1", t0=START).interval(0, 60, 1.0)
    bad = {
        body([far])[:-1].replace(b"1.0", b"NaN"): "bad-json",
        body([far])[:-1].replace(b"1.0", b"1e300"): "impossible-energy",
        deep: "bad-json",
        b'{"v":1,"x":' + deep: "bad-json",
        first.decode().encode("utf-16-le"): "bad-json",
        first.replace(b"resnet", b"r\xe9snet"): "bad-json",
        first.replace(b'"v":1', b'"v":2'): "newer-version",
    }
    answer = upload(client, b"\n".join([first, *bad, *rest])).json
    assert answer["accepted"] == 9
    assert [row["code"] for row in answer["rejected"]] == list(bad.values())
    assert [row["line"] for row in answer["rejected"]] == list(range(2, 9))
    assert max(len(row["message"]) for row in answer["rejected"]) <= 300


def test_many_bad_lines_are_counted_and_some_are_listed(client):
    answer = upload(client, GOOD + b'1\n{"v":9}\n' * 300).json
    assert (answer["accepted"], answer["rejected_count"]) == (9, 600)
    assert answer["rejected_codes"] == {"bad-json": 300, "newer-version": 300}
    assert [row["line"] for row in answer["rejected"]] == list(range(10, 110))


def test_rubbish_is_not_read_to_its_end_and_what_came_before_counts(client):
    answer = upload(client, GOOD + b"1\n" * 100_000).json
    assert (answer["accepted"], answer["rejected_count"]) == (9, 100_000)
    assert answer["rejected_codes"] == {"bad-json": 10_000, "too-many-refused": 90_000}


def test_many_bad_lines_in_a_good_journal_do_not_stop_it(client):
    """A meter may fail for a month: its other lines count."""
    meter = Writer(job="job-1", t0=START)
    records = [meter.job(), *(meter.interval(n, n + 1, 1.0) for n in range(1499))]
    lines = body(records).splitlines(keepends=True)
    answer = upload(client, b"".join(line + b"1\n" for line in lines)).json
    assert (answer["accepted"], answer["rejected_count"]) == (1500, 1500)


@pytest.fixture
def server(tmp_path):
    """Starts `gramwatt serve` on one home, and stops what still runs in the end."""
    started: list[subprocess.Popen[str]] = []

    def start() -> tuple[subprocess.Popen[str], int]:
        environ = {**os.environ, "GRAMWATT_HOME": str(tmp_path)}
        process = subprocess.Popen(
            [sys.executable, "-m", "gramwatt", "serve", "--port", "0"],
            env=environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"serves http://127\.0\.0\.1:(\d+)", line):
                return process, int(found[1])
        raise AssertionError("the server did not start")

    yield start
    for process in started:
        process.kill()
        process.communicate()


def exchange(port: int, head: str, data: bytes, *, end: bool = False) -> tuple[int, Any]:
    """Status and JSON document of the answer to raw bytes; `end` closes our side behind them."""
    request = f"POST /v1/jobs/job-1/records HTTP/1.1\r\nHost: localhost\r\n{head}\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=240) as connection:
        connection.sendall(request.encode() + data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
            got, _, rest = answer.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", got, re.IGNORECASE)
            if length and len(rest) >= int(length[1]):
                break
    got, _, rest = answer.partition(b"\r\n\r\n")
    return (int(got.split()[1]), json.loads(rest)) if answer else (0, None)


@pytest.mark.long
def test_a_real_server_bounds_rubbish_reads_chunks_and_keeps_what_it_acknowledged(server, tmp_path):
    """Once 15 MB of short lines had an answer of 636 MB and took 3.6 GB of memory and a minute."""
    process, port = server()
    kind = f"Content-Type: {NDJSON}\r\nAuthorization: Bearer {home_key(tmp_path)}\r\n"
    rubbish = b"{}\n" * 5_000_000  # Python has one object for all lines of one character
    status, told = exchange(port, f"{kind}Content-Length: {len(rubbish)}\r\n", rubbish)
    assert (status, told["rejected_count"], len(told["rejected"])) == (200, 5_000_000, 100)
    peak_kb = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
    assert peak_kb is not None
    assert int(peak_kb[1]) * 1024 < 250e6
    # A length that lies, and a body cut short: nothing is acknowledged, and nothing hangs.
    assert exchange(port, f"{kind}Content-Length: 99999\r\n", GOOD, end=True)[0] in (0, 400)
    chunks = b"".join(
        f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in (GOOD[:700], GOOD[700:])
    )
    status, told = exchange(port, f"{kind}Transfer-Encoding: chunked\r\n", chunks + b"0\r\n\r\n")
    assert (status, told["accepted"]) == (200, 9)
    # What was acknowledged is there after a kill in the same moment.
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, port = server()
    status, told = exchange(port, f"{kind}Content-Length: {len(GOOD)}\r\n", GOOD)
    assert (status, told["accepted"], told["duplicate"]) == (200, 0, 9)


def test_why_a_line_is_not_json_is_said_and_a_byte_order_mark_is_taken(light):
    sent = lines(journal())
    sent[0] = b"\xef\xbb\xbf" + sent[0]
    number = next(at for at, line in enumerate(sent) if b'"energy_j":' in line)
    sent.append(re.sub(rb'"energy_j":[0-9.e+]+', b'"energy_j":NaN', sent[number]))
    answer = ingest(light, "job-1", sent)
    assert (answer.accepted, answer.rejected_count) == (len(sent) - 1, 1)
    assert answer.rejected[0].message == "NaN is not a number of JSON; leave an unknown figure out"


def test_a_body_of_x_gzip_is_one_of_gzip(client):
    answer = client.post(
        "/v1/jobs/job-1/records",
        data=gzip.compress(body(journal())),
        headers={"Content-Type": "application/x-ndjson", "Content-Encoding": "x-gzip"},
    )
    assert (answer.status_code, answer.json["rejected"]) == (200, [])

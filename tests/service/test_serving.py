"""A serving process: how it stops, what it logs, and how it renders."""

import http.client
import io
import json
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from contextlib import ExitStack, closing
from http import HTTPStatus
from urllib.error import HTTPError

import pytest
import sqlalchemy as sa

from gramwatt.reports import job
from gramwatt.service.app import create_app
from gramwatt.service.common.errors import BusyError
from gramwatt.service.config import ConfigError, from_environment
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.logs import HEADER, JsonFormatter, TextFormatter
from gramwatt.service.rendering import process as render_process
from gramwatt.service.rendering.process import RenderProcess, render
from gramwatt.service.server import SETTINGS
from tests.journals import body, journal, lines
from tests.service.processes import DIRECT, KEYS, eventually, get, running, send, serving


@pytest.mark.long
def test_a_stopping_server_answers_what_is_under_way_and_then_ends(tmp_path):
    """The request's second half is sent after SIGTERM; a new connection is refused meanwhile.

    A request that waits for the end of a job is answered, and a kept connection closed.
    """
    content = body(journal())
    with serving(tmp_path, GRAMWATT_LOG="json") as (process, address):
        host, port = address.removeprefix("http://").split(":")
        head = (
            "POST /v1/jobs/job-1/records HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: mine-1\r\n"
            f"Content-Type: application/x-ndjson\r\nContent-Length: {len(content)}\r\n"
            f"Authorization: {KEYS[address]['Authorization']}\r\n\r\n"
        )
        send(address, "job-2", body(journal("job-2", end_state=None)))
        with (
            closing(http.client.HTTPConnection(host, int(port), timeout=30)) as kept,
            closing(http.client.HTTPConnection(host, int(port), timeout=30)) as waiting,
            socket.create_connection((host, int(port)), timeout=30) as connection,
        ):
            wait = "/v1/jobs/job-2?wait=scored&timeout_s=60"
            waiting.request("GET", wait, headers=KEYS[address])
            connection.sendall(head.encode() + content[:100])
            kept.request("GET", "/healthz")
            assert kept.getresponse().read()
            process.popen.terminate()
            with waiting.getresponse() as answer:  # it waits up to 60 s, and the signal ends that
                assert (answer.status, json.load(answer)["state"]) == (200, "running")
                assert answer.headers["Retry-After"]
            kept.request("GET", "/healthz")
            with kept.getresponse() as answer:
                assert answer.headers["Connection"] == "close"
            eventually(lambda: refuses(host, int(port)), 60)
            connection.sendall(content[100:])
            answer = connection.recv(65536).decode()
        assert process.popen.wait(60) == 0
        logged = [json.loads(line) for line in process.text.splitlines()]
        assert "token" not in process.text  # what signs in stands in no log
    assert answer.startswith("HTTP/1.1 200")
    assert "x-request-id: mine-1" in answer.lower()
    (line,) = [line for line in logged if line.get("request_id") == "mine-1"]
    assert line["route"] == "/v1/jobs/<job_id>/records"
    assert (line["method"], line["status"], line["level"]) == ("POST", 200, "info")
    assert 0 < line["duration_s"] < 60
    assert line["key"] == "server"
    assert line["time"].endswith("Z")


@pytest.mark.long
def test_a_client_that_keeps_its_connections_keeps_nobody_out(tmp_path):
    """As many as the server takes, and more: scripts that keep their answers keep connections."""
    with ExitStack() as stack:
        process, address = stack.enter_context(serving(tmp_path))
        host, port = address.removeprefix("http://").split(":")
        for _ in range(SETTINGS["connection_limit"] + 20):
            kept = http.client.HTTPConnection(host, int(port), timeout=30)
            stack.enter_context(closing(kept))
            kept.request("GET", "/healthz")
            assert kept.getresponse().read()
        assert "connection limit" not in process.text


def refuses(host, port):
    """Whether a server takes no connection."""
    try:
        socket.create_connection((host, port), timeout=30).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


def test_a_json_log_holds_no_link_even_where_no_browser_opens(tmp_path):
    no_browser = """
import webbrowser
from gramwatt.__main__ import main
webbrowser.open = lambda _: False
main()
"""
    (tmp_path / "headless.py").write_text(no_browser)
    command = ("headless", "serve", "--open", "--port", "0")
    with running(tmp_path, *command, GRAMWATT_LOG="json") as process:
        process.says("gramwatt login")
        assert process.end() == 0
        assert all(map(json.loads, process.text.splitlines()))
        assert "token" not in process.text


def test_a_second_signal_ends_a_server_at_once(tmp_path):
    with serving(tmp_path) as (process, address):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n")  # never ends
            get(f"{address}/healthz")
            process.popen.terminate()
            eventually(lambda: refuses(host, int(port)), 60)  # it has had the signal
            time.sleep(1)
            assert process.popen.poll() is None
            process.popen.send_signal(signal.SIGINT)
            assert process.popen.wait(60) == 128 + signal.SIGINT


def test_a_request_keeps_its_id_and_one_that_is_no_word_is_replaced(client):
    assert client.get("/healthz", headers={"X-Request-ID": "a/b:1"}).headers[HEADER] == "a/b:1"
    made = client.get("/healthz", headers={"X-Request-ID": "two words"}).headers[HEADER]
    assert len(made) == 32
    assert made != client.get("/healthz").headers[HEADER]


def test_an_error_is_logged_with_the_id_of_its_request(client, monkeypatch):
    def fail(*_):
        raise RuntimeError("disk on fire")

    monkeypatch.setattr("gramwatt.service.api.jobs.projects_page", fail)
    texts = {}
    for formatter in (TextFormatter("%(message)s"), JsonFormatter()):
        handler = logging.StreamHandler(io.StringIO())
        handler.setFormatter(formatter)
        logger = logging.getLogger("gramwatt.service")
        logger.addHandler(handler)
        assert client.get("/v1/projects", headers={HEADER: "mine"}).status_code == 500
        logger.removeHandler(handler)
        texts[type(formatter)] = handler.stream.getvalue()
    assert " ERROR [mine] request failed\nTraceback" in texts[TextFormatter]
    line = json.loads(texts[JsonFormatter])
    assert (line["request_id"], line["level"], line["message"]) == (
        "mine",
        "error",
        "request failed",
    )
    assert "disk on fire" in line["error"]


def test_the_access_log_has_the_client_s_address_and_the_size_of_the_answer(client, caplog):
    with caplog.at_level(logging.INFO, "gramwatt.access"):
        answer = client.get("/v1/projects")
    about = caplog.records[-1].request
    assert (about["address"], about["bytes"]) == ("127.0.0.1", len(answer.data))


@pytest.mark.long
def test_a_scheduler_touches_its_file_as_long_as_it_works(tmp_path):
    alive = tmp_path / "alive"
    with running(tmp_path, "gramwatt", "scheduler", "--alive-file", str(alive)) as process:
        eventually(alive.exists, 60)
        before = alive.stat().st_mtime
        eventually(lambda: alive.stat().st_mtime > before, 60)
        process.popen.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        last = alive.stat().st_mtime
        time.sleep(4)
        assert alive.stat().st_mtime == last
        process.popen.send_signal(signal.SIGCONT)
        assert process.end() == 0


def test_a_statement_that_the_database_refuses_is_our_fault(light, caplog):
    ingest(light, "job-1", lines(journal()))
    with light.store.write() as session:
        session.execute(sa.text("ALTER TABLE intervals RENAME TO gone"))
    answer = create_app(service=light).test_client().get("/v1/jobs/job-1/intervals")
    assert (answer.status_code, answer.headers.get("Retry-After")) == (500, None)
    assert "no such table" in caplog.text


def test_a_form_of_logs_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="none of: text json"):
        from_environment({"GRAMWATT_LOG": "xml"})


@pytest.mark.long
def test_reports_of_a_server_are_rendered_in_a_child_that_is_replaced_when_it_dies(tmp_path):
    with serving(tmp_path) as (process, address):
        send(address, "job-1", body(journal()))
        sizes = []

        def rendered():
            """The report; nothing where a busy machine has not made it within a minute."""
            try:
                with DIRECT.open(f"{address}/v1/jobs/job-1/report.pdf", timeout=150) as answer:
                    return answer.read()
            except HTTPError as error:
                error.close()
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise

        def ask():
            sizes.append(len(eventually(rendered, 300)))

        before = resident_mib(process.popen.pid)
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(sizes) == 8
        assert len(set(sizes)) == 1
        assert resident_mib(process.popen.pid) - before < 60  # 227 MiB when threads rendered
        for child in children(process.popen.pid):
            os.kill(child, signal.SIGKILL)
        eventually(lambda: not children(process.popen.pid), 60)
        ask()
        assert process.end() == 0


def resident_mib(pid):
    with open(f"/proc/{pid}/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def children(pid):
    """The living children of a process."""
    command = ["ps", "-o", "pid=,stat=", "--ppid", str(pid)]
    found = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return [int(line.split()[0]) for line in found if not line.split()[1].startswith("Z")]


@pytest.mark.long
def test_a_report_that_takes_too_long_or_is_killed_is_given_up_and_the_next_one_is_rendered(
    light, monkeypatch
):
    ingest(light, "job-1", lines(journal()))
    report = job.build(job_document(light, "job-1").document)
    process = RenderProcess()
    monkeypatch.setattr(render_process, "TIMEOUT_S", 0.001)
    with pytest.raises(BusyError, match="not rendered within"):
        process.render(report, "html")
    monkeypatch.setattr(render_process, "TIMEOUT_S", 60.0)
    assert process.render(report, "html") == render(report, "html")
    process._child._popen.kill()  # as the kernel does where memory is short
    process._child._popen.wait()
    monkeypatch.setattr(type(process._child), "has_died", lambda _self: False)  # a moment ago
    with pytest.raises(BusyError, match="was ended; ask again"):
        process.render(report, "html")
    assert process.render(report, "html") == render(report, "html")
    process.end()

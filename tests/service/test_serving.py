"""A serving process: how it stops, what it logs, and how it renders."""

import http.client
import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from http import HTTPStatus
from urllib.error import HTTPError

import pytest
import sqlalchemy as sa

from gramwatt.reports import job
from gramwatt.service import rendering
from gramwatt.service.common.errors import BusyError
from gramwatt.service.config import ConfigError, from_environment
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.logs import HEADER, JsonFormatter, TextFormatter
from gramwatt.service.rendering import RenderProcess, render
from tests.journals import body, journal
from tests.service.keyed import add, client_of
from tests.service.processes import DIRECT, KEYS, at_once, eventually, get, running, send, serving


@pytest.mark.long
def test_a_stopping_server_answers_what_is_under_way_and_then_ends(tmp_path):
    """A report is being made, and a request waits for the end of a job, when SIGTERM comes."""
    with serving(tmp_path, GRAMWATT_LOG="json") as (process, address):
        host, port = address.removeprefix("http://").split(":")
        send(address, "job-1", body(journal()))
        send(address, "job-2", body(journal("job-2", end_state=None)))
        with (
            closing(http.client.HTTPConnection(host, int(port), timeout=30)) as making,
            closing(http.client.HTTPConnection(host, int(port), timeout=30)) as waiting,
        ):
            named = {**KEYS[address], "X-Request-ID": "mine-1"}
            making.request("GET", "/v1/jobs/job-1/report.pdf", headers=named)
            waiting.request("GET", "/v1/jobs/job-2?wait=scored&timeout_s=60", headers=KEYS[address])
            assert get(f"{address}/healthz") == {"status": "ok"}  # while the PDF is made
            process.popen.terminate()
            with waiting.getresponse() as answer:  # it waits up to 60 s, and the signal ends that
                assert (answer.status, json.load(answer)["state"]) == (200, "running")
                assert answer.headers["Retry-After"]
            with making.getresponse() as answer:
                assert (answer.status, answer.read()[:5]) == (200, b"%PDF-")
        assert process.popen.wait(60) == 0
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((host, int(port)), timeout=30)
        logged = [json.loads(line) for line in process.text.splitlines()]
        assert "token" not in process.text  # what signs in stands in no log
    (line,) = [line for line in logged if line.get("request_id") == "mine-1"]
    assert line["route"] == "/v1/jobs/<job_id>/report.<form>"
    assert (line["method"], line["status"], line["level"]) == ("GET", 200, "info")
    assert 0 < line["duration_s"] < 60
    assert line["key"] == "server"
    assert line["time"].endswith("Z")


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
        process.says("gramwatt serve --link")
        assert process.end() == 0
        assert all(map(json.loads, process.text.splitlines()))
        assert "token" not in process.text


def test_a_second_signal_ends_a_stopping_process_at_once():
    code = (
        "import time; from gramwatt.service.stopping import Stop; "
        "stop = Stop(); print('ready', flush=True); "
        "stop.wait(); print('asked', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 128 + signal.SIGINT


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
    with running(
        tmp_path, "gramwatt", "serve", "--only-tasks", "--alive-file", str(alive)
    ) as process:
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
    add(light)
    with light.store.write() as session:
        session.execute(sa.text("ALTER TABLE intervals RENAME TO gone"))
    answer = client_of(light).get("/v1/jobs/job-1/intervals")
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
        at_once(8, ask)
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


def test_a_renderer_that_cannot_start_is_a_fault_and_not_a_wait(light, monkeypatch):
    add(light)
    report = job.build(job_document(light, "job-1").document)
    monkeypatch.setattr(rendering.sys, "executable", "/bin/false")
    process = RenderProcess()
    with pytest.raises(RuntimeError, match="ends at once, with exit code 1"):
        process.render(report, "html")
    process.end()


@pytest.mark.long
def test_a_report_that_takes_too_long_or_is_killed_is_given_up_and_the_next_one_is_rendered(
    light, monkeypatch
):
    add(light)
    report = job.build(job_document(light, "job-1").document)
    process = RenderProcess()
    monkeypatch.setattr(rendering, "TIMEOUT_S", 0.001)
    with pytest.raises(BusyError, match="not rendered within"):
        process.render(report, "html")
    monkeypatch.setattr(rendering, "TIMEOUT_S", 60.0)
    assert process.render(report, "html") == render(report, "html")
    process._child._popen.kill()  # as the kernel does where memory is short
    process._child._popen.wait()
    monkeypatch.setattr(type(process._child), "has_died", lambda _self: False)  # a moment ago
    with pytest.raises(BusyError, match="was ended; ask again"):
        process.render(report, "html")
    assert process.render(report, "html") == render(report, "html")
    process.end()

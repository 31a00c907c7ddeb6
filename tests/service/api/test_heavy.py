"""Reports, plans and comparisons wait in a queue of their own, and nobody else waits for them."""

import json
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError

import pytest
from waitress import create_server

from gramwatt.service.access.keys import create_key
from gramwatt.service.api.support import Queue, _queue
from gramwatt.service.app import create_app
from gramwatt.service.server import THREADS
from tests.journals import body, journal
from tests.service.keyed import add
from tests.service.processes import DIRECT, eventually

HEAVY = ("/v1/jobs/job-1/report.pdf", "/v1/jobs/job-1/report.html", "/jobs/job-1")
MONTH = (
    *(f"/v1/reports/monthly/2026-05{form}" for form in ("", ".json", ".html", ".pdf", ".xlsx")),
    *("/months/2026-05", "/?month=2026-05&wait=true"),
    *("/v1/reports/yearly/2026", "/v1/reports/yearly/2026.html"),
)


@pytest.fixture
def address(light):
    """A server over the app with as many threads as `gramwatt serve`."""
    server = create_server(create_app(service=light), host="127.0.0.1", port=0, threads=THREADS)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield f"http://127.0.0.1:{server.effective_port}"
    server.task_dispatcher.shutdown()
    server.asyncore.close_all(server._map)
    thread.join(10)


def ask(address, key, data=None, **headers):
    """The status, the content and the headers of an answer that must come within 30 s."""
    shown = {"Authorization": f"Bearer {key}", **headers}
    request = urllib.request.Request(address, data, shown)
    try:
        with DIRECT.open(request, timeout=30) as answer:
            return answer.status, answer.read(), answer.headers
    except HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def test_twenty_reports_of_one_key_keep_nobody_else_waiting(light, address, monkeypatch):
    add(light)
    keys = {name: create_key(light, name, "admin").key for name in ("many", "one", "late")}
    go_on, rendering = threading.Event(), []

    def slow(_report, form, _mark):
        rendering.append(form)
        assert go_on.wait(60)
        return b"done"

    monkeypatch.setattr("gramwatt.service.rendering._rendered", slow)
    pdf = f"{address}/v1/jobs/job-1/report.pdf"
    with ThreadPoolExecutor(24) as threads:
        many = [threads.submit(ask, pdf, keys["many"]) for _ in range(20)]
        try:
            eventually(lambda: sum(one.done() for one in many) == 17, 30)
            one = threads.submit(ask, pdf, keys["one"])  # the third that waits
            eventually(lambda: len(_queue._names) == 4, 30)
            assert ask(pdf, keys["late"])[0] == 503
            assert ask(f"{address}/healthz", "")[0] == 200
            sent = body(journal("job-2"))
            found = ask(
                f"{address}/v1/jobs/job-2/records",
                keys["many"],
                sent,
                **{"Content-Type": "application/x-ndjson"},
            )
            assert json.loads(found[1])["accepted"] == len(sent.splitlines())
            assert ask(f"{address}/v1/jobs", keys["many"])[0] == 200
            assert rendering == ["pdf"]
        finally:
            go_on.set()
        answers = [future.result() for future in many]
        assert sorted(status for status, _, _ in answers) == [200] * 3 + [503] * 17
        refused = next(answer for answer in answers if answer[0] == 503)
        assert json.loads(refused[1])["code"] == "busy"
        assert int(refused[2]["Retry-After"]) > 0
        assert one.result()[:2] == (200, b"done")


def test_keys_take_turns():
    queue, order = Queue(), []

    def take(name):
        with queue.turn(name):
            order.append(name)

    with ThreadPoolExecutor(3) as threads, queue.turn("many"):
        for length, name in ((2, "many"), (3, "many"), (4, "one")):
            threads.submit(take, name)
            eventually(lambda length=length: len(queue._names) == length, 30)
    assert order == ["one", "many", "many"]


PLAN = {"hours": 1, "zone": "DE"}


def test_what_takes_long_waits_its_turn(client, light, monkeypatch):
    for name in ("job-1", "job-2"):
        add(light, name)
    monkeypatch.setattr("gramwatt.service.api.support.WAITING_MOST", 0)
    for path, plan in [
        *((path, None) for path in (*HEAVY, *MONTH)),
        ("/v1/comparisons?before=job-1&after=job-2", None),
        ("/compare?before=job-1&after=job-2", None),
        ("/intensity/DE", None),
        ("/v1/reports/monthly/2026-05", {}),
        ("/v1/plans", {"json": PLAN}),
        ("/planner/plan", {"data": PLAN}),
    ]:
        with _queue.turn("somebody"):
            busy = client.get(path) if plan is None else client.post(path, **plan)
        assert (busy.status_code, busy.headers["Retry-After"]) == (503, "10")

"""The files in deploy/, and the metrics that they and their readers depend on."""

import http.client
import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
import sqlalchemy as sa
import yaml
from sqlalchemy.exc import OperationalError

from gramwatt.collectors.settings.keys import ensure_home_key
from gramwatt.service.access.keys import create_key, revoke_key
from gramwatt.service.addresses import parse_url
from gramwatt.service.app import create_app
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.months.periodic import sum_newest_months
from gramwatt.service.tasks import runs
from tests.journals import body, journal
from tests.packages import ROOT
from tests.service.keyed import add, bearer, client_of
from tests.service.processes import DIRECT, KEYS, eventually, get, running, send
from tests.simulation.test_real_kills import Sender, check

DEPLOY = ROOT / "deploy"
SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)


def samples(text):
    """Every sample by its name and labels."""
    found = {}
    for name, labels, value in SAMPLE.findall(text):
        pairs = tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels)))
        found[name, pairs] = float(value)
    return found


def metrics_of(address):
    request = urllib.request.Request(f"{address}/metrics", headers=KEYS[address])
    with DIRECT.open(request, timeout=30) as answer:
        return samples(answer.read().decode())


@pytest.mark.long
def test_gunicorns_workers_count_together_also_while_the_database_is_away(new_postgres, tmp_path):
    url, temporary = new_postgres(), tmp_path / "tmp"
    temporary.mkdir()
    settings = {"GRAMWATT_DATABASE_URL": url, "GRAMWATT_BIND": "127.0.0.1:0"}
    settings["TMPDIR"] = str(temporary)
    command = ("gunicorn", "--config", str(DEPLOY / "gunicorn.conf.py"))
    with running(tmp_path, *command, **settings) as process:
        address = process.says(r"Listening at: (\S+) ")[1]
        eventually(lambda: process.text.count("Booting worker") == 2, 60)
        key = ensure_home_key(tmp_path / "home")
        KEYS[address] = bearer(key)
        for number in range(6):
            content = body(journal(f"job-{number}"))
            for _ in range(2):
                send(address, f"job-{number}", content)
        send(address, "job-0", b"1\n2\n3\n")
        count = len(body(journal()).splitlines())
        for _ in range(8):  # whichever worker answers
            found = metrics_of(address)
            assert found["gramwatt_ingest_lines_total", (("outcome", "accepted"),)] == 6 * count
            assert found["gramwatt_ingest_lines_total", (("outcome", "duplicate"),)] == 6 * count
            assert found["gramwatt_ingest_lines_total", (("outcome", "rejected"),)] == 3
        eventually(lambda: metrics_of(address)["gramwatt_jobs", (("state", "completed"),)] == 6, 60)
        assert get(f"{address}/v1/jobs/job-5/report")["revision"] == 1
        with taken_away(url):
            found = metrics_of(address)
            assert found["gramwatt_database_up", ()] == 0
            assert found["gramwatt_ingest_lines_total", (("outcome", "accepted"),)] == 6 * count
            assert ("gramwatt_jobs", (("state", "completed"),)) not in found
        # A worker leaves a database that was away alone for 2 s.
        eventually(lambda: metrics_of(address)["gramwatt_database_up", ()] == 1, 60)
        process.popen.send_signal(signal.SIGHUP)
        eventually(lambda: process.text.count("Worker exiting") == 2, 60)
        found = metrics_of(address)
        assert found["gramwatt_ingest_lines_total", (("outcome", "accepted"),)] == 6 * count
        assert process.end() == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.long
def test_gunicorn_started_while_the_database_is_away_answers_once_it_is_there(
    new_postgres, tmp_path
):
    url = new_postgres()  # without tables
    settings = {"GRAMWATT_DATABASE_URL": url, "GRAMWATT_BIND": "127.0.0.1:0"}
    command = ("gunicorn", "--config", str(DEPLOY / "gunicorn.conf.py"))
    with ExitStack() as away:
        away.enter_context(taken_away(url))
        with running(tmp_path, *command, **settings, GRAMWATT_WORKERS="1") as process:
            address = process.says(r"Listening at: (\S+) ")[1]
            KEYS[address] = bearer(ensure_home_key(tmp_path / "home"))
            assert asked(f"{address}/healthz")[:2] == (200, {"status": "ok"})
            for path in ("/readyz", "/v1/jobs"):
                status, answer, retry_after = asked(address + path)
                assert (status, answer["code"], retry_after) == (503, "not-ready", "5")
            away.close()
            jobs = f"{address}/v1/jobs"
            eventually(lambda: asked(jobs)[:2] == (200, {"jobs": [], "next_cursor": None}), 60)
            assert process.text.count("the database is away") == 1
            assert "Traceback" not in process.text
            assert process.end() == 0


def test_gunicorn_that_its_database_does_not_let_in_says_so(new_postgres, tmp_path):
    url = parse_url(new_postgres()).set(username="nobody", password="geheim")
    settings = {"GRAMWATT_DATABASE_URL": url.render_as_string(hide_password=False)}
    settings |= {"GRAMWATT_BIND": "127.0.0.1:0", "GRAMWATT_WORKERS": "1"}
    command = ("gunicorn", "--config", str(DEPLOY / "gunicorn.conf.py"))
    with running(tmp_path, *command, **settings) as process:
        address = process.says(r"Listening at: (\S+) ")[1]
        status, answer, retry_after = asked(f"{address}/v1/jobs", {})
        assert (status, answer["code"], retry_after) == (503, "not-ready", "5")
        assert answer["detail"].startswith("the database does not let this service in")
        process.says(r'the database refuses this service: .*role "nobody" does not exist')
        assert "geheim" not in process.text + str(answer)
        assert "Traceback" not in process.text


def asked(url, headers=None):
    """The status, the document and the header Retry-After of an answer."""
    try:
        shown = _key_of(url) if headers is None else headers
        answer = DIRECT.open(urllib.request.Request(url, headers=shown), timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return answer.status, json.load(answer), answer.headers["Retry-After"]


def _key_of(url):
    return next(key for address, key in KEYS.items() if url.startswith(address))


@pytest.mark.parametrize("command", [("serve",), ("serve", "--only-tasks")])
def test_a_command_whose_database_is_away_ends_with_one_line(tmp_path, command):
    settings = {"GRAMWATT_DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    with running(tmp_path, "gramwatt", *command, **settings) as process:
        assert process.popen.wait(60) == 1
        (line,) = (line for line in process.text.splitlines() if "[INFO]" not in line)
    assert line.startswith("gramwatt: the database cannot be used: connection failed")


@pytest.mark.long
def test_a_worker_that_is_killed_under_load_loses_and_doubles_nothing(new_postgres, tmp_path):
    settings = {"GRAMWATT_DATABASE_URL": new_postgres(), "GRAMWATT_BIND": "127.0.0.1:0"}
    command = ("gunicorn", "--config", str(DEPLOY / "gunicorn.conf.py"))
    jobs = [f"job-{number}" for number in range(3)]
    with running(tmp_path, *command, **settings) as process, ThreadPoolExecutor(3) as threads:
        address = process.says(r"Listening at: (\S+) ")[1]
        eventually(lambda: process.text.count("Booting worker") == 2, 60)
        KEYS[address] = bearer(ensure_home_key(tmp_path / "home"))
        sender = Sender(address)
        work = [threads.submit(sender.send_all, job_id) for job_id in jobs]
        eventually(lambda: len(get(f"{address}/v1/jobs")["jobs"]) == len(jobs), 60)
        worker = re.search(r"Booting worker with pid: (\d+)", process.text)[1]
        os.kill(int(worker), signal.SIGKILL)
        assert not all(one.done() for one in work)
        for one in work:
            one.result(300)
        eventually(lambda: process.text.count("Booting worker") == 3, 60)
        for job_id in jobs:
            check(address, job_id)
        send(address, "runs", body(journal("runs", end_state=None)))
        with closing(http.client.HTTPConnection(address.partition("//")[2], timeout=60)) as waiting:
            wait = "/v1/jobs/runs?wait=scored&timeout_s=60"
            waiting.request("GET", wait, headers=KEYS[address])
            get(f"{address}/healthz")  # accepted after the one that waits
            time.sleep(1)
            assert process.end() == 0
            assert json.load(waiting.getresponse())["state"] == "running"


class taken_away:  # noqa: N801  # reads as a word
    """A database that accepts no connection and whose sessions were ended."""

    def __init__(self, url):
        self._name = parse_url(url).database
        self._engine = sa.create_engine(
            parse_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT"
        )

    def _allow(self, word):
        with self._engine.connect() as connection:
            connection.execute(sa.text(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS {word}"))
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
            connection.execute(sa.text(ended), {"name": self._name})

    def __enter__(self):
        self._allow("false")

    def __exit__(self, *_):
        self._allow("true")
        self._engine.dispose()


def test_a_key_that_was_let_in_to_metrics_is_while_the_database_is_away(light, monkeypatch):
    app = create_app(service=light)
    keys = {name: create_key(light, name, "read").key for name in ("prometheus", "new", "revoked")}
    shown = {name: bearer(key) for name, key in keys.items()}
    client = app.test_client()
    for name in ("prometheus", "revoked"):
        assert client.get("/metrics", headers=shown[name]).status_code == 200
    revoke_key(light, "revoked")
    assert client.get("/metrics", headers=shown["revoked"]).status_code == 401

    def away(_self):
        raise OperationalError("SELECT 1", {}, Exception("away"))

    monkeypatch.setattr("gramwatt.service.store.database.Store.read", away)
    answer = client.get("/metrics", headers=shown["prometheus"])
    assert samples(answer.get_data(as_text=True))["gramwatt_database_up", ()] == 0
    assert client.get("/metrics", headers=shown["new"]).status_code == 503
    assert client.get("/metrics", headers=shown["revoked"]).status_code == 503
    assert client.get("/v1/jobs", headers=shown["prometheus"]).status_code == 503


def test_metrics_tell_what_the_store_holds(service, clock):
    add(service, "job-1", start=clock.now)
    add(service, "job-2", start=clock.now, end_state=None)
    clock.turn(seconds=90)
    add(service, "job-3", start=clock.now, end_state=None)
    sum_newest_months(service)
    key = runs.begin(service, "close-silent", "h:1")
    runs.end(service, key, None)
    runs.end(service, runs.begin(service, "backup", "h:1"), "disk full")
    client = client_of(service)
    found = samples(client.get("/metrics").get_data(as_text=True))
    total = job_document(service, "job-1").document.total_g
    for bound in ("value", "low", "high"):
        labels = (("bound", bound), ("project", "vision"))
        grams = found["gramwatt_project_month_co2e_grams", labels]
        assert grams == pytest.approx(getattr(total, bound))
    energy_kwh = job_document(service, "job-1").document.energy_kwh.value
    joules = found["gramwatt_project_energy_joules", (("project", "vision"),)]
    assert joules == pytest.approx(3.6e6 * energy_kwh)
    assert found["gramwatt_ingest_lag_seconds", ()] == 90
    assert found["gramwatt_scoring_queue_jobs", ()] == 0
    assert found["gramwatt_jobs", (("state", "running"),)] == 2
    success = "gramwatt_task_last_success_timestamp_seconds"
    assert found[success, (("task", "close-silent"),)] == clock.now.timestamp()
    assert found["gramwatt_task_failing", (("task", "close-silent"),)] == 0
    assert found["gramwatt_task_failing", (("task", "backup"),)] == 1
    assert (success, (("task", "backup"),)) not in found


def test_every_query_of_dashboard_and_alerts_names_metrics_and_labels_that_exist(light, clock):
    add(light, "job-1", start=clock.now)
    sum_newest_months(light)
    runs.end(light, runs.begin(light, "close-silent", "h:1"), None)
    client = client_of(light)
    client.get("/healthz")
    known = {}
    for name, labels in samples(client.get("/metrics").get_data(as_text=True)):
        known.setdefault(name, set()).update(label for label, _ in labels)
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) > 10
    alerts = yaml.safe_load((DEPLOY / "prometheus-alerts.yaml").read_text())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) > 5
    for query in [*queries, *(rule["expr"] for rule in alerts)]:
        names = re.findall(r"gramwatt_\w+", query)
        assert names, query
        assert set(names) <= set(known), query
        grouped = {
            word for words in re.findall(r"by \(([^)]*)\)", query) for word in words.split(", ")
        }
        matched = set(re.findall(r"(\w+)=\"", query))
        assert grouped | matched <= set.union(*(known[name] for name in names)), query
    used = {name for query in queries for name in re.findall(r"gramwatt_\w+", query)}
    counted = {name for name in known if name.startswith("gramwatt_")}
    unused = {re.sub(r"_(bucket|count|sum|created|total)$", "", name) for name in counted - used}
    assert unused <= {re.sub(r"_(bucket|total)$", "", name) for name in used}

"""Budgets over HTTP, their alerts once each, and messages that arrive signed, or again."""

import base64
import hashlib
import hmac
import json
import math
import random
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email import message_from_string
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler

import pytest
from aiosmtpd.controller import Controller

from gramwatt.sci.figures.quantity import Quantity
from gramwatt.service import notifications
from gramwatt.service.access.keys import create_key
from gramwatt.service.budgets import DAYS_LEAST, budgets_page, check_budgets, month_end
from gramwatt.service.config import AlertSettings
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.notifications import AddressError, checked_address, is_public, parse_webhook
from gramwatt.service.tasks.table import TASKS
from gramwatt.service.tasks.upkeep import refresh_running
from tests.journals import Writer, lines
from tests.service.keyed import add, bearer, client_of, statements, with_settings
from tests.service.processes import at_once

JUNE = datetime(2026, 6, 1, tzinfo=UTC)


def run_job(service, job_id="job-1", *, start=JUNE, project="vision", **more):
    add(service, job_id, start=start, project=project, **more)


def set_budget(client, limit_kg, **more):
    answer = client.post("/v1/budgets", json={"project": "vision", "limit_kg": limit_kg, **more})
    assert answer.status_code == 200, answer.json
    return answer.json


def total_kg(client, job_id="job-1"):
    return client.get(f"/v1/jobs/{job_id}").json["total_g"]["value"] / 1000


def budget(client, **query):
    (row,) = client.get("/v1/budgets", query_string=query).json["budgets"]
    return row


def do(service, name):
    TASKS[name].action(service)


def thresholds(client):
    return [alert["threshold"] for alert in budget(client)["alerts"]]


def messages(client):
    return client.get("/v1/outbox").json["messages"]


def test_a_budget_holds_what_the_jobs_of_its_project_emitted_in_the_month(client, light):
    run_job(light, "job-1")
    run_job(light, "job-2", start=JUNE + timedelta(hours=20))
    run_job(light, "other", project="speech")
    run_job(light, "before", start=JUNE - timedelta(hours=2))
    spent = total_kg(client, "job-1") + total_kg(client, "job-2")
    row = set_budget(client, spent / 0.6, thresholds=[100, 50])
    assert row["spent_kg"]["value"] == pytest.approx(spent, rel=1e-9)
    assert row["spent_kg"]["unit"] == "kgCO2e"
    assert row["spent_kg"]["low"] < spent < row["spent_kg"]["high"]
    assert row["spent_share"] == pytest.approx(0.6)
    assert (row["status"], row["thresholds"]) == ("threshold-reached", [50.0, 100.0])
    assert (row["month"], row["for_month"]) == (None, "2026-06")
    assert budget(client) == row
    assert budget(client, month="2026-05")["spent_kg"]["value"] == pytest.approx(
        total_kg(client, "before")
    )
    assert budget(client, month="2026-04")["spent_kg"]["value"] == 0.0
    assert set_budget(client, spent)["status"] == "spent"
    assert len(client.get("/v1/budgets").json["budgets"]) == 1


def test_a_month_may_have_a_budget_of_its_own(client, light):
    run_job(light)
    set_budget(client, 100)
    set_budget(client, total_kg(client) / 2, month="2026-06")
    rows = client.get("/v1/budgets?limit=1").json
    assert [row["month"] for row in rows["budgets"]] == [None]
    rows = client.get(f"/v1/budgets?limit=1&cursor={rows['next_cursor']}").json
    assert ([row["month"] for row in rows["budgets"]], rows["next_cursor"]) == (["2026-06"], None)
    do(light, "budgets")
    assert [a["threshold"] for a in rows["budgets"][0]["alerts"]] == []
    alerts = client.get("/v1/budgets?month=2026-06").json["budgets"][1]["alerts"]
    assert [alert["threshold"] for alert in alerts] == [50.0, 80.0, 100.0]
    gone = {"project": "vision", "month": "2026-06"}
    assert client.delete("/v1/budgets", query_string=gone).json == gone
    answer = client.delete("/v1/budgets", query_string=gone)
    assert (answer.status_code, answer.json["code"]) == (404, "unknown-budget")


def test_a_budget_holds_several_projects_or_a_cost_centre(service):
    client = client_of(service)
    run_job(service, "job-1", tags={"cost_centre": "CC-7"})
    run_job(service, "job-2", project="speech", tags={"cost_centre": "CC-7"})
    run_job(service, "job-3", project="speech", end_state=None, tags={"cost_centre": "CC-8"})
    run_job(service, "job-4", project="other")
    refresh_running(service)
    grams = [total_kg(client, f"job-{number}") for number in (1, 2, 3)]
    several = set_budget(
        client, sum(grams) / 0.6, project="research", projects=["vision", "speech"], thresholds=[50]
    )
    assert several["spent_kg"]["value"] == pytest.approx(sum(grams), rel=1e-9)
    assert (several["projects"], several["jobs_running"]) == (["speech", "vision"], 1)
    centre = set_budget(client, 100, project="centre 7", cost_centre="CC-7")
    assert centre["spent_kg"]["value"] == pytest.approx(grams[0] + grams[1], rel=1e-9)
    assert centre["cost_centre"] == "CC-7"
    # Both jobs share the zone's intensity, so the range of their sum is as wide as that of each.
    head = client.get("/v1/jobs/job-1").json["total_g"]
    assert centre["spent_kg"]["high"] / centre["spent_kg"]["value"] == pytest.approx(
        head["high"] / head["value"], rel=0.02
    )
    check_budgets(service)
    rows = {row["project"]: row for row in client.get("/v1/budgets").json["budgets"]}
    assert [alert["threshold"] for alert in rows["research"]["alerts"]] == [50.0]
    key = create_key(service, "node", "ingest", ["speech"]).key
    own = bearer(key)
    asked = client.get("/v1/budgets/check?project=speech", headers=own).json["budget"]
    assert (asked["project"], asked["status"]) == ("research", "threshold-reached")
    used = client.get("/v1/reports/monthly/2026-06").json["budgets"]
    assert [row["project"] for row in used] == ["centre 7", "research"]
    key = create_key(service, "lead", "admin", ["speech"]).key
    own = bearer(key)
    for more in ({"projects": ["vision"]}, {"cost_centre": "CC-7"}):
        body = {"project": "speech", "limit_kg": 1, **more}
        assert client.post("/v1/budgets", json=body, headers=own).status_code == 403


def test_each_threshold_is_alerted_once_a_month(client, light, clock):
    run_job(light)
    set_budget(client, total_kg(client) / 0.55, email="lead@example.org")
    do(light, "budgets")
    do(light, "budgets")
    assert thresholds(client) == [50.0]
    run_job(light, "job-2")
    do(light, "budgets")
    do(light, "budgets")
    assert thresholds(client) == [50.0, 80.0, 100.0]  # 110 %
    assert [(m["threshold"], m["channel"]) for m in messages(client)] == [
        (100.0, "email"),
        (80.0, "email"),
        (50.0, "email"),
    ]
    clock.turn(days=30)
    run_job(light, "job-3", start=JUNE + timedelta(days=30))
    do(light, "budgets")
    assert thresholds(client) == [50.0]
    assert len(messages(client)) == 4


def test_alerts_are_of_the_budget_as_it_is_set(client, light):
    """A typo uses up no alert of the budget that corrects it, nor one without a receiver."""
    run_job(light)
    right = total_kg(client) / 0.6
    set_budget(client, total_kg(client) / 8)  # the typo, without a receiver
    do(light, "budgets")
    assert thresholds(client) == [50.0, 80.0, 100.0]
    set_budget(client, right)
    assert thresholds(client) == []
    do(light, "budgets")
    assert thresholds(client) == [50.0]
    set_budget(client, right, email="lead@example.org")
    do(light, "budgets")
    assert [(m["threshold"], m["target"]) for m in messages(client)] == [(50.0, "lead@example.org")]
    set_budget(client, right, email="lead@example.org", thresholds=[40, 50])  # set again
    do(light, "budgets")
    assert [m["threshold"] for m in messages(client)] == [40.0, 50.0]
    assert client.delete("/v1/budgets?project=vision").status_code == 200
    set_budget(client, right, email="lead@example.org")
    do(light, "budgets")
    assert [m["threshold"] for m in messages(client)] == [50.0, 40.0, 50.0]


def test_a_threshold_that_a_month_reaches_a_week_after_its_end_is_alerted(client, light, clock):
    run_job(light)
    set_budget(client, total_kg(client) / 0.3)
    clock.now = datetime(2026, 7, 7, 23, tzinfo=UTC)
    do(light, "budgets")
    run_job(light, "job-2")  # 60 % with it
    do(light, "budgets")
    june = client.get("/v1/budgets?month=2026-06").json["budgets"][0]
    assert [alert["threshold"] for alert in june["alerts"]] == [50.0]


def test_processes_that_check_at_once_make_one_alert(service):
    client = client_of(service)
    run_job(service)
    set_budget(client, total_kg(client), email="lead@example.org")
    at_once(6, do, service, "budgets")
    assert thresholds(client) == [50.0, 80.0, 100.0]
    assert len(messages(client)) == 3


def test_a_running_job_counts_with_what_it_emitted_so_far(client, light):
    run_job(light, end_state=None)
    refresh_running(light)
    row = set_budget(client, 1)
    assert row["jobs_running"] == 1
    assert row["spent_kg"]["value"] == pytest.approx(total_kg(client), rel=1e-9)


def test_what_is_unknown_is_neither_zero_nor_within_the_budget(client, light):
    writer = Writer(job="blind", t0=JUNE)
    records = [writer.job(project="vision", zone="FR"), writer.device("GPU-1", name="NVIDIA L4")]
    ingest(light, "blind", lines([*records, writer.end(60)]))
    row = set_budget(client, 1)
    assert row["jobs_unknown"] == 1
    assert row["forecast_reason"] == "a term of some job is not known"
    assert client.get("/v1/jobs/blind").json["total_g"] is None
    assert row["status"] == "unknown"


def test_of_a_month_whose_jobs_are_all_excluded_nothing_is_spent(client, light):
    run_job(light)
    set_budget(client, 1)
    client.patch("/v1/jobs/job-1", json={"excluded": True, "reason": "a test"})
    row = budget(client)
    assert (row["status"], row["spent_kg"]["value"], row["spent_share"]) == ("within", 0.0, 0.0)


def test_a_running_job_of_unknown_energy_counts_as_unknown_in_its_month_only(client, light):
    writer = Writer(job="blind", t0=JUNE)
    seen = [writer.device("GPU-1", name="NVIDIA L4"), writer.interval(0, 60, 900.0)]
    unseen = writer.device("GPU-2", name="NVIDIA L4")
    ingest(light, "blind", lines([writer.job(project="vision", zone="FR"), *seen, unseen]))
    refresh_running(light)
    row = set_budget(client, 1)
    assert (row["status"], row["jobs_unknown"], row["jobs_running"]) == ("unknown", 1, 1)
    may = budget(client, month="2026-05")
    assert (may["status"], may["jobs_unknown"], may["jobs_running"]) == ("within", 0, 0)


def test_the_forecast_is_the_mean_day_with_its_prediction_interval():
    # Ten days of 2 and 4 g in turn: mean 3, sum of squares about it 10, spread sqrt(10/9).
    spent = Quantity.exact(30.0, "gCO2e", "estimated", "test")
    found = month_end(spent, [2.0, 4.0] * 5, 20.0)
    assert found.value == pytest.approx(90.0)
    # Student's t of 9 degrees, 90 %: 1.3830. Twenty days: variance 20 + 400/10 = 60 of a day's.
    width = 1.3830 * (10 / 9 * 60) ** 0.5
    assert (found.low, found.high) == (
        pytest.approx(90 - width, rel=1e-4),
        pytest.approx(90 + width, rel=1e-4),
    )
    doubtful = Quantity(30.0, 24.0, 36.0, "gCO2e", "estimated", "test")
    # A fifth of the whole, 18 g, and the width above, which are independent.
    assert month_end(doubtful, [2.0, 4.0] * 5, 20.0).high == pytest.approx(
        90 + (18**2 + width**2) ** 0.5, rel=1e-4
    )


def test_the_range_of_a_forecast_knows_how_alike_a_day_and_the_next_are():
    # Five days of 1 g, then five of 3: mean 2, squares about it 10, of neighbours 4 - 1 + 4 = 7.
    days, likeness = [1.0] * 5 + [3.0] * 5, 0.7 + 0.1
    found = month_end(Quantity.exact(20.0, "gCO2e", "estimated", "test"), days, 4.0)
    # What four days of 2 g differ by from what comes, out of the covariance of every two days.
    covariance = [[likeness ** abs(i - j) for j in range(14)] for i in range(14)]
    weight = [-0.4] * 10 + [1.0] * 4
    spread = sum(weight[i] * weight[j] * covariance[i][j] for i in range(14) for j in range(14))
    seen = 1 - sum(covariance[i][j] for i in range(10) for j in range(10)) / 100
    # Ten such days say as much as 10 x 0.2 / 1.8 others: three degrees of freedom are the least.
    width = 1.638 * (1.0 / seen * spread) ** 0.5
    assert found.value == pytest.approx(28.0)
    assert found.high - 28 == pytest.approx(width, rel=0.01)


@pytest.mark.parametrize(("spread", "least"), [(0.2, 0.74), (0.6, 0.72)])
def test_ranges_of_forecasts_hold_about_8_of_10_ends(spread, least):
    chance, held, tries = random.Random(7), 0, 600
    for _ in range(tries):
        known = chance.randrange(DAYS_LEAST, 26)
        days = [
            chance.lognormvariate(0, spread) if chance.random() > 0.1 else 0.0 for _ in range(30)
        ]
        spent = Quantity.exact(sum(days[:known]), "gCO2e", "estimated", "test")
        found = month_end(spent, days[:known], 30.0 - known)
        held += found.low <= sum(days) <= found.high
    assert least < held / tries < 0.87


def working_days(chance):
    """A month of full working days and quiet weekends."""
    first = chance.randrange(7)
    return [chance.gauss(10, 2) if (first + n) % 7 < 5 else chance.gauss(2, 0.5) for n in range(30)]


def busy_and_quiet_weeks(chance):
    """A month in which each day is much like the one before."""
    level, days = chance.gauss(0, 0.67), []
    for _ in range(30):
        level = 0.8 * level + chance.gauss(0, 0.4)
        days.append(10 * math.exp(level))
    return days


@pytest.mark.parametrize(
    ("month", "least", "most"), [(working_days, 0.97, 1.0), (busy_and_quiet_weeks, 0.57, 0.72)]
)
def test_ranges_of_forecasts_where_days_are_not_independent_are_as_documented(month, least, most):
    chance, held, tries = random.Random(11), 0, 600
    for _ in range(tries):
        days, known = month(chance), chance.randrange(DAYS_LEAST, 26)
        spent = Quantity.exact(sum(days[:known]), "gCO2e", "estimated", "test")
        found = month_end(spent, days[:known], 30.0 - known)
        held += found.low <= sum(days) <= found.high
    assert least <= held / tries <= most


def test_a_forecast_needs_a_week_of_whole_days(client, light, clock):
    set_budget(client, 1)
    for day in range(9):
        clock.now = JUNE + timedelta(days=day, hours=12)
        if day in (0, DAYS_LEAST - 1):
            row = budget(client)
            assert (row["forecast_kg"], row["forecast_reason"]) == (
                None,
                f"too few days: {day} whole days of 7",
            )
        run_job(light, f"job-{day}", start=JUNE + timedelta(days=day))
    row, each = budget(client), total_kg(client)
    # Nine jobs alike; 8 whole days have one each, and 21.5 days are left.
    assert row["spent_kg"]["value"] == pytest.approx(9 * each, rel=1e-6)
    assert row["forecast_kg"]["value"] == pytest.approx((9 + 21.5) * each, rel=1e-6)
    assert row["forecast_reason"] is None
    clock.now = JUNE + timedelta(days=40)
    assert budget(client, month="2026-06")["forecast_reason"] == "the month is over"


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it was sent; answers with the next of `server.answers`."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers), body))
        status = self.server.answers.pop(0) if self.server.answers else 204
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "600")
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        return


@contextmanager
def receiver(*answers, kind=Receiver):
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.got, server.answers = [], list(answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


HOOKS = {"webhook_secret": "s", "webhook_hosts": ("localhost",)}


def told(service, **settings):
    """The service with settings for alerts, over the same store."""
    return with_settings(service, alerts=AlertSettings(**settings or HOOKS))


def alerted(light, address, **more):
    """A service with a spent budget whose alerts wait for a webhook, and a client of it."""
    service = told(light)
    client = client_of(service)
    run_job(service)
    set_budget(client, total_kg(client), webhook=address, **{"thresholds": [100], **more})
    do(service, "budgets")
    return service, client


def alerted_by(light, server, **more):
    return alerted(light, f"http://localhost:{server.server_port}/", **more)


def test_a_webhook_is_signed_and_sent_again_until_it_is_taken(light, clock):
    with receiver(500, 302, 204) as server:
        service = told(light, webhook_secret="s3cret", webhook_hosts=("localhost",))
        client = client_of(service)
        run_job(service)
        url = f"http://localhost:{server.server_port}/hook?token=x"
        row = set_budget(client, total_kg(client), thresholds=[100], webhook=url)
        assert row["webhook"] == f"http://localhost:{server.server_port}/..."
        do(service, "budgets")
        waits = []
        for error in ("answered 500", "answered 302"):
            do(service, "outbox")
            (message,) = messages(client)
            assert (message["state"], error in message["error"]) == ("waiting", True)
            do(service, "outbox")  # it is not due yet
            assert messages(client) == [message]
            waits.append(datetime.fromisoformat(message["next_at"]) - clock.now)
            clock.turn(seconds=waits[-1].total_seconds())
        assert waits == [timedelta(minutes=1), timedelta(minutes=2)]
        do(service, "outbox")
        do(service, "outbox")
        (message,) = messages(client)
        assert (message["state"], message["attempts"], message["error"]) == ("sent", 3, None)
        assert [path for path, _, _ in server.got] == ["/hook?token=x"] * 3  # no redirect
        deliveries = {headers["Gramwatt-Delivery"] for _, headers, _ in server.got}
        assert len(deliveries) == 1
        _, headers, body = server.got[-1]
        stamp, given = (part.partition("=")[2] for part in headers["Gramwatt-Signature"].split(","))
        assert int(stamp) == int(clock.now.timestamp())
        expected = hmac.new(b"s3cret", stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        assert given == expected
        document = json.loads(body)
        assert (document["event"], document["project"], document["month"]) == (
            "budget-threshold",
            "vision",
            "2026-06",
        )
        assert (document["threshold_percent"], document["spent_share"]) == (100.0, 1.0)


def test_a_receiver_says_when_to_come_again_and_that_it_is_gone(light, clock):
    with receiver(503, 410) as server:
        service, client = alerted_by(light, server)
        do(service, "outbox")
        (message,) = messages(client)
        wait = datetime.fromisoformat(message["next_at"]) - clock.now
        assert (message["state"], wait) == ("waiting", timedelta(minutes=10))
        clock.turn(minutes=10)
        do(service, "outbox")
        (message,) = messages(client)
        assert (message["state"], message["attempts"]) == ("failed", 2)
        assert "410: it takes no message here any more" in message["error"]


class Dripping(BaseHTTPRequestHandler):
    """Answers byte by byte, each in time, and never comes to an end of its first line."""

    def do_POST(self):
        with suppress(OSError):
            for byte in b"HTTP/1.1 200 " + b"O" * 1000:
                self.wfile.write(bytes([byte]))
                time.sleep(0.05)

    def log_message(self, *_):
        return


def test_a_receiver_that_answers_byte_by_byte_holds_up_no_other_message(light, monkeypatch):
    monkeypatch.setattr(notifications, "TIMEOUT_S", 0.5)
    with receiver(kind=Dripping) as slow, receiver() as server:
        service = told(light)
        client = client_of(service)
        for project, port in (("a", slow.server_port), ("b", server.server_port)):
            run_job(service, f"job-{project}", project=project)
            body = {"project": project, "limit_kg": 1e-6, "thresholds": [1]}
            client.post("/v1/budgets", json={**body, "webhook": f"http://localhost:{port}/"})
        do(service, "budgets")
        began = time.monotonic()
        do(service, "outbox")
        assert time.monotonic() - began < 10  # the answer would take 50 s
        taken, waiting = messages(client)
        assert (taken["project"], taken["state"]) == ("b", "sent")
        assert waiting["error"] == "localhost did not take it: no answer in time"


class Repeating(BaseHTTPRequestHandler):
    """Answers with what it was sent, which is not HTTP, and with control codes."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(b"\x00\xff no: " + self.raw_requestline)

    def log_message(self, *_):
        return


class RepeatingMail(StreamRequestHandler):
    """A mail server that refuses a password, and repeats it."""

    def handle(self):
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            if line.startswith(b"AUTH"):
                user, password = base64.b64decode(line.split()[-1]).split(b"\0")[1:]
                self.wfile.write(b"535 no: %s %s %s\r\n" % (line.strip(), user, password))
            elif line.startswith(b"QUIT"):
                self.wfile.write(b"221 bye\r\n")
            else:
                self.wfile.write(b"250-here\r\n250 AUTH PLAIN\r\n")


SECRETS = ("T0/B0/s3cret", "pass/w0rd", "pass%2Fw0rd")


@pytest.mark.parametrize(
    ("kind", "to", "why"),
    [
        (Repeating, {"webhook": "http://localhost:{}/T0/B0/s3cret"}, "not an answer of HTTP"),
        (RepeatingMail, {"email": "lead@example.org"}, "user or password refused (535)"),
    ],
)
def test_what_a_receiver_repeats_of_a_secret_is_shown_nowhere(light, caplog, kind, to, why):
    caplog.set_level("DEBUG")
    with receiver(kind=kind) as server:
        mail = f"smtp://ada:pass%2Fw0rd@127.0.0.1:{server.server_port}"
        hosts = {"webhook_secret": "s", "webhook_hosts": ("localhost",)}
        service = told(light, **hosts, smtp_url=mail, mail_from="g@example.org")
        client = client_of(service)
        run_job(service)
        to = {name: text.format(server.server_port) for name, text in to.items()}
        set_budget(client, total_kg(client), thresholds=[100], **to)
        do(service, "budgets")
        do(service, "outbox")
    (message,) = messages(client)
    assert (message["state"], message["attempts"]) == ("waiting", 1)
    assert why in message["error"]
    answers = [client.get(page) for page in ("/v1/outbox", "/v1/budgets", "/budgets")]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    seen = [caplog.text, *(answer.text for answer in answers)]
    assert not any(secret in text for secret in SECRETS for text in seen)


@pytest.mark.parametrize("end", [" ", "\x7f", "\u2028", "\n"])
def test_a_webhook_that_cannot_be_asked_is_refused_without_its_path(client, end):
    body = {"project": "vision", "limit_kg": 1, "webhook": f"https://example.org/s3cret{end}x"}
    answer = client.post("/v1/budgets", json=body)
    assert (answer.status_code, "s3cret" in answer.text) == (422, False)


def test_a_message_that_is_never_taken_is_given_up_and_stays_to_be_seen(light, clock):
    service, client = alerted(light, "http://localhost:9/x")
    began, next_at = clock.now, ""
    while next_at is not None:
        clock.now = datetime.fromisoformat(next_at) if next_at else began
        do(service, "outbox")
        (message,) = messages(client)
        next_at = message["next_at"]
    # 1 + 2 + 4 + ... + 256 minutes after nine attempts, and 6 hours after the next two.
    assert clock.now - began == timedelta(minutes=511 + 2 * 360)
    assert (message["state"], message["attempts"], message["next_at"]) == ("failed", 12, None)
    assert "did not take it" in message["error"]


def test_a_message_put_off_while_the_clock_was_ahead_is_tried_now(light, clock):
    service, client = alerted(light, "http://localhost:9/x")
    clock.turn(days=180)
    do(service, "outbox")
    clock.turn(days=-180)
    do(service, "outbox")
    (message,) = messages(client)
    assert (message["attempts"], message["next_at"][:10]) == (2, "2026-06-02")


def test_of_several_processes_one_sends_a_message(light):
    with receiver() as server:
        service, client = alerted_by(light, server, thresholds=[50, 80, 100])
        at_once(5, do, service, "outbox")
        do(service, "outbox")
        assert len(server.got) == 3
        assert {m["state"] for m in messages(client)} == {"sent"}


def test_nothing_is_sent_without_a_secret_or_to_a_network_behind_the_server(light, clock):
    with receiver() as server:
        _, client = alerted_by(light, server)
        for settings, why in (
            ({"webhook_hosts": ("localhost",)}, "GRAMWATT_WEBHOOK_SECRET"),
            ({"webhook_secret": "s"}, "GRAMWATT_WEBHOOK_HOSTS"),  # allowed no longer
        ):
            do(told(light, **settings), "outbox")
            assert why in messages(client)[0]["error"]
            clock.turn(hours=1)
        assert server.got == []


def test_hosts_that_resolve_into_the_private_network_are_refused():
    def lookup(*addresses):
        return lambda host, port: addresses

    public = parse_webhook("https://hooks.example.org/x", ())
    assert checked_address(public, (), lookup("93.184.215.14")) == ("93.184.215.14", 443)
    for hidden in ("10.0.0.1", "127.0.0.1", "169.254.169.254", "::1"):
        with pytest.raises(AddressError, match="not public"):
            checked_address(public, (), lookup("93.184.215.14", hidden))
    named = parse_webhook("http://intern:8080/x", ("intern",))
    assert checked_address(named, ("intern",), lookup("10.0.0.1")) == ("10.0.0.1", 8080)


def test_addresses_that_are_not_public():
    for address in [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"),
        *("100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1"),
        *(
            "64:ff9b:1::a00:1",
            "64:ff9b:1::808:808",
            "::10.0.0.1",
            "::8.8.8.8",
            "fec0::1",
            "feff::1",
        ),
    ]:
        assert not is_public(address)


def test_addresses_that_are_public():
    for address in ["93.184.215.14", "2606:2800:21f:cb07::1", "64:ff9b::808:808"]:
        assert is_public(address)


def test_budgets_without_a_meaning_are_refused(client):
    for field, value in (
        ("webhook", "http://example.org/x"),
        ("webhook", "file:///etc/passwd"),
        ("webhook", "https://user:pw@example.org/"),
        ("webhook", "https://example.org:99999/"),
        ("webhook", "https://exa mple.org/"),
        ("webhook", "https://example.org/ä"),
        ("email", "lead"),
        ("email", "lead@["),
        ("email", "lead@a@example.org"),
        ("email", "lead@example.org\nBcc: all@example.org"),
        ("thresholds", []),
        ("thresholds", [0]),
        ("limit_kg", 0),
        ("limit_kg", 1e13),
        ("month", "2026-13"),
        ("project", ""),
    ):
        body = {"project": "vision", "limit_kg": 1, field: value}
        answer = client.post("/v1/budgets", json=body)
        assert (answer.status_code, answer.json["code"]) == (422, "invalid")
        assert answer.json["detail"].startswith(f"body.{field}")
    assert client.get("/v1/budgets").json["budgets"] == []


class Mailbox:
    """Keeps what it is handed."""

    def __init__(self):
        self.got = []

    async def handle_DATA(self, server, session, envelope):  # noqa: N802  # aiosmtpd's name
        self.got.append(envelope)
        return "250 OK"


def test_an_alert_comes_by_mail(light, clock, free_tcp_port):
    box = Mailbox()
    port = free_tcp_port
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        service = told(light, smtp_url=f"smtp://127.0.0.1:{port}", mail_from="co2@example.org")
        client = client_of(service)
        run_job(service, project="vision\nBcc: all@example.org")
        name = client.get("/v1/projects").json["projects"][0]["project"]
        set_budget(client, total_kg(client), project=name, thresholds=[80], email="l@example.org")
        do(service, "budgets")
        do(service, "outbox")
        (envelope,) = box.got
    finally:
        controller.stop()
    assert (envelope.mail_from, envelope.rcpt_tos) == ("co2@example.org", ["l@example.org"])
    text = envelope.content.decode()
    assert "80 % of the budget of 2026-06 is spent" in text.replace("\r\n ", " ")
    assert "\nBcc:" not in text
    sent = message_from_string(text)["Date"]
    assert parsedate_to_datetime(sent) == clock.now.replace(microsecond=0)
    assert "100% of the budget" in text
    assert [message["state"] for message in messages(client)] == ["sent"]


def test_a_message_without_a_mail_server_says_what_to_set(client, light):
    run_job(light)
    set_budget(client, total_kg(client), thresholds=[80], email="lead@example.org")
    do(light, "budgets")
    do(light, "outbox")
    assert "GRAMWATT_SMTP_URL" in messages(client)[0]["error"]


def test_a_key_of_a_project_sees_and_sets_its_budgets_only(client, light):
    set_budget(client, 10, email="lead@example.org")
    set_budget(client, 10, project="speech")
    run_job(light)
    set_budget(client, total_kg(client), email="lead@example.org")
    do(light, "budgets")
    key = create_key(light, "speech-admin", "admin", ["speech"]).key
    own = {"headers": bearer(key)}
    assert [row["project"] for row in client.get("/v1/budgets", **own).json["budgets"]] == [
        "speech"
    ]
    assert client.get("/v1/budgets/check?project=vision", **own).json == {"budget": None}
    assert client.get("/v1/outbox", **own).json["messages"] == []
    assert len(messages(client)) == 3
    body = {"project": "vision", "limit_kg": 1}
    assert client.post("/v1/budgets", json=body, **own).json["code"] == "forbidden"
    gone = client.delete("/v1/budgets?project=vision", **own)
    assert (gone.status_code, gone.json["code"]) == (403, "forbidden")
    assert client.post("/v1/budgets", json={**body, "project": "speech"}, **own).status_code == 200


def test_a_key_that_sends_records_learns_the_status_of_a_budget_only(client, light):
    set_budget(client, 10, email="lead@example.org", webhook="https://hooks.example.org/x")
    key = create_key(light, "node", "ingest", ["vision"]).key
    shown = {"headers": bearer(key)}
    assert client.get("/v1/budgets/check?project=vision", **shown).json == {
        "budget": {
            "project": "vision",
            "for_month": "2026-06",
            "limit_kg": 10.0,
            "status": "within",
        }
    }


def test_fifty_budgets_cost_as_few_statements_as_one(client, light):
    """Ten at most, for the page and for the periodic check, once the sums of projects are kept."""
    for number in range(50):
        set_budget(client, 10, project=f"p-{number:02}")
    for number in range(0, 50, 5):
        run_job(light, f"job-{number}", project=f"p-{number:02}")
    budgets_page(light, 100, None)
    with statements(light) as asked:
        rows = budgets_page(light, 100, None).budgets
    assert len(rows) == 50
    assert sum(row.spent_kg.value > 0 for row in rows) == 10
    with statements(light) as checked:
        check_budgets(light)
    for sent in (asked, checked):
        assert len([text for text in sent if text != "BEGIN"]) <= 10, sent

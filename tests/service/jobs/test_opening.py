"""Jobs that a sender opens itself, and requests that wait for a score."""

import threading
import time

import pytest

from gramwatt.service.jobs.ingest import ingest
from tests.journals import START, Writer, journal, lines
from tests.service.keyed import add
from tests.service.processes import eventually

DECLARED = {
    "name": "resnet",
    "project": "vision",
    "kind": "training",
    "units": ["image"],
    "zone": "FR",
    "pue": 1.2,
    "started_at": "2026-05-10T08:00:00Z",
    "tags": {"team": "blue"},
}


def test_a_job_is_opened_and_its_records_follow(client):
    made = client.put("/v1/jobs/job-1", json=DECLARED)
    assert made.status_code == 201, made.text
    head = {name: made.json[name] for name in DECLARED if name in made.json}
    assert head == {
        **{name: DECLARED[name] for name in head},
        "started_at": "2026-05-10T08:00:00.000000Z",
    }
    assert (made.json["state"], made.json["energy_kwh"]) == ("running", None)
    meter = Writer("remote", "remote", "job-1", t0=START, first_seq=2)
    records = [
        meter.device("GPU-0"),
        meter.interval(0, 60, 36_000, "GPU-0"),
        meter.count(10),
        meter.end(60),
    ]
    answer = client.send("job-1", records)
    assert answer.json["acknowledged"] == [{"node": "remote", "writer": "remote", "seq": 5}]
    job = client.get("/v1/jobs/job-1").json
    assert (job["state"], job["energy_kwh"]["value"]) == ("completed", pytest.approx(0.01))
    assert [(row["unit"], row["count"]) for row in job["sci"]] == [("image", 10)]
    report = client.get("/v1/jobs/job-1/report").json
    assert report["method"]["pue"]["value"] == 1.2
    assert client.put("/v1/jobs/job-1", json=DECLARED).status_code == 200


def test_the_same_again_changes_nothing_and_something_else_is_refused(client):
    assert client.put("/v1/jobs/job-1", json={"name": "a"}).status_code == 201
    first = client.get("/v1/jobs/job-1").json
    assert client.put("/v1/jobs/job-1", json={"name": "a"}).status_code == 200
    assert client.get("/v1/jobs/job-1").json == first
    for other in ({"name": "b"}, {"name": "a", "zone": "FR"}, {"writer": "w-2"}):
        refused = client.put("/v1/jobs/job-1", json=other)
        assert (refused.status_code, refused.json["code"]) == (409, "conflict"), other
    assert "another name" in client.put("/v1/jobs/job-1", json={"name": "b"}).json["detail"]


def test_what_is_not_known_of_a_job_without_records_is_null_and_said(client):
    client.put("/v1/jobs/job-1", json={"zone": "FR"})
    report = client.get("/v1/jobs/job-1/report").json
    terms = ("energy_kwh", "operational_g", "embodied_g", "total_g")
    assert [report[term] for term in terms] == [None] * 4
    assert report["devices"] == []
    assert [row["g_per_unit"] for row in report["sci"]] == [None]
    fields = {notice["code"]: notice["field"] for notice in report["notices"]}
    assert fields["embodied-unknown"] == "embodied_g"
    assert fields["energy-unmeasured"] == "energy_kwh"
    assert "host-modelled" not in fields
    assert client.get("/v1/jobs/job-1").json["embodied_g"] is None


def test_a_job_that_a_meter_sends_is_not_opened_over(client, light):
    add(light)
    refused = client.put("/v1/jobs/job-1", json={})
    assert (refused.status_code, refused.json["code"]) == (409, "conflict")
    assert client.get("/v1/jobs/job-1").json["state"] == "completed"
    client.delete("/v1/jobs/job-1")
    assert client.put("/v1/jobs/job-1", json={}).status_code == 410


def test_what_no_record_may_say_is_refused_by_its_field(client):
    for sent, where in [
        ({"zone": "Atlantis"}, "body.zone"),
        ({"colour": "red"}, "body.colour"),
        ({"started_at": "2026-05-10T08:00:00"}, "body.started_at"),
        ({"started_at": "1026-05-10T08:00:00Z"}, "body.started_at"),
        ({"units": ["a/b"]}, "body.units.0"),
        ({"pue": 0.5}, "body.pue"),
        ({"node": "../etc"}, "body.node"),
    ]:
        refused = client.put("/v1/jobs/job-1", json=sent)
        assert (refused.status_code, refused.json["errors"][0]["where"]) == (422, where)
        assert client.get("/v1/jobs/job-1").status_code == 404


def test_a_waiting_request_is_answered_when_the_job_has_ended(client, light):
    records = lines(journal())
    ingest(light, "job-1", records[:-1])
    timer = threading.Timer(0.7, lambda: ingest(light, "job-1", records))
    timer.start()
    started = time.monotonic()
    answer = client.get("/v1/jobs/job-1?wait=scored&timeout_s=30")
    timer.join()
    assert time.monotonic() - started < 25
    assert (answer.json["state"], answer.json["provisional"]) == ("completed", False)
    assert "Retry-After" not in answer.headers


def test_waiting_ends_and_says_when_to_ask_again(client, light):
    add(light, "job-1", end_state=None)
    started = time.monotonic()
    answer = client.get("/v1/jobs/job-1?wait=scored&timeout_s=1")
    assert 0.9 < time.monotonic() - started < 60
    assert (answer.status_code, answer.json["state"]) == (200, "running")
    assert answer.headers["Retry-After"] == "5"
    assert client.get("/v1/jobs/none?wait=scored").status_code == 404


def test_few_wait_and_the_others_are_answered_at_once(client, light):
    add(light, "job-1", end_state=None)
    app, states = client.application, []
    assert client.get("/healthz").status_code == 200  # makes the key of every client

    def wait():
        answer = app.test_client().get("/v1/jobs/job-1?wait=scored&timeout_s=60")
        states.append(answer.json["state"])

    threads = [threading.Thread(target=wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(states) >= 5, 50)
    time.sleep(0.5)
    assert states == ["running"] * 5  # of 8, three wait
    add(light)
    for thread in threads:
        thread.join()
    assert states[5:] == ["completed"] * 3

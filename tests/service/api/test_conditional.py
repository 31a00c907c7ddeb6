"""Conditional requests and requests that are sent again."""

import json

import pytest

from gramwatt.service.jobs.documents import rescore
from tests.service.keyed import add, client_of, statements, with_settings
from tests.service.processes import at_once

READS = (
    "/v1/jobs",
    "/v1/jobs/job-1",
    "/v1/jobs/job-1/report",
    "/v1/jobs/job-1/report.html",
    "/v1/jobs/job-1/report?revision=1",
    "/v1/jobs/job-1/revisions",
    "/v1/jobs/job-1/intervals",
    "/v1/jobs/job-1/suggestions",
    "/v1/projects",
    "/v1/reports/monthly/2026-05",
    "/v1/reports/monthly/2026-05.zip",
    "/v1/catalog/hardware",
    "/openapi.json",
)


@pytest.fixture
def client(light):
    add(light)
    return client_of(light)


def test_every_read_has_a_tag_and_is_not_sent_to_who_has_it(client):
    for address in READS:
        first = client.get(address)
        tag = first.headers["ETag"]
        assert tag.startswith('"'), address  # the same bytes: a strong tag
        for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            again = client.get(address, headers={"If-None-Match": known})
            assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", tag)
        other = client.get(address, headers={"If-None-Match": '"other"'})
        assert (other.status_code, other.data) == (200, first.data), address
    missing = client.get("/v1/jobs/none", headers={"If-None-Match": "*"})
    assert (missing.status_code, "ETag" in missing.headers) == (404, False)


def test_a_job_that_changes_has_another_tag_everywhere(client, light):
    before = {address: client.get(address).headers["ETag"] for address in READS[:3]}
    assert client.patch("/v1/jobs/job-1", json={"tags": {"team": "vision"}}).status_code == 200
    for address, tag in before.items():
        answer = client.get(address, headers={"If-None-Match": tag})
        assert (answer.status_code, answer.headers["ETag"] != tag) == (200, True), address
    old = client.get(
        "/v1/jobs/job-1/report?revision=1", headers={"If-None-Match": before[READS[2]]}
    )
    assert old.status_code == 304  # the first revision is the document that was there before


def test_a_known_report_is_not_read_from_the_store(client, light):
    """Nor is what the suggestions beside it are made of: documents of other jobs."""
    for form in ["", ".json", ".html", ".pdf"]:
        address = f"/v1/jobs/job-1/report{form}"
        tag = client.get(address).headers["ETag"]
        with statements(light) as sent:
            answer = client.get(address, headers={"If-None-Match": tag})
        assert answer.status_code == 304
        assert sent
        assert not any("scores.doc" in statement for statement in sent)


def test_a_change_is_made_only_to_the_job_that_its_caller_has_seen(client):
    seen = client.get("/v1/jobs/job-1").headers["ETag"]
    for name, header in (("a", "{}"), ("b", '"other", {}'), ("a", "*")):
        now = client.get("/v1/jobs/job-1").headers["ETag"]
        asked = {"headers": {"If-Match": header.format(now)}}
        assert client.patch("/v1/jobs/job-1", json={"name": name}, **asked).status_code == 200
    for header in (seen, '"other"', f"W/{seen}", "", "garbage"):
        asked = {"headers": {"If-Match": header}}
        for answer in (
            client.patch("/v1/jobs/job-1", json={"name": "b"}, **asked),
            client.delete("/v1/jobs/job-1", **asked),
        ):
            assert (answer.status_code, answer.json["code"]) == (412, "changed"), header
    now = client.get("/v1/jobs/job-1")
    assert now.json["name"] == "a"
    gone = client.delete("/v1/jobs/job-1", headers={"If-Match": now.headers["ETag"]})
    assert gone.status_code == 200
    assert client.delete("/v1/jobs/job-1", headers={"If-Match": "*"}).status_code == 410


def test_a_tag_that_a_proxy_has_made_weak_is_of_the_same_state(client):
    """nginx does so where it packs an answer."""
    weak = f"W/{client.get('/v1/jobs/job-1').headers['ETag']}"
    answer = client.patch("/v1/jobs/job-1", json={"name": "n"}, headers={"If-Match": weak})
    assert (answer.status_code, answer.json["name"]) == (200, "n")


def test_a_request_sent_again_gets_the_first_answer(client, light):
    key = {"Idempotency-Key": "k-1"}
    asked = {"json": {"reason": "new factors"}, "headers": key}
    first = client.post("/v1/jobs/job-1/rescore", **asked)
    assert (first.json["revision"], first.json["changed"]) == (1, False)
    longer = with_settings(light, lifetime_years=5.0)
    assert rescore(longer, "job-1", "another lifetime")[1] is True
    # Scored again with the lifetime of `client` it would be revision 3.
    again = client.post("/v1/jobs/job-1/rescore", **asked)
    assert (again.status_code, again.json) == (200, first.json)
    rows = client.get("/v1/jobs/job-1/revisions").json["revisions"]
    assert [row["revision"] for row in rows] == [2, 1]
    for answer in (
        client.post("/v1/jobs/job-1/rescore", json={"reason": "other"}, headers=key),
        client.patch("/v1/jobs/job-1", json={"name": "x"}, headers=key),
    ):
        assert (answer.status_code, answer.json["code"]) == (422, "key-reused")
    unkeyed = client.post("/v1/jobs/job-1/rescore", json={"reason": "new factors"})
    assert (unkeyed.json["revision"], unkeyed.json["changed"]) == (3, True)


def test_a_key_is_forgotten_after_a_day_and_after_a_failure(client, light, clock):
    key = {"Idempotency-Key": "k-1"}
    refused = client.patch("/v1/jobs/job-1", json={"zone": "Atlantis"}, headers=key)
    assert refused.status_code == 422
    assert client.patch("/v1/jobs/job-1", json={"name": "a"}, headers=key).json["name"] == "a"
    client.patch("/v1/jobs/job-1", json={"name": "b"})
    clock.turn(hours=23)
    assert client.patch("/v1/jobs/job-1", json={"name": "a"}, headers=key).json["name"] == "a"
    assert client.get("/v1/jobs/job-1").json["name"] == "b"
    clock.turn(hours=2)
    client.patch("/v1/jobs/job-1", json={"name": "a"}, headers=key)
    assert client.get("/v1/jobs/job-1").json["name"] == "a"


def test_a_text_that_is_no_key_is_refused(client):
    for key in ["", " ", "ü", "x" * 256, "a b"]:
        answer = client.post("/v1/jobs/job-1/rescore", json={}, headers={"Idempotency-Key": key})
        assert (answer.status_code, answer.json["code"]) == (422, "invalid")


def test_of_many_at_once_with_one_key_one_is_done(client, light):
    """Each name gets its correction once: the others wait no longer than to be told."""
    app, answers = client.application, []
    assert client.get("/healthz").status_code == 200  # makes the key of every client

    def send():
        answers.append(
            app.test_client().patch(
                "/v1/jobs/job-1", json={"name": "x"}, headers={"Idempotency-Key": "same"}
            )
        )

    at_once(6, send)
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert {json.dumps(answer.json) for answer in answers if answer.status_code == 200}
    corrections = client.get("/v1/jobs/job-1/report").json["corrections"]
    assert [row["field"] for row in corrections] == ["name"]

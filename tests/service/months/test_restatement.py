"""Closed months: the bridge from the closed report to the present one, over HTTP."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.service.app import create_app
from gramwatt.service.container import Service
from gramwatt.service.intensity.points import SeriesName, keep
from gramwatt.service.notifications.outbox import outbox_page
from gramwatt.service.tasks.table import TASKS
from tests.journals import body, journal

MAY = "/v1/reports/monthly/2026-05"
NDJSON = "application/x-ndjson"
START = datetime(2026, 5, 4, 8, tzinfo=UTC)


@pytest.fixture
def service(service):
    reports = replace(service.config.reports, mail_to=("lead@example.org",))
    return Service(replace(service.config, reports=reports), service.store)


def run(service, *names):
    for name in names:
        TASKS[name].action(service)


def post_job(client, number, **about):
    start = START + timedelta(days=number)
    records = body(journal(f"job-{number}", start=start, pue=1.25, zone="FR", **about))
    assert (
        client.post(f"/v1/jobs/job-{number}/records", data=records, content_type=NDJSON).status_code
        == 200
    )


def total(client, **query):
    return client.get(MAY, query_string=query).json["totals"]["total_g"]["value"]


def carbon(client, number):
    return client.get(f"/v1/jobs/job-{number}/report").json["total_g"]["value"]


def steps(client):
    """The steps of the newest report by cause, once they were found to add up."""
    found = client.get(MAY).json
    bridge = found["restatement"]
    changes = [step["change_g"] for step in bridge["steps"]]
    assert all(c["low"] <= c["value"] <= c["high"] for c in changes)
    old, new = bridge["old_g"]["value"], bridge["new_g"]["value"]
    assert new == found["totals"]["total_g"]["value"]
    assert sum(c["value"] for c in changes) == pytest.approx(new - old, rel=1e-12, abs=1e-12)
    assert bridge["change_g"] == new - old
    return {step["cause"]: step for step in bridge["steps"]}, bridge


def test_a_closed_month_says_what_changed_it_by_cause(service):
    client = create_app(service=service).test_client()
    for number in range(5):
        post_job(client, number)
    run(service, "rescore-factors", "monthly-reports")
    closed = client.post(f"{MAY}/close").json
    assert (closed["closed"], closed["closings"][0]["revision"]) == (True, 1)
    assert client.get(MAY).json["closings"] == closed["closings"]
    assert client.get(MAY).json["restatement"] is None
    before = total(client)
    grams = [carbon(client, n) for n in range(5)]

    post_job(client, 0, writer="w2", node="n2")
    wanted = {"late-records": carbon(client, 0) - grams[0]}
    post_job(client, 5)
    wanted["late-records"] += carbon(client, 5)
    client.patch("/v1/jobs/job-1", json={"pue": 1.5, "reason": "the meter of the hall was read"})
    client.patch("/v1/jobs/job-2", json={"pue": 1.1, "reason": "another hall"})
    found = [carbon(client, n) - grams[n] for n in (1, 2)]
    client.delete("/v1/jobs/job-3?reason=was+a+test")
    wanted["deleted"] = -grams[3]
    four = START + timedelta(days=4)
    series = SeriesName("FR", "average", "lifecycle", "imported")
    keep(service, series, 3600, "hourly", four, [99.0] * 24)
    run(service, "rescore-intensity")
    wanted["intensity"] = carbon(client, 4) - grams[4]
    eight = Service(replace(service.config, lifetime_years=8.0), service.store)
    known = {n: carbon(client, n) for n in (0, 1, 2, 4, 5)}
    run(eight, "rescore-factors")
    wanted["settings"] = sum(carbon(client, n) - grams for n, grams in known.items())
    run(eight, "monthly-reports")

    client = create_app(service=eight).test_client()
    by_cause, bridge = steps(client)
    assert bridge["from_revision"] == 1
    assert bridge["old_g"]["value"] == before
    for cause, change in wanted.items():
        assert by_cause[cause]["change_g"]["value"] == pytest.approx(change, rel=1e-9), cause
    corrected = [step for step in bridge["steps"] if step["cause"] == "corrected"]
    assert [(s["jobs"], s["reason"], s["what"]) for s in corrected] == [
        (["job-1"], "the meter of the hall was read", "pue 1.25 -> 1.5"),
        (["job-2"], "another hall", "pue 1.25 -> 1.1"),
    ]
    assert [s["change_g"]["value"] for s in corrected] == pytest.approx(found)
    assert {s["person"] for s in corrected} == {"api"}
    assert by_cause["late-records"]["jobs"] == ["job-0", "job-5"]
    assert by_cause["settings"]["what"] == "lifetime 4 -> 8 years"
    deleted = by_cause["deleted"]
    assert (deleted["jobs"], deleted["reason"]) == (["job-3"], "was a test")
    assert (deleted["person"], deleted["day"]) == ("api", "2026-06-02")
    (gone,) = client.get(MAY).json["deletions"]
    assert gone["total_g"]["value"] == pytest.approx(grams[3])
    assert [s["cause"] for s in bridge["steps"]] == [
        *("late-records", "corrected", "corrected", "intensity", "settings", "deleted")
    ]
    page = client.get(f"{MAY}.html").text
    for text in ("From revision 1 to this report", "the meter of the hall was read", "was a test"):
        assert text in page
    assert client.get(f"{MAY}.pdf").data.startswith(b"%PDF-")
    # The closed report stays as it was.
    assert total(client, revision=1) == before


def test_a_month_that_is_not_complete_or_not_closed_is_refused(service):
    client = create_app(service=service).test_client()
    records = body(journal("on", start=START, end_state=None))
    client.post("/v1/jobs/on/records", data=records, content_type=NDJSON)
    refused = client.post(f"{MAY}/close")
    assert (refused.status_code, refused.json["code"]) == (409, "conflict")
    assert "1 job still runs (on)" in refused.json["detail"]
    assert client.post(f"{MAY}/reopen", json={"reason": "why"}).json["code"] == "conflict"
    assert client.post(f"{MAY}/reopen", json={}).status_code == 422
    assert client.post("/v1/reports/monthly/2035-01/close").json["code"] == "no-data"


def test_reopening_keeps_its_reason_and_ends_the_restatement(service, clock):
    client = create_app(service=service).test_client()
    post_job(client, 0)
    run(service, "monthly-reports")
    assert client.post(f"{MAY}/close").json == client.post(f"{MAY}/close").json
    clock.turn(hours=1)
    client.patch("/v1/jobs/job-0", json={"pue": 1.3})
    clock.turn(hours=1)
    run(service, "monthly-reports")
    assert steps(client)[1]["from_revision"] == 1
    clock.turn(hours=1)
    client.patch("/v1/jobs/job-0", json={"pue": 1.35})
    run(service, "monthly-reports")
    assert steps(client)[1]["from_revision"] == 1  # of the closed report, not of the one before
    opened = client.post(f"{MAY}/reopen", json={"reason": "audit found a hall"}).json
    assert (opened["closed"], opened["closings"][0]["reason"]) == (False, "audit found a hall")
    client.patch("/v1/jobs/job-0", json={"pue": 1.4})
    run(service, "monthly-reports")
    assert steps(client)[1]["from_revision"] == 3
    said = [row["action"] for row in client.get("/v1/audit").json["entries"]]
    assert [a for a in said if a.startswith("month-")] == ["month-reopened", "month-closed"]


def test_a_restatement_beyond_the_limit_is_told_once(service, clock):
    client = create_app(service=service).test_client()
    post_job(client, 0)
    run(service, "monthly-reports")
    client.post(f"{MAY}/close")
    clock.turn(hours=1)

    def told():
        rows = outbox_page(service, 50, None)["messages"]
        return [row["target"] for row in rows if row["channel"] == "email"]

    client.patch("/v1/jobs/job-0", json={"pue": 1.26})
    run(service, "monthly-reports")
    assert (client.get(MAY).json["revision"], told()) == (2, [])
    client.patch("/v1/jobs/job-0", json={"pue": 2})
    run(service, "monthly-reports", "monthly-reports")
    assert (client.get(MAY).json["revision"], told()) == (3, ["lead@example.org"])
    assert json.loads(json.dumps(steps(client)[1]))["change_share"] > 0.05

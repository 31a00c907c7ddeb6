"""Suggestions over HTTP: questions, stored jobs, and rows that own measurements make."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from msgspec.structs import replace

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.records.records import DeviceRecord
from gramwatt.service import local_store
from gramwatt.service import suggest as own
from gramwatt.service.store.columns import read_job
from gramwatt.service.suggest import rows_of_own_jobs
from tests.journals import body, journal

QUESTION = {"hardware": "nvidia-v100-sxm2-16", "kind": "training", "zone": "DE", "hours": 10}
NDJSON = {"Content-Type": "application/x-ndjson"}


def test_every_candidate_is_answered_once(client):
    names = ["nvidia-l4", "nvidia-h100-sxm5-80", "nvidia-v100-sxm2-16", "google-tpu-v5e"]
    answer = client.post("/v1/suggestions", json={**QUESTION, "candidates": names})
    assert answer.status_code == 200
    rows = {row["target"]: row for row in answer.json["answers"] if row["target"]}
    assert list(rows) == ["nvidia-h100-sxm5-80", "nvidia-l4", "google-tpu-v5e"]
    assert rows["nvidia-h100-sxm5-80"]["odds"] == 0.95
    assert rows["google-tpu-v5e"]["odds"] is None  # no published power
    assert [(row["id"], row["word"]) for row in answer.json["left_out"]] == [
        ("nvidia-v100-sxm2-16", "as now")
    ]
    assert answer.json["summary"].startswith("What would help most: change to 1 x NVIDIA H100 SXM5")
    assert answer.json["estimate"]["device_hours"]["value"] == 10


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        ({"colour": "red"}, "invalid", None),
        ({"hours": "10"}, "invalid", None),
        ({"utilisation": 2}, "invalid", None),
        ({"count": 1.5}, "invalid", None),
        ({"hardware": "A1000000"}, "unanswerable", "unknown-hardware"),
        ({"candidates": ["nvidia-l44"]}, "unanswerable", "unknown-hardware"),
        ({"hardware": None, "kind": None}, "unanswerable", "missing-field"),
    ],
)
def test_a_wrong_question_is_refused(client, change, code, reason):
    answer = client.post("/v1/suggestions", json={**QUESTION, **change})
    assert (answer.status_code, answer.json["code"]) == (422, code)
    assert answer.json.get("reason") == reason


def test_a_stored_job_gets_suggestions_and_teaches(client, light):
    sent = client.post(
        "/v1/jobs/job-1/records", data=body(journal(kind="training")), headers=NDJSON
    )
    assert sent.status_code == 200
    answer = client.get("/v1/jobs/job-1/suggestions")
    assert answer.status_code == 200
    assert answer.json["compared_with"] == "resnet, 1 x NVIDIA H100 SXM5 80GB"
    assert {row["action"] for row in answer.json["answers"]} >= {"power-cap"}
    [row] = rows_of_own_jobs(light)
    # 30 images in three minutes at 600 W.
    assert (row.hardware, row.unit) == ("nvidia-h100-sxm5-80", "image")
    assert row.units_per_s == pytest.approx(30 / 180)
    assert row.power_w == pytest.approx(600)


def test_a_document_teaches_once_it_was_read_and_a_new_one_is_read(client, light, monkeypatch):
    send(client, "first", kind="training")
    assert len(rows_of_own_jobs(light)) == 1
    read: list[str] = []
    monkeypatch.setattr(own, "read_job", lambda text: read.append(text) or read_job(text))
    send(client, "second", kind="training")
    assert len(rows_of_own_jobs(light)) == len(rows_of_own_jobs(light)) == 2
    assert len(read) == 1
    client.delete("/v1/jobs/first")
    assert [row.job_id for row in rows_of_own_jobs(light)] == ["second"]
    assert len(read) == 1


def test_a_job_that_was_run_often_gets_kilograms_a_year(client):
    """Four runs since 10 May 8:00; it is 2 June 12:00: 4 x 365 / 23 runs a year."""
    for number in range(4):
        send(client, f"net-{number}", kind="inference", tags=SERVED, name="net")
    send(client, "once", kind="inference", tags=SERVED, name="once")

    def batching(job_id: str) -> Any:
        answer = client.get(f"/v1/jobs/{job_id}/suggestions").json["answers"]
        [said] = [one for one in answer if one["action"] == "batching"]
        return said

    often = batching("net-0")
    runs = often["yearly_kg"]["value"] / often["saved_g"]["value"] * 1000
    assert runs == pytest.approx(4 * 365 / 23, rel=1e-9)
    assert "4 runs of vision/net in 23 days" in often["yearly_kg"]["source"]
    assert batching("once")["yearly_kg"] is None


def test_an_unknown_job_is_not_guessed(client):
    answer = client.get("/v1/jobs/nothing/suggestions")
    assert (answer.status_code, answer.json["code"]) == (404, "unknown-job")


SERVED = {"model_parameters": "8e9", "batch_size": "8", "precision": "bf16"}


def send(client: FlaskClient, job_id: str, **about: object) -> None:
    sent = client.send(job_id, journal(job_id, minutes=60, **about))
    assert sent.status_code == 200


def test_the_month_says_what_would_help_most(client):
    send(client, "served", kind="inference", tags=SERVED)
    send(client, "idle", kind="inference")
    address = "/v1/reports/monthly/2026-05"
    saving, other = client.get(f"{address}.json").json["suggestions"]
    assert (saving["job_id"], saving["action"], saving["target"]) == ("served", "batching", None)
    assert (other["job_id"], other["action"]) == ("idle", "change-hardware")
    assert saving["saved_g"]["value"] > other["saved_g"]["value"]
    assert saving["carbon_ratio"]["high"] < 1
    job = client.get("/v1/jobs/served/suggestions").json["answers"]
    [same] = [one for one in job if one["action"] == "batching"]
    assert saving["saved_g"] == same["saved_g"]
    assert "What to do: the actions that save most" in client.get(f"{address}.html").text


def test_a_drawn_report_shows_what_own_jobs_teach_and_its_tag_follows(client):
    # On a grid where electricity outweighs the making of a part that is rented.
    send(client, "now", kind="training", name="net", zone="PL")
    page, data = "/v1/jobs/now/report.html", "/v1/jobs/now/report.json"
    before, document = client.get(page), client.get(data)
    again = client.get(page, headers={"If-None-Match": before.headers["ETag"]})
    assert again.status_code == 304
    assert "own runs of vision/net" not in before.text
    rows = journal("other", minutes=60, power_w=60.0, kind="training", name="net")
    changed = [replace(r, name="NVIDIA L4") if isinstance(r, DeviceRecord) else r for r in rows]
    sent = client.post("/v1/jobs/other/records", data=body(changed), headers=NDJSON)
    assert sent.status_code == 200
    after = client.get(page, headers={"If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200
    assert "own runs of vision/net on both" in after.text
    assert client.get(data).headers["ETag"] == document.headers["ETag"]


def test_the_store_of_this_machine_answers_for_a_job_as_people_call_it(client, light):
    records = body(journal(kind="training"))
    assert client.post("/v1/jobs/job-1/records", data=records, headers=NDJSON).status_code == 200
    by_http = client.get("/v1/jobs/job-1/suggestions").json
    for name in ("job-1", "last"):
        answer = local_store.suggest(light.config.home, name)
        assert answer["summary"] == by_http["summary"]
        assert [row["id"] for row in answer["answers"]] == [row["id"] for row in by_http["answers"]]
    with pytest.raises(ScoreError, match="unknown job 'other'"):
        local_store.suggest(light.config.home, "other")

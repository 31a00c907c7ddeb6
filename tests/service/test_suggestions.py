"""Suggestions over HTTP: questions, stored jobs, and rows that own measurements make."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from tests.service.journals import body, journal

QUESTION = {"hardware": "nvidia-v100-sxm2-16", "kind": "training", "zone": "DE", "hours": 10}
NDJSON = {"Content-Type": "application/x-ndjson"}


def test_every_candidate_is_judged_once(client: FlaskClient) -> None:
    names = ["nvidia-l4", "nvidia-h100-sxm5-80", "nvidia-v100-sxm2-16", "google-tpu-v5e"]
    answer = client.post("/v1/suggestions", json={**QUESTION, "candidates": names})
    assert answer.status_code == 200
    judged = [one for one in answer.json["suggestions"] if one["action"] == "change-hardware"]
    assert sorted(one["target"] for one in judged) == sorted(names)
    verdicts = {one["target"]: one["verdict"] for one in judged}
    assert verdicts["google-tpu-v5e"] == "unknown"
    assert verdicts["nvidia-v100-sxm2-16"] == "no-reliable-difference"
    assert answer.json["estimate"]["device_hours"]["value"] == 10


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        ({"colour": "red"}, "invalid", None),
        ({"hours": "10"}, "invalid", None),
        ({"utilisation": 2}, "invalid", None),
        ({"count": 1.5}, "unanswerable", "bad-field"),
        ({"hardware": "A100"}, "unanswerable", "ambiguous-hardware"),
        ({"candidates": ["nvidia-l44"]}, "unanswerable", "unknown-hardware"),
        ({"hardware": None}, "unanswerable", "missing-field"),
    ],
)
def test_a_wrong_question_is_refused(
    client: FlaskClient, change: dict[str, object], code: str, reason: str | None
) -> None:
    answer = client.post("/v1/suggestions", json={**QUESTION, **change})
    assert (answer.status_code, answer.json["code"]) == (422, code)
    assert answer.json.get("reason") == reason


def test_a_stored_job_gets_suggestions_and_teaches(client: FlaskClient) -> None:
    sent = client.post(
        "/v1/jobs/job-1/records", data=body(journal(kind="training")), headers=NDJSON
    )
    assert sent.status_code == 200
    answer = client.get("/v1/jobs/job-1/suggestions")
    assert answer.status_code == 200
    actions = {one["action"] for one in answer.json["suggestions"]}
    assert "keep" in actions
    [row] = client.get("/v1/suggestions/calibration").json["rows"]
    # 30 images in three minutes at 600 W.
    assert (row["hardware"], row["unit"]) == ("nvidia-h100-sxm5-80", "image")
    assert row["units_per_s"] == pytest.approx(30 / 180)
    assert row["power_w"] == pytest.approx(600)


def test_an_unknown_job_is_not_guessed(client: FlaskClient) -> None:
    answer = client.get("/v1/jobs/nothing/suggestions")
    assert (answer.status_code, answer.json["code"]) == (404, "unknown-job")

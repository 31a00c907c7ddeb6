"""Suggestions over HTTP: questions, stored jobs, and rows that own measurements make."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from gramwatt.sci.journal.records import DeviceRecord
from tests.journals import body, journal

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


def test_micro_benchmarks_of_this_home_come_before_the_public_table(
    client: FlaskClient, tmp_path: Path
) -> None:
    """Products 4 times and copies 2 times as fast: 4^-0.43456 x 2^-0.26368 = 0.4560 of the time;
    half the power at full load: 0.2280 of the boards' energy (fit.csv has the two weights)."""
    rows = [device_row("nvidia-v100-sxm2-16", 50, 800, 300, "10")]
    rows += [device_row("nvidia-l4", 200, 1600, 150, "11")]
    (tmp_path / "calibration.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = {**QUESTION, "precision": "fp16", "host_power_w": 1e-6, "candidates": ["nvidia-l4"]}
    answer = client.post("/v1/suggestions", json={**asked, "mean_power_w": 280})
    [said] = [one for one in answer.json["suggestions"] if one["target"] == "nvidia-l4"]
    assert (said["basis"], said["verdict"]) == ("calibrated", "lower")
    assert said["time_ratio"]["value"] == pytest.approx(0.4560, rel=1e-3)
    assert said["energy_ratio"]["value"] == pytest.approx(0.2280, rel=1e-3)
    assert "micro-benchmark of nvidia-l4 measured here on 2026-05-11" in said["sources"]
    one_only = {**asked, "candidates": ["nvidia-a30"]}
    [other] = [
        one
        for one in client.post("/v1/suggestions", json=one_only).json["suggestions"]
        if one["target"] == "nvidia-a30"
    ]
    assert not any("measured here" in source for source in other["sources"])


def device_row(part: str, tflops: float, gb_s: float, watts: float, day: str) -> dict[str, object]:
    def figure(value: float, unit: str) -> dict[str, object]:
        ends = {"value": value, "low": value * 0.95, "high": value * 1.05}
        return {**ends, "unit": unit, "kind": "measured", "source": "test"}

    kinds = (("matmul", "fp16", tflops, "Tflop/s"), ("copy", None, gb_s, "GB/s"))
    loads = [
        {
            "work": work,
            "precision": precision,
            "rate": figure(rate, unit),
            "power": figure(watts, "W"),
        }
        for work, precision, rate, unit in kinds
    ]
    names = ("device", "device_id", "driver", "software")
    return {
        "version": 1,
        "measured_at": f"2026-05-{day}T10:00:00Z",
        "hardware": part,
        "meter": "nvml",
        "seconds": 120.0,
        "power_limit_w": None,
        "idle_power": None,
        "held_power": None,
        "loads": loads,
        **dict.fromkeys(names, "test"),
    }


def test_a_job_that_was_run_often_gets_kilograms_a_year(client: FlaskClient) -> None:
    """Four runs since 10 May 8:00; it is 2 June 12:00: 4 x 365 / 23 runs a year."""
    for number in range(4):
        send(client, f"net-{number}", kind="inference", tags=SERVED, name="net")
    send(client, "once", kind="inference", tags=SERVED, name="once")

    def batching(job_id: str) -> Any:
        answer = client.get(f"/v1/jobs/{job_id}/suggestions").json["suggestions"]
        [said] = [one for one in answer if one["action"] == "batching"]
        return said

    often = batching("net-0")
    runs = often["yearly_kg"]["value"] / often["saved_g"]["value"] * 1000
    assert runs == pytest.approx(4 * 365 / 23, rel=1e-9)
    assert "4 runs of vision/net in 23 days" in often["yearly_kg"]["source"]
    assert batching("once")["yearly_kg"] is None


def test_an_unknown_job_is_not_guessed(client: FlaskClient) -> None:
    answer = client.get("/v1/jobs/nothing/suggestions")
    assert (answer.status_code, answer.json["code"]) == (404, "unknown-job")


SERVED = {"model_parameters": "8e9", "batch_size": "8", "precision": "bf16"}


def send(client: FlaskClient, job_id: str, **about: object) -> None:
    records = body(journal(job_id, minutes=60, **about))  # type: ignore[arg-type]
    sent = client.post(f"/v1/jobs/{job_id}/records", data=records, headers=NDJSON)
    assert sent.status_code == 200


def test_the_month_says_what_would_help_most(client: FlaskClient) -> None:
    send(client, "served", kind="inference", tags=SERVED)
    send(client, "idle", kind="inference")
    address = "/v1/reports/monthly/2026-05"
    saving, other = client.get(f"{address}.json").json["suggestions"]
    assert (saving["job_id"], saving["action"], saving["target"]) == ("served", "batching", None)
    assert (other["job_id"], other["action"]) == ("idle", "stop-idle")
    assert saving["saved_g"]["value"] > other["saved_g"]["value"]
    assert saving["carbon_ratio"]["high"] < 1
    job = client.get("/v1/jobs/served/suggestions").json["suggestions"]
    [same] = [one for one in job if one["action"] == "batching"]
    assert saving["saved_g"] == same["saved_g"]
    assert "What to do: the actions that save most" in client.get(f"{address}.html").text
    assert "suggestion,served/batching,saved_g," in client.get(f"{address}.csv").text


def test_a_drawn_report_shows_what_own_jobs_teach_and_its_tag_follows(client: FlaskClient) -> None:
    # On a grid where electricity outweighs the making of a part that is rented.
    send(client, "now", kind="training", name="net", zone="PL")
    page, data = "/v1/jobs/now/report.html", "/v1/jobs/now/report.json"
    before, document = client.get(page), client.get(data)
    again = client.get(page, headers={"If-None-Match": before.headers["ETag"]})
    assert again.status_code == 304
    assert "Change hardware to nvidia-l4" not in before.text
    rows = journal("other", minutes=60, power_w=60.0, kind="training", name="net")
    changed = [replace(r, name="NVIDIA L4") if isinstance(r, DeviceRecord) else r for r in rows]
    sent = client.post("/v1/jobs/other/records", data=body(changed), headers=NDJSON)
    assert sent.status_code == 200
    after = client.get(page, headers={"If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200
    assert "Change hardware to nvidia-l4" in after.text
    assert client.get(data).headers["ETag"] == document.headers["ETag"]

"""Quotas of projects: off unless set, refused with what to do, and nothing lost."""

from dataclasses import replace

import pytest

from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.config import from_environment
from gramwatt.service.jobs.intake import lines as intake
from tests.journals import body, journal

NDJSON = "application/x-ndjson"


@pytest.fixture
def with_quotas(service, monkeypatch):
    """Makes a client of an app with these limits; batches are of four lines."""
    monkeypatch.setattr(intake, "BATCH_LINES", 4)

    def make(**limits):
        config = replace(service.config, quotas=limits)
        return create_app(service=replace(service, config=config)).test_client()

    return make


def send(client, job_id, **about):
    records = body(journal(job_id, **about))
    return client.post(f"/v1/jobs/{job_id}/records", data=records, content_type=NDJSON)


def refused(answer):
    assert (answer.status_code, answer.json["code"]) == (429, "quota-exceeded")
    return answer.json["quota"], answer.headers.get("Retry-After")


def used(client):
    text = client.get("/metrics").text
    rows = [row for row in text.splitlines() if row.startswith("gramwatt_project_quota_used{")]
    return {row.split('"')[1]: float(row.split()[-1]) for row in rows}


def test_lines_of_a_day_are_refused_until_midnight_and_then_taken(with_quotas, clock):
    client = with_quotas(lines_per_day={"vision": 8})
    assert refused(send(client, "job-1")) == ("lines_per_day", "43200")  # at noon
    assert used(client) == {"vision": 8}
    assert send(client, "job-2", project="speech").json["accepted"] == 9
    clock.turn(hours=12)
    answer = send(client, "job-1").json
    assert (answer["accepted"], answer["duplicate"]) == (1, 8)
    assert used(client) == {"vision": 1}
    page = client.get("/settings").text
    assert "lines_per_day" in page
    assert "vision=8" in page


def test_a_project_has_as_many_jobs_as_its_quota(with_quotas):
    client = with_quotas(jobs={"": 1, "speech": 2}, lines_per_day={"speech": 2e6})
    assert send(client, "job-1").status_code == 200
    assert refused(send(client, "job-2")) == ("jobs", None)
    assert client.get("/v1/jobs/job-2").status_code == 404
    assert send(client, "job-1").json["duplicate"] == 9
    for number in (3, 4):
        assert send(client, f"job-{number}", project="speech").status_code == 200
    assert '<td class="number">2,000,000</td>' in client.get("/settings").text
    client.delete("/v1/jobs/job-1")
    assert send(client, "job-2").status_code == 200


def test_stored_lines_are_counted_as_text_until_the_job_is_deleted(with_quotas, monkeypatch):
    monkeypatch.setattr("gramwatt.service.access.quotas._STORED_KNOWN_S", 0.0)
    size_b = len(body(journal("job-1"))) - len(journal("job-1"))  # without the ends of lines
    client = with_quotas(stored_mib={"vision": (size_b - 1) / 2**20})
    assert send(client, "job-1").status_code == 200
    assert used(client)["vision"] * 2**20 == pytest.approx(size_b, abs=3)
    assert refused(send(client, "job-2")) == ("stored_mib", None)
    client.delete("/v1/jobs/job-1")
    assert send(client, "job-2").status_code == 200


def test_reports_of_an_hour_are_rendered_and_others_not_counted(with_quotas, service):
    client = with_quotas(renders_per_hour={"vision": 2})
    send(client, "job-1")
    report = client.get("/v1/jobs/job-1/report.html")
    again = client.get(
        "/v1/jobs/job-1/report.html", headers={"If-None-Match": report.headers["ETag"]}
    )
    assert (report.status_code, again.status_code) == (200, 304)
    month = "/v1/reports/monthly/2026-05.html"
    assert client.get(f"{month}?project=vision").status_code == 200
    assert refused(client.get("/v1/jobs/job-1/report.html")) == ("renders_per_hour", "3600")
    bound = create_key(service, "bound", "read", ["vision"])["key"]
    headers = {"Authorization": f"Bearer {bound}"}
    assert refused(client.get(month, headers=headers))[0] == "renders_per_hour"
    assert client.get(month).status_code == 200  # of every project
    assert client.get("/v1/jobs/job-1/report.json").status_code == 200


def test_quotas_are_read_from_settings_and_off_without():
    given = {"GRAMWATT_QUOTA_JOBS": "1000 vision=5000 my%20team=10"}
    quotas = from_environment(given).quotas
    assert quotas["jobs"] == {"": 1000, "vision": 5000, "my team": 10}
    assert list(quotas) == ["jobs"]

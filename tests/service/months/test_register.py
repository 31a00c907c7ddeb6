"""The register of a month: every job, by the scores that a report was made of."""

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.service.app import create_app
from gramwatt.service.jobs.intake.ingest import ingest
from tests.journals import journal, lines

MAY = "/v1/reports/monthly/2026-05"
START = datetime(2026, 5, 4, 8, tzinfo=UTC)


@pytest.fixture
def client(service):
    for n in range(4):
        start = START + timedelta(days=n)
        ingest(
            service,
            f"job-{n}",
            lines(journal(f"job-{n}", start=start, power_w=500 + 10 * n, project=f"p{n % 2}")),
        )
    edge = datetime(2026, 5, 31, 23, 58, tzinfo=UTC)
    ingest(service, "edge", lines(journal("edge", start=edge, minutes=4, project="p0")))
    return create_app(service=service).test_client()


def grams(rows):
    return sum(row["total_g"]["value"] for row in rows if row["counted"])


def test_every_job_is_in_it_with_its_part_of_the_month_and_links_that_answer(client):
    found = client.get(f"{MAY}/jobs").json
    total = client.get(MAY).json["totals"]["total_g"]["value"]
    assert {row["job_id"] for row in found["jobs"]} == {"job-0", "job-1", "job-2", "job-3", "edge"}
    assert grams(found["jobs"]) == pytest.approx(total, rel=1e-12)
    (edge,) = (row for row in found["jobs"] if row["job_id"] == "edge")
    assert edge["energy_kwh"]["value"] == pytest.approx(600 * 2 / 60 / 1000)
    for row in found["jobs"]:
        for link in row["links"].values():
            assert client.get(link).status_code == 200, link
    own = client.get(f"{MAY}/jobs?project=p1").json["jobs"]
    assert {row["job_id"] for row in own} == {"job-1", "job-3"}
    assert client.get(MAY).json["jobs"] == found["jobs"]
    assert client.get("/v1/reports/monthly/2025-01/jobs").json["jobs"] == []


def test_the_csv_has_the_same_rows(client):
    text = client.get(f"{MAY}/jobs?format=csv")
    assert text.content_type.startswith("text/csv")
    assert text.data.startswith("\ufeff".encode())  # or spreadsheets take it for another encoding
    table = csv.DictReader(io.StringIO(text.data.decode("utf-8-sig")))
    rows = {row["job_id"]: row for row in table}
    for row in client.get(f"{MAY}/jobs").json["jobs"]:
        other = rows[row["job_id"]]
        assert float(other["total_g_value"]) == row["total_g"]["value"]
        assert other["factor_g_per_kwh_source"] == row["factor_g_per_kwh"]["source"]
        assert other["journal"] == row["links"]["journal"]


def test_a_kept_report_has_the_register_of_its_time_also_of_deleted_jobs(client):
    first = client.post(MAY).json
    kept = client.get(f"{MAY}?revision=1").data
    client.patch("/v1/jobs/job-0", json={"pue": 2})
    client.patch("/v1/jobs/job-1", json={"excluded": True, "reason": "a test"})
    client.delete("/v1/jobs/job-2")
    second = client.post(MAY).json
    assert (first["revision"], second["revision"]) == (1, 2)
    assert client.get(f"{MAY}?revision=1").data == kept
    then = client.get(f"{MAY}/jobs?revision=1").json["jobs"]
    assert then == first["jobs"]
    assert grams(then) == pytest.approx(first["totals"]["total_g"]["value"], rel=1e-12)
    now = {row["job_id"]: row for row in client.get(f"{MAY}/jobs").json["jobs"]}
    assert grams(now.values()) == pytest.approx(second["totals"]["total_g"]["value"], rel=1e-12)
    assert "job-2" not in now
    assert (now["job-0"]["score_revision"], now["job-0"]["corrections"]) == (2, 1)
    assert now["job-1"]["counted"] is False
    assert client.get(f"{MAY}/jobs?revision=9").json["code"] == "no-data"


def test_the_report_names_the_material_jobs_and_what_keys_of_sources_stand_for(client):
    page = client.get(f"{MAY}.html").text
    assert "Jobs by id" in page
    assert "score revision 1" in page
    assert "What the keys stand for" in page
    assert "https://" in page[page.index("What the keys stand for") :]
    assert client.get(f"{MAY}.pdf").data.startswith(b"%PDF-")

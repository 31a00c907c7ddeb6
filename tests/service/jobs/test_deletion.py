"""Deleting a job: its figures go, the record of the deletion stays, and no line brings it back."""

import threading

import pytest
import sqlalchemy as sa

from gramwatt.service.common.errors import DeletedJobError
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import month_report
from gramwatt.service.store.models import Job
from gramwatt.service.store.months import MonthSum
from gramwatt.service.store.tables import METADATA
from tests.journals import journal, lines
from tests.service.keyed import add

GONE = {"deleted_at": "2026-06-02T12:00:00.000000Z", "deleted_by": "api"}


@pytest.fixture
def two(light):
    for name in ("job-1", "job-2"):
        add(light, name)
    return light


def test_a_deleted_job_is_gone_with_when_and_by_whom(client, two):
    answer = client.delete("/v1/jobs/job-1")
    assert (answer.status_code, answer.json) == (200, {"job_id": "job-1", **GONE, "reason": None})
    assert [job["job_id"] for job in client.get("/v1/jobs").json["jobs"]] == ["job-2"]
    for method, address in (
        ("get", "/v1/jobs/job-1"),
        ("get", "/v1/jobs/job-1/report"),
        ("get", "/v1/jobs/job-1/report.pdf"),
        ("get", "/v1/jobs/job-1/revisions"),
        ("get", "/v1/jobs/job-1/intervals"),
        ("get", "/v1/jobs/job-1/suggestions"),
        ("delete", "/v1/jobs/job-1"),
    ):
        gone = getattr(client, method)(address)
        assert gone.content_type == "application/problem+json"
        assert (gone.status_code, gone.json["code"]) == (410, "deleted-job")
        assert {name: gone.json[name] for name in GONE} == GONE
        assert "2026-06-02 12:00 UTC by api" in gone.json["detail"]
    assert client.patch("/v1/jobs/job-1", json={"zone": "DE"}).status_code == 410


def test_lines_that_are_sent_again_do_not_bring_it_back(client, two):
    client.delete("/v1/jobs/job-1")
    again = client.send("job-1", journal())
    assert (again.status_code, again.json["code"]) == (410, "deleted-job")
    assert client.get("/v1/jobs/job-1").status_code == 410


def test_nothing_of_it_is_left_but_the_record(service):
    add(service)
    delete_job(service, "job-1", by="u-1")
    with service.store.read() as session:
        left = {
            table.name: session.scalar(sa.select(sa.func.count()).select_from(table))
            for table in METADATA.tables.values()
        }
        sums = session.execute(sa.select(MonthSum.document, MonthSum.advice)).all()
    assert [left.pop(name) for name in ("deletions", "audit", "people")] == [1, 1, 1]
    assert left.pop("month_sums") == len(sums) == 2  # how often they changed, and no name
    assert set(sums) == {(None, None)}
    assert left == dict.fromkeys(left, 0)
    with pytest.raises(DeletedJobError, match="by u-1"):
        job_document(service, "job-1")


def test_an_unknown_job_cannot_be_deleted(client, two):
    answer = client.delete("/v1/jobs/job-3")
    assert (answer.status_code, answer.json["code"]) == (404, "unknown-job")
    assert client.get("/v1/jobs").json["jobs"] != []


def test_a_kept_month_is_made_again_without_it(client, two, clock):
    clock.turn(days=1)
    assert month_report(two, "2026-05").totals.jobs == 2
    clock.turn(hours=1)
    client.delete("/v1/jobs/job-1")
    found = month_report(two, "2026-05")
    # 3 minutes at 600 W are 0.03 kWh.
    assert found.totals.energy_kwh.value == pytest.approx(0.03)
    assert (found.totals.jobs, len(found.deletions)) == (1, 1)


def test_a_running_job_may_be_deleted(client, light):
    add(light, "job-1", end_state=None)
    assert client.delete("/v1/jobs/job-1").status_code == 200
    with pytest.raises(DeletedJobError):
        add(light)


def test_an_upload_at_the_same_time_does_not_bring_it_back(service):
    """Writers that send the same job while it is deleted, again and again."""
    sent = lines(journal())
    for round_number in range(2):
        name = f"job-{round_number}"
        mine = [line.replace(b'"job-1"', f'"{name}"'.encode()) for line in sent]
        ingest(service, name, mine)
        refused = []

        def send(name=name, mine=mine, refused=refused):
            for _ in range(10):
                try:
                    ingest(service, name, mine, score=False)
                except DeletedJobError:
                    refused.append(name)

        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        delete_job(service, name, by="u-1")
        for thread in threads:
            thread.join()
        with pytest.raises(DeletedJobError):
            ingest(service, name, mine)
        with service.store.read() as session:
            assert session.scalars(sa.select(Job.job_id)).all() == []

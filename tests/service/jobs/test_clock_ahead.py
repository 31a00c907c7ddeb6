"""A job of a clock that was ahead is accepted, said, and does not lead the lists until that day."""

from datetime import timedelta

from gramwatt.service.jobs.documents import job_document
from tests.service.keyed import add, client_of


def test_a_job_dated_next_year_is_said_and_later_jobs_come_before_it(service, clock):

    ahead = clock.now + timedelta(days=300)
    add(service, "ahead", start=ahead)
    clock.turn(hours=2)
    add(service, "right", start=clock.now - timedelta(hours=1))
    notices = {n.code: n.message for n in job_document(service, "ahead").document.notices}
    assert notices["clock-ahead"].startswith(
        "lines that came by 2026-06-02 12:00 UTC speak of 2027-"
    )
    codes = {n.code for n in job_document(service, "right").document.notices}
    assert "clock-ahead" not in codes
    ask = client_of(service)
    rows = ask.get("/v1/jobs").json["jobs"]
    assert rows[0]["job_id"] == "right"
    assert rows[1]["started_at"].startswith("2027-")
    ask.patch("/v1/jobs/ahead", json={"name": "n"})
    assert ask.get("/v1/jobs").json["jobs"][0]["job_id"] == "right"


def test_clocks_that_are_minutes_apart_are_not_said(service, clock):
    start = clock.now - timedelta(seconds=3600 - 240)
    add(service, "job-1", start=start)
    assert "clock-ahead" not in {n.code for n in job_document(service, "job-1").document.notices}

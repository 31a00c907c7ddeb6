"""Intervals are deleted after the days that they are kept; scores and months stay."""

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from gramwatt.service.config import ConfigError, from_environment
from gramwatt.service.container import Service
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.store.journal import Count, Interval, Statement
from gramwatt.service.store.models import Job
from gramwatt.service.tasks.scheduler import Scheduler
from gramwatt.service.tasks.upkeep import score_pending
from tests.journals import START, Writer, journal, lines
from tests.service.keyed import add, client_of, with_settings


@pytest.fixture
def kept_30_days(service):
    config = replace(service.config, keep_intervals={"": timedelta(days=30)})
    return Service(config, service.store)


@pytest.fixture
def client(kept_30_days):
    return client_of(kept_30_days)


def rows(service):
    with service.store.read() as session:
        tables = (Interval, Count, Statement)
        return [session.scalar(sa.select(sa.func.count()).select_from(t)) for t in tables]


def run_task(service):
    scheduler = Scheduler(service)
    assert scheduler.run("retention")
    scheduler.stop()


def test_old_intervals_go_and_scores_and_months_stay(client, kept_30_days, clock):
    """The job ended on 10 May 2026; it is kept until 9 June."""
    clock.now = START
    add(kept_30_days)
    before = rows(kept_30_days)
    report = client.get("/v1/jobs/job-1/report").json
    month = client.get("/v1/reports/monthly/2026-05").json["totals"]
    clock.turn(days=30)
    run_task(kept_30_days)
    assert rows(kept_30_days) == before
    clock.turn(days=1)
    run_task(kept_30_days)
    assert rows(kept_30_days) == [0, 0, before[2]]
    assert client.get("/v1/jobs/job-1/report").json == report
    assert client.get("/v1/reports/monthly/2026-05").json["totals"] == month
    runs = client.get("/v1/schedules?task=retention").json["runs"]
    assert [run["outcome"] for run in runs] == ["done", "done"]
    (schedule,) = [
        row for row in client.get("/v1/schedules").json["schedules"] if row["task"] == "retention"
    ]
    assert "GRAMWATT_RETENTION_DAYS" in schedule["what"]


def test_what_needs_the_intervals_says_that_they_are_gone(client, kept_30_days, clock):
    clock.now = START
    add(kept_30_days)
    clock.turn(days=31)
    run_task(kept_30_days)
    revisions = client.get("/v1/jobs/job-1/revisions").json
    late = Writer("n1", "late", "job-1", t0=START)
    refused = {
        "rescore": client.post("/v1/jobs/job-1/rescore", json={"reason": "x"}),
        "correct": client.patch("/v1/jobs/job-1", json={"zone": "DE"}),
        "list": client.get("/v1/jobs/job-1/intervals"),
        "add": client.send("job-1", [late.job()]),
    }
    for what, answer in refused.items():
        assert (answer.status_code, answer.json["code"]) == (409, "intervals-deleted"), what
        assert "deleted on 2026-06-10" in answer.json["detail"], what
    # The same lines again are known, and change nothing.
    assert client.send("job-1", journal()).json["accepted"] == 0
    score_pending(kept_30_days)
    assert client.get("/v1/jobs/job-1/revisions").json == revisions
    assert client.delete("/v1/jobs/job-1").status_code == 200


def test_name_tags_and_exclusion_can_be_corrected_without_intervals(client, kept_30_days, clock):
    clock.now = START
    add(kept_30_days)
    before = client.get("/v1/jobs/job-1/report").json
    clock.turn(days=31)
    run_task(kept_30_days)
    given = {"name": "renamed", "tags": {"team": "vision"}, "excluded": True, "reason": "a test"}
    answer = client.patch("/v1/jobs/job-1", json=given)
    assert (answer.status_code, answer.json["revision"]) == (200, 2)
    report = client.get("/v1/jobs/job-1/report").json
    said = ("name", "excluded", "revision")
    assert [report[field] for field in said] == ["renamed", "a test", 2]
    assert report["tags"] == {**before["tags"], "team": "vision"}
    assert {row["field"] for row in report["corrections"]} == {"name", "tags.team", "excluded"}
    changed = {*said, "tags", "corrections"}
    assert {name for name in report if report[name] != before[name]} == changed
    assert client.get("/v1/jobs?tag=team:vision").json["jobs"][0]["name"] == "renamed"
    month = client.get("/v1/reports/monthly/2026-05").json
    assert [row["reason"] for row in month["excluded"]] == ["a test"]
    again = client.patch("/v1/jobs/job-1", json={"excluded": False})
    assert (again.status_code, again.json["revision"]) == (200, 3)
    totals = client.get("/v1/reports/monthly/2026-05").json["totals"]
    assert totals["total_g"]["value"] == pytest.approx(before["total_g"]["value"], rel=1e-12)
    refused = client.patch("/v1/jobs/job-1", json={"tags": {"unit_values": "x"}})
    assert (refused.status_code, refused.json["code"]) == (409, "intervals-deleted")


def test_a_job_that_runs_or_has_no_score_keeps_its_intervals(client, kept_30_days, clock):
    clock.now = START
    add(kept_30_days, "runs", end_state=None)
    ingest(kept_30_days, "ended", lines(journal("ended")), score=False)
    before = rows(kept_30_days)
    clock.turn(days=365)
    run_task(kept_30_days)
    assert rows(kept_30_days) == before


def test_a_project_keeps_its_intervals_for_its_own_time(service, clock):
    clock.now = START
    for name in ("vision", "speech"):
        add(service, name, project=name)
    for kept, left in (({"vision": 30}, ["speech"]), ({"": 30, "vision": 60}, [])):
        days = {project: timedelta(days=number) for project, number in kept.items()}
        clock.turn(days=31)
        run_task(with_settings(service, keep_intervals=days))
        with service.store.read() as session:
            have = sa.select(Job.project).where(Job.intervals_deleted_us.is_(None))
            assert list(session.scalars(have)) == left


def test_without_the_setting_nothing_is_deleted(service, clock):
    clock.now = START
    add(service)
    before = rows(service)
    clock.turn(days=3650)
    run_task(service)
    assert rows(service) == before


def test_a_retention_is_whole_days():
    for text in ["0", "0.5", "1.5", "-1", "forever", "1e8"]:
        with pytest.raises(ConfigError, match="GRAMWATT_RETENTION_DAYS"):
            from_environment({"GRAMWATT_RETENTION_DAYS": text})
        kept = from_environment({"GRAMWATT_RETENTION_DAYS": "90 vision=7"}).keep_intervals
        assert kept == {"": timedelta(days=90), "vision": timedelta(days=7)}

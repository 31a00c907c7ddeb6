"""Scoring beside the uploads: in the background of a server, and running jobs within a budget."""

import time
from dataclasses import replace

import pytest
import sqlalchemy as sa

from gramwatt.service.app import create_app
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.jobs.scoring import score_provisionally
from gramwatt.service.store.models import Job
from gramwatt.service.tasks import rescoring
from gramwatt.service.tasks.rescoring import ScoringWorker
from gramwatt.service.tasks.upkeep import refresh_running, score_pending
from tests.journals import START, Writer, journal, lines
from tests.service.keyed import add


def scored(service):
    with service.store.read() as session:
        wanted = sa.select(Job.job_id).where(Job.scored_version == Job.version)
        return sorted(session.scalars(wanted))


def wait_until(done, seconds=60.0):
    ends = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_an_upload_leaves_the_score_to_the_worker(service):
    worker = ScoringWorker(service)
    client = create_app(service=replace(service, score_later=worker.add)).test_client()
    for name in ("job-1", "job-2"):
        answer = client.send(name, journal(name))
        assert answer.json["accepted"] == 9
    assert scored(service) == []
    worker.start()
    wait_until(lambda: scored(service) == ["job-1", "job-2"])
    assert worker.stop(60.0)


def test_what_the_worker_had_not_scored_is_scored_by_the_task(light):
    worker = ScoringWorker(light)  # never started, as in a server that is killed
    ingest(replace(light, score_later=worker.add), "job-1", lines(journal()))
    assert scored(light) == []
    score_pending(light)
    assert scored(light) == ["job-1"]


def test_one_job_that_fails_does_not_end_the_worker(light, monkeypatch, caplog):
    done = []

    def fails_once(_service, key):
        done.append(key)
        if key == 1:
            raise RuntimeError("a bug")

    monkeypatch.setattr(rescoring, "score_when_closed", fails_once)
    worker = ScoringWorker(light)
    for key in (1, 2, 2):
        worker.add(key)
    worker.start()
    wait_until(lambda: done == [1, 2])
    assert worker.stop(60.0)
    assert "a job cannot be scored" in caplog.text


def test_running_jobs_are_scored_again_only_for_new_lines_and_within_a_budget(light, clock):
    clock.now = START
    for name in ("job-1", "job-2", "job-3"):
        add(light, name, end_state=None)
    assert refresh_running(light, budget_s=0.0) == 0
    assert refresh_running(light) == 3
    clock.turn(hours=1)
    assert refresh_running(light) == 0
    writer = Writer("w2", "n1", "job-2")
    ingest(light, "job-2", lines([writer.interval(0, 60, 6e4, "GPU-x")]))
    assert refresh_running(light) == 1


def test_the_score_of_a_running_job_lacks_a_fiftieth_of_its_time_at_most(light, clock):
    """100 hours of a job, with an interval each 5 minutes: 2 hours later it is scored again."""
    writer = Writer("w2", "n1", "job-1", t0=START)
    clock.now = START
    ingest(light, "job-1", lines([writer.job(), writer.device("GPU-x")]))
    clock.turn(hours=98)
    assert refresh_running(light) == 1
    scored_after_min = []
    for minute in range(0, 360, 5):
        ingest(light, "job-1", lines([writer.interval(minute, minute + 1, 60, "GPU-x")]))
        clock.turn(minutes=5)
        if refresh_running(light):
            scored_after_min.append(minute + 5)
    # After 98 h / 49 = 2 h; then after 100 h / 49 = 122.4 min, which is at 245 min.
    assert scored_after_min == [120, 245]


@pytest.mark.parametrize("known", [0, 1])
def test_the_oldest_score_comes_first(light, clock, monkeypatch, known):
    """Where job-2's score is an hour older it comes before job-1, else in order of arrival."""
    clock.now = START
    for name in ("job-1", "job-2"):
        add(light, name, end_state=None)
    if known:
        with light.store.read() as session:
            keys = {job.job_id: job.id for job in session.scalars(sa.select(Job))}
        score_provisionally(light, keys["job-2"])
        clock.turn(hours=1)
        score_provisionally(light, keys["job-1"])
        clock.turn(hours=1)
        for name in keys:
            writer = Writer("w2", "n1", name)
            ingest(light, name, lines([writer.interval(0, 60, 6e4, "GPU-x")]))
    met = []
    monkeypatch.setattr(
        "gramwatt.service.tasks.upkeep.score_provisionally", lambda _s, key: met.append(key)
    )
    refresh_running(light)
    assert met == ([2, 1] if known else [1, 2])

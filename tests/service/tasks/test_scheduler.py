"""Periodic work: one leader, what the tasks do, and that each is safe to repeat."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
import sqlalchemy as sa

from gramwatt.service.config import utc_now
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import find_job, job_document, rescore
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import month_report
from gramwatt.service.store.models import Score
from gramwatt.service.store.months import MonthlyReport
from gramwatt.service.tasks.leader import leader_of
from gramwatt.service.tasks.scheduler import Scheduler
from gramwatt.service.tasks.table import TASKS, Task
from tests.journals import START, journal, lines
from tests.service.keyed import add, with_settings
from tests.service.processes import eventually


def twin(service: Service) -> Service:
    """The same store, opened as another process would."""
    return Service.open(service.config)


def test_one_leads_and_the_next_takes_over(service):
    other = twin(service)
    first, second = leader_of(service.store), leader_of(other.store)
    assert [first.leads(), second.leads(), first.leads()] == [True, False, True]
    first.resign()
    assert [second.leads(), first.leads()] == [True, False]
    second.resign()
    other.store.close()


def test_threads_of_the_leading_process_all_lead(service):
    leader = leader_of(service.store)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: leader.leads(), range(32))) == [True] * 32
    leader.resign()


@pytest.mark.long
def test_the_death_of_a_leader_frees_the_lead(service):
    url = service.store.url.render_as_string(hide_password=False)
    code = (
        "import sys, os; from gramwatt.service.store.database import Store; "
        "from gramwatt.service.tasks.leader import leader_of; "
        "leader = leader_of(Store(sys.argv[1])); "
        "print(leader.leads(), flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline().strip() == "True"
        leader = leader_of(service.store)
        assert leader.leads() is False
        child.kill()
    eventually(leader.leads, 60, lambda: "the lead was not freed")
    leader.resign()


def test_who_does_not_lead_does_nothing(light):
    other = twin(light)
    leading, following = Scheduler(light), Scheduler(other)
    assert leading.run("close-silent") is True
    assert following.run("score-pending") is False
    leading.stop()
    assert following.run("score-pending") is True
    following.stop()
    other.store.close()


def test_a_failing_task_is_logged_and_ends_nothing(light, caplog):
    def fail(service):
        raise RuntimeError("disk on fire")

    scheduler = Scheduler(light, {"fail": Task(timedelta(minutes=1), fail)})
    assert scheduler.run("fail") is True
    assert "task fail failed" in caplog.text
    assert "disk on fire" in caplog.text
    scheduler.stop()


ALONE = ("score-pending", "close-silent", "monthly-reports")
"""Tasks that make a score or a report of the jobs below; the others leave what is there."""


@pytest.mark.parametrize("names", [*((name,) for name in ALONE), sorted({*TASKS} - {*ALONE})])
def test_each_task_is_safe_to_repeat_by_several_at_once(service, clock, names):
    """One job ended unscored in May, one fell silent in June: four threads do the same task."""
    ingest(service, "job-1", lines(journal()), score=names != ("score-pending",))
    add(service, "job-2", start=clock.now, end_state=None)
    clock.turn(minutes=20)
    for name in names:
        with ThreadPoolExecutor(4) as threads:
            done = [threads.submit(TASKS[name].action, service) for _ in range(4)]
        assert [task.exception() for task in done] == [None] * 4, name
    with service.store.read() as session:
        revisions = session.execute(sa.select(Score.job, Score.revision)).all()
        reports = session.scalars(sa.select(MonthlyReport.month)).all()
    assert len(revisions) == (2 if names == ("close-silent",) else 1)
    assert {row.revision for row in revisions} == {1}
    assert set(reports) == ({"2026-05"} if names == ("monthly-reports",) else set())


def test_the_scheduler_closes_a_silent_job_by_its_own_clock(service, clock):
    add(service, "job-1", end_state=None)
    scheduler = Scheduler(service)
    clock.turn(minutes=14)
    scheduler.run("close-silent")
    assert job_document(service, "job-1").document.state == "running"
    clock.turn(minutes=1)
    scheduler.run("close-silent")
    document = job_document(service, "job-1").document
    assert (document.state, document.revision) == ("lost", 1)
    scheduler.stop()


def test_what_a_crash_left_unscored_is_scored(light):
    ingest(light, "job-1", lines(journal()), score=False)
    scheduler = Scheduler(light)
    scheduler.run("score-pending")
    with light.store.read() as session:
        job = find_job(session, "job-1")
    assert (job.revision, job.scored_version) == (1, job.version)
    scheduler.stop()


def test_reports_of_ended_months_are_made_once_and_again_when_a_score_changes(service, clock):
    clock.now = datetime(2026, 5, 31, 23, 0, tzinfo=UTC)
    add(service)
    add(service, "job-0", start=START - timedelta(days=20))
    scheduler = Scheduler(service)
    scheduler.run("monthly-reports")
    assert kept(service) == ["2026-04"]
    clock.now = datetime(2026, 6, 1, 0, 30, tzinfo=UTC)
    scheduler.run("monthly-reports")
    assert kept(service) == ["2026-04", "2026-05"]
    clock.turn(hours=1)
    scheduler.run("monthly-reports")
    assert kept(service) == ["2026-04", "2026-05"]
    first = month_report(service, "2026-05")
    assert (first.complete, first.totals.jobs, first.previous.jobs) == (True, 1, 1)
    clock.turn(hours=1)
    longer_lived = with_settings(service, lifetime_years=5.0)
    rescore(longer_lived, "job-1", "test")
    scheduler.run("monthly-reports")
    assert kept(service) == ["2026-04", "2026-05", "2026-05"]
    scheduler.stop()


def test_months_that_ended_while_no_process_ran_are_made_up(light, clock):
    for month in (1, 2, 4):
        name, start = f"job-{month}", datetime(2026, month, 10, 8, tzinfo=UTC)
        add(light, name, start=start)
    scheduler = Scheduler(light)
    scheduler.run("monthly-reports")  # in June, for the first time
    assert kept(light) == ["2026-01", "2026-02", "2026-04"]
    scheduler.stop()


def kept(service):
    with service.store.read() as session:
        return sorted(session.scalars(sa.select(MonthlyReport.month)))


def test_started_it_runs_every_task_at_once_and_stops_cleanly(light):
    ran = []
    tasks = {
        name: Task(timedelta(hours=1), lambda _, name=name: ran.append(name)) for name in TASKS
    }
    running = with_settings(light, clock=utc_now)
    scheduler = Scheduler(running, tasks)
    scheduler.start()
    eventually(lambda: len(ran) >= len(tasks), 60)
    scheduler.stop()
    assert sorted(ran) == sorted(TASKS)


def test_a_process_that_just_takes_the_lead_stops_at_once(light, monkeypatch):
    begun, stopping = Event(), Event()

    def expect(_):
        begun.set()
        stopping.wait()
        time.sleep(0.3)  # until the scheduler waits for what runs

    monkeypatch.setattr("gramwatt.service.tasks.scheduler.expect", expect)
    scheduler = Scheduler(with_settings(light, clock=utc_now))
    scheduler.start()
    assert begun.wait(30)
    stopping.set()
    assert scheduler.stop(30)

"""The periodic work over real processes: restarts, and leaders that die or are stopped."""

import signal
import time
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from gramwatt.service.config import sqlite_url
from gramwatt.service.store.database import Store
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.store.models import Job
from gramwatt.service.store.serving import Listening, TaskRun
from gramwatt.service.tasks.table import TASKS
from tests.journals import body, journal
from tests.service.processes import eventually, get, running, send, serving


@pytest.mark.long
def test_a_restart_after_an_hours_downtime_closes_no_running_job(tmp_path):
    """The hour is made by setting the times in the store back, after the first server's death."""
    with serving(tmp_path) as (process, address):
        send(address, "job-1", body(journal(start=datetime.now(UTC), end_state=None)))
        process.popen.kill()
        process.popen.wait()
    store = Store(sqlite_url(tmp_path / "home" / "gramwatt.db"))
    hour_us = 3_600_000_000
    with store.write() as session:
        session.execute(sa.update(Job).values(heard_us=Job.heard_us - hour_us))
        earlier = {"since_us": Listening.since_us - hour_us, "beat_us": Listening.beat_us - hour_us}
        session.execute(sa.update(Listening).values(earlier))
        session.execute(sa.delete(TaskRun))
    store.close()
    with serving(tmp_path) as (process, address):
        runs = f"{address}/v1/schedules?task=close-silent"
        eventually(lambda: [r for r in get(runs)["runs"] if r["outcome"] == "done"], 60)
        assert get(f"{address}/v1/jobs/job-1")["state"] == "running"
        assert process.end() == 0


@pytest.mark.long
def test_a_stopped_leader_is_replaced_and_notices_when_it_wakes(new_postgres, tmp_path):
    """On PostgreSQL, which ends the session of a leader that it does not hear."""
    database_url = new_postgres()
    settings = {"GRAMWATT_DATABASE_URL": database_url}
    store = Store(database_url)
    upgrade(store)

    def rests():
        """Whether every task has run, and none is at work."""
        with store.read() as session:
            done = session.scalars(sa.select(TaskRun.task).where(TaskRun.outcome != "running"))
            going = session.scalars(sa.select(TaskRun.id).where(TaskRun.outcome == "running"))
            return set(done) == set(TASKS) and not going.all()

    def newest():
        with store.read() as session:
            wanted = sa.select(TaskRun.host).order_by(TaskRun.id.desc()).limit(1)
            return (session.scalar(wanted) or "").rpartition(":")[2]

    with running(tmp_path, "gramwatt", "serve", "--only-tasks", **settings) as first:
        eventually(lambda: newest() == str(first.popen.pid), 60)
        with running(tmp_path, "gramwatt", "serve", "--only-tasks", **settings) as second:
            second.says("periodic work")
            eventually(rests, 60)
            first.popen.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            eventually(lambda: newest() == str(second.popen.pid), 60)
            assert time.monotonic() - stopped <= 45  # 15 s, and a machine at a third of its speed
            first.popen.send_signal(signal.SIGCONT)
            first.says("no longer leads", 60)
            assert second.end() == 0
            # The second gave the lead up, so the first need not wait until it is thought dead.
            eventually(lambda: newest() == str(first.popen.pid), 60)
        assert first.end() == 0
    store.close()

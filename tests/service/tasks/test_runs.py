"""What is recorded of periodic tasks, and how it is shown."""

from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from gramwatt.service.access import sessions
from gramwatt.service.access.keys import authenticate, create_key, list_keys
from gramwatt.service.api.support import answered_once
from gramwatt.service.config import sqlite_url
from gramwatt.service.container import Caller
from gramwatt.service.store.serving import TaskRun
from gramwatt.service.tasks import runs
from gramwatt.service.tasks.leader import beat, expect
from gramwatt.service.tasks.scheduler import Scheduler
from gramwatt.service.tasks.table import TASKS, Task
from gramwatt.service.tasks.upkeep import close_silent
from tests.service.cli.command import gramwatt
from tests.service.keyed import add

DEPLOY = Path(__file__).parents[3] / "deploy"


def fail(service):
    raise RuntimeError("disk on\nfire")


def test_every_run_is_recorded_with_its_outcome_and_error(service, clock):
    tasks = {
        "good": Task(timedelta(minutes=1), lambda _: clock.turn(seconds=3)),
        "bad": Task(timedelta(minutes=1), fail),
    }
    scheduler = Scheduler(service, tasks)
    assert scheduler.run("good")
    assert scheduler.run("bad")
    scheduler.stop()
    found = runs.schedules(service).runs
    assert [(run.task, run.outcome, run.error) for run in found] == [
        ("bad", "failed", "RuntimeError; see the log of this server"),
        ("good", "done", None),
    ]
    assert (found[1].started_at, found[1].ended_at) == (
        "2026-06-02T12:00:00.000000Z",
        "2026-06-02T12:00:03.000000Z",
    )


def test_of_each_task_only_the_newest_runs_are_kept(service):
    other = runs.begin(service, "rare", "h:1")
    for _ in range(runs.KEPT + 5):
        runs.end(service, runs.begin(service, "often", "h:1"), None)
    with service.store.read() as session:
        wanted = sa.select(TaskRun.task, sa.func.count()).group_by(TaskRun.task)
        counted = {name: count for name, count in session.execute(wanted)}
        assert session.get(TaskRun, other) is not None
    assert counted == {"often": runs.KEPT, "rare": 1}


def test_a_run_whose_process_died_is_called_interrupted_by_the_next_leader(light):
    key = runs.begin(light, "retention", "h:1")
    runs.interrupt(light)
    runs.end(light, key, None)  # the process was only stopped and wakes up
    (run,) = runs.schedules(light).runs
    assert (run.outcome, run.ended_at) == ("interrupted", None)


@pytest.mark.parametrize(
    ("outcome", "minutes"), [("done", 60), ("failed", 5), ("interrupted", 5), (None, 0)]
)
def test_a_task_is_due_by_its_last_run(light, clock, outcome, minutes):
    now_us = light.now_us()
    if outcome:
        key = runs.begin(light, "retention", "h:1")
        if outcome == "interrupted":
            runs.interrupt(light)
        else:
            runs.end(light, key, "no" if outcome == "failed" else None)
    due = runs.due_us(light, {"retention": TASKS["retention"]})
    assert due == {"retention": now_us + minutes * 60_000_000}


def test_only_time_in_which_a_server_listened_counts_as_silence(light, clock):
    add(light, "job-1", start=clock.now, end_state=None)
    expect(light)
    for _ in range(14 * 6):  # 14 minutes
        beat(light)
        clock.turn(seconds=10)
    clock.turn(hours=3)  # no server; the scheduler of another process goes on
    assert close_silent(light) == []
    for _ in range(15 * 6):
        beat(light)
        assert close_silent(light) == []
        clock.turn(seconds=10)
    beat(light)
    assert close_silent(light) == ["job-1"]


def test_a_restart_shorter_than_two_beats_counts_as_listening(service, clock):
    add(service, "job-1", start=clock.now, end_state=None)
    for _ in range(15 * 3):
        beat(service)
        clock.turn(seconds=20)
    assert close_silent(service) == []  # the last beat was 20 s ago, at 14:40
    beat(service)
    assert close_silent(service) == ["job-1"]


def test_the_route_pages_through_the_runs(client, light, clock):
    for number in range(5):
        runs.end(light, runs.begin(light, "close-silent", "h:1"), "no" if number == 2 else None)
        clock.turn(minutes=1)
    first = client.get("/v1/schedules?limit=3&task=close-silent").json
    second = client.get(f"/v1/schedules?limit=3&cursor={first['next_cursor']}").json
    outcomes = [run["outcome"] for run in first["runs"] + second["runs"]]
    assert outcomes == ["done", "done", "failed", "done", "done"]
    assert second["next_cursor"] is None
    rows = {row["task"]: row for row in first["schedules"]}
    assert set(rows) == set(TASKS)
    assert rows["close-silent"]["next_at"] == "2026-06-02T12:05:00.000000Z"
    assert rows["close-silent"]["last_success_at"] == "2026-06-02T12:04:00.000000Z"
    assert rows["score-pending"]["last_run"] is None
    assert client.get("/v1/schedules?cursor=x").status_code == 422
    unknown = client.get("/v1/schedules?task=unknown")
    assert (unknown.status_code, unknown.json["code"]) == (422, "invalid")
    assert "close-silent" in unknown.json["detail"]


def test_the_page_shows_tasks_runs_and_errors_as_text(client, light):
    runs.end(light, runs.begin(light, "close-silent", "h:1"), "<b>no</b>")
    page = client.get("/schedules")
    assert page.status_code == 200
    text = page.get_data(as_text=True)
    assert "&lt;b&gt;no&lt;/b&gt;" in text
    assert "close jobs that fell silent" in text
    assert "No run is recorded" in client.get("/schedules?task=none").get_data(as_text=True)


def test_the_command_lists_tasks_and_runs(tmp_path):
    url = ("--database-url", sqlite_url(tmp_path / "gramwatt.db"))
    code, _, err = gramwatt("admin", "tasks", *url)
    assert (code, "gramwatt admin db upgrade" in err) == (1, True)
    assert gramwatt("admin", "db", "upgrade", *url)[0] == 0
    code, out, _ = gramwatt("admin", "tasks", *url)
    assert code == 0
    assert "close-silent      every 1 min  never ran" in out
    assert "no run yet" in out


def test_a_run_of_a_clock_that_was_ahead_is_due_now(light, clock):
    """Else the periodic work would stop until that day, and nobody would be told."""
    clock.turn(days=180)
    runs.end(light, runs.begin(light, "close-silent", "h:1"), None)
    clock.turn(days=-180)
    (due_us,) = runs.due_us(light, {"close-silent": TASKS["close-silent"]}).values()
    assert due_us == light.now_us()
    runs.end(light, runs.begin(light, "close-silent", "h:1"), None)
    (success,) = runs.task_measures(light)[0].values.values()
    assert success == light.now_us() / 1e6  # of the newest run, not of the latest time


def test_what_was_kept_while_the_clock_was_ahead_holds_nothing_up(service, clock):
    key = create_key(service, "k", "read").key
    caller = Caller("ada", credential="c")

    def once():
        return answered_once(service, "c", "one", "request", lambda: clock.now.isoformat())

    clock.turn(days=180)
    authenticate(service, key, "local")
    cookie = sessions.open_session(service, caller)
    assert sessions.caller_of(service, cookie, "local")
    before = once()
    clock.turn(days=-180)
    assert sessions.caller_of(service, cookie, "local") is None
    assert once() != before
    authenticate(service, key, "local")
    assert list_keys(service).keys[0].last_used_at.startswith("2026-06-02")


def test_the_alert_fires_where_nobody_ever_led_and_after_a_clock_was_ahead():
    rules = yaml.safe_load((DEPLOY / "prometheus-alerts.yaml").read_text())["groups"][0]["rules"]
    (expression,) = [rule["expr"] for rule in rules if rule["alert"] == "GramwattNobodyLeads"]
    metric = 'gramwatt_task_last_success_timestamp_seconds{task="close-silent"}'
    assert expression.split("or") == [f"abs(time() - max({metric})) > 900 ", f" absent({metric})"]

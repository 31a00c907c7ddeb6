"""`gramwatt budget`, and `gramwatt run --budget` as a user starts it."""

import json
import os
import re
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.cli.common import open_service
from gramwatt.service.store.migrate import upgrade
from tests.patient import PATIENT, within_one_day
from tests.service.cli.command import gramwatt
from tests.service.keyed import add
from tests.service.listening import listening

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def spent_kg(home):
    """What project `vision` has emitted this month [kgCO2e], by the score of its one job."""
    with open_service() as service:
        upgrade(service.store)
        within_one_day()
        now = datetime.now(UTC)
        first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        start = max(first, now - timedelta(minutes=4))
        add(service, "job-1", start=start)
    return json.loads(gramwatt("job", "job-1", "--json")[1])["total_g"]["value"] / 1000


def run(*options, home, start=PATIENT, **settings):
    """`gramwatt run OPTIONS -- echo started` as a process."""
    command = [*start, "run", *options, "--", "echo", "started"]
    env = {**os.environ, "GRAMWATT_HOME": str(home), "GRAMWATT_QUIET": "1", **settings}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=90)
    return done.returncode, done.stdout, done.stderr


def test_budgets_by_command(spent_kg):
    code, out, _ = gramwatt("budget", "list")
    assert (code, out) == (0, "no budget; set one: gramwatt budget set PROJECT KG\n")
    options = ("vision", str(spent_kg / 0.6), "--email", "lead@example.org")
    code, out, _ = gramwatt("budget", "set", *options)
    assert (code, "threshold-reached" in out, ", 60%" in out) == (0, True, True)
    assert re.search(r"^In \d{4}-\d\d   [\d.]+ m?g CO2e \([\d.]+ to [\d.]+\), 60%$", out, re.M)
    assert re.search(r"^Alerts to    lead@example\.org$", out, re.M)
    code, out, _ = gramwatt("budget", "list", "--json")
    (row,) = json.loads(out)["budgets"]
    assert (row["project"], row["spent_share"]) == ("vision", pytest.approx(0.6))
    assert gramwatt("budget", "check", "vision")[0] == 0
    gramwatt("budget", "set", "vision", str(spent_kg), "--threshold", "90")
    assert gramwatt("budget", "check", "vision")[0] == 1
    assert gramwatt("budget", "check", "speech")[0] == 1
    assert gramwatt("budget", "outbox")[1] == "no message\n"
    assert gramwatt("budget", "rm", "vision")[:2] == (0, "removed\n")
    assert gramwatt("budget", "rm", "vision")[0] == 1


def test_wrong_budgets_are_wrong_usage():
    for options, named in (
        (("vision", "0"), "limit_kg"),
        (("vision", "1", "--month", "2026-13"), "YYYY-MM"),
        (("vision", "1", "--webhook", "http://10.0.0.1/"), "https"),
        (("vision", "1", "--email", "lead"), "name@host"),
        (("vision", "1", "--threshold", "0"), "percentage"),
    ):
        code, out, err = gramwatt("budget", "set", *options)
        assert (code, out, named in err, err.count("\n")) == (2, "", True, 1)


def test_a_spent_budget_refuses_the_start(spent_kg, home):
    gramwatt("budget", "set", "vision", str(spent_kg / 2))
    code, out, err = run("--budget", "--project", "vision", home=home)
    assert (code, out) == (1, "")
    assert "200%; the command is not started" in err


def test_a_threshold_that_is_reached_is_said_and_the_command_runs(spent_kg, home):
    gramwatt("budget", "set", "vision", str(spent_kg / 0.6))
    code, out, err = run("--budget", "--project", "vision", home=home)
    assert (code, out) == (0, "started\n")
    assert "budget: project 'vision' has spent" in err
    assert "60%" in err


def test_an_unknown_budget_keeps_a_command_back_if_strict(home):
    code, out, err = run("--budget", "--strict", "--project", "vision", home=home)
    assert (code, out) == (1, "")
    assert "the command is not started (--strict)" in err


def test_a_server_that_does_not_answer_costs_a_second(home):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        hasty = (sys.executable, "-m", "gramwatt")
        code, out, err = run("--budget", "--server", url, home=home, start=hasty)
    assert (code, out) == (0, "started\n")
    assert "does not answer within 1 s; the command starts" in err


def test_a_server_refuses_for_a_spent_budget(spent_kg, home):
    gramwatt("budget", "set", "vision", str(spent_kg))
    with open_service() as service, listening(create_app(service=service)) as url:
        options = ("--budget", "--server", url, "--project", "vision")
        key = create_key(service, "jobs", "ingest", ["vision"]).key
        code, out, err = run(*options, home=home / "elsewhere", GRAMWATT_API_KEY=key)
    assert (code, out) == (1, "")
    assert ": spent; the command is not started" in err

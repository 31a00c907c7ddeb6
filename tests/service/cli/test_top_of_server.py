"""`gramwatt top --server`: the running jobs that a server knows, and errors in one line."""

import json
import os
import pty
import subprocess
import sys
from datetime import timedelta

import pytest
import typer
from typer.testing import CliRunner

from gramwatt.collectors.cli.top import top as command
from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.jobs.ingest import ingest
from tests.journals import START, journal, lines
from tests.service.keyed import add
from tests.service.listening import listening

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def address(light, clock, monkeypatch):
    clock.now = START + timedelta(minutes=3)
    for name, watts, about in (("job-1", 600.0, {}), ("job-2", 100.0, {"project": "speech"})):
        records = journal(name, power_w=watts, end_state=None, pue=1.5, name=name, **about)
        ingest(light, name, lines(records))
    add(light, "ended", pue=1.5)
    monkeypatch.setenv("GRAMWATT_API_KEY", create_key(light, "watch", "read", ["vision"]).key)
    with listening(create_app(service=light)) as found:
        yield found


def top(*arguments):
    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.stderr


def test_running_jobs_that_the_key_may_read_with_power_carbon_and_work(address):
    code, out, err = top("--server", address, "--json")
    assert (code, err) == (0, "")
    (job,) = json.loads(out)["jobs"]
    assert (job["job_id"], job["unit"]) == ("job-1", "image")
    assert job["power_w"]["value"] == pytest.approx(600)
    # 10 images a minute; France by the year, at a PUE of 1.5, and embodied carbon beside it.
    assert job["units_per_s"] == pytest.approx(10 / 60)
    assert job["power_w"]["low"] < 600 < job["power_w"]["high"]
    assert job["g_per_h"]["value"] > 0.6 * 1.5 * 20
    code, out, err = top("--server", address, "--once")
    assert (code, err) == (0, "")
    assert "600 W" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_a_server_that_refuses_or_is_away_is_one_line(address, monkeypatch):
    monkeypatch.setenv("GRAMWATT_API_KEY", "gw_wrong_key")
    code, out, err = top("--server", address)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"`gramwatt login {address}` stores one of scope read" in err
    code, out, err = top("--server", "http://127.0.0.1:9")
    assert (code, out) == (1, "")
    assert "http://127.0.0.1:9 cannot be reached" in err


def test_an_address_that_is_none_is_wrong_usage(home):
    code, out, err = top("--server", "example.org", "--once")
    assert (code, out) == (2, "")
    assert err == "gramwatt: --server: not an http:// or https:// address: 'example.org'\n"


def test_a_server_that_goes_away_is_said_after_the_screen_is_given_back(light, monkeypatch):
    monkeypatch.setenv("GRAMWATT_API_KEY", create_key(light, "watch", "read").key)
    with listening(create_app(service=light)) as address:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "gramwatt", "top", "--interval", "1", "--server", address]
        child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown = b""
        while b"No job runs" not in shown:
            shown += os.read(ours, 65536)
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # the child has closed the terminal
        pass
    finally:
        os.close(ours)
    assert child.wait(60) == 1
    leave_screen = b"\x1b[?1049l"
    assert f"{address} cannot be reached".encode() in shown.partition(leave_screen)[2]

"""`gramwatt run --when-greenest` as a user starts it: plans, waiting, and who ends it."""

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.collectors.settings.config import PARSERS
from tests.answering import answering, send
from tests.service.cli.command import gramwatt

pytestmark = pytest.mark.usefixtures("home")

FIGURES = {"unit": "gCO2e/kWh", "kind": "estimated", "source": "test"}


class Planner:
    """Answers every plan with a window that begins `wait_s` from now; takes no records."""

    def __init__(self, wait_s):
        self.wait_s, self.asked, self.start, self.url = wait_s, [], None, ""

    def act(self, handler):
        sent = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        if handler.path != "/v1/plans":
            handler.send_error(503)
            return
        self.asked.append(json.loads(sent))
        send(handler, json.dumps(self.plan()).encode())

    def plan(self):
        self.start = datetime.now(UTC) + timedelta(seconds=self.wait_s)
        times = (f"{self.start + timedelta(hours=hours):%Y-%m-%dT%H:%M:%S.%fZ}" for hours in (0, 2))
        slot = {"zone": "ES", **dict(zip(("start", "end"), times, strict=True))}
        saving = {"low": 0.3, "value": 0.4, "high": 0.5, "unit": "1", **FIGURES}
        return {
            "plan": [slot],
            "intensity_g_per_kwh": {"low": 190, "value": 200, "high": 210, **FIGURES},
            "now_intensity_g_per_kwh": {"low": 300, "value": 330, "high": 360, **FIGURES},
            "saving_ratio": saving,
            "summary": "Wait until eight: about 40 % less than starting now.",
            "advice": "wait",
            "method": "forecast",
            "notices": [],
        }


@pytest.fixture
def planner():
    """Starts a planner with windows that begin after so many seconds; gives it."""
    with ExitStack() as stack:

        def start(wait_s):
            planner = Planner(wait_s)
            planner.url = stack.enter_context(answering(planner.act))
            return planner

        yield start


@pytest.fixture
def history(home, tmp_path):
    """Spain at 400 gCO2e/kWh, and at 200 for the hours around 8 h from now, every day."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    start = (now - timedelta(days=130)).replace(hour=0)
    rows = ["start_utc,g_per_kwh"]
    for hour in range((now - start) // timedelta(hours=1)):
        moment = start + timedelta(hours=hour)
        ahead = (moment.hour - now.hour) % 24
        rows.append(f"{moment:%Y-%m-%dT%H:%MZ},{200 if 6 <= ahead <= 10 else 400}")
    path = tmp_path / "es.csv"
    path.write_text("\n".join(rows))
    flags = ("--zone", "ES", "--basis", "lifecycle", "--signal", "average")
    assert gramwatt("import", "intensity", str(path), *flags)[0] == 0


@pytest.fixture(autouse=True)
def interruptible():
    """Commands notice Ctrl-C, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def command(*options, zone="ES"):
    return [sys.executable, "-m", "gramwatt", "run", "--zone", zone, *options, "--", "echo", "ran"]


WAITS = ("--when-greenest", "--deadline", "24h", "--expected-hours", "2")


def environment(home, **settings):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "GRAMWATT_"))}
    return {**clean, "GRAMWATT_HOME": str(home), "GRAMWATT_QUIET": "1", **settings}


def run(*options, home, zone="ES", **settings):
    done = subprocess.run(
        command(*options, zone=zone),
        env=environment(home, **settings),
        capture_output=True,
        text=True,
        timeout=90,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.long
def test_the_job_begins_with_the_command_in_its_window(home, planner):
    server = planner(8)
    code, out, err = run(*WAITS, "--server", server.url, "--project", "vision", home=home)
    assert (code, out) == (0, "ran\n")
    assert err.count("Wait until eight: about 40 % less than starting now.") == 1
    assert "starts in" not in err  # no countdown in a pipe
    (asked,) = server.asked
    assert (asked["hours"], asked["zone"]) == (2, "ES")
    (journal,) = (path for path in home.rglob("*.jsonl") if asked["job_id"] in str(path))
    records = map(json.loads, journal.read_text().splitlines())
    job = next(record for record in records if record["type"] == "job")
    assert job["job_id"] == asked["job_id"]
    assert datetime.fromisoformat(job["started_at"]) >= server.start
    assert job["tags"]["planned_start"] == f"{server.start:%Y-%m-%dT%H:%M:%SZ}"
    assert 0 < int(job["tags"]["waited_s"]) <= 8


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_waiting_without_a_start(home, planner, number, code):
    server = planner(3600)
    with subprocess.Popen(
        command(*WAITS, "--server", server.url),
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stderr.readline().startswith("gramwatt: Wait until eight")
        waiting.send_signal(number)
        out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (code, "")
    assert err == "gramwatt: cancelled while waiting; the command was not started\n"


@pytest.mark.parametrize(("answer", "code", "ran"), [("s", 0, True), ("l", 130, False)])
def test_on_a_terminal_ctrl_c_asks(home, planner, answer, code, ran):
    server = planner(3600)
    master, slave = pty.openpty()
    with subprocess.Popen(
        command(*WAITS, "--server", server.url),
        env=environment(home),
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
    ) as waiting:
        os.close(slave)
        read_until(master, "starts in 1:00:00")
        waiting.send_signal(signal.SIGINT)
        read_until(master, "[s/w/L]")
        os.write(master, b"w\n")
        read_until(master, "starts in ")
        waiting.send_signal(signal.SIGINT)
        read_until(master, "[s/w/L]")
        os.write(master, b"later\n")  # no answer: it is asked again
        read_until(master, "[s/w/L]")
        os.write(master, f"{answer}\n".encode())
        out, _ = waiting.communicate(timeout=60)
    os.close(master)
    assert (waiting.returncode, out) == (code, b"ran\n" if ran else b"")


def read_until(terminal, wanted):
    seen = ""
    while wanted not in seen:
        seen += os.read(terminal, 4096).decode()


def test_slurm_is_told_when_to_begin_in_its_own_time(history, home):
    settings = {"SLURM_JOB_ID": "7", "TZ": "Asia/Tokyo"}
    code, out, err = run(*WAITS, home=home, **settings)
    assert (code, out) == (2, "")
    assert "waiting would hold this Slurm allocation" in err
    begin = datetime.fromisoformat(err.rpartition("sbatch --begin=")[2].strip())
    ahead = begin - timedelta(hours=9) - datetime.now(UTC).replace(tzinfo=None)
    assert timedelta(hours=4) < ahead < timedelta(hours=11)


def test_without_known_hours_the_command_starts_at_once(home):
    code, out, err = run(*WAITS, zone="TW", home=home)
    assert (code, out) == (0, "ran\n")
    assert "The hours of TW are not known" in err
    assert err.count("The command starts at once.\n") == 1


def test_nobody_answers_starts_at_once(home):
    code, out, err = run(*WAITS, "--server", "http://127.0.0.1:9", home=home)
    assert (code, out) == (0, "ran\n")
    assert "No plan: http://127.0.0.1:9 cannot be reached (Connection refused)" in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--when-greenest",), "--deadline 12h"),
        (("--deadline", "12h"), "belong to --when-greenest"),
        (("--when-greenest", "--deadline", "soon"), "write 90m, 12h, 2d or"),
        (("--when-greenest", "--deadline", "12h"), "no run of 'echo' in 'default' yet; say how"),
        ((*WAITS[:-1], "0"), "more than 0"),
    ],
)
def test_wrong_use_is_exit_2_in_one_line(home, options, said):
    code, out, err = run(*options, home=home)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert said in err


WRONG = {
    "project": "x" * 600,
    "name": "x" * 600,
    "kind": "guessing",
    "unit": "9 lives",
    "region": "aws:nowhere",
    "zone": "Atlantis",
    "cloud_metadata": "perhaps",
    "pue": "0.5",
    "model_id": "x" * 600,
    "server": "http://[127.0.0.1",
    "api_key": "a\tb\r\nc",
    "allow_http": "perhaps",
    "home": "/proc/no/home",
    "allow_host_names": "perhaps",
    "spool_limit_mb": "-1",
    "lifetime_years": "never",
    "overlay": "/proc/no/overlay.toml",
    "tags": "no pair",
    "metrics": "0.0.0.0:1",
}
"""A wrong value of every setting."""


def test_every_setting_has_a_wrong_value():
    assert WRONG.keys() == PARSERS.keys()


TOGETHER = (
    ("project", "name", "kind", "unit", "model_id", "tags"),
    ("pue", "lifetime_years", "spool_limit_mb"),
    ("cloud_metadata", "allow_http", "allow_host_names"),
)
"""Settings whose wrong values do not hide each other: a run has them all."""
ALONE = tuple((key,) for key in WRONG if not any(key in keys for keys in TOGETHER))


@pytest.mark.parametrize(
    "options",
    [(), pytest.param((*WAITS, "--budget"), marks=pytest.mark.long)],
    ids=["no option", "every option"],
)
@pytest.mark.parametrize("keys", TOGETHER + ALONE, ids=",".join)
def test_whatever_a_setting_says_the_command_starts(home, tmp_path, keys, options):
    line = [sys.executable, "-m", "gramwatt", "run", *options, "--", "echo", "ran"]
    clean = environment(home, TMPDIR=str(tmp_path), GRAMWATT_HOST_SOURCE="model")
    if keys != ("region",):
        clean["GRAMWATT_ZONE"] = "TW"
    wrong = {**clean, **{f"GRAMWATT_{key.upper()}": WRONG[key] for key in keys}}
    done = subprocess.run(line, env=wrong, capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    said = done.stderr.splitlines()
    assert [text for text in said if not text.startswith("gramwatt: ")] == []
    # One line for each option that could not do its work, and one for each setting.
    about = [text for text in said if text.endswith("[argument-ignored]")]
    assert len(about) <= len(keys)
    if options:
        assert sum("The command starts at once." in text for text in said) == 1
        assert sum("budget" in text and "the command starts" in text for text in said) == 1

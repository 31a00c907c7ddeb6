"""`gramwatt top`: rates of running jobs by hand, figures that are never cut, and a clean end."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import pytest

from gramwatt.collectors.settings.config import resolve
from gramwatt.collectors.settings.identity import node_id
from gramwatt.collectors.spool.live import live_jobs, mean_utilisation
from tests.documents import scored
from tests.journals import START, Writer, journal, lines

NODE = node_id(False)
LONG = '<b>=A1 "name"\u202e ' * 30


def processor(job_id, utilisation, energy_j=0.0):
    """Three minutes of the processor of a running job, in full use where that is 1."""
    meter = Writer("w2", NODE, job_id, t0=START)
    yield meter.device(f"{NODE}-cpu", device_class="cpu", name="Test Xeon", units=8.0)
    yield meter.interval(0, 180, energy_j, f"{NODE}-cpu", utilisation_mean=utilisation)


@contextmanager
def running(home, job_id, power_w, more=(), **about):
    """A spool folder whose meter lives: 3 minutes at a constant power, and 10 images a minute."""
    folder = home / "spool" / job_id / NODE
    folder.mkdir(parents=True)
    path = folder / "w1.jsonl"
    records = journal(job_id, node=NODE, power_w=power_w, end_state=None, pue=1.5, **about)
    records += more
    path.write_bytes(b"\n".join(lines(records)) + b"\n")
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_power_carbon_and_work_are_those_of_the_newest_readings(home):
    with running(home, "job-1", 600.0):
        (job,) = live_jobs(home, resolve(), START + timedelta(minutes=3, seconds=20))
    assert job.power_w.value == pytest.approx(600)
    # NVML states 5 %: 570 to 630 W.
    assert (job.power_w.low, job.power_w.high) == pytest.approx((570, 630))
    # Counted at 60, 120 and 180 s; the first amount began with the job.
    assert (job.unit, job.units_per_s) == ("image", pytest.approx(30 / 180))
    assert (job.duration_s, job.age_s, job.utilisation) == (200, 20, 0.5)
    document = scored(journal("job-1", node=NODE, end_state=None, pue=1.5))
    intensity = document.method.intensity_g_per_kwh.value
    embodied_g = document.embodied_g.value  # of 3 minutes: 20 times that an hour
    assert job.g_per_h.value == pytest.approx(0.6 * 1.5 * intensity + 20 * embodied_g)
    assert job.g_per_h.low < job.g_per_h.value < job.g_per_h.high


def test_work_that_stopped_is_none_a_second(home):
    with running(home, "job-1", 600.0):
        (job,) = live_jobs(home, resolve(), START + timedelta(minutes=20))
    assert (job.unit, job.units_per_s) == ("image", 0.0)


def test_use_is_that_of_the_accelerators_and_not_the_mean_with_the_processor(home):
    with running(home, "job-1", 600.0, processor("job-1", 0.04)):
        (job,) = live_jobs(home, resolve(), START + timedelta(minutes=3))
    assert job.utilisation == 0.5


def test_an_interval_that_has_just_begun_and_has_no_sample_does_not_hide_the_use(home):
    meter = Writer("w2", NODE, "job-1", t0=START)
    begun = meter.interval(180, 180.003, 1.8, f"GPU-{NODE}")
    with running(home, "job-1", 600.0, [*processor("job-1", 0.04), begun]):
        (job,) = live_jobs(home, resolve(), START + timedelta(minutes=3, seconds=1))
    assert job.utilisation == 0.5


def test_use_of_a_job_without_accelerators_is_the_processors():
    assert mean_utilisation([("cpu", 0.04), ("ram", None)]) == 0.04
    assert mean_utilisation([("gpu", 0.98), ("cpu", 0.04), ("gpu", 0.5)]) == pytest.approx(0.74)
    assert mean_utilisation([("gpu", None), ("cpu", 0.04)]) == 0.04
    assert mean_utilisation([("ram", None)]) is None


def top(*arguments, width="80"):
    command = [sys.executable, "-m", "gramwatt", "top", *arguments]
    environ = {**os.environ, "COLUMNS": width, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60)


def test_a_pipe_gets_one_table_whose_figures_are_whole_in_eighty_columns(home):
    with ExitStack() as stack:
        stack.enter_context(running(home, "job-1", 600.0, name=LONG))
        stack.enter_context(running(home, "job-2", 1200.0, zone=None))
        done = top()
        found = json.loads(top("--json").stdout)["jobs"]
    assert (done.returncode, done.stderr) == (0, "")
    rows = done.stdout.splitlines()
    assert max(map(len, rows)) <= 80
    assert rows[0].split() == ["Job", "Time", "Power", "CO2e/h", "Units/s", "Use"]
    first = next(row for row in rows if row.startswith("<b>"))
    assert " 600 W " in first
    assert first.rstrip().endswith("50 %")
    assert any("1.20 kW" in row for row in rows)
    assert any(row.startswith("all 2") and "1.80 kW" in row for row in rows)
    assert "\u202e" not in done.stdout
    assert any(row.startswith("* no SCI") for row in rows)
    assert "quits" not in done.stdout  # there is nothing to quit
    assert sorted(job["power_w"]["value"] for job in found) == pytest.approx([600, 1200])


def test_without_a_running_job_it_says_how_to_start_one(home):
    done = top("--once")
    assert done.returncode == 0
    assert "gramwatt run -- python" in done.stdout
    assert json.loads(top("--json").stdout) == {"jobs": []}


@pytest.mark.parametrize(
    ("typed", "terminal"), [(b"q", "xterm"), (b"\x03", "xterm"), (b"q", "dumb")]
)
def test_q_and_ctrl_c_end_it_with_code_0_and_the_terminal_as_it_was(home, typed, terminal):
    def begin():
        # Whoever runs the tests may ignore SIGINT, as a shell does for what it starts in the
        # background, and children inherit that: Python would then not hear of Ctrl-C.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gramwatt", "top", "--interval", "1"]
    with running(home, "job-1", 600.0):
        child = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=begin,
            env={**os.environ, "TERM": terminal},
        )
        os.close(theirs)
        shown = b""
        while shown.count(b"600 W") < (2 if terminal == "dumb" else 1):
            shown += os.read(ours, 65536)
        time.sleep(0.2)
        os.write(ours, typed)
        with ExitStack() as closing:
            closing.callback(os.close, ours)
            try:
                while data := os.read(ours, 65536):
                    shown += data
            except OSError:  # the child has closed the terminal
                pass
    assert child.wait(60) == 0
    assert b"q quits" in shown
    # Back from the alternate screen; a dumb terminal has none.
    assert (b"\x1b[?1049l" in shown, b"\x1b" in shown) == (terminal != "dumb",) * 2
    assert b"Traceback" not in shown

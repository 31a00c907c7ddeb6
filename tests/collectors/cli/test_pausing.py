"""`gramwatt run --pause-above` with real processes: who is stopped, for how long, who continues."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gramwatt import track
from gramwatt.collectors.cli.run.pausing import Limits, PauseRecord

pytestmark = pytest.mark.long

HIGH, LOW = 500.0, 100.0
LIMIT_S = 60.0


class Grid(ThreadingHTTPServer):
    """Answers with an intensity that is high from `calm_s` to `high_s`, else low, for a day.

    Both count from the first question: how long a busy machine takes to ask it is all one.
    """

    def __init__(self, high_s: float, calm_s: float = -3600.0, quality: str = "hourly") -> None:
        self._spans = [(-7200.0, calm_s, LOW), (calm_s, high_s, HIGH), (high_s, 86_400.0, LOW)]
        self._quality = quality
        super().__init__(("127.0.0.1", 0), Answers)

    @cached_property
    def asked_at(self) -> datetime:
        return datetime.now(UTC)

    @property
    def points(self) -> list[dict[str, Any]]:
        return [
            {
                "start": (self.asked_at + timedelta(seconds=start_s)).isoformat(),
                "end": (self.asked_at + timedelta(seconds=end_s)).isoformat(),
                "quality": self._quality,
                "intensity_g_per_kwh": {"value": value},
            }
            for start_s, end_s, value in self._spans
        ]

    @property
    def low_from(self) -> float:
        return (self.asked_at + timedelta(seconds=self._spans[1][1])).timestamp()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Grid)
        zone, _, span = self.path.removeprefix("/v1/intensity/").partition("?from=")
        assert zone == "ES"
        assert "&to=" in span
        content = json.dumps({"points": self.server.points, "forecast": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_error(503)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def grid() -> Iterator[Callable[..., Grid]]:
    """Starts the server of a grid, whose arguments it takes; gives it."""
    started = []

    def start(*spans_s: float, quality: str = "hourly") -> Grid:
        server = Grid(*spans_s, quality=quality)
        started.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    names = {k: v for k, v in os.environ.items() if not k.startswith(("GRAMWATT_", "SLURM_"))}
    return names | {
        "GRAMWATT_HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "GRAMWATT_HOST_SOURCE": "model",
        "GRAMWATT_QUIET": "1",
        "GRAMWATT_JOB_ID": "job-1",
        "TMPDIR": str(tmp_path),
    }


def line(server: str, command: list[str], *options: str) -> list[str]:
    run = [sys.executable, "-m", "gramwatt", "run", "--zone", "ES", "--server", server]
    return [*run, "--pause-above", "300", *options, "--", *command]


def run(
    environ: dict[str, str], server: str, command: list[str], *options: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line(server, command, *options), env=environ, capture_output=True, text=True, timeout=120
    )


TICKS = "import time\nfor _ in range(20): print(time.time(), flush=True); time.sleep(0.05)"
"""A second of work that says when it worked."""


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def windows(home: Path) -> list[tuple[datetime, datetime]]:
    """Start and end of the windows named "paused" in the journals of a home."""
    rows = [
        json.loads(row) for path in home.rglob("*.jsonl") for row in path.read_text().splitlines()
    ]
    times = [(row["since"], row["at"]) for row in rows if row.get("phase") == "paused"]
    return [(datetime.fromisoformat(start), datetime.fromisoformat(end)) for start, end in times]


def test_the_command_stands_still_while_the_intensity_is_high(
    environ: dict[str, str], grid: Callable[..., Grid], tmp_path: Path
) -> None:
    server = grid(8)
    done = run(environ, server.url, [sys.executable, "-c", TICKS])
    assert done.returncode == 0
    ticks = [float(text) for text in done.stdout.split()]
    assert len(ticks) == 20
    ((start, end),) = windows(tmp_path / "home")
    # It is stopped when it has hardly started, and continued at the next look, a second later.
    assert sum(tick < server.low_from for tick in ticks) < 10
    assert [tick for tick in ticks if start.timestamp() < tick < server.low_from] == []
    assert 0 <= end.timestamp() - server.low_from < 10
    assert end - start > timedelta(seconds=1)
    assert "paused: 500 gCO2e/kWh in ES is above 300; resumes at " in done.stderr
    assert ": 100 gCO2e/kWh in ES\n" in done.stderr
    assert not (tmp_path / "home" / "pauses" / "job-1.json").exists()


@contextmanager
def wrapper_of(
    environ: dict[str, str], server: str, command: list[str], *options: str
) -> Iterator[subprocess.Popen[str]]:
    """`gramwatt run` whose command is paused already; it does not outlive the block."""
    with subprocess.Popen(
        line(server, command, *options), env=environ, stderr=subprocess.PIPE, text=True
    ) as wrapper:
        try:
            assert wrapper.stderr
            assert wrapper.stderr.readline().startswith("gramwatt: paused: ")
            yield wrapper
        finally:
            wrapper.kill()


def stopped_child(parent: int) -> int:
    """The process of a parent that is stopped (T in proc(5)).

    Not for a shell that starts commands: stopped in its vfork it is D until its child goes on.
    """
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state, own = (path / "stat").read_text().rpartition(")")[2].split()[:2]
                if (state, int(own)) == ("T", parent):
                    return int(path.name)
        time.sleep(0.01)
    pytest.fail("no process is stopped")


def test_a_killed_wrapper_leaves_no_stopped_command(
    environ: dict[str, str], grid: Callable[..., Grid], tmp_path: Path
) -> None:
    ended = tmp_path / "ended"
    options = ("--deadline", "9h", "--expected-hours", "1")
    work = f"import time; time.sleep(0.5); open({str(ended)!r}, 'w')"
    command = [sys.executable, "-c", work]
    with wrapper_of(environ, grid(3600).url, command, *options) as wrapper:
        leader = stopped_child(wrapper.pid)
        wrapper.kill()
        until(ended.exists)
    until(lambda: not Path(f"/proc/{leader}").exists())
    # A second start goes by the deadline of the first.
    kept = json.loads((tmp_path / "home" / "pauses" / "job-1.json").read_text())
    first = datetime.fromisoformat(kept["deadline"])
    assert timedelta(hours=8, minutes=58) < first - datetime.now(UTC) < timedelta(hours=9)
    later = Limits(300, first + timedelta(hours=3), 1)
    assert PauseRecord(tmp_path / "home", "job-1").recall(later) == (
        replace(later, deadline=first),
        0.0,
    )


def test_a_signal_reaches_a_paused_command_and_ends_its_pause(
    environ: dict[str, str], grid: Callable[..., Grid]
) -> None:
    work = "import os, signal, time; signal.signal(15, lambda *_: os._exit(41)); time.sleep(60)"
    command = [sys.executable, "-c", work]
    server = grid(3600, 5)  # the handler is set by then
    with wrapper_of(environ, server.url, command) as wrapper:
        stopped_child(wrapper.pid)
        wrapper.send_signal(signal.SIGTERM)
        assert wrapper.stderr
        assert any("it was sent a signal" in line for line in wrapper.stderr)
        wrapper.wait(LIMIT_S)
    assert wrapper.returncode == 41


LATEST = re.compile(r"resumes at (\S+ \S+) UTC at the latest")


def test_no_pause_outlasts_the_deadline(environ: dict[str, str], grid: Callable[..., Grid]) -> None:
    """12 s from now less the 4 s that the command takes: it runs on after 8 s."""
    deadline = datetime.now(UTC) + timedelta(seconds=12)
    options = ("--deadline", deadline.isoformat(), "--expected-hours", f"{4 / 3600:.9f}")
    done = run(environ, grid(3600).url, [sys.executable, "-c", TICKS], *options)
    assert done.returncode == 0
    assert ": it needs the time until the deadline\n" in done.stderr
    latest = datetime.fromisoformat(LATEST.search(done.stderr)[1] + "+00:00")
    # In whole seconds; what it ran before its pause counts.
    assert deadline - timedelta(seconds=5) < latest < deadline - timedelta(seconds=1)
    last = datetime.fromtimestamp(float(done.stdout.split()[-1]), UTC)
    assert latest < last < deadline + timedelta(seconds=10)


@pytest.mark.parametrize(
    ("now", "ran_s", "paused_s", "expected"),
    [
        # Due at 20:00 and an hour long: 18:30 leaves 60 + 30 of its minutes.
        ("12:00", 0, 0, "19:00"),
        ("12:00", 1800, 7200, "19:30"),
        ("12:00", 7200, 0, "20:00"),
    ],
)
def test_latest_moment_to_run_on(now: str, ran_s: float, paused_s: float, expected: str) -> None:
    day = "2026-05-01T{}:00+00:00"
    rule = Limits(300, datetime.fromisoformat(day.format("20:00")), 1.0)
    latest = rule.latest_resume(datetime.fromisoformat(day.format(now)), ran_s, paused_s)
    assert latest == datetime.fromisoformat(day.format(expected))


CALLBACKS = """
import time
from gramwatt import track

calls = []

def saved():
    calls.append("saved")
    {body}

def restored():
    calls.append("restored")
    print("restored", time.time())

with track(on_pause=saved, on_resume=restored) as job:
    step, ends = 0, 10**9
    while step < ends:
        time.sleep(0.1)
        job.count(1)
        print(step, time.time(), flush=True)
        step += 1
        if ends == 10**9 and {last!r} in calls:
            ends = step + 15
"""
"""Works until a second after the last of the calls it expects."""


def test_trackers_save_before_a_pause_and_load_after_it(
    environ: dict[str, str], grid: Callable[..., Grid]
) -> None:
    server = grid(10, 4)  # they have loaded when it begins to be high
    code = CALLBACKS.format(body='print("saved", time.time())', last="restored")
    done = run(environ, server.url, [sys.executable, "-c", code])
    assert done.returncode == 0
    names = [text.split()[0] for text in done.stdout.splitlines()]
    assert names.count("saved") == names.count("restored") == 1
    saved, restored = names.index("saved"), names.index("restored")
    assert restored == saved + 1  # no step between them
    steps = [name for name in names if name.isdigit()]
    assert steps == [str(step) for step in range(len(steps))]
    at = float(done.stdout.splitlines()[restored].split()[1])
    assert at >= server.low_from


def test_a_checkpoint_that_fails_pauses_nothing(
    environ: dict[str, str], grid: Callable[..., Grid]
) -> None:
    code = CALLBACKS.format(body="1 / 0", last="saved")
    done = run(environ, grid(3600, 4).url, [sys.executable, "-c", code])
    assert done.returncode == 0
    assert done.stderr.count("on_pause failed (ZeroDivisionError") == 1
    assert "paused: " not in done.stderr


def test_an_unknown_intensity_pauses_nothing_and_strict_refuses(
    environ: dict[str, str], grid: Callable[..., Grid]
) -> None:
    server = grid(3600, quality="annual")
    done = run(environ, server.url, ["echo", "ran"])
    assert (done.returncode, done.stdout) == (0, "ran\n")
    why = "the intensity of ES over time is not known, only its annual value"
    assert f"--pause-above: {why}; the command is not paused\n" in done.stderr
    done = run(environ, server.url, ["echo", "ran"], "--strict")
    assert (done.returncode, done.stdout) == (1, "")
    assert why in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pause-above", "0"), "more than 0 and at most 5000"),
        (("--deadline", "soon"), "write 90m, 12h, 2d or"),
        (("--deadline", "9h"), "could not be asked"),
    ],
)
def test_wrong_use(environ: dict[str, str], options: tuple[str, ...], said: str) -> None:
    done = run(environ, "http://127.0.0.1:9", ["true"], *options)
    assert said in done.stderr
    assert done.returncode == (0 if said == "could not be asked" else 2)


def test_a_callback_that_cannot_be_called_is_ignored_or_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is no function is named once; with `strict` where `track` is written."""
    with pytest.raises(TypeError, match="on_pause is a function without arguments, not 3"):
        track(on_pause=3, strict=True)
    track(on_resume="later")
    said = capsys.readouterr().err
    assert said.count("on_resume is a function without arguments, not 'later'; it is ignored") == 1

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.oddserver import OddServer

RUN = [sys.executable, "-m", "gramwatt", "run"]
WAIT_S = 60.0


@pytest.fixture
def environ(tmp_path):
    """A clean environment with a home of its own; meters left behind end with their parents."""
    names = {k: v for k, v in os.environ.items() if not k.startswith(("GRAMWATT_", "SLURM_"))}
    home = tmp_path / "home"
    return names | {
        "GRAMWATT_HOME": str(home),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "GRAMWATT_HOST_SOURCE": "model",
        "GRAMWATT_SERVER": "http://127.0.0.1:9",  # nobody is there: scoring is tested elsewhere
    }


def run(
    environ: dict[str, str], *command: str, options: tuple[str, ...] = (), **more: Any
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*RUN, *options, "--", *command], capture_output=True, env=environ, timeout=60, **more
    )


def wait_for(path: Path) -> str:
    until(lambda: path.exists() and path.read_text() != "", path.name)
    return path.read_text()


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("sh", "-c", "exit 0"), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("sh", "-c", "kill -KILL $$"), 137),
        (("no-such-command-anywhere",), 127),
        (("/",), 126),
    ],
)
def test_the_exit_code_is_the_commands_own(environ, command, code):
    assert run(environ, *command).returncode == code


def test_off_runs_the_command_and_nothing_else(environ, tmp_path):
    done = run({**environ, "GRAMWATT_OFF": "1"}, "sh", "-c", "echo $GRAMWATT_JOB_ID; exit 9")
    assert (done.returncode, done.stdout, done.stderr) == (9, b"\n", b"")
    assert not (tmp_path / "home").exists()


def test_stdout_and_stdin_pass_byte_for_byte_and_are_not_held_open(environ):
    payload = bytes(range(256)) * 4096
    done = run(environ, "cat", input=payload)
    assert done.returncode == 0
    assert done.stdout == payload


def test_the_command_gets_every_descriptor_the_group_and_the_job_id(environ):
    reading, writing = os.pipe()
    code = (
        "import json, os, signal\n"
        f"os.write({writing}, b'through')\n"
        "fds = sorted(int(n) for n in os.listdir('/proc/self/fd'))\n"
        "blocked = [int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, ())]\n"
        "ignored = int(open('/proc/self/status').read().split('SigIgn:')[1].split()[0], 16)\n"
        "group = os.getpgrp() == os.getpgid(os.getppid())\n"
        "print(json.dumps([fds, group, os.environ['GRAMWATT_JOB_ID'], blocked, ignored]))"
    )
    done = run(environ, "python3", "-S", "-c", code, pass_fds=(writing,), process_group=0)
    os.close(writing)
    assert os.read(reading, 100) == b"through"
    os.close(reading)
    fds, group, job_id, blocked, ignored = json.loads(done.stdout)
    assert set(fds) - {0, 1, 2, writing} <= {3}  # 3 is the listing's own
    assert (group, len(job_id) > 8, blocked) == (True, True, [])
    by_python = (1 << (signal.SIGPIPE - 1)) | (1 << (signal.SIGXFSZ - 1))
    standard = (1 << 31) - 1  # 32 and 33 belong to glibc, which sets them when it spawns
    before = int(Path("/proc/self/status").read_text().split("SigIgn:")[1].split()[0], 16)
    assert ignored & standard & ~by_python == before & standard & ~by_python


def test_sigpipe_ends_the_command_as_in_a_shell(environ):
    line = shlex.join([*RUN, "--", "yes"])
    done = subprocess.run(
        ["bash", "-c", f"{line} | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        env=environ,
        timeout=60,
    )
    assert done.stdout == b"y\n141\n"


def test_an_unknown_zone_of_a_file_is_said_and_the_command_runs(environ, tmp_path):
    file = tmp_path / "gramwatt.toml"
    file.write_text('zone = "Frnace"\n')
    done = run(environ, "sh", "-c", "exit 7", cwd=tmp_path)
    assert done.returncode == 7
    said = f"gramwatt: {file}: zone is ignored: unknown zone 'Frnace'; close matches: FR"
    assert said in done.stderr.decode()


COUNTING = """
import pathlib, signal, sys, time
got = []
signal.signal(int(sys.argv[1]), lambda n, _: got.append(n))
pathlib.Path(sys.argv[2], "up").write_text("up")
while not pathlib.Path(sys.argv[2], "end").exists():
    time.sleep(0.01)
    pathlib.Path(sys.argv[2], "part").write_text(str(len(got)))
    pathlib.Path(sys.argv[2], "part").rename(pathlib.Path(sys.argv[2], "got"))
"""


def processes_of_group(group: int) -> list[int]:
    """The living processes of a group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, own = path.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(own) == group and state not in "ZX":
            found.append(int(path.parent.name))
    return found


def to_each(group: int, number: int) -> None:
    for pid in sorted(processes_of_group(group)):
        os.kill(pid, number)


def as_timeout(group: int, number: int) -> None:
    """coreutils' timeout signals its child, then its group."""
    os.kill(group, number)
    os.killpg(group, number)


WAYS: dict[str, tuple[Callable[[int, int], None], int]] = {
    "the wrapper": (os.kill, 1),
    "the group": (os.killpg, 2),
    "the wrapper and the group": (as_timeout, 2),
    "each process": (to_each, 2),
}
"""Ways to send a signal, and how often it may reach the command at most."""


@pytest.mark.parametrize(
    ("number", "off"), [(signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGUSR1, True)]
)
def test_a_signal_reaches_the_command_whoever_it_was_sent_to(environ, tmp_path, number, off):
    command = [*RUN, "--", sys.executable, "-c", COUNTING, str(int(number)), str(tmp_path)]
    more = {"GRAMWATT_OFF": "1"} if off else {}
    process = subprocess.Popen(
        command, env=environ | more, stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_for(tmp_path / "got")
    time.sleep(0.3)
    before = 0
    for way in list(WAYS) * 2:
        send, most = WAYS[way]
        send(process.pid, number)
        until(lambda n=before: int((tmp_path / "got").read_text()) > n, way)
        time.sleep(0.3)  # for one too many
        now = int((tmp_path / "got").read_text())
        assert now - before <= most, way
        before = now
    (tmp_path / "end").touch()
    assert process.wait(60) == 0
    assert processes_of_group(process.pid) == []


def test_a_killed_wrapper_leaves_only_its_command(environ, tmp_path):
    command = [*RUN, "--", sys.executable, "-c", COUNTING, "10", str(tmp_path)]
    process = subprocess.Popen(command, env=environ, start_new_session=True)
    wait_for(tmp_path / "up")
    time.sleep(0.3)
    process.kill()
    process.wait()
    until(lambda: len(processes_of_group(process.pid)) <= 1, "the end of the others")
    time.sleep(0.3)
    assert len(processes_of_group(process.pid)) == 1
    (tmp_path / "end").touch()


def test_a_command_that_dies_of_the_forwarded_signal_gives_143(environ, tmp_path):
    script = f"echo up > {tmp_path / 'up'}; exec sleep 90"
    process = subprocess.Popen([*RUN, "--", "sh", "-c", script], env=environ)
    wait_for(tmp_path / "up")
    process.terminate()
    assert process.wait(60) == 143


def in_terminal(environ, *command):
    """A wrapper that leads a session of a terminal; the terminal's other side."""
    pid, terminal = os.forkpty()
    if pid == 0:
        os.execve(sys.executable, [*RUN, "--", sys.executable, *command], environ)
    return pid, terminal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_terminals_signal_reaches_the_command_once(environ, tmp_path, number):
    """Ctrl-C goes to the whole group. A terminal that is closed sends SIGHUP to its session's
    leader alone, which `tmux new 'gramwatt run ...'` and `ssh -t host gramwatt run ...` make the
    wrapper.
    """
    pid, terminal = in_terminal(environ, "-c", COUNTING, str(int(number)), str(tmp_path))
    wait_for(tmp_path / "got")
    if number == signal.SIGINT:
        os.write(terminal, b"\x03")
    else:
        os.close(terminal)
    until(lambda: (tmp_path / "got").read_text() != "0", "the signal")
    time.sleep(0.3)
    got = (tmp_path / "got").read_text()
    (tmp_path / "end").touch()
    _, status = os.waitpid(pid, 0)
    assert (got, os.waitstatus_to_exitcode(status)) == ("1", 0)


TRACKED = "import sys\nfrom gramwatt import track\nwith track(project=3): pass\nsys.exit(7)"


@pytest.mark.parametrize(
    "words",
    [
        [*RUN[1:], "--", "sh", "-c", "exit 7"],
        [*RUN[1:], "-v", "--", "sh", "-c", "exit 7"],
        ["-c", TRACKED],
    ],
)
@pytest.mark.parametrize("gone", ["terminal", "disk"])
def test_what_is_printed_never_changes_the_exit_code(environ, words, gone):
    """What a buffer still holds is written when the interpreter ends, which ends with 120 then."""
    environ.pop("PYTHONUNBUFFERED", None)
    if gone == "terminal":
        terminal, output = os.openpty()
        os.close(terminal)
    else:
        output = os.open("/dev/full", os.O_WRONLY)
    line = [sys.executable, *words]
    done = subprocess.run(line, env=environ, stdout=output, stderr=output, timeout=60)
    os.close(output)
    assert done.returncode == 7


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--zone", "Atlantis"), ["zone", "Atlantis"]),
        (("--zone", "FR", "--region", "aws:eu-west-1"), ["--zone or --region, not both"]),
        (("--region", "aws:eu-west-11"), ["region", "aws:eu-west-1"]),
        (("--kind", "guessing"), ["kind", "training"]),
        (("--pue", "0.5"), ["pue", "1 to 5"]),
        (("--server", "ftp://x"), ["server", "http"]),
        (("--json-summary", "/no/such/folder/x.json"), ["--json-summary"]),
        (("--json-summary", "/proc/x.json"), ["--json-summary: /proc cannot be written"]),
        (("--json-summary", "x" * 300), ["--json-summary: x", "cannot be written: File name too"]),
        (("--json-summary", "-"), ["--json-summary", "standard output belongs to the command"]),
        (("--json-summary", "."), ["--json-summary", ". is a folder"]),
        (("--projct", "x"), ["--projct"]),
    ],
)
def test_wrong_arguments_stop_before_the_command_starts(environ, tmp_path, options, words):
    marker = tmp_path / "started"
    done = run(environ, "touch", str(marker), options=options)
    assert done.returncode == 2
    assert not marker.exists()
    assert done.stdout == b""
    assert [word for word in words if word not in done.stderr.decode()] == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<p>x", "answers 200, not as gramwatt does"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "answers 500; the journal stays spooled"),
    ],
)
def test_the_end_says_what_is_wrong_with_the_server(environ, tmp_path, answer, words):
    server = OddServer(answer)
    environ["GRAMWATT_SERVER"] = server.url
    summary = ("--json-summary", str(tmp_path / "x.json"))  # it waits 30 s for the score then
    done = run(environ, "true", options=summary)
    server.stop()
    assert done.returncode == 0
    assert f"x.json was not written: {server.url}/v1/jobs/" in done.stderr.decode()
    assert words in done.stderr.decode()


def test_every_job_that_its_server_refuses_says_so_at_its_end(environ):
    problem = b'{"code": "unknown-job", "detail": "unknown job"}'
    head = (
        b"HTTP/1.1 404 No\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n"
    )
    server = OddServer(head % len(problem) + problem)
    environ["GRAMWATT_SERVER"] = server.url
    told = [run(environ, "true").stderr.decode() for _ in range(2)]
    server.stop()
    for text in told:
        assert "is not on its server yet" in text
        assert "refuses with 404: unknown job; the journal stays spooled" in text


def test_no_command_is_wrong_usage(environ):
    done = subprocess.run(RUN, capture_output=True, env=environ, timeout=60)
    assert done.returncode == 2
    assert b"gramwatt run [options] -- command" in done.stderr


def test_options_after_the_command_are_the_commands(environ):
    command = [*RUN, "echo", "--zone", "Atlantis", "--", "-x"]
    done = subprocess.run(command, capture_output=True, env=environ, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"--zone Atlantis -- -x\n")


def test_a_script_without_an_interpreter_line_runs_as_in_a_shell(environ, tmp_path):
    script = tmp_path / "plain"
    script.write_text('echo "got $1"\nexit 5\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    done = run(environ, str(script), "it")
    assert (done.returncode, done.stdout) == (5, b"got it\n")


def test_a_misspelt_variable_is_said_once_and_stops_no_command(environ, tmp_path):
    environ |= {"GRAMWATT_PROJCT": "vision", "GRAMWATT_TEAM_COLOUR": "red"}
    environ |= {"GRAMWATT_PORT_80_TCP": "tcp://10.0.0.1:80"}  # set by Kubernetes
    done = run(environ, "sh", "-c", "exit 3")
    said = [line for line in done.stderr.decode().splitlines() if "not known" in line]
    assert said == [
        "gramwatt: GRAMWATT_PROJCT is not known; do you mean GRAMWATT_PROJECT? [argument-ignored]"
    ]
    assert done.returncode == 3
    refused = run(environ, "touch", str(tmp_path / "ran"), options=("--strict",))
    assert refused.returncode == 2
    assert not (tmp_path / "ran").exists()
    doctor = [sys.executable, "-m", "gramwatt", "doctor"]
    told = subprocess.run(doctor, capture_output=True, env=environ, timeout=60, check=True)
    words = " ".join(told.stdout.decode().split())  # of lines as wide as the terminal
    assert "GRAMWATT_PROJCT is not known; do you mean GRAMWATT_PROJECT?" in words


BLOCKED_CATALOG = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name == "gramwatt.sci.catalog.catalog": raise ImportError("broken catalog")
sys.meta_path.insert(0, Block())
"""
BROKEN = {
    "settings": ("config/gramwatt/config.toml", 'zone = "Atlantis"\npue = \n', {}),
    "catalog": ("sitecustomize.py", BLOCKED_CATALOG, {"GRAMWATT_ZONE": "FR", "PYTHONPATH": "."}),
    "home": ("file", "", {"GRAMWATT_HOME": "file/home", "TMPDIR": "file/tmp"}),
}
"""What is broken: a file with its text, and variables that name places beside it."""


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_does_not_stop_the_command(environ, tmp_path, what):
    name, text, variables = BROKEN[what]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    places = {k: v if v == "FR" else str(tmp_path / v) for k, v in variables.items()}
    assert run({**environ, **places}, "sh", "-c", "exit 4").returncode == 4


@pytest.mark.parametrize(("options", "code"), [((), 4), (("--strict",), 1)])
def test_a_meter_that_cannot_start_stops_a_strict_command_alone(environ, tmp_path, options, code):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'gramwatt.collectors.meter.main' in ' '.join(sys.orig_argv): sys.exit(3)\n"
    )
    marker = tmp_path / "started"
    names = {**environ, "PYTHONPATH": str(tmp_path)}
    done = run(names, "sh", "-c", f"touch {marker}; exit 4", options=options)
    assert (done.returncode, marker.exists()) == (code, not options)
    assert done.stderr.decode().count("the meter did not start") == 1
    assert "gramwatt doctor" in done.stderr.decode()

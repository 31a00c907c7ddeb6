from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from gramwatt.collectors.cli.app import build_app, unknown_text
from gramwatt.collectors.settings import http
from gramwatt.collectors.settings.identity import node_id
from gramwatt.collectors.spool import send
from gramwatt.collectors.spool.spool import remember_server
from gramwatt.collectors.track import messages
from tests.collectors.oddserver import OddServer

OPEN_LINE = {
    "v": 1,
    "type": "job",
    "job_id": "job-1",
    "node": node_id(),
    "writer": "aaaaaaaaaaaa",
    "seq": 1,
    "started_at": "2026-05-01T08:00:00.000000Z",
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home and a working folder of the test's own."""
    monkeypatch.setattr(messages, "_reported", set())  # each test prints its messages anew
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def invoke(*args: str, store: Any = None) -> Any:
    return CliRunner().invoke(build_app(lambda: store), list(args))


def write_dead_job(home: Path) -> Path:
    """A journal of this node whose writer is gone without an end."""
    folder = home / "spool" / "job-1" / node_id()
    folder.mkdir(parents=True)
    (folder / "aaaaaaaaaaaa.jsonl").write_text(json.dumps(OPEN_LINE) + "\n")
    return folder


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("suggest", "--hardware", "T4", "--zone", "DE", "--zone", "FR"), "--zone"),
        (("import", "codecarbon", "--timezone", "UTC", "--timezone", "UTC", "a"), "--timezone"),
        (("run", "--name", "a", "--name=b", "--", "true", "--name", "c"), "--name"),
    ],
)
def test_an_option_that_is_given_twice_is_refused(home, words, option):
    done = invoke(*words)
    assert done.exit_code == 2
    assert f"for {option!r}: given 2 times, may be given once" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trian",), "'trian' is not a command. Did you mean run? "),
        (("ui",), "'ui' is not a command. Did you mean serve? "),
        (("compar", "a", "b"), "'compar' is not a command. Did you mean compare? "),
        (("ls", "x y"), "'ls' is not a command. Did you mean jobs? "),
        (("env", "A=1", "x y"), "To measure it: gramwatt run -- env A=1 'x y'"),
        (("xyzzy",), "'xyzzy' is not a command. All commands: gramwatt --help"),
    ],
)
def test_what_is_not_a_command_is_answered_with_one(words, said):
    assert said in unknown_text(words)


@pytest.mark.parametrize(
    ("words", "said", "command"),
    [
        (("estimate", "--zone"), "Option '--zone' requires an argument.", "gramwatt estimate"),
        (("suggest", "--zon", "DE"), "No such option: --zon", "gramwatt suggest"),
        (("catalog", "rows"), "No such command 'rows'.", "gramwatt catalog"),
        (("doctor", "--json=1"), "Option '--json' does not take a value.", "gramwatt doctor"),
    ],
)
def test_wrong_usage_is_a_sentence_and_where_the_options_are(words, said, command):
    done = invoke(*words)
    first, second = done.stderr.splitlines()
    assert (done.exit_code, done.stdout, second) == (2, "", f"Options: {command} --help")
    assert first.startswith(f"{command}: {said}")


def test_settings_have_values_origins_and_no_secret(home, monkeypatch):
    monkeypatch.setenv("GRAMWATT_ZONE", "FR")
    monkeypatch.setenv("GRAMWATT_API_KEY", "gw_topsecret")
    done = invoke("doctor", "--settings", "--json")
    shown = json.loads(done.stdout)
    assert done.exit_code == 0
    assert shown["settings"]["zone"] == {"value": "FR", "origin": "environment GRAMWATT_ZONE"}
    assert shown["settings"]["home"]["value"] == str(home)
    assert shown["problems"] == []
    assert "topsecret" not in done.output + invoke("doctor", "--settings").output


def test_settings_with_a_wrong_value_is_exit_2_and_says_which(home, monkeypatch):
    monkeypatch.setenv("GRAMWATT_PUE", "0.5")
    monkeypatch.setenv("GRAMWATT_ZONE", "Atlantis")
    done = invoke("doctor", "--settings", "--json")
    problems = json.loads(done.stdout)["problems"]
    assert done.exit_code == 2
    assert ["pue" in problems[0], "Atlantis" in problems[1]] == [True, True]


def test_sync_closes_dead_jobs_and_hands_them_to_the_store(home):
    folder = write_dead_job(home)
    seen: list[tuple[Path, str | None]] = []

    def ingest(where: Path, job_id: str | None) -> list[str]:
        seen.append((where, job_id))
        return ["job-1"]

    store = SimpleNamespace(
        ingest=ingest, document=lambda _home, job_id: {"job_id": job_id, "state": "lost"}
    )
    done = invoke("sync", "--job", "job-1", "--summary-json", "-", store=store)
    assert done.exit_code == 0
    assert seen == [(home, "job-1")]
    first, *rest = done.stdout.splitlines()
    assert json.loads(first) == {"job_id": "job-1", "state": "lost"}
    assert rest == ["closed job-1", "scored job-1"]
    (closing,) = folder.glob("r-*.jsonl")
    ends = [json.loads(line) for line in closing.read_text().splitlines()]
    assert [line["state"] for line in ends if line["type"] == "end"] == ["lost"]


def test_sync_without_a_store_says_what_waits(home):
    write_dead_job(home)
    done = invoke("sync")
    assert done.exit_code == 0
    assert done.stdout == "closed job-1\n"
    assert "1 job stays spooled" in done.stderr
    assert "pip install -e" in done.stderr  # the command of this checkout
    assert "[service]" in done.stderr


def test_sync_fails_and_keeps_the_journal_when_the_server_is_away(home, monkeypatch):
    folder = write_dead_job(home)
    monkeypatch.setenv("GRAMWATT_SERVER", "http://127.0.0.1:9")
    done = invoke("sync", "--quiet")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "stays spooled" in done.stderr
    assert (folder / "aaaaaaaaaaaa.jsonl").exists()


def test_after_a_server_was_silent_no_other_folder_is_tried_there(home, monkeypatch):
    monkeypatch.setattr(http, "TIMEOUT_S", (20.0, 0.3))
    folder = write_dead_job(home)
    other = home / "spool" / "job-2" / node_id()
    other.mkdir(parents=True)
    line = {**OPEN_LINE, "job_id": "job-2"}
    (other / "aaaaaaaaaaaa.jsonl").write_text(json.dumps(line) + "\n")
    silent = OddServer(b"")
    monkeypatch.setenv("GRAMWATT_SERVER", silent.url)
    done = invoke("sync", "--quiet")
    silent.stop()
    assert (done.exit_code, silent.connections) == (1, 1)
    assert done.stderr.count("\n") == 1
    assert "does not answer within 0.3 s; the journal stays spooled" in done.stderr
    assert folder.exists()
    assert other.exists()


def test_run_and_sync_load_neither_flask_nor_sqlalchemy_nor_requests():
    code = (
        "import sys; sys.argv[1:] = ['run', '--', 'true']\n"
        "from gramwatt.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "print(sorted({'flask', 'sqlalchemy', 'requests', 'gramwatt.sci.catalog.catalog'}"
        " & set(sys.modules)))\n"
    )
    environ = {**os.environ, "GRAMWATT_OFF": "1"}
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, env=environ, check=True)
    assert done.stdout == "[]\n"


def test_the_version_is_the_packages(home):
    from gramwatt import __version__

    line = [sys.executable, "-m", "gramwatt", "--version"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout == f"gramwatt {__version__}\n"


def test_sync_sends_a_journal_to_the_server_it_was_measured_for(home, monkeypatch):
    folder = write_dead_job(home)
    assert remember_server(folder, "http://key:word@127.0.0.1:9")
    taken: list[str | None] = []
    store = SimpleNamespace(
        ingest=lambda _home, job_id: taken.append(job_id) or [], document=lambda _home, _job: None
    )
    done = invoke("sync", store=store)
    assert done.exit_code == 1
    assert "spooled for http://127.0.0.1:9, and goes there: job-1" in done.stderr
    assert "stays spooled" in done.stderr
    assert taken == [None]  # other journals are the local store's
    assert (folder / "aaaaaaaaaaaa.jsonl").exists()


def test_sync_sends_to_the_server_of_the_environment_first(home, monkeypatch):
    assert remember_server(write_dead_job(home), "http://127.0.0.1:9")
    monkeypatch.setenv("GRAMWATT_SERVER", "http://127.0.0.1:11")
    done = invoke("sync")
    text = "spooled for http://127.0.0.1:9, and goes to http://127.0.0.1:11, which GRAMWATT_SERVER"
    assert f"{text} names: job-1" in done.stderr
    assert "http://127.0.0.1:11/v1/jobs/job-1/records cannot be reached" in done.stderr


def test_sync_keeps_the_configured_credentials_for_a_server_that_is_remembered_without(
    home, monkeypatch
):
    address = "http://key:word@127.0.0.1:9/x"
    (home.parent / "gramwatt.toml").write_text(f'server = "{address}"')
    folder = write_dead_job(home)
    assert remember_server(folder, address)
    asked: list[str] = []
    monkeypatch.setattr(send, "upload", lambda *args: asked.append(args[3]) or send.Sent())
    done = invoke("sync")
    assert (done.exit_code, asked) == (0, [address])
    assert "spooled for" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [("--version",), ("doctor", "--settings"), ("doctor", "--json")]
)
def test_an_output_on_a_full_disk_is_one_line(home, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gramwatt", *arguments], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    said = b"gramwatt: cannot write the output: No space left on device\n"
    assert done.stderr == said


def test_an_output_that_nobody_reads_or_that_is_closed_is_no_error_of_ours(home):
    command = f"{sys.executable} -m gramwatt doctor --settings"
    for ending in (" | true", " >&-"):
        done = subprocess.run(["sh", "-c", command + ending], capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_locale_of_ascii_stops_no_output(home, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("GRAMWATT_PROJECT", "caf\u00e9")
    done = subprocess.run(
        [sys.executable, "-m", "gramwatt", "doctor", "--settings"], capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"caf\\xe9" in done.stdout

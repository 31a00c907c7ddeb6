"""The scripts for Slurm without Slurm: what they write, that they never fail, whom they trust."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from gramwatt.collectors.cli import slurm
from gramwatt.collectors.cli.slurm import project_of_account


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A folder with the scripts; runs are in `tmp_path` too."""
    monkeypatch.setattr(slurm, "RUNS", str(tmp_path / "runs"))
    for name, text in slurm.scripts(tmp_path).items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(made: Path, name: str, **environ: str) -> subprocess.CompletedProcess[str]:
    whole = {"PATH": os.environ["PATH"], **environ}
    command = ["sh", str(made / name)]
    return subprocess.run(command, env=whole, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("name", ["prolog", "epilog", "taskprolog"])
def test_a_script_that_can_do_nothing_returns_0_and_prints_nothing(made, name):
    (made / "runs").write_text("no folder")
    (made / "settings").write_text("exit 7\n")
    done = run(made, name, SLURM_JOB_ID="5", SLURM_JOB_UID="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_taskprolog_notes_the_names_of_a_nodes_first_task(made):
    names = made / "runs" / "5.1" / "names"
    names.mkdir(parents=True)
    job = {"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "1", "SLURM_JOB_NAME": "a $(b) 'c'"}
    assert run(made, "taskprolog", **job, SLURM_LOCALID="1").stdout == ""
    assert list(names.iterdir()) == []
    done = run(made, "taskprolog", **job, SLURM_LOCALID="0", SLURM_JOB_ACCOUNT="bio")
    assert (done.returncode, done.stdout) == (0, "")
    found = slurm.read_names(names / "names")
    assert found == {"slurm_account": "bio", "slurm_name": "a $(b) 'c'"}


def test_epilog_tells_every_attempt_how_the_job_ended(made):
    for attempt in ("5.0", "5.1", "55.0"):
        (made / "runs" / attempt).mkdir(parents=True)
    assert run(made, "epilog", SLURM_JOB_ID="5", SLURM_JOB_EXIT_CODE2="3:0").returncode == 0
    ends = {path.parent.name: path.read_text() for path in (made / "runs").glob("*/end")}
    assert ends == {"5.0": "3:0\n", "5.1": "3:0\n"}


@pytest.mark.parametrize(
    ("text", "code"), [("3:0\n", 3), ("0:9\n", 137), ("0:0", 0), ("", 0), ("x:y", 0), ("768:0", 0)]
)
def test_exit_codes(text, code):
    assert slurm.exit_code(text) == code


def test_nothing_but_names_is_read_of_what_a_user_wrote(tmp_path):
    secret, names = tmp_path / "secret", tmp_path / "names"
    secret.write_text("SLURM_JOB_NAME=secret\n")
    names.symlink_to(secret)
    assert slurm.read_names(names) == {}
    names.unlink()
    os.mkfifo(names)
    assert slurm.read_names(names) == {}
    names.unlink()
    names.write_text("PATH=/x\nSLURM_JOB_NAME=ok\nSLURM_JOB_ACCOUNT=" + "a" * 300 + "\nx\x00=1\n")
    assert slurm.read_names(names) == {"slurm_name": "ok"}


def test_a_job_that_epilog_says_nothing_of_ends_after_its_last_step(tmp_path, monkeypatch, capsys):
    looks = iter([{"extern": 1}, {"0": 1}, *[{}] * 6, {"0": 1}, *[{}] * 7])  # type: ignore[var-annotated]
    hours = iter(range(0, 10**6, 3600))
    clock = SimpleNamespace(monotonic=lambda: next(hours), sleep=lambda _: None, monotonic_ns=int)
    monkeypatch.setattr(slurm, "running_steps", lambda *_: next(looks))
    monkeypatch.setattr(slurm, "time", clock)
    monkeypatch.setattr(slurm, "_began_ns", lambda _pid: 0)
    sent: list[str] = []

    class Client:
        send_settings = leave_window = lambda *_: None

        def send_notice(self, code: str, text: str) -> None:
            sent.append(f"{code}: {text}")

    monkeypatch.setattr(slurm.Client, "find", lambda _pid: Client())
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    folder = tmp_path / "5.0"
    folder.mkdir()
    with pytest.raises(typer.Exit) as ended:
        slurm.hold(folder)
    assert (ended.value.exit_code, folder.exists()) == (0, False)
    said = "Epilog has not said how it ended; no step for 6 h"
    assert sent == [f"end-unseen: {said}."]
    assert said in capsys.readouterr().err
    assert len(list(looks)) == 0


def test_steps_are_found_by_the_titles_of_slurmstepd(tmp_path):
    titles = {
        "10": "slurmstepd: [5.batch]",
        "11": "slurmstepd-wlm: [5.0]",
        "12": "slurmstepd: [5.extern]",
        "13": "slurmstepd: [55.0]",
        "14": "python slurmstepd: [5.9]",
    }
    for pid, title in titles.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(title.encode() + b"\0")
    others: dict[str, int] = {}
    assert slurm.running_steps("5", others, tmp_path) == {"batch": 10, "0": 11, "extern": 12}


def test_a_process_that_is_no_step_is_read_twice_and_not_again(tmp_path):
    others: dict[str, int] = {}
    (tmp_path / "10").mkdir()
    (tmp_path / "11").mkdir()
    for look in range(4):  # a step has its title a moment after its start
        (tmp_path / "10" / "cmdline").write_bytes(b"slurmd" if not look else b"slurmstepd: [5.0]")
        (tmp_path / "11" / "cmdline").write_bytes(b"python" if look < 2 else b"slurmstepd: [5.1]")
        assert slurm.running_steps("5", others, tmp_path) == ({"0": 10} if look else {})
    (tmp_path / "11" / "cmdline").unlink()
    (tmp_path / "11").rmdir()
    slurm.running_steps("5", others, tmp_path)
    assert others == {"10": 0}


def test_the_scripts_name_an_absolute_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    slurm.install(Path("etc"))
    assert f"Prolog={tmp_path}/etc/prolog\n" in capsys.readouterr().out
    assert f". {tmp_path}/etc/settings" in (tmp_path / "etc" / "prolog").read_text()
    modes = {path.name: path.stat().st_mode & 0o7777 for path in Path("etc").iterdir()}
    assert modes.pop("settings") == 0o600  # it has the key
    assert set(modes.values()) == {0o755}


def test_projects_of_accounts():
    environ = {"GRAMWATT_PROJECTS": "account:bio=genomics, account:ml=vision,wrong,account:a="}
    assert project_of_account(environ, "bio") == "genomics"
    assert project_of_account(environ, "ml") == "vision"
    for account in ("a", "wrong", None):
        assert project_of_account(environ, account) is None
    assert project_of_account({}, "ml") is None

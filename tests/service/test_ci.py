"""deploy/ci: the script with real runs, and the files by the schemas of GitHub and GitLab."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / "deploy" / "ci"
GITHUB = ROOT / ".github"
BUSY = "import time; end = time.process_time() + {}\nwhile time.process_time() < end: pass"


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        (CI / "action.yml", "github-actions"),
        (CI / "gitlab.yml", "gitlab-ci"),
        (GITHUB / "workflows" / "release.yml", "github-workflows"),
        (GITHUB / "ISSUE_TEMPLATE" / "bug.yml", "github-issue-forms"),
        (GITHUB / "ISSUE_TEMPLATE" / "figure.yml", "github-issue-forms"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_files_are_what_their_servers_read(path, schema):
    line = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    transform = ["--data-transform", "gitlab-ci"] if schema == "gitlab-ci" else []
    done = subprocess.run([*line, *transform, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_release_runs_actions_by_commit_and_finds_its_notes():
    text = (GITHUB / "workflows" / "release.yml").read_text("utf-8")
    used = re.findall(r"uses: (\S+)", text)
    assert len(used) > 5
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []
    (program,) = re.findall(r"awk -v v=\S+ '([^']*)'", text)
    line = ["awk", "-v", "v=[Unreleased]", program, str(ROOT / "CHANGELOG.md")]
    notes = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert notes.startswith("## [Unreleased]")
    assert "### Reports" in notes


def test_nothing_is_published_before_every_group_of_tests_has_passed():
    jobs = yaml.safe_load((GITHUB / "workflows" / "release.yml").read_text("utf-8"))["jobs"]
    checks = {
        step["run"].removeprefix("PYTHON=python3.11 "): name
        for name, job in jobs.items()
        for step in job["steps"]
        if "scripts/check" in step.get("run", "")
    }
    groups = ("", " --long", " --frameworks", " --release")
    assert {f"scripts/check{group}" for group in groups} == {*checks}
    assert {*checks.values()} <= {*jobs["publish"]["needs"]}
    assert "publish" in jobs["release"]["needs"]


@pytest.mark.long
def test_more_energy_than_the_baseline_fails_and_the_summary_says_so(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "GRAMWATT_ZONE": "FR", "GRAMWATT_HOST_SOURCE": "model"}
    environ["GRAMWATT_HOME"] = str(tmp_path / "cached")
    summary = tmp_path / "summary.md"

    def measure(seconds: float, *options: str) -> int:
        command = [sys.executable, "-c", BUSY.format(seconds)]
        line = [str(CI / "measure.sh"), "--runs", "2", "--summary", str(summary), *options]
        return subprocess.run(
            [*line, "--", *command], env=environ, capture_output=True, timeout=300
        ).returncode

    assert measure(0.5, "--baseline") == 0
    assert "There is no baseline yet" in summary.read_text("utf-8")
    kept = (tmp_path / "cached" / "ci-baseline").read_text("utf-8")
    assert kept.count(",") == 1
    assert measure(4.0, "--fail-above", "20%") == 1
    assert "failed: Carbon per unit is" in summary.read_text("utf-8")
    assert (tmp_path / "cached" / "ci-baseline").read_text("utf-8") == kept


def test_a_command_that_fails_passes_its_code_on(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "GRAMWATT_HOME": str(tmp_path)}
    line = [str(CI / "measure.sh"), "--runs", "1", "--", "sh", "-c", "exit 3"]
    assert subprocess.run(line, env=environ, capture_output=True, timeout=120).returncode == 3
    wrong = subprocess.run([str(CI / "measure.sh"), "ls"], capture_output=True, text=True)
    assert (wrong.returncode, "the command follows --" in wrong.stderr) == (2, True)

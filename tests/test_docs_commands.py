"""Every command of README and the documents is run as it is written, page by page and in order.

The store has the jobs that the pages name, the folder the files.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gramwatt.collectors.cli.app import build_app
from gramwatt.collectors.settings.installation import local_store
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.jobs.local_spool import open_store
from tests.journals import journal, lines
from tests.test_docs import DOCS, README, blocks

ELSEWHERE = {
    "scripts/demo": "CI and tests/release",
    "scripts/check": "CI",
    "pip install": "tests/release",
    "python3 -m venv": "tests/release",
    "gramwatt serve": "tests/service/cli/test_app.py and tests/release",
    "gramwatt top": "tests/service/cli/test_top_of_server.py: an address that answers",
    "gramwatt import prometheus": "tests/service/prometheus and tests/clusters: a server",
    "gramwatt run --zone FR --count-from": "tests/collectors/serving: a server",
    "gramwatt compare main": "tests/service/cli/test_models_and_comparisons.py: runs of one kind",
    "gramwatt admin log --follow": "tests/service/access: it does not end",
    "gramwatt admin session end": "tests/service/access: a session of a browser",
    "export GRAMWATT_DATABASE_URL": "tests/service/test_deploy.py: PostgreSQL",
    "gunicorn": "tests/service/test_deploy.py",
    "gramwatt slurm install --prefix": "tests/clusters: files of root",
    "curl 127.0.0.1:9464": "tests/collectors/meter: while a job runs",
    "python -m benchmarks.": "by hand, for minutes",
    "python -m tests.collectors.doubles.record": "by hand, on a GPU",
    "GRAMWATT_CONTRACT_CASES": "by hand, for minutes",
    "gh ": "not run: a published release",
    "docker": "not run: Docker",
    "kubectl": "not run: a cluster",
}
"""Beginnings of lines that are not run here, and where they are."""
KEPT = {"defend-a-number", "exports"}
"""Pages of a month whose report was kept before."""
INDENTED = re.compile(r"^    ((?:gramwatt|pip|python3?|docker|kubectl|gunicorn) [^:\n]*)$", re.M)
SHELL = re.compile(r"[|&]|\$\(|^gramwatt run\b")
"""What a shell has to run; the rest is run in this process."""
START = datetime(2026, 5, 1, 8, 30, tzinfo=UTC)
IDS = ("20260501-083000-3fa9c21b04d7", "20260502-070000-8be2d7710c3a")
IDS += (
    "20260502-083000-77aa01c2d3e4",
    *(f"{s}-{n}" for s in ("main", "change") for n in (1, 2, 3)),
)
FILES = {
    "train.py": "from gramwatt import track\nwith track() as job:\n    job.count(64)\n",
    "emissions.csv": "timestamp,project_name,run_id,duration,emissions,cpu_energy,gpu_energy,"
    "ram_energy,energy_consumed,country_iso_code,codecarbon_version,cpu_model,tracking_mode\n"
    "2026-05-10T12:00:00,vision,ff3b9b09-0000-4000-8000-000000000001,3600,0.04,0.036,0.6,0.024,"
    "0.66,FRA,3.3.2,AMD EPYC 7763 64-Core Processor,machine\n",
}
OUTSIDE = ("sbatch", "kubectl", "sleep", "logger")
"""Programs of others, which must be given something."""


def page_lines(page: Path) -> list[str]:
    """The command lines of a page, fenced and indented."""
    fenced = [line for body in blocks("sh", page) for line in body.splitlines()]
    found = [*fenced, *INDENTED.findall(page.read_text("utf-8"))]
    return [line.strip() for line in found if line.strip()]


PAGES = {page.stem: found for page in (README, *DOCS) if (found := page_lines(page))}
TASKS = ("README", "measure-a-training", "team-server", "monthly-report", "defend-a-number")
TASKS += ("codecarbon",)
RUN = PAGES if "GRAMWATT_RELEASE" in os.environ else TASKS
"""What a newcomer reads; the rest by `scripts/check --release`."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the files that the pages speak of, and programs of others in `bin`."""
    place = tmp_path_factory.mktemp("place")
    first = datetime.now(UTC).replace(hour=0, minute=0) - timedelta(days=28)
    hours = [f"{first + timedelta(hours=n):%Y-%m-%dT%H:%MZ},{300 + n % 24}" for n in range(696)]
    files = FILES | {"de-2026.csv": "\n".join(["start_utc,g_per_kwh", *hours]) + "\n"}
    for name, text in files.items():
        (place / name).write_text(text)
    (place / "bin").mkdir()
    programs = {name: "[ $# -gt 0 ]" for name in OUTSIDE}
    programs["gramwatt"] = f'exec {sys.executable} -m gramwatt "$@"'
    for name, text in programs.items():
        (place / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / "bin" / name).chmod(0o755)
    return place


@pytest.fixture
def cli(place, tmp_path, monkeypatch):
    """The whole command, in that folder, with a store of its own that has the jobs."""
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(place)
    service = open_store(tmp_path / "home")
    for number, job_id in enumerate(IDS):
        start, project = START + timedelta(hours=number), "speech" if number % 2 else "vision"
        about = {"project": project, "model_id": "example/model", "tags": {"user": "ada"}}
        ingest(service, job_id, lines(journal(job_id, start=start, **about)))
    service.store.close()
    return build_app(local_store)


def run(app: typer.Typer, line: str) -> tuple[int, str]:
    """Run a line; the exit code, and what it printed."""
    if SHELL.search(line) or not line.startswith("gramwatt "):
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr
    line = line.replace("--database-url NEW", f"--database-url sqlite:///{Path.cwd() / 'new.db'}")
    result = CliRunner().invoke(app, shlex.split(line, comments=True)[1:], input="y\n")
    return result.exit_code, f"{result.output}\n{result.exception or ''}"


@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_a_page_run(page, cli, monkeypatch):
    if page in KEPT:
        run(cli, "gramwatt report month 2026-05")
    failed = []
    for line in PAGES[page]:
        if line.startswith(tuple(ELSEWHERE)):
            continue
        settings = dict(re.findall(r"(GRAMWATT_\w+)=\"?([^\"\s#]+)", line))
        if line.startswith(("export ", *settings)):
            for name, value in settings.items():
                monkeypatch.setenv(name, value)
        elif (answer := run(cli, line))[0] != 0:
            failed.append(f"{line}: exit code {answer[0]}\n{answer[1]}")
    assert failed == [], "\n".join(failed)


def test_each_exception_is_used_by_a_page():
    written = [line for found in PAGES.values() for line in found]
    assert [start for start in ELSEWHERE if not any(x.startswith(start) for x in written)] == []

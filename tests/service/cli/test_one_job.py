"""One `run` or outermost `track` is one job: real processes as Slurm, torchrun and Lightning start
them, with what their terminal shows.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STEP = """
import json, sys, time
from gramwatt import track
project, name, unit, amount, seconds = sys.argv[1:6]
with track(project=project, name=name, unit=unit, zone="FR") as job:
    assert job._session.client.wait_ready(60)
    time.sleep(float(seconds))
    job.count(float(amount))
print(json.dumps([job.id, job.metrics()]))
"""
RANKS = """
import os, subprocess, sys
started = [
    subprocess.Popen([sys.executable, *sys.argv[1:]],
                     env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)})
    for rank in range(2)
]
sys.exit(max(process.wait() for process in started))
"""
"""An agent that starts two ranks, as torchrun does."""
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "100",
    "GROUP_WORLD_SIZE": "1",
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}
LIGHTNING = """
import os, subprocess, sys, time
first = "LOCAL_RANK" not in os.environ
if first:
    os.environ |= {"MASTER_PORT": "4711", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "NODE_RANK": "0"}
    other = subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": "1"})
from gramwatt import track
tracker = track(project="lit", unit="sample", zone="FR")
job = tracker.start()  # a callback's on_train_start, in every rank
assert job._session.client.wait_ready(60)
time.sleep(2)
job.count(2000)
tracker.stop()
if first:
    sys.exit(other.wait())
"""


@pytest.fixture
def environ(tmp_path):
    """A home of its own, the host by model."""
    (tmp_path / "step.py").write_text(STEP)
    return {
        "PATH": os.environ["PATH"],
        "GRAMWATT_HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "GRAMWATT_HOST_SOURCE": "model",
        "COLUMNS": "80",
    }


def python(environ: dict[str, str], folder: Path, *words: str) -> tuple[str, list[str]]:
    """Run Python; return its output, and the lines of gramwatt on its terminal."""
    done = subprocess.run(
        [sys.executable, *words],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.splitlines()


def listed(environ: dict[str, str], *words: str) -> dict[str, dict[str, Any]]:
    """Return the documents of the listed jobs by name."""
    out, _ = python(environ, Path.cwd(), "-m", "gramwatt", "jobs", "--json", *words)
    found = {}
    for head in json.loads(out)["jobs"]:
        text, _ = python(environ, Path.cwd(), "-m", "gramwatt", "job", head["job_id"], "--json")
        found[head["name"]] = json.loads(text)
    assert len(found) == len(json.loads(out)["jobs"])
    return found


def count(document: dict[str, Any]) -> tuple[str, float]:
    (only,) = document["sci"]
    return only["unit"], only["count"]


def test_two_scripts_of_one_allocation_are_two_jobs_and_its_number_is_their_tag(environ, tmp_path):
    slurm = environ | {"SLURM_JOB_ID": "4242", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"}
    steps = [("vision", "train", "image", "100", "1.5"), ("nlp", "eval", "prompt", "7", "0.5")]
    runs = [python(slurm, tmp_path, "step.py", *words) for words in steps]
    python(environ | {"SLURM_JOB_ID": "4243"}, tmp_path, "step.py", "vision", "x", "x", "1", "0.1")
    found = listed(environ, "--tag", "slurm=4242")
    assert sorted(found) == ["eval", "train"]
    for (project, name, unit, amount, seconds), (out, terminal) in zip(steps, runs, strict=True):
        document = found[name]
        job_id, metrics = json.loads(out)
        assert (document["job_id"], document["project"]) == (job_id, project)
        assert count(document) == (unit, float(amount))
        assert document["duration_s"] == pytest.approx(float(seconds), abs=1.5)
        # What the script logged, the line and the store are one figure.
        assert metrics["gramwatt/energy_kwh"] == document["energy_kwh"]["value"]
        assert metrics[f"gramwatt/co2e_g_per_{unit}"] == document["sci"][0]["g_per_unit"]["value"]
        (ended,) = terminal
        assert re.search(rf"(More:|see) `gramwatt job (last|{job_id})`$", ended)


@pytest.mark.long
def test_three_trials_of_one_process_are_three_jobs(environ, tmp_path):
    (tmp_path / "sweep.py").write_text("""
import json, time
from gramwatt import track
for rate in (0.1, 0.01, 0.001):
    with track(project="hpo", name=f"rate {rate}", unit="step", zone="FR") as job:
        assert job._session.client.wait_ready(60)
        time.sleep(0.5)
        job.count(10)
    print(json.dumps(job.metrics()))
""")
    out, terminal = python(environ | {"SLURM_JOB_ID": "4343"}, tmp_path, "sweep.py")
    metrics = [json.loads(line) for line in out.splitlines()]
    assert [one["gramwatt/count_step"] for one in metrics] == [10, 10, 10]
    assert max(one["gramwatt/duration_s"] for one in metrics) < 5
    assert len(terminal) == len(listed(environ, "--tag", "slurm=4343")) == 3


@pytest.mark.long
def test_torchrun_twice_with_one_run_id_is_two_jobs_of_two_ranks(environ, tmp_path):
    (tmp_path / "agent.py").write_text(RANKS)
    agent = environ | TORCHRUN
    for number in ("100", "200"):
        words = ("agent.py", "step.py", "run", f"run {number}", "sample", number, "2")
        out, terminal = python(agent, tmp_path, *words)
        (job_id,) = {json.loads(line)[0] for line in out.splitlines()}
        (ended,) = terminal
        assert re.search(rf"(More:|see) `gramwatt job (last|{job_id})`$", ended)
    found = listed(environ, "--tag", "torchrun=100")
    assert {name: count(document)[1] for name, document in found.items()} == {
        "run 100": 200,
        "run 200": 400,
    }


@pytest.mark.long
def test_ranks_that_lightning_starts_from_the_first_are_one_job(environ, tmp_path):
    (tmp_path / "fit.py").write_text(LIGHTNING)
    for _ in range(2):
        _, terminal = python(environ, tmp_path, "fit.py")
        assert len(terminal) == 1
    found = json.loads(python(environ, tmp_path, "-m", "gramwatt", "jobs", "--json")[0])["jobs"]
    assert len({head["job_id"] for head in found}) == 2
    for head in found:
        text, _ = python(environ, tmp_path, "-m", "gramwatt", "job", head["job_id"], "--json")
        assert count(json.loads(text)) == ("sample", 4000)


@pytest.mark.long
def test_a_command_of_each_task_of_a_slurm_step_is_one_job_and_a_requeue_another(environ, tmp_path):
    step = environ | {"SLURM_JOB_ID": "4242", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    (tmp_path / "srun.py").write_text(RANKS)
    words = ("srun.py", "-m", "gramwatt", "run", "--zone", "FR", "--", "sleep", "2")
    for restart in ("0", "1"):
        _, terminal = python(step | {"SLURM_RESTART_COUNT": restart}, tmp_path, *words)
        (ended,) = terminal
        assert " More: " in ended
    heads = python(environ, tmp_path, "-m", "gramwatt", "jobs", "--json", "--tag", "slurm:4242")
    assert len(json.loads(heads[0])["jobs"]) == 2


def test_what_gramwatt_run_has_started_is_part_of_its_job(environ, tmp_path):
    python_step = (sys.executable, "step.py", "vision", "inner", "image", "5", "1")
    _, terminal = python(environ, tmp_path, "-m", "gramwatt", "run", "--", *python_step)
    (ended,) = terminal
    assert " per image; " in ended
    assert len(listed(environ)) == 1

"""Figures of a job that still runs, by `metrics(so_far=True)`: real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.track.test_end_to_end import POWER_W, environ

pytestmark = pytest.mark.long

__all__ = ["environ"]

J_PER_KWH = 3.6e6
SCRIPT = """
import json, time
from gramwatt import track
with track(unit="image", zone="FR") as job:
    assert job.id is None or job._session.client.wait_ready(60)
    with job.window("epoch-0"):
        time.sleep(2)
        job.count(64)
    found = [job.metrics(), job.metrics(so_far=True)]
    with job.window("epoch 1/validation"):
        time.sleep(1.5)
        job.count(36)
found += [job.metrics(so_far=True), job.metrics()]
job.count(5)
job.count(7)
print(json.dumps(found))
"""


def ran(environ: dict[str, str], folder: Path, *before: str) -> tuple[list[Any], list[str]]:
    """Run the script in a home without a server; what it found, and lines on its terminal."""
    (folder / "script.py").write_text(SCRIPT)
    own = {k: v for k, v in environ.items() if k not in ("GRAMWATT_SERVER", "GRAMWATT_JOB_ID")}
    done = subprocess.run(
        [*before, sys.executable, "script.py"],
        env=own,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr.splitlines()


def gpu_kwh(seconds: float) -> float:
    return POWER_W * seconds / J_PER_KWH


@pytest.mark.parametrize("wrapped", [False, True], ids=["track", "run"])
def test_a_running_job_has_figures_so_far_with_its_windows(environ, tmp_path, *, wrapped):
    words = (sys.executable, "-m", "gramwatt", "run", "--") if wrapped else ()
    found, terminal = ran(environ, tmp_path, *words)
    empty, inside, behind, ended = found
    assert empty == {}
    assert inside["gramwatt/count_image"] == 64
    assert behind["gramwatt/count_image"] == 100
    epoch = "gramwatt/window/epoch-0/energy_kwh"
    # The GPU alone, and at most as much again for a loaded machine and its host.
    assert gpu_kwh(1.9) < inside[epoch] < 2 * gpu_kwh(2)
    assert inside[f"{epoch}_low"] <= inside[epoch] <= inside[f"{epoch}_high"]
    assert inside["gramwatt/energy_kwh"] >= inside[epoch]
    assert behind[epoch] == pytest.approx(inside[epoch], rel=0.02)
    assert behind["gramwatt/window/epoch_1/validation/energy_kwh"] > gpu_kwh(1.4)
    assert behind["gramwatt/window/epoch_1/validation/total_g"] > 0
    assert behind["gramwatt/energy_kwh"] >= inside["gramwatt/energy_kwh"] + gpu_kwh(1.4)
    if wrapped:  # the job goes on with the command
        assert ended == {}
    else:
        assert ended["gramwatt/energy_kwh"] == behind["gramwatt/energy_kwh"]
    late = [line for line in terminal if "after the end of" in line]
    assert len(late) == (0 if wrapped else 1)  # the command's job counts it
    assert all("is left out [argument-ignored]" in line for line in late)

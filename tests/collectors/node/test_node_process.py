"""`gramwatt node` as a process: a kubelet's socket, a process of Slurm, SIGTERM and a restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gramwatt.collectors.journal import spool
from gramwatt.sci.journal.merge import MergedJob, merge
from gramwatt.sci.journal.records import decode
from tests.collectors.node.kubelet import Kubelet
from tests.collectors.node.node_rig import energies

UID = "0f8f5a52-7f3c-4ab1-9d0e-0c7b1ff1c5aa"
BOARDS = ("GPU-00000000-0000-4000-8000-000000000001", "GPU-00000000-0000-4000-8000-000000000002")
WATTS = 250.0


@pytest.fixture
def slurm_task() -> Iterator[subprocess.Popen[bytes]]:
    environ = {**os.environ, "SLURM_JOB_ID": "77", "SLURM_CLUSTER_NAME": "hpc"}
    task = subprocess.Popen(["sleep", "60"], env=environ)
    yield task
    task.kill()
    task.wait()


def start(root: Path, pid: int, **more: str) -> subprocess.Popen[str]:
    wave = {"type": "constant", "power_w": WATTS}
    mine = [{"pid": pid, "memory_b": 2**30, "sm_percent": 50}]
    gpus = [{"uuid": BOARDS[0], "waveform": wave, "processes": mine}]
    gpus.append({"uuid": BOARDS[1], "waveform": wave})
    (root / "nvml.json").write_text(json.dumps({"gpus": gpus}))
    environ = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("GRAMWATT_", "SLURM_"))},
        "GRAMWATT_HOME": str(root / "home"),
        "GRAMWATT_NVML": f"synthetic:{root / 'nvml.json'}",
        "GRAMWATT_HOST_SOURCE": "model",
        **more,
    }
    line = [sys.executable, "-m", "gramwatt", "node", "--pod-logs", str(root / "logs")]
    line += ["--pod-resources", str(root / "k.sock")]
    return subprocess.Popen(line, env=environ, stderr=subprocess.PIPE, text=True, cwd=root)


def wait_for(agent: subprocess.Popen[str], for_s: float) -> list[str]:
    """Let it measure for a while, end it as Kubernetes does, and return what it said."""
    assert agent.stderr is not None
    said = []
    while not any("the journal is in" in line for line in said):
        said.append(agent.stderr.readline())
        assert said[-1], said
    time.sleep(for_s)
    agent.send_signal(signal.SIGTERM)
    _, rest = agent.communicate(timeout=30)
    assert agent.returncode == 0, rest
    return [*said, *rest.splitlines()]


def jobs(root: Path) -> dict[str, MergedJob]:
    folders = spool.folders(root / "home")
    return {one.job_id: merge([decode(line) for line in one.lines()]) for one in folders}


@pytest.mark.long
def test_a_node_measures_pods_and_slurm_jobs_over_a_restart(
    tmp_path: Path, slurm_task: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "logs" / f"team-a_train-0_{UID}").mkdir(parents=True)
    kubelet = Kubelet(tmp_path / "k.sock")
    kubelet.pods = [("team-a", "train-0", [[BOARDS[1]]])]
    first = wait_for(start(tmp_path, slurm_task.pid), 2.5)
    assert "2 x Synthetic GPU, processor and memory" in "".join(first)
    between = jobs(tmp_path)
    time.sleep(1)
    wait_for(start(tmp_path, slurm_task.pid), 1.5)
    kubelet.stop()
    found = jobs(tmp_path)
    assert {name for name in found if not name.startswith("rest-")} == {
        f"pod-{UID}",
        "slurm-hpc-77",
    }
    for device, owner in ((BOARDS[0], "slurm-hpc-77"), (BOARDS[1], f"pod-{UID}")):
        (mine,) = (d for d in found[owner].devices if d.record.device_id == device)
        spans = mine.intervals
        length_s = (spans[-1].end - spans[0].start).total_seconds()
        assert length_s > 5  # the pause too
        total_j = sum(energies(found, device).values())
        assert total_j == pytest.approx(WATTS * length_s, rel=2e-3)
        assert energies(found, device)[owner] > 0.97 * total_j
        assert energies(between, device)[owner] < energies(found, device)[owner]
    assert found["slurm-hpc-77"].head.tags["slurm"] == "77"


def test_an_absent_socket_is_one_line_and_a_second_agent_is_refused(tmp_path: Path) -> None:
    agent = start(tmp_path, 1)
    assert agent.stderr is not None
    said = [agent.stderr.readline()]
    while "pods-unknown" not in said[-1]:
        said.append(agent.stderr.readline())
        assert said[-1], said
    second = start(tmp_path, 1)
    _, refused = second.communicate(timeout=30)
    assert second.returncode == 1
    assert "another `gramwatt node`" in refused
    agent.send_signal(signal.SIGTERM)
    _, rest = agent.communicate(timeout=30)
    text = "".join(said) + rest
    assert text.count("kubelet") == 1
    assert agent.returncode == 0

"""What a node is: machines of one image and containers of one machine, on shared storage."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gramwatt.collectors.settings import identity
from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.sci.records.merge import MergedJob, merge
from gramwatt.sci.records.records import decode
from tests.collectors.doubles.processes import with_gpus
from tests.collectors.rig import Rig, energy_j, gpu
from tests.collectors.track.test_end_to_end import (
    EDGES_J,
    GRAMWATT,
    environ,
    home,
    meters,
    seconds,
    wait_until,
)

__all__ = ["environ"]

AS_IF = """
import json, os
from gramwatt.collectors.settings import identity
for name, value in json.loads(os.environ["AS_IF"]).items():
    setattr(identity, name, lambda value=value: value)
"""
MACHINE = {
    "_machine": "the-image",
    "boot_id": "boot-1",
    "host_name": "worker",
    "pid_namespace": "pid:1",
}
OTHERS = {
    "another machine of the same image": {"boot_id": "boot-2"},
    "another container with the host's network": {"pid_namespace": "pid:2"},
}


def start(
    environ: dict[str, str], folder: Path, number: int, **known: str
) -> subprocess.Popen[bytes]:
    """A job's process on a machine of these properties, with a GPU of its own."""
    place = folder / f"site-{number}"
    place.mkdir()
    (place / "sitecustomize.py").write_text(AS_IF)
    uuid = f"GPU-00000000-0000-4000-8000-{number:012d}"
    wave = {"type": "constant", "power_w": 100.0 * number}
    own = with_gpus(
        place / "gpu.json", {"PYTHONPATH": str(place)}, {"uuid": uuid, "waveform": wave}
    )
    command = [*GRAMWATT, "run", "--", "sleep", "2"]
    return subprocess.Popen(command, env=environ | own | {"AS_IF": json.dumps(MACHINE | known)})


def run_both(environ: dict[str, str], folder: Path, **known: str) -> MergedJob:
    first = start(environ, folder, 1)
    wait_until(lambda: list((home(environ) / "spool").rglob("*.open")), "the first reading")
    second = start(environ, folder, 2, **known)
    assert (first.wait(60), second.wait(60)) == (0, 0)
    wait_until(lambda: not meters(environ), "the meters' own end")
    found = spool.folders(home(environ))
    return merge(decode(line) for folder in found for line in folder.lines())


@pytest.mark.parametrize("other", OTHERS)
def test_each_measures_its_own_gpu_though_home_job_and_machine_id_are_the_same(
    environ, tmp_path, other
):
    job = run_both(environ, tmp_path, **OTHERS[other])
    boards = [d for d in job.devices if d.record.device_class == "gpu"]
    assert len(job.nodes) == len(boards) == 2
    for device, power_w in zip(boards, (100.0, 200.0), strict=True):
        lasted_s = seconds(list(device.intervals))
        assert lasted_s > 1.9
        assert energy_j(device.intervals) == pytest.approx(power_w * lasted_s, abs=EDGES_J)


def test_processes_that_see_each_other_share_one_meter(environ, tmp_path):
    job = run_both(environ, tmp_path)
    assert len(job.nodes) == 1
    assert [d.record.device_class for d in job.devices].count("cpu") == 1


@pytest.mark.parametrize("same_machine", [True, False])
def test_after_a_reboot_a_dead_job_is_closed_at_once(tmp_path, monkeypatch, same_machine):
    """On storage that machines share, the folder of another one is live while it was written."""
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    rig.run(30, meter)
    rig.kill(meter)
    monkeypatch.setattr(identity, "boot_id", lambda: "boot-2")
    if not same_machine:
        monkeypatch.setattr(identity, "_machine", lambda: "another")
    assert identity.node_id() != rig.folder().node
    assert close_dead(rig.folder()) == same_machine


def test_machines_of_one_name_are_reported_where_names_are_nodes(tmp_path):
    rig = Rig(tmp_path, gpu())
    named = {"config": {"allow_host_names": True}}
    first = rig.start(pid=100, **named)
    rig.boot = "boot-2"
    rig.clients.clear()  # of another machine
    rig.job(5, pid=101, **named)
    first.release()
    (notice,) = [n for n in rig.merged().notices if n.code == "energy-unmeasured"]
    assert f"count as one; unset GRAMWATT_ALLOW_HOST_NAMES: {rig.folder().node}" in notice.message

"""One job of two nodes that share a home: what one node does must not end the other's part."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gramwatt.service.jobs.ingest import ingest
from tests.journals import Writer, lines
from tests.service.cli.command import gramwatt
from tests.service.keyed import store_of
from tests.service.processes import eventually

NODE = """
import os
from gramwatt.collectors.settings import identity
from gramwatt.collectors.track import counts
identity.node_id = lambda allow_host_names=False: os.environ["TEST_NODE"]
counts.FOLDERS = (os.environ["TEST_MEMORY"],)
"""
"""Gives each process the node that its environment names, and that node's memory of running jobs,
as if it ran on another machine.
"""


@pytest.fixture
def environ(tmp_path):
    """A home that both nodes share, and a job id for both."""
    names = {k: v for k, v in os.environ.items() if not k.startswith(("GRAMWATT_", "SLURM_"))}
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(NODE)
    return names | {
        "GRAMWATT_HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "GRAMWATT_HOST_SOURCE": "model",
        "GRAMWATT_JOB_ID": "pair",
        "GRAMWATT_ZONE": "FR",
        "PYTHONPATH": str(tmp_path / "site"),
    }


def command(environ: dict[str, str], node: str, *words: str) -> subprocess.Popen[str]:
    memory = Path(environ["GRAMWATT_HOME"]).with_name(node)
    memory.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "gramwatt", *words],
        env={**environ, "TEST_NODE": node, "TEST_MEMORY": str(memory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=120)
    return process.returncode, out


def job(environ: dict[str, str], node: str) -> dict[str, Any]:
    code, out = done(command(environ, node, "job", "pair", "--json"))
    assert code == 0
    document: dict[str, Any] = json.loads(out)
    return document


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} was not made"
        time.sleep(0.05)


@pytest.mark.long
def test_a_node_that_fails_first_neither_ends_the_job_nor_is_forgotten(environ, tmp_path):
    begun, go = tmp_path / "begun", tmp_path / "go"
    waits = f"touch {begun}; while [ ! -e {go} ]; do sleep 0.1; done"
    other = command(environ, "n-b", "run", "--", "sh", "-c", waits)
    try:
        wait_for(begun)
        code, _ = done(command(environ, "n-a", "run", "--", "sh", "-c", "exit 7"))
        assert code == 7
        assert done(command(environ, "n-a", "sync"))[0] == 0
        running = job(environ, "n-a")
        assert (running["state"], running["provisional"]) == ("running", True)
        assert (tmp_path / "home" / "spool" / "pair" / "n-b").is_dir()
    finally:
        go.touch()
        assert done(other)[0] == 0

    def ended() -> dict[str, Any] | None:
        """The job; nothing while another process takes its journals in and scores it."""
        found = job(environ, "n-b")
        return found if found["revision"] and found["state"] != "running" else None

    final = eventually(ended, 60)
    assert (final["state"], final["exit_code"], final["revision"]) == ("failed", 7, 1)
    assert {row["node"] for row in final["devices"]} == {"n-a", "n-b"}
    (said,) = [row["message"] for row in final["notices"] if row["code"] == "node-failed"]
    assert "n-a failed with exit code 7" in said
    reserved = {row["node"]: row["time_reserved_s"] for row in final["embodied_terms"]}
    assert reserved["n-a"] < reserved["n-b"] <= final["duration_s"]
    assert not (tmp_path / "home" / "spool" / "pair").exists()


@pytest.fixture
def two_chips(home):
    """A job whose two nodes each have a chip that is called tpu-0: 60 kJ and 120 kJ."""
    with store_of(home) as service:
        for node, joules in (("n-a", 60_000), ("n-b", 120_000)):
            writer = Writer(f"w-{node}", node=node)
            chip = {"device_class": "accelerator", "name": "TPU v4"}
            records = [writer.job(zone="FR", pue=1.1), writer.device("tpu-0", **chip)]
            records += [writer.interval(0, 600, joules, "tpu-0"), writer.end(600)]
            ingest(service, "job-1", lines(records))


def test_chips_of_one_id_are_explained_and_exported_by_node(two_chips):
    code, out, _ = gramwatt("job", "job-1", "--explain", "energy_kwh", "--json")
    rows = {name: figure["value"] for name, figure in json.loads(out)["figures"].items()}
    assert code == 0
    # 180 kJ are 0.05 kWh.
    assert rows == {
        "accelerator n-a/tpu-0": 60_000,
        "accelerator n-b/tpu-0": 120_000,
        "E": pytest.approx(0.05),
    }
    code, out, _ = gramwatt("job", "job-1", "--explain", "devices.n-b/tpu-0.energy_j", "--json")
    assert (code, json.loads(out)["figures"]["E"]["value"]) == (0, 120_000)
    code, _, err = gramwatt("job", "job-1", "--explain", "devices.tpu-0.energy_j")
    assert (code, "it has n-a/tpu-0, n-b/tpu-0" in err) == (2, True)
    code, out, _ = gramwatt("job", "job-1", "--explain", "embodied_g", "--json")
    assert {"n-a/tpu-0", "n-b/tpu-0"} <= json.loads(out)["figures"].keys()
    table = csv.DictReader(
        io.StringIO(gramwatt("report", "job", "job-1", "--format", "csv", "-o", "-")[1])
    )
    found = {
        (row["level"], row["node"]): float(row["value"])
        for row in table
        if row["device_id"] == "tpu-0" and row["figure"] == "energy"
    }
    assert found == {
        ("device", "n-a"): 60_000,
        ("device", "n-b"): 120_000,
        ("step", "n-a"): 60_000,
        ("step", "n-b"): 120_000,
    }

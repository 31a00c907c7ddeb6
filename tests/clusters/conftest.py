"""Slurm out of Debian's packages, unpacked into a folder: no service, no munge, no database.

`scripts/check --clusters` unpacks them, and names the folder in GRAMWATT_CLUSTERS.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.collectors.doubles.processes import ROOT, STANDIN

LIB = "usr/lib/x86_64-linux-gnu"
CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/pgid
JobAcctGatherType=jobacct_gather/none
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PluginDir={root}/{lib}/slurm-wlm
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
PrologFlags=Alloc
Prolog={folder}/scripts/prolog
Epilog={folder}/scripts/epilog
TaskProlog={folder}/scripts/taskprolog
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=YES:4
"""
GPUS = (
    '{"gpus": [{"waveform": {"type": "constant", "power_w": 200.0}},'
    ' {"waveform": {"type": "constant", "power_w": 300.0}}]}'
)
SETTINGS = """
GRAMWATT_HOME={folder}/home
GRAMWATT_ZONE=FR
STANDIN_NVML={folder}/gpus.json
PYTHONPATH={path}
SLURM_JOB_GPUS=1  # of two: Debian's build takes no GPU that is not there
"""


class Slurm:
    """A controller and a node of Slurm, and the commands for them."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder, self.home = root, folder, folder / "home"
        library = f"{root / LIB}:{root / LIB}/slurm-wlm"
        self.environ = {
            **os.environ,
            "LD_LIBRARY_PATH": library,
            "SLURM_CONF": str(folder / "slurm.conf"),
        }
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Install the scripts as their users do, and start both daemons."""
        for name in ("state", "spool", "home"):
            (self.folder / name).mkdir()
        gramwatt = Path(sys.executable).parent / "gramwatt"
        prefix = self.folder / "scripts"
        subprocess.run([gramwatt, "slurm", "install", "--prefix", prefix], check=True)
        for script in ("prolog", "epilog", "taskprolog"):
            text = (prefix / script).read_text()
            assert "/run/gramwatt-slurm" in text
            (prefix / script).write_text(text.replace("/run/gramwatt-slurm", f"{self.folder}/runs"))
        path = os.pathsep.join([str(STANDIN), str(ROOT)])
        (prefix / "settings").write_text(SETTINGS.format(folder=self.folder, path=path))
        (self.folder / "gpus.json").write_text(GPUS)
        facts = {"host": socket.gethostname(), "root": self.root, "lib": LIB, "ports": _ports()}
        (self.folder / "slurm.conf").write_text(CONF.format(folder=self.folder, **facts))
        stepd = str(self.root / "usr/sbin/slurmstepd-wlm")
        self._daemon("slurmctld-wlm", "-D")
        self._daemon("slurmd-wlm", "-D", "-d", stepd)
        self.until(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T"), "the node to be idle")

    def _daemon(self, name: str, *options: str) -> None:
        with (self.folder / f"{name}.out").open("wb") as out:
            command = [self.root / "usr/sbin" / name, *options]
            started = subprocess.Popen(command, env=self.environ, stdout=out, stderr=out)
        self._daemons.append(started)

    def stop(self) -> None:
        """End both daemons."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait(timeout=30)

    def run(self, command: str, *options: str) -> str:
        """Return what one of Slurm's commands prints."""
        whole = [self.root / "usr/bin" / command, *options]
        done = subprocess.run(whole, env=self.environ, capture_output=True, text=True, timeout=60)
        return done.stdout if done.returncode == 0 else f"{done.stdout}{done.stderr}"

    def submit(self, script: str, *options: str) -> str:
        """Submit a batch script; return its number."""
        path = self.folder / f"job-{time.monotonic_ns()}.sh"
        path.write_text(f"#!/bin/sh\nPATH={self.root}/usr/bin:$PATH\n{script}\n")
        out = f"--output={self.folder}/%j.out"
        return self.run("sbatch", "--parsable", out, *options, str(path)).strip()

    def until(self, true: object, what: str, timeout_s: float = 60.0) -> None:
        """Wait until something is true."""
        ends = time.monotonic() + timeout_s
        while not true():  # type: ignore[operator]
            assert time.monotonic() < ends, f"waited for {what}: {self.run('squeue')}"
            time.sleep(0.3)


def _ports() -> tuple[int, int]:
    found = []
    with socket.socket() as one, socket.socket() as two:
        for sock in (one, two):
            sock.bind(("127.0.0.1", 0))
            found.append(sock.getsockname()[1])
    return found[0], found[1]


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """A running cluster of one node with two processors."""
    made = Slurm(Path(os.environ["GRAMWATT_CLUSTERS"]) / "slurm", tmp_path_factory.mktemp("slurm"))
    try:
        made.start()
        yield made
    finally:
        made.stop()

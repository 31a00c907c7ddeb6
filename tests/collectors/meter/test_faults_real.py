"""Jobs of real processes, several at once: killed for real, or run twice under one id.

All the while `gramwatt sync` sends what it finds to a server and deletes what has ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from gramwatt.collectors.settings.identity import node_id
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import decode
from tests.collectors.doubles.processes import with_gpus
from tests.collectors.rig import energy_j
from tests.collectors.slowserver import SlowServer

pytestmark = pytest.mark.long

JOBS, AT_ONCE = 24, 8
POWER_W = 300.0
WAVE = {"type": "constant", "power_w": POWER_W}
LATE_S = 1.5
"""How late a meter may be, beside how long it started and went on after a kill: that is measured,
as sixteen processes share the cores with whatever else runs."""
LOST_S = 10.0
CLIENT = """
import sys, time
from gramwatt import track
now = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
began = now()
with track(unit="image") as job:
    up = now()
    print("up", began, up, job.id, flush=True)
    end, counted = time.monotonic() + float(sys.argv[1]), 0
    while time.monotonic() < end:
        job.count(1)
        counted += 1
        time.sleep(0.05)
    lasted = now() - up
print(lasted, now() - began, counted, flush=True)
"""


@dataclass
class Life:
    """What became of a job, how long it lasted at least and at most [s], and what a whole one
    counted.
    """

    name: str
    fate: str
    least_s: float
    most_s: float
    counted: int | None = None


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def meters_of(job_id: str) -> list[int]:
    """The living meters of a job."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"gramwatt.collectors.meter.main" not in path.read_bytes():
                continue
            variables = path.with_name("environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"GRAMWATT_JOB_ID={job_id}".encode() in variables:
            found.append(int(path.parent.name))
    return found


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def live(seed: int, environ: dict[str, str]) -> Life:
    """One job from its start to its end, whatever that is.

    All are launches of one Slurm allocation; only "two runs" names its job.
    """
    draw, name = Random(seed), f"real-{seed}"
    fate = ("stop", "meter", "job", "both", "meter twice", "two runs")[seed % 6]
    if fate != "two runs":
        return live_once(draw, "", fate, environ)
    first = live_once(draw, name, "stop", environ)
    time.sleep(draw.uniform(0, 2))
    second = live_once(draw, name, draw.choice(["stop", "meter"]), environ)
    assert first.counted is not None
    assert second.counted is not None
    least_s, most_s = first.least_s + second.least_s, first.most_s + second.most_s
    return Life(name, fate, least_s, most_s, first.counted + second.counted)


def live_once(draw: Random, name: str, fate: str, environ: dict[str, str]) -> Life:
    lives_s = draw.uniform(10.5, 14) if fate == "both" else draw.uniform(2.5, 8)
    is_killed = fate in ("job", "both")
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(600 if is_killed else lives_s)],
        env=environ | {"SLURM_JOB_ID": "4242"} | ({"GRAMWATT_JOB_ID": name} if name else {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert client.stdout is not None
    word, began, up, own = client.stdout.readline().split()
    assert word == b"up"
    assert name in ("", own.decode())
    name = own.decode()
    up_s, start_s = float(up), float(up) - float(began)
    if fate.startswith("meter"):
        for _ in range(fate.count(" ") + 1):
            time.sleep(draw.uniform(0.2, lives_s / 2 - 0.2))
            wait_for(lambda: bool(meters_of(name)))
            kill(meters_of(name))
    end_s = over_s = 0.0
    if is_killed:
        time.sleep(lives_s - draw.uniform(1.0, 2.0))
        kill([*(meters_of(name) if fate == "both" else []), client.pid])
        end_s = boot_s()
        wait_for(lambda: not meters_of(name))  # which sees that the job has ended
        over_s = boot_s()
    printed = client.stdout.readline().split()
    client.wait(60)
    client.stdout.close()
    if not printed:
        return Life(name, fate, end_s - up_s, over_s - up_s + start_s)
    return Life(name, fate, float(printed[0]), float(printed[1]), int(printed[2]))


def wait_for(done: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not done() and time.monotonic() < deadline:
        time.sleep(0.1)
    return done()


def board(seed: int, folder: Path) -> dict[str, str]:
    """A GPU of the job's own: one that several jobs see is shared among them."""
    spec = folder / f"gpu-{seed}.json"
    uuid = f"GPU-00000000-0000-4000-8000-{seed:012d}"
    return with_gpus(spec, os.environ, {"uuid": uuid, "waveform": WAVE})


def test_jobs_killed_for_real_while_others_are_delivered(tmp_path):
    own = {"GRAMWATT_HOME": str(tmp_path / "home"), "GRAMWATT_HOST_SOURCE": "model"}
    # Nobody is there: else the store of this home takes what is to be delivered.
    own["GRAMWATT_SERVER"] = "http://127.0.0.1:9"
    server, over = SlowServer(answers_after_s=0.3), threading.Event()

    def run(seed: int) -> Life:
        return live(seed, os.environ | own | board(seed, tmp_path))

    def deliver() -> None:
        command = [sys.executable, "-m", "gramwatt", "sync", "--quiet"]
        while not over.wait(0.5):
            subprocess.run(
                command, env=os.environ | own | {"GRAMWATT_SERVER": server.url}, check=True
            )

    with ThreadPoolExecutor(AT_ONCE + 1) as pool:
        delivering = pool.submit(deliver)
        lives = list(pool.map(run, range(JOBS)))
        over.set()
        delivering.result()
    server.stop()
    assert len({life.name for life in lives}) == JOBS
    assert any(b'"real-5"' in line for line in server.lines)
    for life in lives:
        folder = SpoolFolder(tmp_path / "home" / "spool" / life.name / node_id())
        check(life, folder, server.lines)


def check(life: Life, folder: SpoolFolder, delivered: list[bytes]) -> None:
    """0 joules twice, and at most 10 s lost, of those who lost meter and job; nothing else lost."""
    for path in folder.path.glob("*.jsonl"):
        if not path.stat().st_size:  # killed at its birth, and not taken for a newborn any more
            os.utime(path, (0, 0))
    assert wait_for(lambda: not folder.is_live()), life
    assert close_dead(folder), life
    known = map(decode, [*delivered, *folder.lines()])
    job = merge(record for record in known if record.job_id == life.name)
    assert job.head.tags["slurm"] == "4242"
    gpus = [device for device in job.devices if device.record.device_class == "gpu"]
    booked_j = sum(energy_j(gpu.intervals) for gpu in gpus)
    lost_j = POWER_W * LOST_S if life.fate == "both" else 0.0
    late_j = POWER_W * LATE_S * (2 if life.fate == "two runs" else 1)
    # Both meters may have died before they read anything: then the energy is not known.
    unread = life.fate == "meter twice" and not any(gpu.intervals for gpu in gpus)
    assert gpus, life
    least_j = POWER_W * life.least_s - lost_j - late_j
    assert unread or least_j <= booked_j <= POWER_W * life.most_s + late_j, (life, booked_j)
    states = {"stop": "completed", "job": "killed", "both": "lost"}
    assert job.state == states.get(life.fate, "completed"), life
    if life.counted is not None:
        assert sum(count.amount for count in job.counts) == life.counted, life
    assert not any(notice.code == "overlap-removed" for notice in job.notices), life

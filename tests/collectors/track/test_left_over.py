"""What gramwatt leaves in the user's process: no child to collect, no memory that grows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.collectors.track.test_end_to_end import environ

__all__ = ["environ"]

SLOW_SCORE = """
import os, time
from gramwatt.collectors.track import track as module
from gramwatt import track
module.RESULT_TIMEOUT_S = 0.05
def syncs():
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            command = open(f"/proc/{name}/cmdline", "rb").read().split(b"\\0")
        except OSError:
            continue
        if b"sync" in command and b"job-zombie" in command:
            found.append(name)
    return found
with track() as job:
    pass
for _ in range(3):
    assert job.result is None
assert syncs()
while syncs():
    time.sleep(0.05)
ends = time.monotonic() + 30
while time.monotonic() < ends:
    try:
        left = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        left = "none"
        break
    time.sleep(0.05)
print(left)
"""

MANY = """
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from gramwatt import track

def count(job):
    job.count(1)
    return len(os.listdir("/proc/self/fd"))

if __name__ == "__main__":
    before, jobs, seen = len(os.listdir("/proc/self/fd")), [], []
    for way in ("fork", "spawn"):
        with ProcessPoolExecutor(1, mp_context=get_context(way)) as pool:
            for _ in range(4):
                with track(unit="image") as job:
                    seen.append(pool.submit(count, job).result())
                jobs.append(job)  # as one does to read their results later
    print(len(os.listdir("/proc/self/fd")) - before, *(seen[n + 3] - seen[n + 1] for n in (0, 4)))
"""

COUNTS = """
import os, signal, sys
from gramwatt import track
with track(unit="image") as job:
    assert job._session.client.wait_ready(60)
    job.count(1)
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            command = open(f"/proc/{name}/cmdline", "rb").read()
            variables = open(f"/proc/{name}/environ", "rb").read()
        except OSError:
            continue
        mine = os.environ["GRAMWATT_HOME"].encode() in variables
        if b"collectors.meter.main" in command and mine:
            os.kill(int(name), signal.SIGKILL)
    sys.executable = "/nowhere"  # no other meter can be started
    job.window("waits").__enter__()  # a line that no meter takes
    before_kb = int(open("/proc/self/statm").read().split()[1]) * 4
    for _ in range(200_000):
        job.count(1)
    print(int(open("/proc/self/statm").read().split()[1]) * 4 - before_kb)
"""


def printed(script: str, environ: dict[str, str], folder: Path) -> str:
    path = folder / "script.py"
    path.write_text(script)
    command = [sys.executable, str(path)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_jobs_one_after_the_other_leave_no_descriptor_open(environ, tmp_path):
    """Neither in the process that begins them nor in a worker that counts into each."""
    assert printed(MANY, environ, tmp_path) == "1 0 0", "one is the pools' own tracker"


def test_a_score_that_takes_too_long_leaves_no_child(environ, tmp_path):
    assert printed(SLOW_SCORE, environ | {"GRAMWATT_JOB_ID": "job-zombie"}, tmp_path) == "none"


def test_counts_without_a_meter_take_no_memory(environ, tmp_path):
    """200 000 amounts that wait are 20 MB; added to their total they are nothing beside modules."""
    assert float(printed(COUNTS, environ, tmp_path)) < 10_000

"""What ends a job from outside: a container, a cgroup, a pool of processes, a notebook's kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import CountRecord, IntervalRecord, JobRecord
from tests.collectors.track.test_end_to_end import (
    EDGES_J,
    POWER_W,
    environ,
    gpu_intervals,
    home,
    meters,
    records,
    seconds,
    start_script,
    states,
    synced,
    wait_until,
)

__all__ = ["environ"]
KILL_ALL = """
import signal
def kill_the_meters():
    mine = os.environ["GRAMWATT_HOME"].encode()
    for name in os.listdir("/proc"):
        try:
            command = open(f"/proc/{name}/cmdline", "rb").read()
            environ = open(f"/proc/{name}/environ", "rb").read()
            if b"collectors.meter" in command and mine in environ:
                os.kill(int(name), signal.SIGKILL)
        except (OSError, ValueError):
            pass
"""


def test_a_container_may_end_the_moment_stop_has_returned(environ, tmp_path):
    """When process 1 of a container ends, the kernel kills the rest: the meter too."""
    body = (
        f"{KILL_ALL}\n"
        "before = time.monotonic()\n"
        "with track(unit='image') as job:\n"
        "    begun = time.monotonic()\n"
        "    time.sleep(1.3)\n"
        "    job.count(7)\n"
        "    least_s = time.monotonic() - begun\n"
        "most_s = time.monotonic() - before\n"
        f"open({str(tmp_path / 'took')!r}, 'w').write(f'{{least_s}} {{most_s}}')\n"
        "kill_the_meters()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert start_script(environ, body, tmp_path).wait(60) == -signal.SIGKILL
    found = records(environ)
    intervals = gpu_intervals(found)
    assert states(found) == [("completed", None, None)]
    least_s, most_s = map(float, (tmp_path / "took").read_text().split())
    assert least_s - 0.01 < seconds(intervals) < most_s + 0.01
    assert sum(i.energy_j for i in intervals) == pytest.approx(
        POWER_W * seconds(intervals), abs=EDGES_J
    )
    assert sum(c.amount for c in found if isinstance(c, CountRecord)) == 7


def test_a_cgroup_that_is_killed_at_once_is_closed_later(environ, tmp_path):
    body = f"{KILL_ALL}\nwith track() as job:\n    ready(job)\n    time.sleep(1.5)\n"
    body += "    kill_the_meters()\n"
    body += "    os.kill(os.getpid(), signal.SIGKILL)\n"
    began = time.time()
    assert start_script(environ, body, tmp_path).wait(60) == -signal.SIGKILL
    wait_until(lambda: not meters(environ), "the death of the meter")
    lasted_s = time.time() - began
    synced(environ)
    found = records(environ)
    assert [state for state, _, _ in states(found)] == ["lost"]
    job = merge(found)
    assert job.duration_s <= lasted_s
    # An interval may stand in the open file and, longer, in the final lines: merged, it is one.
    spans = [i for d in job.devices for i in d.intervals if i.device_id.startswith("GPU-")]
    assert seconds(spans) <= lasted_s


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_processes_of_a_pool_join_the_job_that_started_them(environ, tmp_path, way):
    body = f"""
import multiprocessing
def work(number):
    with track(unit="image") as job:
        job.count(number)
        time.sleep(0.3)
    return number
if __name__ == "__main__":
    with track(unit="image") as job:
        ready(job)
        with multiprocessing.get_context({way!r}).Pool(2) as pool:
            assert pool.map(work, [1, 2, 3, 4]) == [1, 2, 3, 4]
        job.count(100)
        time.sleep(0.5)
"""
    del environ["GRAMWATT_JOB_ID"]
    assert start_script(environ, body, tmp_path).wait(60) == 0
    (job_id,) = os.listdir(home(environ) / "spool")
    wait_until(lambda: not meters(environ), "the end of all meters")
    found = records(environ, job_id)
    merged = merge(found)
    assert sum(count.amount for count in merged.counts) == 110
    spans = [i for device in merged.devices for i in device.intervals]
    board = [i for i in spans if i.device_id.startswith("GPU-")]
    assert seconds(board) == pytest.approx(merged.duration_s, abs=1)
    assert sum(i.energy_j for i in board) == pytest.approx(POWER_W * seconds(board), abs=EDGES_J)
    assert len([r for r in found if isinstance(r, JobRecord)]) == 1  # no meter of their own
    assert merged.state == "completed"


NOTEBOOK = """
from gramwatt import track
import time

tracker = track(unit="image")
job = tracker.start()

job.count(3)

1 / 0

time.sleep(0.6); job.count(4)

{last}
"""


@pytest.mark.parametrize("last", ["tracker.stop()", "pass"], ids=["stopped", "kernel ends"])
def test_a_notebook_ends_by_its_own_cell_or_with_its_kernel(environ, last):
    """An interactive interpreter is a kernel to us: an error in a cell ends nothing."""
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=NOTEBOOK.format(last=last),
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "ZeroDivisionError" in done.stderr
    assert done.stdout == ""
    found = records(environ)
    assert states(found) == [("completed", None, None)]
    assert sum(c.amount for c in found if isinstance(c, CountRecord)) == 7
    intervals = [r for r in found if isinstance(r, IntervalRecord)]
    assert max(i.end for i in intervals) > min(i.start for i in intervals)

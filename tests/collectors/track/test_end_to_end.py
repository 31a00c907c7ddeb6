"""The behaviour judged from outside: real processes, a synthetic GPU, no codecarbon."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.settings.identity import bound_id
from gramwatt.collectors.spool import spool
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import (
    AnyRecord,
    CountRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    decode,
)
from tests.collectors.doubles.processes import STANDIN, with_gpus

POWER_W = 300.0
EDGES_J = 0.2 * POWER_W
"""Two edges, each up to one counter period of 0.1 s off where a loaded machine reads late."""
GRAMWATT = [sys.executable, "-m", "gramwatt"]
WAIT_S = 60.0
SLOW_S = 1.0


@pytest.fixture
def environ(tmp_path):
    """A home of its own, one synthetic GPU of 300 W, the host by model, no settings of others."""
    gpu = {"waveform": {"type": "constant", "power_w": POWER_W}}
    ours = ("GRAMWATT_", "SLURM_", "CUDA_", "NVIDIA_", "LOCAL_", "WORLD_")
    names = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return names | {
        "GRAMWATT_HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        **with_gpus(tmp_path / "gpu.json", names, gpu),
        "GRAMWATT_HOST_SOURCE": "model",
        "GRAMWATT_JOB_ID": "job-1",
        # Nothing listens here: journals stay in the spool, where the tests read them.
        "GRAMWATT_SERVER": "http://127.0.0.1:9",
        "GRAMWATT_QUIET": "1",
    }


def home(environ: dict[str, str]) -> Path:
    return Path(environ["GRAMWATT_HOME"])


def wait_until(condition: Any, what: str) -> Any:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    pytest.fail(f"{what} did not happen in {WAIT_S} s")


def processes(needle: str) -> list[int]:
    """Process ids whose environment or command line holds `needle`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
        except OSError:
            continue
        if needle.encode() in text:
            found.append(int(entry.name))
    return found


def meters(environ: dict[str, str]) -> list[int]:
    """The meters of this test's home."""
    mine = processes(environ["GRAMWATT_HOME"])
    return [pid for pid in mine if b"collectors.meter" in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def records(environ: dict[str, str], job_id: str = "job-1") -> list[AnyRecord]:
    """What the job's meters have journaled, once the last of them has ended."""
    wait_until(lambda: not meters(environ), "the meters' own end")
    found = [f for f in spool.folders(home(environ)) if f.job_id == job_id]
    return [decode(line) for folder in found for line in folder.lines()]


def gpu_intervals(found: list[AnyRecord]) -> list[IntervalRecord]:
    return [r for r in found if isinstance(r, IntervalRecord) and r.device_id.startswith("GPU-")]


def states(found: list[AnyRecord]) -> list[tuple[str, int | None, int | None]]:
    return [(r.state, r.exit_code, r.signal) for r in found if isinstance(r, EndRecord)]


def seconds(found: list[IntervalRecord]) -> float:
    """Device seconds that are covered, each counted as often as it occurs [s]."""
    return sum((r.end - r.start).total_seconds() for r in found)


def covered_once(found: list[IntervalRecord], least_s: float) -> bool:
    """Whether the intervals of one board follow each other without gap or overlap, long enough."""
    spans = sorted((r.start, r.end) for r in found)
    joined = all(before[1] == after[0] for before, after in itertools.pairwise(spans))
    return joined and seconds(found) > least_s


PREPARED = """
import os, sys, time
from gramwatt import track
from gramwatt.collectors.track import client
client.CLOSE_TIMEOUT_S = 60.0  # a busy machine needs more than 2 s to close a job

def ready(job):
    assert job._session.client.wait_ready(60)

"""


def start_script(environ: dict[str, str], body: str, tmp_path: Path) -> subprocess.Popen[bytes]:
    """A process that tracks; `ready(job)` waits until its meter measures."""
    script, text = tmp_path / "job.py", PREPARED + body
    if not script.exists():  # a rank that starts now must not find it half written by the next one
        script.write_text(text)
    assert script.read_text() == text
    return subprocess.Popen([sys.executable, str(script)], env=environ, stderr=subprocess.DEVNULL)


def synced(environ: dict[str, str]) -> None:
    """`gramwatt sync`, which closes dead jobs before it finds the server away."""
    done = subprocess.run([*GRAMWATT, "sync"], env=environ, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"stays spooled" in done.stderr


def test_run_journals_the_energy_of_its_duration_and_the_end(environ):
    done = subprocess.run(
        [*GRAMWATT, "run", "--", "sh", "-c", "sleep 1.5; exit 7"],
        env=environ,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 7
    found = records(environ)
    intervals = gpu_intervals(found)
    assert states(found) == [("failed", 7, None)]
    assert covered_once(intervals, 1.4)
    energy_j = sum(r.energy_j for r in intervals)
    assert energy_j == pytest.approx(POWER_W * seconds(intervals), abs=EDGES_J)


def slow_meter(environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment with an interpreter that takes SLOW_S longer to start a meter."""
    text = "import sys, time\n"
    text += f"'gramwatt.collectors.meter.main' in sys.orig_argv and time.sleep({SLOW_S})\n"
    (tmp_path / "sitecustomize.py").write_text(text)
    return {**environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{environ['PYTHONPATH']}"}


def test_a_block_that_ends_before_its_meter_reads_has_the_energy_of_its_own_time(environ, tmp_path):
    body = "with track():\n    time.sleep(0.05)\n"
    assert start_script(slow_meter(environ, tmp_path), body, tmp_path).wait(60) == 0
    found = records(environ)
    (began,) = {r.started_at for r in found if isinstance(r, JobRecord)}
    (ended,) = {r.ended_at for r in found if isinstance(r, EndRecord)}
    intervals = [r for r in found if isinstance(r, IntervalRecord)]
    assert len({r.device_id for r in intervals}) == 3  # the board, processor and memory
    starts, ends = {r.start for r in intervals}, {r.end for r in intervals}
    assert (min(starts), max(ends)) == (began, ended)  # cut where a whole ten seconds lie within
    duration_s = (ended - began).total_seconds()
    energy_j = sum(r.energy_j for r in gpu_intervals(found))
    assert energy_j == pytest.approx(POWER_W * duration_s, rel=1e-4)


def test_a_driver_that_takes_seconds_to_open_costs_no_energy(environ, tmp_path):
    """Also of a job that has ended before; NVML opens so without persistence mode."""
    slow = f"exec(open({str(STANDIN / 'pynvml.py')!r}).read())\nimport time\nopened = nvmlInit\n"
    slow += "def nvmlInit():\n    time.sleep(3)\n    opened()\n"
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "pynvml.py").write_text(slow)
    path = f"{tmp_path / 'driver'}{os.pathsep}{environ['PYTHONPATH']}"
    body = "with track():\n    time.sleep(0.2)\nassert job._session.client.closed\n"
    body = body.replace("track()", "track() as job")
    assert start_script({**environ, "PYTHONPATH": path}, body, tmp_path).wait(60) == 0
    journaled = records(environ)
    (began,) = {r.started_at for r in journaled if isinstance(r, JobRecord)}
    (ended,) = {r.ended_at for r in journaled if isinstance(r, EndRecord)}
    duration_s = (ended - began).total_seconds()
    energy_j = sum(r.energy_j for r in gpu_intervals(journaled) if not r.writer.endswith("-open"))
    assert energy_j == pytest.approx(POWER_W * duration_s, abs=EDGES_J)


def test_four_ranks_are_one_set_of_energy_and_four_sets_of_counts(environ, tmp_path):
    body = "with track(unit='image') as job:\n    time.sleep(2)\n    job.count(10)\n"
    ranks = [
        start_script({**environ, "LOCAL_RANK": str(n), "RANK": str(n)}, body, tmp_path)
        for n in range(4)
    ]
    assert [rank.wait(60) for rank in ranks] == [0, 0, 0, 0]
    found = records(environ)
    intervals = gpu_intervals(found)
    assert covered_once(intervals, 1.5)  # one board, not four
    assert sum(r.energy_j for r in intervals) == pytest.approx(
        POWER_W * seconds(intervals), abs=EDGES_J
    )
    assert sum(count.amount for count in merge(found).counts) == 40.0
    assert [state for state, _, _ in states(found)] == ["completed"]
    assert len({r.writer.removesuffix("-open") for r in found}) == 1, "one meter"


def test_a_killed_job_is_closed_by_its_meter(environ, tmp_path):
    body = f"""
with track(unit='image') as job:
    ready(job)
    time.sleep(0.8)
    job.count(5)
    open({str(tmp_path / "up")!r}, "w").write("up")
    time.sleep(60)
"""
    job = start_script(environ, body, tmp_path)
    wait_until((tmp_path / "up").exists, "the job's start")
    job.kill()
    job.wait()
    found = records(environ)
    assert [state for state, _, _ in states(found)] == ["killed"]
    assert sum(r.amount for r in found if isinstance(r, CountRecord)) == 5.0
    assert seconds(gpu_intervals(found)) > 0.7


def counting(tmp_path: Path) -> str:
    """A script that has counted 3 and lives on."""
    return f"""
with track(unit='image') as job:
    ready(job)
    job.count(3)
    open({str(tmp_path / "up")!r}, "w").write("up")
    time.sleep(60)
"""


def test_sigterm_to_a_meter_has_it_journal_at_once_and_go_on(environ, tmp_path):
    """A node that shuts down: all get SIGTERM, and what is not gone soon SIGKILL."""
    job = start_script(environ, counting(tmp_path), tmp_path)
    wait_until((tmp_path / "up").exists, "the job's start")
    (meter,) = meters(environ)
    began = time.time()
    os.kill(meter, signal.SIGTERM)

    def saved() -> bool:
        lines = [decode(line) for f in spool.folders(home(environ)) for line in f.lines()]
        read = [r.end.timestamp() for r in lines if isinstance(r, IntervalRecord)]
        return max(read, default=0.0) > began and any(isinstance(r, CountRecord) for r in lines)

    wait_until(saved, "what was read and counted before SIGTERM in the journal")
    assert meters(environ) == [meter]
    os.kill(meter, signal.SIGKILL)
    job.kill()
    job.wait()
    synced(environ)
    journaled = records(environ)
    assert [state for state, _, _ in states(journaled)] == ["lost"]
    assert sum(count.amount for count in merge(journaled).counts) == 3.0


def test_a_program_that_closes_all_descriptors_is_measured_on(environ, tmp_path):
    body = """
def daemon():
    os.setsid()
    os.closerange(0, 4096)
    for number in range(3):
        assert os.open(os.devnull, os.O_RDWR) == number
if os.fork():  # what started it has gone
    os._exit(0)
with track(unit='image') as job:
    ready(job)
    job.count(1)
    daemon()
    with job.window("after"):
        time.sleep(1.5)
        job.count(2)
        job.count(row=4)
"""
    assert start_script(environ, body, tmp_path).wait(60) == 0
    wait_until(lambda: spool.folders(home(environ)), "the job's start")
    journaled = records(environ)
    assert states(journaled) == [("completed", None, None)]
    assert covered_once(gpu_intervals(journaled), 1.5)
    counts = {(count.unit, count.phase): count.amount for count in merge(journaled).counts}
    assert counts == {("image", None): 1.0, ("image", "after"): 2.0, ("row", "after"): 4.0}


FAULTS: dict[str, dict[str, Any] | None] = {
    "failing at every call": {"faults": [{"type": "failing"}]},
    "absent": None,
    "nonsense": {"gpus": "many"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_driver_never_changes_the_exit_code(environ, tmp_path, fault):
    spec = tmp_path / "broken.json"
    contents = FAULTS[fault]
    if contents is not None:
        gpu = {"waveform": {"type": "constant", "power_w": 300}}
        spec.write_text(json.dumps({"gpus": [gpu], **contents}))
    environ |= with_gpus(spec, environ)
    done = subprocess.run(
        [*GRAMWATT, "run", "--", "sh", "-c", "exit 6"], env=environ, capture_output=True, timeout=60
    )
    assert done.returncode == 6
    assert b"Traceback" not in done.stderr


def test_codecarbon_that_raises_never_changes_the_exit_code(environ, tmp_path):
    (tmp_path / "codecarbon.py").write_text("raise RuntimeError('broken peer')\n")
    del environ["GRAMWATT_HOST_SOURCE"]
    environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environ['PYTHONPATH']}"
    done = subprocess.run(
        [*GRAMWATT, "run", "--", "sh", "-c", "sleep 0.3; exit 6"],
        env=environ,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 6
    assert b"broken peer" not in done.stderr


@pytest.mark.parametrize("limit_b", [0, 600])
def test_a_full_disk_never_changes_the_exit_code(environ, limit_b):
    code = (
        "import os, resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_b}, {limit_b}))\n"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
    )
    line = [
        sys.executable,
        "-c",
        code,
        "-m",
        "gramwatt",
        "run",
        "--",
        "sh",
        "-c",
        "echo ok; exit 6",
    ]
    done = subprocess.run(line, env=environ, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (6, b"ok\n")
    assert b"Traceback" not in done.stderr


def test_a_run_inside_a_tracked_process_is_part_of_its_job_and_says_what_it_leaves_out(
    environ, tmp_path
):
    options = ["--project", "other", "--zone", "DE", "--unit", "token", "--", "sleep", "1"]
    script = tmp_path / "outer.py"
    script.write_text(
        "import subprocess\nfrom gramwatt import track\n"
        "with track(project='vision', name='outer', zone='FR'):\n"
        f"    subprocess.run({[*GRAMWATT, 'run', *options]!r}, check=True)\n"
    )
    done = subprocess.run([sys.executable, str(script)], env=environ, capture_output=True)
    assert done.returncode == 0, done.stderr
    notice = (
        b"gramwatt run --project --zone joins job %b, which this process is part of"
        % bound_id("job-1", "vision").encode()
    )
    assert done.stderr.count(notice) == 1
    journaled = records(environ, bound_id("job-1", "vision"))
    assert covered_once(gpu_intervals(journaled), 0.9)
    job = merge(journaled)
    head = job.head
    assert (head.project, head.name, head.zone, head.role) == ("vision", "outer", "FR", "track")
    assert job.units == ("token",)
    assert not any(place.others for place in job.places)
    assert any("--project --zone joins" in notice.message for notice in job.notices)


def units(found: list[AnyRecord]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for count in merge(found).counts:
        sums[count.unit] = sums.get(count.unit, 0.0) + count.amount
    return sums


def test_a_unit_declared_to_run_is_what_the_script_counts(environ, tmp_path):
    script = tmp_path / "w.py"
    script.write_text("from gramwatt import track\nwith track() as job:\n    job.count(42)\n")
    line = [*GRAMWATT, "run", "--unit", "image", "--", sys.executable, str(script)]
    environ["GRAMWATT_UNIT"] = "token"  # an argument comes before the environment
    done = subprocess.run(line, env=environ, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert units(records(environ)) == {"image": 42.0}


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_workers_of_a_pool_under_a_track_at_the_top_do_not_decide_how_the_job_ends(
    environ, tmp_path, way
):
    body = f"""
import multiprocessing
from gramwatt import track
job = track(unit="image").start()
def work(amount):
    job.count(amount)
    time.sleep(0.2)
if __name__ == "__main__":
    pool = multiprocessing.get_context({way!r}).Pool(2)
    pool.map(work, [1, 2, 3, 4])
    pool.terminate()
"""
    assert start_script(environ, body, tmp_path).wait(60) == 0
    found = records(environ)
    assert [state for state, _, _ in states(found)] == ["completed"]
    assert units(found) == {"image": 10.0}

"""What child processes count, with real ones: no meter, no line and no time of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gramwatt.collectors.spool import spool
from gramwatt.sci.records.merge import MergedJob, merge
from gramwatt.sci.records.records import decode
from tests.collectors.memory import files_of
from tests.collectors.track.test_end_to_end import (  # noqa: F401
    environ,
    home,
    meters,
    wait_until,
)

HEAD = """
import copy, multiprocessing, os, pickle, signal, sys, time
from gramwatt import track
from gramwatt.collectors.track import client
client.CLOSE_TIMEOUT_S = 60.0  # a busy machine needs more than 2 s to close a job
"""


def written(tmp_path: Path, body: str) -> str:
    """Return the path of a script with this body."""
    script = tmp_path / "job.py"
    script.write_text(HEAD + body)
    return str(script)


def run(environ: dict[str, str], tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:  # noqa: F811
    """Run a script to its end; nothing of it stays in memory."""
    environ.pop("GRAMWATT_JOB_ID", None)
    with subprocess.Popen(
        [sys.executable, written(tmp_path, body)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    wait_until(lambda: not meters(environ), "the end of the meters")
    assert files_of(process.pid) == []
    return subprocess.CompletedProcess(process.args, 0, out, err)


def jobs(environ: dict[str, str]) -> list[MergedJob]:  # noqa: F811
    """Each journaled job, in the order of their begin; none has more than one meter."""
    found = []
    for folder in spool.folders(home(environ)):
        assert len(folder.writers()) == 1
        found.append(merge([decode(line) for line in folder.lines()]))
    return sorted(found, key=lambda job: job.started_at)


def counted(job: MergedJob) -> dict[str, float]:
    sums: dict[str, float] = {}
    for count in job.counts:
        sums[count.unit] = sums.get(count.unit, 0.0) + count.amount
    return sums


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_children_count_into_the_job_by_track_and_by_the_job_itself(environ, tmp_path, way):  # noqa: F811
    body = f"""
@track(unit="image", project="vision")
def step():
    pass

def work(job, number):
    for _ in range(50):
        with track() as mine:
            mine.count(1)
    assert mine.id == job.id
    job.count(number)
    copy.copy(job).count(number)
    copy.deepcopy({{"callbacks": [job]}})["callbacks"][0].count(token=number)
    pickle.loads(pickle.dumps(job)).count(0.25)
    step()
    with track(unit="frame") as mine, mine.window("child"):
        mine.count(2)
        mine.count(-1)

if __name__ == "__main__":
    with track(unit="image", project="vision") as job:
        job.count(1000)
        pickle.loads(pickle.dumps(job)).count(500)
        start = multiprocessing.get_context({way!r}).Process
        children = [start(target=work, args=(job, n), daemon=True) for n in (1, 2, 3, 4)]
        [child.start() for child in children]
        [child.join() for child in children]
        assert [child.exitcode for child in children] == [0] * 4
"""
    done = run(environ, tmp_path, body)
    (job,) = jobs(environ)
    assert counted(job) == {"image": 1000 + 500 + 4 * 50 + 20 + 1, "token": 10, "frame": 8}
    assert sorted((w.phase, w.unit, w.amount) for w in job.windows) == [("child", "frame", 2)] * 4
    ignored = [n.message for n in job.notices if n.code == "argument-ignored"]
    assert len(ignored) == 1, "one notice for four children"
    assert "count(-1) is ignored" in ignored[0]
    assert done.stderr.count("gramwatt: ") <= 1, "what workers have to say comes from the job"


@pytest.mark.parametrize("way_out", ["sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_what_a_fork_has_counted_is_kept_however_it_ends(environ, tmp_path, way_out):  # noqa: F811
    body = f"""
with track(unit="image") as job, job.window("epoch"):
    job.count(100)
    if (pid := os.fork()) == 0:
        if os.fork() == 0:
            job.count(20)
            {way_out}
        os.wait()
        with track() as mine:
            mine.count(3)
        {way_out}
    os.waitpid(pid, 0)
print("end")
"""
    done = run(environ, tmp_path, body)
    assert (done.stdout, done.stderr) == ("end\n", "")
    (job,) = jobs(environ)
    assert counted(job) == {"image": 123}
    assert [(window.phase, window.amount) for window in job.windows] == [("epoch", 100)]
    assert job.state == "completed"


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_loader_s_workers_that_are_still_there_at_the_end_have_counted(environ, tmp_path, way):  # noqa: F811
    """As torch's DataLoader with persistent workers, of which the samples count themselves."""
    body = f"""
class Samples:
    def __getitem__(self, index):
        with track() as job:
            job.count(1)
        return index

def worker(samples, indices, batches):
    while (batch := indices.get()) is not None:
        batches.put([samples[index] for index in batch])

if __name__ == "__main__":
    context = multiprocessing.get_context({way!r})
    queues = [context.Queue() for _ in range(4)]
    batches = context.Queue()
    with track(unit="sample") as job:
        for indices in queues:
            args = (Samples(), indices, batches)
            context.Process(target=worker, args=args, daemon=True).start()
        for begin in range(0, 640, 32):
            queues[begin // 32 % 4].put(range(begin, begin + 32))
        got = [index for _ in range(20) for index in batches.get()]
    assert sorted(got) == list(range(640))
    assert len(multiprocessing.active_children()) == 4
    assert job.id and not job._session.runs
"""
    assert run(environ, tmp_path, body).stderr == ""
    (job,) = jobs(environ)
    assert counted(job) == {"sample": 640}


def test_a_pool_that_is_warm_counts_into_each_job_that_runs(environ, tmp_path):  # noqa: F811
    """Its processes began before the job: nothing of it is in their environment."""
    body = """
from joblib.externals.loky import ProcessPoolExecutor as Pool
def number(_):
    time.sleep(0.1)
    return os.getpid()

def count(amount):
    with track() as job:
        job.count(amount)
    return os.getpid()

def count_into(item):
    job, amount = item
    job.count(token=amount)
    return os.getpid()

if __name__ == "__main__":
    with Pool(2) as pool:
        warm = {*pool.map(number, range(8))}
        for round in (1, 10):
            with track(unit="image", name=f"round-{round}") as job:
                used = {*pool.map(count, [round] * 8)}
                used |= {*pool.map(count_into, [(job, round)] * 8)}
            assert used <= warm
"""
    assert run(environ, tmp_path, body).stderr == ""
    first, second = jobs(environ)
    assert (first.head.name, second.head.name) == ("round-1", "round-10")
    assert counted(first) == {"image": 8, "token": 8}
    assert counted(second) == {"image": 80, "token": 80}


def test_a_job_inside_another_has_its_own_children(environ, tmp_path):  # noqa: F811
    body = """
def work(outer):
    with track() as job:
        job.count(image=1)
    if outer:
        outer.count(token=1)

def child(way, outer):
    given = outer if way == "fork" else None  # a job that is handed over is counted into
    process = multiprocessing.get_context(way).Process(target=work, args=(given,))
    process.start()
    process.join()
    assert process.exitcode == 0

if __name__ == "__main__":
    with track(name="outer") as outer:
        for way in ("spawn", "fork"):
            with track(job="new", name="inner"):
                child(way, outer)
            child(way, outer)
"""
    assert run(environ, tmp_path, body).stderr == ""
    found = {
        job.head.name: [counted(j) for j in jobs(environ) if j.head.name == job.head.name]
        for job in jobs(environ)
    }
    assert found == {"outer": [{"image": 2, "token": 2}], "inner": [{"image": 1}] * 2}


def test_a_child_that_outlives_its_job_says_once_that_nobody_counts(environ, tmp_path):  # noqa: F811
    body = """
def work(job, gate, done):
    job.count(1)
    done.put(1)
    gate.get()
    for _ in range(100):
        job.count(1)
    done.put(2)

if __name__ == "__main__":
    gate, done = multiprocessing.Queue(), multiprocessing.Queue()
    with track(unit="image") as job:
        child = multiprocessing.Process(target=work, args=(job, gate, done))
        child.start()
        done.get()
    gate.put(1)
    done.get()
    child.join()
"""
    done = run(environ, tmp_path, body)
    (line,) = done.stderr.splitlines()
    assert line.endswith("what this process counts is left out [argument-ignored]")
    assert counted(jobs(environ)[0]) == {"image": 1}


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_command_s_children_count_the_unit_of_its_script(environ, tmp_path, way):  # noqa: F811
    """As the documents' example of a pool, under `gramwatt run`."""
    body = f"""
def work(number):
    with track() as job, job.window("part"):
        job.count(number)

if __name__ == "__main__":
    with track(unit="image") as job, multiprocessing.get_context({way!r}).Pool(3) as pool:
        pool.map(work, range(1, 11))
"""
    line = [sys.executable, "-m", "gramwatt", "run", "--", sys.executable, written(tmp_path, body)]
    done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert not re.search("argument-ignored|processes-left", done.stderr), done.stderr
    wait_until(lambda: not meters(environ), "the end of the meters")
    (job,) = jobs(environ)
    assert (job.units, counted(job)) == (("image",), {"image": 55})
    assert {window.unit for window in job.windows} == {"image"}


def test_children_of_a_command_declare_what_it_counts(environ, tmp_path):  # noqa: F811
    body = """
@track(project="vision", unit="image", zone="FR", name="worker")
def work(number):
    with track() as job, job.window("all"):
        job.count(image=number)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.map(work, range(1, 11))
"""
    line = [sys.executable, "-m", "gramwatt", "run", "--name", "all", "--", sys.executable]
    line.append(written(tmp_path, body))
    done = subprocess.run(line, env=environ, capture_output=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"track(" not in done.stderr
    wait_until(lambda: not meters(environ), "the end of the meters")
    (job,) = jobs(environ)
    head = job.head
    assert (head.project, head.name, head.zone, head.role) == ("vision", "all", "FR", "command")
    assert (job.units, counted(job), len(job.windows)) == (("image",), {"image": 55}, 10)
    assert not [notice for notice in job.notices if notice.code == "argument-ignored"]

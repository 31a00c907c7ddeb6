"""Real kills at random moments: of the meter, of the job, of both, with ranks and workers.

Every process writes down how much it has counted beside counting it, so that the truth is known to
one count of each process that was killed in between.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from gramwatt.collectors.settings.proc import parent_of
from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import decode
from tests.collectors.track.test_end_to_end import environ, home, meters, wait_until  # noqa: F401

JOB = """
import mmap, multiprocessing, os, struct, sys, time
from gramwatt import track
from gramwatt.collectors.track import client
client.CLOSE_TIMEOUT_S = 60.0  # a busy machine needs more than 2 s to close a job

def work(job, seconds, ways):
    with open(f"{sys.argv[1]}/{os.getpid()}", "w+b") as file:
        file.truncate(8)
        truth, number = mmap.mmap(file.fileno(), 8), 0
        children = []
        for way in ways:
            if way == "os.fork":
                if (pid := os.fork()) == 0:
                    work(job, seconds, [])
                    os._exit(0)
                children.append(pid)
            else:
                start = multiprocessing.get_context(way).Process
                process = start(target=work, args=(job, seconds, []))
                process.start()
                children.append(process)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job.count(1)
            number += 1
            truth[:] = struct.pack("q", number)
            time.sleep(0.0005)
        for child in children:
            os.waitpid(child, 0) if isinstance(child, int) else child.join()

if __name__ == "__main__":
    with track(unit="image") as job:
        print("up", flush=True)
        work(job, float(sys.argv[2]), sys.argv[3:])
"""


def truth(folder: Path) -> int:
    total = 0
    for path in folder.iterdir():
        with path.open("rb") as file:
            total += struct.unpack("q", file.read(8))[0]
    return total


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def family(process: subprocess.Popen[bytes]) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
    )
    return [process.pid, *map(int, listed.stdout.split())]


def has_begun(environ: dict[str, str]) -> bool:  # noqa: F811
    files = home(environ).rglob("*.jsonl")
    return any(b'"type":"job"' in path.read_bytes() for path in files)


def story(seed: int, environ: dict[str, str], folder: Path) -> None:  # noqa: F811
    draw = Random(seed)
    truths, script = folder / "truth", folder / "job.py"
    truths.mkdir()
    script.write_text(JOB)
    length_s = draw.uniform(1.5, 3.0)
    ways = draw.choices(["os.fork", "fork", "spawn"], k=draw.choice([0, 0, 1, 2]))
    ranks = draw.choice([1, 1, 2, 4])
    started = []
    for rank in range(ranks):
        command = [sys.executable, str(script), str(truths), str(length_s), *ways]
        names = {**environ, "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        started.append(subprocess.Popen(command, env=names, stdout=subprocess.PIPE))
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    wait_until(lambda: has_begun(environ), "the first line of the journal")
    wait_until(lambda: len(list(truths.iterdir())) == ranks * (1 + len(ways)), "all processes")
    victims = draw.sample(["meter", "meter", "job", "both", "worker"], k=draw.choice([1, 2, 2, 3]))
    dead = 0
    for victim in victims:
        time.sleep(draw.uniform(0.0, length_s / 2))
        running = meters(environ)
        # What a meter starts has its command line until it is another program.
        alone = [pid for pid in running if parent_of(pid) not in running]
        assert len(alone) <= 1, "one meter for a job and node"
        if victim in ("meter", "both"):
            for pid in running:
                kill(pid)
        if victim in ("job", "both"):
            for process in started if draw.random() < 0.6 else started[:1]:
                for pid in family(process):
                    kill(pid)
                    dead += 1
        if victim == "worker" and len(pids := family(started[0])) > 1:
            kill(pids[-1])
            dead += 1
    for process in started:
        process.communicate(timeout=120)
    wait_until(lambda: not meters(environ), "the end of the meters")
    (spooled,) = spool.folders(home(environ))
    wait_until(lambda: not spooled.is_live(), "the release of the locks")
    if spooled.unclosed():
        assert close_dead(spooled)
    counted = merge([decode(line) for line in spooled.lines()]).counts
    total = sum(count.amount for count in counted)
    assert truth(truths) <= total <= truth(truths) + dead, f"seed {seed}: {victims}, {ways}"
    assert spooled.is_closed()


@pytest.mark.parametrize("seed", range(6))
def test_kills_lose_and_double_nothing(
    seed,
    environ,  # noqa: F811
    tmp_path,
):
    story(seed, environ, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
def test_two_hundred_stories_of_kills(
    seed,
    environ,  # noqa: F811
    tmp_path,
):
    story(seed, environ, tmp_path)

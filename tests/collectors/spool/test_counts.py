"""When what a counter has counted becomes a final line, and what ended workers leave."""

from __future__ import annotations

import os
from pathlib import Path

from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.settings.proc import process_start_ns
from gramwatt.collectors.spool.counts import CountedSoFar, Processes
from gramwatt.collectors.spool.intervals import moment
from gramwatt.collectors.track.counts import JobFolder, Totals

START_NS = 1_700_006_400 * NS_PER_S  # a midnight


def test_lines_of_servers_end_with_the_last_reading_before_each_5_minutes():
    counts = CountedSoFar(("image",), lambda *_: None, START_NS)
    ends = []
    for reading in range(1, 3 * 720 + 1):  # every 5 s, and just before each
        at_ns = START_NS + reading * 5 * NS_PER_S - NS_PER_S // 4
        counts.update({("request", None): float(reading)}, at_ns)
        ends += [(fields["at"], fields["amount"]) for fields in counts.final()]
    for boundary in range(60, 3 * 720 + 1, 60):
        assert (moment(START_NS + boundary * 5 * NS_PER_S - NS_PER_S // 4), boundary) in ends
    assert len(ends) < 400


def worker(folder: JobFolder, images: float) -> Totals:
    pid = os.getpid()
    first = {"role": "worker", "pid": pid, "began_ns": process_start_ns(pid)}
    totals = Totals.make(folder, first)
    assert totals is not None
    assert totals.count(images, "image", None)
    return totals


def ended_worker(folder: JobFolder, images: float) -> None:
    if (pid := os.fork()) == 0:
        worker(folder, images)
        os._exit(0)
    os.waitpid(pid, 0)


def test_what_ended_workers_counted_is_in_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr("gramwatt.collectors.track.counts.FOLDERS", (str(tmp_path),))
    folder, _ = JobFolder.enter("j")
    living = worker(folder, 1)
    names = folder.names()
    for images in (2, 3):
        ended_worker(folder, images)
    paths = [path for path in Path(folder.path).iterdir() if not path.name.startswith(names[0])]
    files_before = {path: path.read_bytes() for path in paths}

    def total(processes: Processes) -> float:
        processes.enter()
        for process in processes:
            list(process.messages())
        return processes.totals()["image", None]

    meter = Processes(folder, process_start_ns)
    assert total(meter) == 6
    meter.fold()
    assert folder.names() == names
    living.count(10, "image", None)
    assert total(meter) == total(Processes(folder, process_start_ns)) == 16

    for path, data in files_before.items():  # a meter that was killed before it had deleted them
        path.write_bytes(data)
    follower = Processes(folder, process_start_ns)
    assert total(follower) == 16
    ended_worker(folder, 100)
    assert total(follower) == 116
    follower.fold()
    assert folder.names() == names
    assert total(follower) == total(Processes(folder, process_start_ns)) == 116

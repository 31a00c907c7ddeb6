from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from gramwatt.collectors.journal.recovery import close_dead
from gramwatt.collectors.journal.spool import discard
from gramwatt.collectors.tracking import count_file
from gramwatt.collectors.tracking.count_file import NEWBORN_S, Cells, CountFile, remove_abandoned
from gramwatt.sci.journal.merge import merge
from tests.collectors.rig import Rig, gpu


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountFile]:
    """The file of a job of this process, in a folder of its own."""
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(count_file, "FOLDERS", (str(tmp_path / "memory"),))
    made = CountFile.make({"job_id": "job", "role": "track", "args": {}})
    assert made is not None
    yield made
    made.close()


class Child:
    """A process that counts: its cells, and what it has counted."""

    def __init__(self, shared: CountFile, unit: str | None = None) -> None:
        self.cells = Cells(shared.path)
        assert self.cells.attach("job")
        place = self.cells.append({"cmd": "count", "unit": unit, "phase": None})
        assert place is not None
        self.place, self.amount = place, 0.0

    def count(self, amount: float) -> None:
        self.amount += amount
        self.cells.write(self.place, self.amount)


def total(rig: Rig) -> float:
    return sum(count.amount for count in rig.merged().counts)


def test_counts_of_children_are_spread_over_the_job_in_few_lines(
    tmp_path: Path, shared: CountFile
) -> None:
    rig = Rig(tmp_path, gpu())
    meter = rig.start(counts_path=shared.path)
    children = [Child(shared) for _ in range(50)]
    for _ in range(720):
        rig.run(5, meter)
        for child in children:
            child.count(1)
    rig.stop(meter)
    job = rig.merged()
    assert total(rig) == 720 * 50
    assert job.counts[0].since == job.started_at
    spans = [(count.since, count.at) for count in job.counts]
    assert all(before[1] == after[0] for before, after in zip(spans, spans[1:], strict=False))
    rates = [
        count.amount / (at - since).total_seconds()
        for count, (since, at) in zip(job.counts, spans, strict=True)
        if since
    ]
    assert all(8 < rate < 12 for rate in rates[1:-1])
    assert len(job.counts) < 180
    assert (shared.amount(0), os.path.exists(shared.path)) == (count_file.ENDED, False)


@pytest.mark.parametrize("seed", range(20))
def test_meters_that_are_killed_at_any_moment_lose_and_double_nothing(
    tmp_path: Path, shared: CountFile, seed: int
) -> None:
    draw = Random(seed)
    rig = Rig(tmp_path, gpu())
    mark = rig.mark
    children: list[Child] = []

    counted = 0.0
    meter = rig.start(counts_path=shared.path, mark=mark)
    for _ in range(draw.randrange(2, 6)):
        for _ in range(draw.randrange(1, 30)):
            if not children or draw.random() < 0.2:
                children.append(Child(shared, draw.choice([None, "token"])))
            for child in draw.sample(children, draw.randrange(len(children) + 1)):
                child.count(draw.randrange(1, 100))
            rig.count(meter, 1000)
            counted += 1000
            rig.run(10 ** draw.uniform(-1, 1.5), meter)
        if draw.random() < 0.5:
            rig.confirm_counts(meter)
        rig.kill(meter)
        for child in draw.sample(children, len(children) // 2):
            child.count(7)
        meter = rig.start(counts_path=shared.path, mark=mark)
        rig.send_counts(meter)
    rig.stop(meter)
    assert total(rig) == counted + sum(child.amount for child in children)


def test_a_job_whose_meter_and_process_are_killed_keeps_the_counts_of_its_last_state(
    tmp_path: Path, shared: CountFile
) -> None:
    rig = Rig(tmp_path, gpu())
    meter, child = rig.start(counts_path=shared.path), Child(shared)
    child.count(5)
    rig.run(25, meter)
    child.count(100)  # within 10 s of the kill
    rig.kill(meter)
    assert close_dead(rig.folder())
    assert total(rig) == 5


def test_what_was_delivered_while_no_meter_lived_is_not_counted_again(
    tmp_path: Path, shared: CountFile
) -> None:
    rig = Rig(tmp_path, gpu())
    mark = rig.mark
    meter, child = rig.start(counts_path=shared.path, mark=mark), Child(shared)
    child.count(5)
    rig.run(60, meter)
    rig.kill(meter)
    assert close_dead(rig.folder())
    delivered = rig.records()
    discard(tmp_path, rig.folder())
    child.count(10)
    meter = rig.start(counts_path=shared.path, mark=mark)
    child.count(20)
    rig.stop(meter)
    job = merge([*delivered, *rig.records()])
    assert sum(count.amount for count in job.counts) == 35


def test_a_full_disk_loses_nothing(
    tmp_path: Path, shared: CountFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, gpu())
    meter, child = rig.start(counts_path=shared.path), Child(shared)
    write = os.write
    monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    for _ in range(20):
        child.count(1)
        rig.run(7, meter)
    monkeypatch.setattr(os, "write", write)
    rig.run(20, meter)
    rig.kill(meter)
    meter = rig.start(counts_path=shared.path, mark=rig.mark)
    rig.stop(meter)
    assert total(rig) == 20


def add_up(path: str, number: int) -> None:
    cells = Cells(path)
    assert cells.attach("job")
    place = cells.append({"cmd": "count", "unit": None, "phase": None})
    assert place is not None
    for amount in range(1, number + 1):
        cells.write(place, amount * 1e15)


def test_an_amount_that_is_read_while_it_is_written_is_whole(shared: CountFile) -> None:
    """Each byte of the numbers changes; half of one and half of another would be none of them."""
    number = 200_000
    start = multiprocessing.get_context("fork").Process
    writers = [start(target=add_up, args=(shared.path, number)) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen: dict[int, list[float]] = {}
    while any(writer.is_alive() for writer in writers):
        for place, message in shared.new_records():
            if message.get("cmd") == "count":
                seen[place] = []
        for place, values in seen.items():
            amount = shared.amount(place)
            if amount is not None and (not values or values[-1] != amount):
                values.append(amount)
    assert [writer.exitcode for writer in writers] == [0, 0]
    for place, values in seen.items():
        assert shared.amount(place) == number * 1e15
        assert values == sorted(values)
        assert all(value % 1e15 == 0 for value in values)
    assert len(seen) == 2


def test_files_of_jobs_that_were_killed_with_their_meters_are_deleted(
    tmp_path: Path, shared: CountFile
) -> None:
    folder = Path(shared.path).parent
    left, young = folder / f"{count_file.NAME}1-2-3", folder / f"{count_file.NAME}4-5-6"
    for path in (left, young, folder / "of-others"):
        path.write_bytes(b"\0" * 32)
    long_ago = time.time() - NEWBORN_S - 1
    for path in (left, folder / "of-others", Path(shared.path)):
        os.utime(path, (long_ago, long_ago))
    remove_abandoned()
    kept = {path.name for path in folder.iterdir()}
    assert kept == {young.name, "of-others", Path(shared.path).name}


def test_a_file_that_is_not_this_user_s_or_not_of_the_job_is_not_used(
    shared: CountFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not Cells(shared.path).attach("another job")
    link = f"{shared.path}-link"
    os.symlink(shared.path, link)
    assert CountFile.open(link) is None
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert CountFile.open(shared.path) is None
